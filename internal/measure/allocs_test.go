package measure

import (
	"runtime"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/workload"
)

// TestCyclesThatPreemptAllocateNothing: in a contended fleet that goes on changing, where
// plans of preemption are made and end, and folds with them, no cycle begins from
// nothing, and nearly none allocates.
func TestCyclesThatPreemptAllocateNothing(t *testing.T) {
	const (
		warm, measured = 100, 200
		allocsMax      = 16 // the target: docs/benchmarks.md
	)
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	f := workload.Build(rung, 3)
	in, err := Load(f, workload.Contended)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.DefaultOptions()
	opts.Workers, opts.CheckCycles = 1, 1<<30
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c := newChurn(f, in)
	var allocs []uint64
	preempted := 0
	for n := range warm + measured {
		in, err := c.prepare(e)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plan, err := e.Cycle(in)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if n >= warm {
			if plan.Stats.Full {
				t.Errorf("cycle %d built on nothing", n)
			}
			allocs = append(allocs, after.Mallocs-before.Mallocs)
			preempted += plan.Stats.Actions[engine.Preempt]
		}
		if err := c.after(plan); err != nil {
			t.Fatal(err)
		}
	}
	// A few cycles find more to preempt than any before, and make room for that.
	slices.Sort(allocs)
	if most := allocs[len(allocs)*19/20]; most > allocsMax {
		t.Errorf("one cycle in twenty allocates %d times or more often, at most %d are right: %d", most, allocsMax, allocs)
	}
	if preempted == 0 {
		t.Error("nothing was preempted: nothing was tried")
	}
}
