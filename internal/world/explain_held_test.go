package world

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// heldWorld has two Needs that are folded, one that is short, and machines that nobody claims.
// What its shard holds back is to follow.
const heldWorld = `
machines:
- {id: s-1, state: Speculative, resources: {cpu: 4}, labels: {rack: r}}
- {id: s-2, state: Speculative, resources: {cpu: 4}, labels: {rack: r}}
- {id: s-3, state: Speculative, resources: {cpu: 4}, labels: {rack: r}}
- {id: i-1, state: Idle, resources: {gpu: 4}}
- {id: b-1, state: Configured, cluster: c, resources: {mem: 1}}
- {id: b-2, state: Configured, cluster: c, resources: {mem: 1}}
needs:
- {name: c/0, cluster: c, aggregate: {cpu: 4}, requirements: [{key: rack, operator: Same}]}
- {name: c/1, cluster: c, aggregate: {cpu: 4}, requirements: [{key: rack, operator: Same}]}
- {name: c/2, cluster: c, priority: 7, aggregate: {gpu: 8}}
heldBack: `

const heldByBudgets = `{"interval": "10s", "actions": [
 {"machine": "s-1", "kind": "Provision", "by": "provision-cap", "need": "c/0"},
 {"machine": "s-2", "kind": "Provision", "by": "provision-cap", "need": "c/0"},
 {"machine": "s-3", "kind": "Provision", "by": "action-limit", "need": "c/0"},
 {"machine": "i-1", "kind": "Bootstrap", "by": "waiting", "need": "c/2"},
 {"machine": "b-1", "kind": "Reclaim", "by": "reclaim-cap"}], "more": 3}`

// explained returns what is said of Needs or machines, for people and as JSON.
func explained(t *testing.T, w *World, of *Subjects) (table, object string) {
	t.Helper()
	answer, err := w.Explain(of)
	if err != nil {
		t.Fatal(err)
	}
	var told, written bytes.Buffer
	if err := answer.WriteExplanation(&told, w, true); err != nil {
		t.Fatal(err)
	}
	if err := answer.WriteExplanationJSON(&written); err != nil {
		t.Fatal(err)
	}
	return told.String(), written.String()
}

func names(list ...string) map[string]bool {
	out := map[string]bool{}
	for _, name := range list {
		out[name] = true
	}
	return out
}

type heldRow struct {
	Action, By, Reason, For string
	Actions                 int
}

// explainedJSON is what of the JSON says that something is held back.
type explainedJSON struct {
	Needs    map[string]struct{ HeldBack []heldRow }
	Machines map[string]struct{ HeldBack *heldRow }
	HeldBack struct {
		Disposition, Reason, Remedy string
		NotListed                   int
	}
}

func TestWhatIsHeldBackOfMachines(t *testing.T) {
	table, object := explained(t, read(t, heldWorld+heldByBudgets), &Subjects{Machines: names("s-1", "s-3", "i-1", "b-1", "b-2")})
	for _, want := range []string{
		"the last cycle held back 5 actions, and 3 more that are not listed\n",
		"  Provision held back in the last cycle: the budget of Provisions for this interval (10s) is used up\n",
		"  Provision held back in the last cycle: the cycle has started as many actions as --max-actions-per-cycle allows\n",
		"  Bootstrap held back in the last cycle: the operator of the cluster is not connected, or has refused lately\n",
		"  Reclaim held back in the last cycle: the cluster's budget of Reclaims for this interval (10s) is used up\n",
	} {
		if strings.Count(table, want) != 1 {
			t.Errorf("%q is not said once in\n%s", want, table)
		}
	}
	if n := strings.Count(table, "held back"); n != 5 {
		t.Errorf("something is held back %d times in\n%s", n, table)
	}
	var got explainedJSON
	if err := json.Unmarshal([]byte(object), &got); err != nil {
		t.Fatalf("%v in %s", err, object)
	}
	if m := got.Machines["s-1"].HeldBack; m == nil || *m != (heldRow{Action: "Provision", By: "provision-cap", Reason: "the budget of Provisions for this interval (10s) is used up", For: "c/0"}) {
		t.Errorf("s-1: %+v", m)
	}
	if m := got.Machines["b-1"].HeldBack; m == nil || m.By != "reclaim-cap" || m.For != "" || got.Machines["b-2"].HeldBack != nil {
		t.Errorf("b-1: %+v; b-2: %+v", m, got.Machines["b-2"].HeldBack)
	}
	if h := got.HeldBack; h.NotListed != 3 || h.Disposition != "" {
		t.Errorf("of all: %+v", h)
	}
}

// TestWhatIsHeldBackOfNeeds: by kind and rail, also of the members of a fold.
func TestWhatIsHeldBackOfNeeds(t *testing.T) {
	table, object := explained(t, read(t, heldWorld+heldByBudgets), &Subjects{Needs: names("c/0", "c/1", "c/2")})
	for want, times := range map[string]int{
		"  2 Provisions held back in the last cycle: the budget of Provisions for this interval (10s) is used up\n":      2,
		"  1 Provision held back in the last cycle: the cycle has started as many actions as":                            2,
		"  1 Bootstrap held back in the last cycle: the operator of the cluster is not connected, or has refused lately": 1,
	} {
		if strings.Count(table, want) != times {
			t.Errorf("%q is not said %d times in\n%s", want, times, table)
		}
	}
	var got explainedJSON
	if err := json.Unmarshal([]byte(object), &got); err != nil {
		t.Fatalf("%v in %s", err, object)
	}
	for _, name := range []string{"c/0", "c/1"} {
		if h := got.Needs[name].HeldBack; len(h) != 2 || h[0].Actions != 2 || h[0].By != "provision-cap" || h[1].Actions != 1 || h[1].By != "action-limit" || h[1].Action != "Provision" {
			t.Errorf("%s: %+v", name, h)
		}
	}
}

// TestEachRailHasAReason: also budgets without an interval, and those of the first one.
func TestEachRailHasAReason(t *testing.T) {
	for head, list := range map[string]map[shard.HeldBy]string{
		`"interval": "1m30s"`: {
			shard.ByReclaimBudget: "the cluster's budget of Reclaims for this interval (1m30s) is used up", shard.ByDeleteBudget: "the budget of Deletes for this interval (1m30s) is used up",
			shard.ByProvisionBudget: "the budget of Provisions for", shard.ByPreemptBudget: "or too small for the whole plan",
			shard.ByActionLimit: "--max-actions-per-cycle", shard.ByQueue: "the queue of calls to the provider is full",
			shard.ByOperator: "the operator of the cluster", shard.ByMachine: "the machine is busy or has moved on",
		},
		`"more": 0`: {shard.ByReclaimBudget: "the cluster's budget of Reclaims for this cycle is used up"},
		`"interval": 10, "starting": true`: {
			shard.ByDeleteBudget: "the budget of Deletes is empty in the first interval (10s) after a start", shard.ByQueue: "is full",
		},
	} {
		for by, want := range list {
			kind := map[shard.HeldBy]engine.Kind{shard.ByReclaimBudget: engine.Reclaim, shard.ByDeleteBudget: engine.Delete, shard.ByPreemptBudget: engine.Preempt, shard.ByProvisionBudget: engine.Provision}[by]
			w := read(t, heldWorld+fmt.Sprintf(`{%s, "actions": [{"machine": "b-2", "kind": %q, "by": %q}]}`, head, kind, by))
			if table, _ := explained(t, w, &Subjects{Machines: names("b-2")}); !strings.Contains(table, "  "+kind.String()+" held back in the last cycle: ") || !strings.Contains(table, want) {
				t.Errorf("%v with %s: %q is not said in\n%s", by, head, want, table)
			}
		}
	}
}

// TestThatNothingIsCarriedOutIsSaidWithARemedy: and what comes from elsewhere is escaped.
func TestThatNothingIsCarriedOutIsSaidWithARemedy(t *testing.T) {
	for disposition, remedy := range map[shard.Disposition]string{
		shard.DryRun: "remove the file dry-run", shard.Paused: "`tonnage ctl resume --data-dir DIR`", shard.Tripped: "look for the cause, then `tonnage ctl resume",
		shard.DomainsLost: "when a coordinator has confirmed its domains", shard.Fenced: "stop the other process",
	} {
		w := read(t, heldWorld+fmt.Sprintf(`{"disposition": %q, "reason": "so \u001b[2J\nit is\u202e"}`, disposition))
		table, object := explained(t, w, &Subjects{Machines: names("b-1")})
		first := "the shard carries nothing out (" + disposition.String() + `): so \x1b[2J\nit is\u202e` + "\n  remedy: "
		if !strings.HasPrefix(table, first) || !strings.Contains(table, remedy) || strings.Contains(table, "held back") {
			t.Errorf("%v: want %q and %q, got\n%s", disposition, first, remedy, table)
		}
		if strings.ContainsFunc(strings.ReplaceAll(object, "\n", ""), model.IsControl) {
			t.Errorf("control characters in %q", object)
		}
		var got explainedJSON
		if err := json.Unmarshal([]byte(object), &got); err != nil || got.HeldBack.Disposition != disposition.String() || got.HeldBack.Reason != "so \x1b[2J\nit is\u202e" || !strings.Contains(got.HeldBack.Remedy, remedy) {
			t.Errorf("%v: %v, %+v", disposition, err, got.HeldBack)
		}
	}
	if table, object := explained(t, read(t, heldWorld+`{"reason": "none"}`), &Subjects{Machines: names("b-1")}); strings.Contains(table, "nothing out") || strings.Contains(object, "heldBack") {
		t.Errorf("nothing is held back, and it says\n%s\n%s", table, object)
	}
}

// TestDecisionsIgnoreWhatIsHeldBack: with an explanation, too.
func TestDecisionsIgnoreWhatIsHeldBack(t *testing.T) {
	decided := func(text string) string {
		t.Helper()
		answer, err := read(t, text).Decide(true, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := answer.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if with, without := decided(heldWorld+heldByBudgets), decided(heldWorld+"null"); with != without {
		t.Errorf("decided is\n%s\nwithout it\n%s", with, without)
	}
	run, err := ReadRun(strings.NewReader("cycles: 3\nworld:\n " + strings.ReplaceAll(heldWorld+strings.ReplaceAll(heldByBudgets, "\n", ""), "\n", "\n ")))
	if err != nil || len(run.Machines) != 6 {
		t.Errorf("a run with such a world: %v", err)
	}
}

func TestFaultsOfWhatIsHeldBack(t *testing.T) {
	many := `{"actions": [` + strings.Repeat(`{},`, shard.HeldActionsMax) + `{}]}`
	for held, want := range map[string]string{
		`[]`:                           "heldBack: must be an object with the keys disposition, reason, interval, starting, actions, more",
		`{"disposition": "pausd"}`:     `heldBack.disposition: unknown disposition "pausd"; did you mean paused?`,
		`{"interval": "-1s"}`:          "heldBack.interval: must be between 0 and",
		`{"more": -1}`:                 "heldBack.more: must be between 0 and 2147483647",
		`{"actions": [{}]}`:            "heldBack.actions[0].by: is missing",
		`{"actions": [{"kind": "x"}]}`: `heldBack.actions[0].kind: unknown kind "x"; use one of Bootstrap`,
		`{"actions": [{"machine": "b-3", "kind": "Reclaim", "by": "queue"}]}`: `heldBack.actions[0].machine: no machine is named "b-3"; did you mean "s-3"?`,
		`{"actions": [{"by": "queue"}]}`:                                      `heldBack.actions[0].by: unknown rail "queue"; use one of reclaim-cap`,
		`{"actions": [{"need": "d/0"}]}`:                                      `heldBack.actions[0].need: no need is named "d/0"`,
		many:                                                                  "heldBack.actions: has 4097 actions; at most 4096 are accepted",
	} {
		if _, err := Read(strings.NewReader(heldWorld + held)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", held, err, want)
		}
	}
}

// TestWhatIsHeldBackIsReadBack: what has left the shard since the last cycle is left out.
func TestWhatIsHeldBackIsReadBack(t *testing.T) {
	machines, needs, err := read(t, heldWorld+"null").Tables()
	if err != nil {
		t.Fatal(err)
	}
	held := &shard.HeldBack{
		Disposition: shard.Tripped, Reason: "far \x07too much", Interval: 90 * time.Second, Starting: true, More: 12,
		Actions: []shard.HeldAction{
			{Machine: "s-2", Kind: engine.Provision, By: shard.ByQueue, Cluster: "c", Row: 2},
			{Machine: "gone", Kind: engine.Delete, By: shard.ByDeleteBudget},
			{Machine: "b-1", Kind: engine.Preempt, By: shard.ByPreemptBudget, Cluster: "c", Row: 3},
			{Machine: "i-1", Kind: engine.Delete, By: shard.ByDeleteBudget},
		},
	}
	want := &HeldBack{
		Disposition: shard.Tripped, Reason: "far \x07too much", Interval: 90 * time.Second, Starting: true, More: 12,
		Actions: []HeldAction{
			{Machine: "s-2", Kind: engine.Provision, By: shard.ByQueue, Need: "c/2"},
			{Machine: "b-1", Kind: engine.Preempt, By: shard.ByPreemptBudget},
			{Machine: "i-1", Kind: engine.Delete, By: shard.ByDeleteBudget},
		},
	}
	in := engine.Input{Supply: machines, Demand: needs}
	written := func(h *shard.HeldBack) (*World, string) {
		t.Helper()
		var out bytes.Buffer
		if err := WriteShard(t.Context(), &out, func(visit func(engine.Input, engine.Options, *shard.HeldBack) error) error {
			return visit(in, engine.DefaultOptions(), h)
		}, nil); err != nil {
			t.Fatal(err)
		}
		return read(t, out.String()), out.String()
	}
	if w, text := written(held); !reflect.DeepEqual(w.HeldBack, want) {
		t.Errorf("written as\n%s\nread as %+v, want %+v", text, w.HeldBack, want)
	}
	for _, nothing := range []*shard.HeldBack{nil, {Interval: time.Second, Starting: true}} {
		if w, text := written(nothing); w.HeldBack != nil || strings.Contains(text, "heldBack") {
			t.Errorf("nothing is held back, and it writes\n%s", text)
		}
	}
}
