package workload_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/workload"
)

// cycle runs one cycle of the engine over a fleet.
func cycle(t *testing.T, f *workload.Fleet, regime workload.Regime) *engine.Plan {
	t.Helper()
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: workload.Epoch.UnixNano()}
	for m := range f.Machines(regime, in.Now) {
		if err := in.Supply.Put(m); err != nil {
			t.Fatal(err)
		}
	}
	for c, name := range f.Clusters() {
		if err := in.Demand.Replace(name, f.Needs(regime, c)); err != nil {
			t.Fatal(err)
		}
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s: %v actions, %d of %d rows satisfied, %d after folding, %v", f.Rung().Name, regime, plan.Stats.Actions,
		plan.Stats.Satisfied, plan.Stats.Needs, plan.Stats.Folded, time.Since(start).Round(time.Millisecond))
	return plan
}

func TestALargeCompanySteadyAndCold(t *testing.T) {
	large(t)
	f := build(t, "50k")
	if plan := cycle(t, f, workload.Steady); len(plan.Actions) != 0 || plan.Stats.Unsatisfied != 0 {
		t.Errorf("steady: %v actions, %d unsatisfied", plan.Stats.Actions, plan.Stats.Unsatisfied)
	}
	if plan := cycle(t, f, workload.Cold); plan.Stats.Unsatisfied != 0 {
		t.Errorf("cold: %d unsatisfied", plan.Stats.Unsatisfied)
	}
}

// A tenth of the flat rung's rows is unmet, and the Idle tier stays idle.
func TestFlatLeavesATenthUnmet(t *testing.T) {
	large(t)
	f := build(t, "500k-flat")
	for _, regime := range []workload.Regime{workload.Steady, workload.Cold} {
		plan := cycle(t, f, regime)
		want := 0
		if regime == workload.Cold {
			want = f.Rung().Configured
		}
		if plan.Stats.Actions[engine.Bootstrap] != want || len(plan.Actions) != want || plan.Stats.Unsatisfied != f.Rows()/10 {
			t.Errorf("%s: %v actions, want %d Bootstraps; %d of %d rows unsatisfied", regime, plan.Stats.Actions, want, plan.Stats.Unsatisfied, f.Rows())
		}
	}
}

// The row-heavy rung has the published numbers of rows, gangs, spreads and
// profiles, and none of its rows folds.
func TestRowsMatchTheProjection(t *testing.T) {
	large(t)
	f := build(t, "500k-rows")
	kinds := map[string]model.Machine{} // one machine of each kind
	bound := 0
	for m := range f.Machines(workload.Steady, 1) {
		if m.State == model.Configured {
			bound++
		}
		kinds[m.InstanceType+m.Zone+fmt.Sprint(m.Resources.Get("cpu"))] = *m
	}
	gangs, hard := 0, 0
	profiles := map[*model.Profile]bool{}
	for c := range f.Clusters() {
		for _, n := range f.Needs(workload.Steady, c) {
			profiles[n.Profile] = true
			if len(n.Profile.HardSpread()) > 0 {
				hard++
			}
			if n.Profile.Same() == nil {
				continue
			}
			gangs++
			for _, m := range kinds {
				if m.Resources.Covers(n.Aggregate) && n.Profile.Matches(&m) {
					t.Fatalf("a gang of %s folds: %v fits %s with %v", n.Cluster, n.Aggregate, m.InstanceType, m.Resources)
				}
			}
		}
	}
	if f.Rows() != 776_000 || gangs != 23_280 || hard != 325_920 || len(profiles) < 595 || f.Profiles() != 600 {
		t.Errorf("%d rows, %d gangs, %d with hard spread, %d of %d profiles in use", f.Rows(), gangs, hard, len(profiles), f.Profiles())
	}
	if bound < f.Rung().Machines()*98/100 {
		t.Errorf("%d of %d machines are bound", bound, f.Rung().Machines())
	}
}

// large leaves the largest rungs out of short runs: they are about figures,
// and what a short run is for shows on the small ones as well.
func large(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a short run: the large rungs are left out")
	}
}
