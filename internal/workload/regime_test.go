package workload_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/workload"
)

// decide runs one cycle of the reference over a fleet.
func decide(f *workload.Fleet, regime workload.Regime) (reference.Plan, []model.Need, map[string]int) {
	now := workload.Epoch.UnixNano()
	in := reference.Input{Now: now, Reported: map[string]bool{}, Options: reference.DefaultOptions()}
	for m := range f.Machines(regime, now) {
		in.Machines = append(in.Machines, *m)
	}
	for c, name := range f.Clusters() {
		in.Reported[name] = true
		in.Needs = append(in.Needs, f.Needs(regime, c)...)
	}
	plan := reference.Decide(in)
	kinds := map[string]int{}
	for _, a := range plan.Actions {
		kinds[a.Kind]++
	}
	return plan, in.Needs, kinds
}

func build(t *testing.T, name string) *workload.Fleet {
	t.Helper()
	r, err := workload.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return workload.Build(r, 1)
}

func TestSteadyDecidesNothing(t *testing.T) {
	plan, needs, kinds := decide(build(t, "tiny"), workload.Steady)
	if len(plan.Actions) != 0 {
		t.Errorf("a steady cycle acts: %v", kinds)
	}
	wantAllSatisfied(t, plan, needs)
}

func wantAllSatisfied(t *testing.T, plan reference.Plan, needs []model.Need) {
	t.Helper()
	for i, n := range plan.Needs {
		if !n.Satisfied {
			t.Errorf("row %d (%s %s) lacks %v: %s", i, needs[i].Cluster, needs[i].Group, n.Deficit, n.Unmet)
		}
	}
}

func TestColdAcquiresEverything(t *testing.T) {
	plan, needs, kinds := decide(build(t, "tiny"), workload.Cold)
	if kinds[reference.Bootstrap] == 0 || kinds[reference.Preempt]+kinds[reference.Reclaim]+kinds[reference.Delete] != 0 {
		t.Errorf("a cold cycle does %v", kinds)
	}
	wantAllSatisfied(t, plan, needs)
}

func TestBurstProvisionsTheLargeGang(t *testing.T) {
	plan, needs, kinds := decide(build(t, "tiny"), workload.Burst)
	t.Log(kinds)
	for i, n := range plan.Needs {
		if needs[i].Profile.Same() != nil && needs[i].MinUnit.Get("cpu") == 128000 && (!n.Satisfied || n.Provision < 64) {
			t.Errorf("large gang: satisfied %v, provisions %d, %s", n.Satisfied, n.Provision, n.Unmet)
		}
	}
}

func TestShrinkReclaims(t *testing.T) {
	_, _, kinds := decide(build(t, "tiny"), workload.Shrink)
	if kinds[reference.Reclaim] < 30 || kinds[reference.Bootstrap]+kinds[reference.Provision]+kinds[reference.Preempt] != 0 {
		t.Errorf("a shrunk fleet does %v", kinds)
	}
}

func TestContendedPreempts(t *testing.T) {
	plan, _, kinds := decide(build(t, "tiny"), workload.Contended)
	unmet := 0
	for _, n := range plan.Needs {
		if !n.Satisfied {
			unmet++
		}
	}
	if kinds[reference.Preempt] == 0 || unmet == 0 {
		t.Errorf("a contended fleet does %v and leaves %d rows unmet", kinds, unmet)
	}
	t.Log(kinds, unmet)
}
