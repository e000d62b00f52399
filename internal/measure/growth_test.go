package measure

import (
	"runtime"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/workload"
)

// allocsMax is the target: docs/explanation/benchmarks.md.
const allocsMax = 16

// held is what tables and engine hold, by purpose, and what lives on the heap.
func held(e *engine.Engine, in engine.Input) map[string]int64 {
	var r Result
	r.takeMemory(e, in, growth{})
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	r.MemoryBytes["heap"] = int64(stats.HeapAlloc)
	return r.MemoryBytes
}

// TestSteadyFleetsDoNotGrow: in ten thousand cycles of a fleet of which 1 % changes in
// each, nothing comes to hold more than it did after a few hundred, and the median cycle
// allocates no more than the target has it. Checks are on.
func TestSteadyFleetsDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("counts bytes over many cycles")
	}
	const (
		warm = 300
		// What the fleet asks for differs from cycle to cycle, and with it what tables hold.
		drift = 0.15
	)
	const cycles = 10_000
	c, e := steady(t, "5k", 7)
	defer e.Close()
	if _, ok, err := c.settle(e); err != nil || !ok {
		t.Fatalf("at rest %v: %v", ok, err)
	}
	var allocs []uint64
	var before map[string]int64
	for n := range cycles {
		if n == warm {
			before = held(e, c.in)
		}
		in, err := c.prepare(e)
		if err != nil {
			t.Fatal(err)
		}
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		plan, err := e.Cycle(in)
		runtime.ReadMemStats(&end)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Stats.Differs {
			t.Fatalf("cycle %d: another answer when decided from nothing", n)
		}
		if n >= warm {
			allocs = append(allocs, end.Mallocs-start.Mallocs)
		}
		if err := c.after(plan); err != nil {
			t.Fatal(err)
		}
	}
	for purpose, now := range held(e, c.in) {
		if was := before[purpose]; float64(now) > float64(was)*(1+drift) {
			t.Errorf("%s: %d bytes after %d cycles, %d after %d", purpose, now, cycles, was, warm)
		}
	}
	slices.Sort(allocs)
	if median := allocs[len(allocs)/2]; median > allocsMax {
		t.Errorf("the median cycle allocates %d times, at most %d are right", median, allocsMax)
	}
}

// TestCyclesThatPreemptAllocateNothing: in a contended fleet that goes on changing, where
// plans of preemption are made and end, and folds with them, no cycle begins from
// nothing, and nearly none allocates.
func TestCyclesThatPreemptAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("counts allocations")
	}
	const warm, measured = 100, 200
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
