package benches

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// TestWorkingMemoryIsGivenBack: what only a cycle needs that decides from nothing
// is given back after some that do not, what is kept lies close, and a later cycle
// from nothing holds no more than the first did.
func TestWorkingMemoryIsGivenBack(t *testing.T) {
	const (
		cycles    = 8
		checked   = 100 // the cycle that is decided a second time, where all is audited in each
		spareMost = 35  // percent of what is used
	)
	rung, err := workload.ByName("50k")
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, seed), workload.Steady)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.DefaultOptions()
	opts.Workers, opts.CheckCycles = 1, 1
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	run := func(n int) (plan *engine.Plan) {
		for range n {
			if plan, err = e.Cycle(in); err != nil {
				t.Fatal(err)
			}
		}
		return plan
	}
	run(1)
	first := working(e)
	run(cycles)
	later := working(e)
	if later.Reserved >= first.Reserved {
		t.Errorf("%d bytes are held after %d cycles, %d after the first", later.Reserved, cycles, first.Reserved)
	}
	if most := later.Used + later.Used*spareMost/100; later.Reserved > most {
		t.Errorf("%d bytes are held for %d that are used, at most %d are right", later.Reserved, later.Used, most)
	}
	if !run(checked - 1 - cycles).Stats.Checked {
		t.Fatal("the last cycle is not one that was checked")
	}
	if checked := working(e); checked.Reserved > first.Reserved {
		t.Errorf("%d bytes are held after a cycle that was checked, %d after the first", checked.Reserved, first.Reserved)
	}
}
