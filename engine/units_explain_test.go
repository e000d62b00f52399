package engine_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// explainedFleets is how many random fleets are explained.
const explainedFleets = 600

// TestPlansAreExplained: Explain does not change the plan, and its records agree with the plan.
func TestPlansAreExplained(t *testing.T) {
	plans, reprieved, lost, reclaimed := 0, 0, 0, 0
	for seed := range int64(explainedFleets) {
		w := fleet.Random(seed+1, []fleet.Size{fleet.Tiny, fleet.Small}[seed%2])
		if seed%3 == 0 {
			w = fleet.Shared(w, seed)
		}
		in := inputOf(w)
		s, d, _, err := twin.Tables(in)
		if err != nil {
			t.Fatal(err)
		}
		input := engine.Input{Supply: s, Demand: d, Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff}
		opts := twin.Options(in.Options)
		opts.Victims = engine.VictimsGang
		plain, explained := newEngine(t, opts), newEngine(t, withExplain(opts))
		silent, err := plain.Cycle(input)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(silent.Actions)
		plan, err := explained.Cycle(input)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Stats.SearchPairs != silent.Stats.SearchPairs || plan.Stats.SearchUnits != silent.Stats.SearchUnits {
			t.Fatalf("seed %d: the search meets something else when it is explained", seed+1)
		}
		if !slices.Equal(plan.Actions, want) {
			t.Fatalf("seed %d: the plan is another when it is explained", seed+1)
		}
		victims := map[int32][]columnar.Row{}
		for _, a := range plan.Actions {
			if a.Kind == engine.Preempt {
				victims[a.Need] = append(victims[a.Need], a.Machine)
			}
		}
		for need, rows := range victims {
			x := explained.ExplainNeed(int(need))
			if x.Plan == nil {
				t.Fatalf("seed %d: the plan of row %d is not explained", seed+1, need)
			}
			plans++
			reprieved += len(x.Plan.Reprieved)
			checkUnits(t, seed+1, x.Plan, rows)
			lost += checkDomains(t, seed+1, &x)
			reclaimed += checkTenancy(t, seed+1, &x)
		}
	}
	if plans == 0 || reprieved == 0 || lost == 0 || reclaimed == 0 {
		t.Errorf("%d plans, %d reprieved units, %d domains that lost and %d units of tenants: the fleets show too little", plans, reprieved, lost, reclaimed)
	}
}

func newEngine(t *testing.T, opts engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func withExplain(opts engine.Options) engine.Options {
	opts.Explain = true
	return opts
}

// checkUnits: every victim is in a unit, no machine is in two, and nothing reprieved is a
// victim.
func checkUnits(t *testing.T, seed int64, x *engine.PlanExplanation, victims []columnar.Row) {
	t.Helper()
	seen := map[columnar.Row]bool{}
	for i := range x.Units {
		u := &x.Units[i]
		for _, r := range u.Machines {
			if seen[r] {
				t.Errorf("seed %d: machine %d is of two units", seed, r)
			}
			seen[r] = true
		}
		if u.Class != "whole" && len(u.Machines) != 1 || len(u.Machines) == 0 {
			t.Errorf("seed %d: a unit of class %s has %d machines", seed, u.Class, len(u.Machines))
		}
		if u.Gain <= 0 || u.ROI <= 0 || u.GraceSeconds <= 0 {
			t.Errorf("seed %d: a unit of no use is taken: %+v", seed, u)
		}
	}
	for _, r := range victims {
		if !seen[r] {
			t.Errorf("seed %d: victim %d is of no unit", seed, r)
		}
	}
	for i := range x.Reprieved {
		for _, r := range x.Reprieved[i].Machines {
			if seen[r] {
				t.Errorf("seed %d: machine %d is taken and spared", seed, r)
			}
		}
	}
}

// checkTenancy: a tenant that loses a unit gives by the ledger and was above its share; no
// other tenant gives.
func checkTenancy(t *testing.T, seed int64, x *engine.NeedExplanation) (reclaimed int) {
	t.Helper()
	from := map[string]bool{}
	for i := range x.Plan.Units {
		if u := &x.Plan.Units[i]; u.Tenant != "" {
			reclaimed++
			if from[u.Tenant] = true; u.Ratio < 1 || !x.Plan.Tenants {
				t.Errorf("seed %d: a unit is reclaimed of a tenant within its share: %+v", seed, u)
			}
		}
	}
	if reclaimed == 0 {
		return 0
	}
	if x.Tenancy == nil || x.Tenancy.Verdict != "reclaims" {
		t.Fatalf("seed %d: the turn is explained as %+v", seed, x.Tenancy)
	}
	for _, g := range x.Tenancy.Givers {
		if gives := g.Verdict == "gives"; gives != from[g.Tenant] || g.Tenant == x.Tenancy.Tenant {
			t.Errorf("seed %d: tenant %s gives: %v; units: %v", seed, g.Tenant, gives, from)
		}
	}
	return reclaimed
}

// checkDomains: the chosen domain comes with its plan, every other one with a reason.
func checkDomains(t *testing.T, seed int64, x *engine.NeedExplanation) (lost int) {
	t.Helper()
	if x.Plan.Domain == "" {
		return 0
	}
	chosen := 0
	for _, d := range x.Preemption {
		if d.Tenants != x.Plan.Tenants {
			continue // of the turn that made no plan
		}
		switch {
		case d.Rejected != "":
			lost++
		case d.Domain == x.Plan.Domain && d.Covered:
			chosen++
		}
		if d.Domain == x.Plan.Domain && d.Rejected != "" {
			t.Errorf("seed %d: the chosen domain is rejected: %+v", seed, d)
		}
	}
	if chosen != 1 {
		t.Errorf("seed %d: domain %s is chosen %d times in %+v", seed, x.Plan.Domain, chosen, x.Preemption)
	}
	return lost
}
