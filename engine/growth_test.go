package engine_test

import (
	"runtime"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// sameAllocsMax is how many allocations a cycle may make that finds what the one
// before found, preemptions and reservations included. Fleets at rest are held
// to less by the gates.
const sameAllocsMax = 16

// TestSteadyCyclesDoNotGrow: ten thousand cycles over the same fleet reserve no
// memory once folds have come to be formed anew, and allocate a bounded number
// of times.
func TestSteadyCyclesDoNotGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("counts bytes over many cycles")
	}
	const cycles = 10_000
	for _, seed := range []int64{3, 4, 9} {
		w := fleet.Random(seed, fleet.Small)
		supply, demand, _, err := twin.Tables(inputOf(w))
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
		run := func(n uint64) {
			for range n {
				if _, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: w.Now}); err != nil {
					t.Fatal(err)
				}
			}
		}
		run(cycles)
		reserved := e.Memory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run(cycles)
		runtime.ReadMemStats(&after)
		for purpose, u := range e.Memory() {
			if was := reserved[purpose].Reserved; u.Reserved > was {
				t.Errorf("seed %d: %s holds %d bytes after %d cycles, %d before", seed, alloc.Purpose(purpose), u.Reserved, cycles, was)
			}
		}
		if per := (after.Mallocs - before.Mallocs) / cycles; per > sameAllocsMax {
			t.Errorf("seed %d: %d allocations a cycle, at most %d are right", seed, per, sameAllocsMax)
		}
	}
}
