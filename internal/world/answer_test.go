package world

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/model"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", name, got)
	}
}

// fleet names rows 1, 2, 3 … as the machines of a list.
type fleet []struct{ id, cluster string }

func (f fleet) ID(r columnar.Row) string           { return f[r-1].id }
func (f fleet) Cluster(r columnar.Row) string      { return f[r-1].cluster }
func (f fleet) Lookup(string) (columnar.Row, bool) { return 0, false }

// sample is a plan with one of everything: a fold of two, a satisfied need, an
// unmet one that preempts, a reclaim that is held back, and a delete.
func sample(t *testing.T) (translator, engine.Stats, []engine.Action) {
	w := read(t, `
needs:
- {name: zeta, cluster: c1, priority: 10, aggregate: {cpu: "4"}, group: g1}
- {name: fold-b, cluster: c1, priority: 20, aggregate: {cpu: "1"}}
- {name: unmet, cluster: c2, priority: 100, aggregate: {cpu: "12"}, group: "tab\tand \"quotes\"", parked: true}
- {name: fold-a, cluster: c1, priority: 20, aggregate: {cpu: "1"}}
`)
	machines := fleet{{"m-3", ""}, {"m-1", "c1"}, {"m-2", ""}, {"v-1", "c3"}, {"x-1", "c4"}, {"x-2", "c4"}, {"d-1", ""}, {"m-4", "c1"}}
	plan := translator{
		world: w, machines: machines,
		actions: []engine.Action{
			{Machine: 1, Need: 0, Kind: engine.Bootstrap, Reason: engine.ReasonIdle},
			{Machine: 3, Need: 2, Kind: engine.Provision, Reason: engine.ReasonSpeculative},
			{Machine: 4, Need: 3, Kind: engine.Preempt, GraceSeconds: 120, PreemptorPriority: 100, Reason: engine.ReasonPreempt},
			{Machine: 5, Need: -1, Kind: engine.Reclaim, GraceSeconds: 600, Reason: engine.ReasonExcess},
			{Machine: 6, Need: -1, Kind: engine.Reclaim, GraceSeconds: 600, Reason: engine.ReasonExcess},
			{Machine: 7, Need: -1, Kind: engine.Delete, Reason: engine.ReasonRelease},
		},
		// Clusters by id, rows as in the file: zeta, fold-b, fold-a, unmet.
		results: []engine.NeedResult{
			{Cluster: "c1", Row: 0, Fold: 0, Rank: 2, Group: "g1", Claimed: []columnar.Row{2, 1}, Bootstrap: 1, Satisfied: true},
			{Cluster: "c1", Row: 1, Fold: 2, Rank: 1, Folded: true, Claimed: []columnar.Row{8, 3}, Provision: 1, Deficit: model.NewResources(model.Amount{Name: "cpu", Value: 500}), Unmet: engine.UnmetPriorityStarved},
			{Cluster: "c1", Row: 2, Fold: 2, Rank: 1, Folded: true, Claimed: []columnar.Row{8, 3}, Provision: 1, Deficit: model.NewResources(model.Amount{Name: "cpu", Value: 500}), Unmet: engine.UnmetPriorityStarved},
			{
				Cluster: "c2", Row: 0, Fold: 3, Rank: 0, Group: "tab\tand \"quotes\"", Preempt: 1, Domain: "r\x1b1",
				Deficit:  model.NewResources(model.Amount{Name: "cpu", Value: 12000}, model.Amount{Name: "memory", Value: 3 << 29}),
				InFlight: model.NewResources(model.Amount{Name: "cpu", Value: 4000}), Unmet: engine.UnmetParked,
			},
		},
	}
	stats := engine.Stats{Machines: 8, Needs: 4, Phase1Nanos: 12_900, Phase3Nanos: 1_000, NormaliseNanos: 999}
	carried := append(append([]engine.Action{}, plan.actions[:4]...), plan.actions[5])
	return plan, stats, carried
}

// reasons explains the sample.
type reasons struct{}

func (reasons) ExplainNeed(i int) engine.NeedExplanation {
	x := engine.NeedExplanation{}
	x.Machines[engine.VerdictRequirement] = 5 + i
	x.Machines[engine.VerdictRank] = 2
	if i != 3 {
		return x
	}
	x.Pinned, x.Withheld = true, true
	for d := range explainDomainsMax + 3 {
		x.Domains = append(x.Domains, engine.DomainExplanation{Domain: fmt.Sprintf("r%02d", d), Machines: d, Total: 1.0 / 3, Rejected: "covers"})
	}
	x.Domains[explainDomainsMax+1] = engine.DomainExplanation{Domain: "pin", Chosen: true, Covers: true, Machines: 4, Total: 1, Creditable: 0.5, Own: 0.25, Surplus: 2}
	x.Preemption = []engine.PreemptionExplanation{{Domain: "pin", Candidates: 7, Missing: model.NewResources(model.Amount{Name: "cpu", Value: 100})}, {Domain: "r00", Covered: true, Candidates: 9}}
	return x
}

func (reasons) ExplainAction(i int) engine.ActionExplanation {
	return [...]engine.ActionExplanation{
		{Price: 0.5, EffectiveCost: 0.5, Reserved: true, Holder: -1},
		{Price: 0.5, EffectiveCost: math.Inf(1), Holder: -1},
		{Price: 1, EffectiveCost: 1, Holder: 0, Gap: 90, Drain: 0.1 / 30, Interruption: 0.1, Score: 90.1 + 0.1/30},
		{Holder: -1}, {Holder: -1},
		{Price: 2, EffectiveCost: 2, Holder: -1, IdleSeconds: 61.5},
	}[i]
}

func TestAnswer(t *testing.T) {
	plan, stats, carried := sample(t)
	for name, why := range map[string]explainer{"answer": nil, "explained": reasons{}} {
		a := plan.answer(carried, why)
		a.Stats = stats
		a.Bill = bill.Bill{Paid: 12.5, Idle: 2, Serving: 9, Effective: 10, Bound: 8}
		var table bytes.Buffer
		if err := a.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", table.String())
		var out bytes.Buffer
		if err := a.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(out.Bytes()) {
			t.Fatalf("not JSON: %s", out.String())
		}
		golden(t, name+".json", out.String())
	}
}

func TestAnswerOfNothing(t *testing.T) {
	w := read(t, `{}`)
	a := NewAnswer(w, fleet{}, &engine.Plan{}, nil, bill.Bill{}, reasons{}, nil)
	var out bytes.Buffer
	if err := a.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"actions": [],
 "needs": [],
 "claimed": [],
 "shortfalls": [],
 "stats": {"machines": 0, "needs": 0, "phase1Micros": 0, "phase2Micros": 0, "phase3Micros": 0, "normalizeMicros": 0},
 "bill": {"paid": 0, "idle": 0, "serving": 0, "effective": 0, "bound": 0},
 "explain": {"needs": {},
  "machines": {}}}
`
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
	out.Reset()
	if err := a.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if want := "No needs.\n\nNothing to do.\n\n0 machines, 0 needs: 0 satisfied, 0 not\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTableCutsLongLists(t *testing.T) {
	a := &Answer{}
	for range tableActionsMax + 3 {
		a.Actions = append(a.Actions, Action{Kind: engine.Delete, Machine: "m"})
	}
	var out bytes.Buffer
	if err := a.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "… and 3 more; -o json lists them all\n") || !strings.Contains(out.String(), "203 Delete") {
		t.Errorf("got %s", out.String())
	}
}

func TestTextsAreJSON(t *testing.T) {
	for _, s := range []string{"", "plain", `a"b\c`, "\x00\x1f\x7f", "line\nbreak\ttab\r", "é😀", "bad\xffutf8", "</script>"} {
		var back string
		if err := json.Unmarshal(appendText(nil, s), &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") {
			t.Errorf("%q became %s and then %q, %v", s, appendText(nil, s), back, err)
		}
	}
}
