package whatif_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/internal/world"
)

// fleet is a cluster that is content on m-1, a slot to buy, and a machine of a
// cluster of less worth.
const fleet = `
machines:
- {id: m-1, state: Configured, cluster: a, resources: {cpu: "4"}, pricePerHour: 1, assigned: {priority: 10, need: web}}
- {id: low-1, state: Configured, cluster: b, resources: {cpu: "4"}, pricePerHour: 1, assigned: {priority: 1, interruptionPenalty: 8, reclamationPenalty: 2, need: batch}}
- {id: slot-1, state: Speculative, resources: {cpu: "4"}, pricePerHour: 3}
needs:
- {name: web, cluster: a, priority: 10, aggregate: {cpu: "4"}, minUnit: {cpu: "4"}}
- {name: batch, cluster: b, priority: 1, interruptionPenalty: 8, reclamationPenalty: 2, aggregate: {cpu: "4"}, minUnit: {cpu: "4"}}
`

func ask(t *testing.T, w, edits string) *whatif.Answer {
	t.Helper()
	parsed, err := world.Read(strings.NewReader(w))
	if err != nil {
		t.Fatal(err)
	}
	e, err := parsed.ReadEdits(strings.NewReader(edits))
	if err != nil {
		t.Fatal(err)
	}
	a, err := whatif.Ask(parsed, e)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBuyingStandsBesidePreempting: a further need is served by a purchase; were
// there none to be had, by a victim, whose penalties are named.
func TestBuyingStandsBesidePreempting(t *testing.T) {
	a := ask(t, fleet, `add: [{name: more, cluster: a, priority: 10, aggregate: {cpu: "4"}, minUnit: {cpu: "4"}}]`)
	if o := a.Now; o.Satisfied != 2 || o.Buy+o.Preempt+o.Bind != 0 || o.DollarsPerHour != 2 {
		t.Errorf("now: %+v", o)
	}
	if o := a.WhatIf; o.Buy != 1 || o.BuyPerHour != 3 || o.Preempt != 0 || o.DollarsPerHour != 5 {
		t.Errorf("what if: %+v", o)
	}
	if o := a.WithoutBuying; o.Buy != 0 || o.Preempt != 1 || o.Interruption != 8 || o.Reclamation != 2 || o.GraceSeconds != 600 {
		t.Errorf("without buying: %+v", o)
	}
	if len(a.Begun) != 1 || a.Begun[0] != (whatif.Action{Kind: "Provision", Machine: "slot-1", Need: "more", Cluster: "a"}) || len(a.Dropped) != 0 {
		t.Errorf("begun %+v, dropped %+v", a.Begun, a.Dropped)
	}
	if len(a.Needs) != 1 || a.Needs[0].Before != "absent" || !a.Needs[0].Satisfied {
		t.Errorf("needs %+v", a.Needs)
	}
}

// TestOnceDrained: one Need waits for two machines, of two Needs that have them until these are drained.
func TestOnceDrained(t *testing.T) {
	w := strings.Replace(fleet, `- {id: slot-1, state: Speculative, resources: {cpu: "4"}, pricePerHour: 3}`, `- {id: low-2, state: Configured, cluster: c, resources: {cpu: "4"}, pricePerHour: 1, assigned: {priority: 1, need: more}}`, 1) +
		`- {name: more, cluster: c, priority: 1, aggregate: {cpu: "4"}, minUnit: {cpu: "4"}}
`
	a := ask(t, w, `add: [{name: large, cluster: a, priority: 10, aggregate: {cpu: "8"}, minUnit: {cpu: "4"}}]`)
	if o := a.Now; o.Satisfied != 3 || o.OnceDrained != 3 {
		t.Errorf("now: %+v", o)
	}
	if o := a.WhatIf; o.Preempt != 2 || o.Satisfied != 3 || o.OnceDrained != 2 {
		t.Errorf("what if: %+v; want three that are satisfied, and once drained web and large", o)
	}
	var table strings.Builder
	if err := a.WriteTable(&table); err != nil || !strings.Contains(table.String(), "once machines have drained     3 of 3  2 of 4   2 of 4\n") {
		t.Errorf("%v:\n%s", err, table.String())
	}
}

// TestALoserIsNamed: who loses a machine has it until it is drained, and is satisfied until then.
func TestALoserIsNamed(t *testing.T) {
	a := ask(t, strings.Replace(fleet, "- {id: slot-1, state: Speculative, resources: {cpu: \"4\"}, pricePerHour: 3}\n", "", 1),
		`add: [{name: more, cluster: a, priority: 10, aggregate: {cpu: "4"}, minUnit: {cpu: "4"}}]`)
	if want := []whatif.Loser{{Name: "batch", Cluster: "b", Priority: 1, Machines: 1, Of: 1}}; !slices.Equal(a.Losers, want) || a.WhatIf.Preempt != 1 {
		t.Errorf("losers %+v of %d preemptions", a.Losers, a.WhatIf.Preempt)
	}
	const says = "batch of cluster b, priority 1: loses 1 of its 1 machine to others, once drained\n"
	var table, diff strings.Builder
	if err := errors.Join(a.WriteTable(&table), a.WriteDiff(&diff)); err != nil || !strings.Contains(table.String(), "  need "+says) || !strings.Contains(diff.String(), "~ need "+says) {
		t.Errorf("%v: %s\n%s", err, table.String(), diff.String())
	}
	if same := ask(t, fleet, `lose: [slot-1]`); same.Losers != nil {
		t.Errorf("nobody loses, and %+v does", same.Losers)
	}
}

func TestEveryEditCounts(t *testing.T) {
	for _, c := range []struct {
		edits string
		holds func(a *whatif.Answer) bool
	}{
		{`{}`, func(a *whatif.Answer) bool { return len(a.Begun)+len(a.Dropped)+len(a.Needs) == 0 }},
		{`lose: [m-1]`, func(a *whatif.Answer) bool { return a.WhatIf.Buy == 1 && a.WithoutBuying.Preempt == 1 }},
		{`remove: [web]`, func(a *whatif.Answer) bool { return a.WhatIf.Reclaim == 1 && a.Needs[0].After == "absent" }},
		{`change: [{machine: low-1, pricePerHour: 7}]`, func(a *whatif.Answer) bool { return a.WhatIf.DollarsPerHour == 8 }},
		{`change: [{machine: m-1, allocatable: {cpu: "2"}}]`, func(a *whatif.Answer) bool { return a.WhatIf.Buy == 1 }},
		{"lose: [m-1, slot-1]\nweights: {priority: 2}", func(a *whatif.Answer) bool { return a.WhatIf.Preempt == 1 }},
		{`lose: [low-1, slot-1]`, func(a *whatif.Answer) bool {
			return len(a.WhatIf.Unsatisfied) == 1 && a.WhatIf.Unsatisfied[0] == "batch" && !a.Needs[0].Satisfied && a.Needs[0].Before == "satisfied"
		}},
	} {
		if a := ask(t, fleet, c.edits); !c.holds(a) {
			t.Errorf("%s: %+v", c.edits, a)
		}
	}
}

func TestFaultsOfEditsAreNamed(t *testing.T) {
	w, err := world.Read(strings.NewReader(fleet))
	if err != nil {
		t.Fatal(err)
	}
	for edits, want := range map[string]string{
		`lose: [m-9]`:   `lose[0]: no machine is named "m-9"; did you mean "m-1"?`,
		`remove: [wbe]`: `remove[0]: no need is named "wbe"; did you mean "web"?`,
		`add: [{name: web, cluster: a, aggregate: {cpu: "1"}}]`:                            `add[0].name: "web" is the name of a need of the world already`,
		`change: [{machine: m-1, pricePerHour: -1}]`:                                       `change[0].pricePerHour`,
		`add: [{name: more, cluster: a, aggregate: {cpu: "4"}, minAggregate: {cpu: "5"}}]`: `add[0].minAggregate.cpu: must be at most the aggregate's 4, got 5`,
		`drop: [web]`:                 `drop: unknown key`,
		`weights: {priority: "much"}`: `weights.priority`,
	} {
		if _, err := w.ReadEdits(strings.NewReader(edits)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", edits, err, want)
		}
	}
}

func TestAnswersAreWritten(t *testing.T) {
	a := ask(t, fleet, `lose: [m-1]`)
	var out strings.Builder
	if err := a.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back struct {
		WhatIf        struct{ Buy int }
		WithoutBuying struct{ Preempt int }
		Begun         []struct{ Kind, Machine string }
	}
	if err := json.Unmarshal([]byte(out.String()), &back); err != nil || back.WhatIf.Buy != 1 || back.WithoutBuying.Preempt != 1 || len(back.Begun) != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
	out.Reset()
	if err := a.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"WITHOUT BUYING", "machines to buy                0       1        0", "  + Provision slot-1 cluster a for web"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, out.String())
		}
	}
}
