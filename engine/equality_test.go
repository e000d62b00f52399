package engine_test

import (
	"flag"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

var (
	fleets    = flag.Int("fleets", 2000, "random fleets to compare with the reference")
	fleetSeed = flag.Int64("fleet-seed", 0, "compare only the fleet of this seed")
)

func inputOf(w fleet.World) reference.Input {
	return reference.Input{
		Machines: w.Machines, Needs: w.Needs, Reported: w.Reported, Now: w.Now,
		DrainSeconds: w.DrainSeconds, Options: reference.DefaultOptions(),
	}
}

// differs says where the engine and the reference disagree on a world.
func differs(w fleet.World) string {
	in := inputOf(w)
	got, err := twin.Decide(in)
	if err != nil {
		return err.Error()
	}
	return twin.Diff(got, reference.Decide(in))
}

// TestEqualsReferenceOnRandomFleets: the answer is that of one sequential pass
// in rank order, exactly as written.
func TestEqualsReferenceOnRandomFleets(t *testing.T) {
	sizes := []fleet.Size{fleet.Tiny, fleet.Tiny, fleet.Tiny, fleet.Small, fleet.Small, fleet.Medium}
	for i := range *fleets {
		seed := int64(i + 1)
		if *fleetSeed != 0 {
			if seed = *fleetSeed; i > 0 {
				break
			}
		}
		size := sizes[seed%int64(len(sizes))]
		// Both ways to walk a pool must give the same: class by class, and merged.
		was := engine.SetFlatClassesMin([]int{256, 256, 0, 3}[seed/7%4])
		if d := differs(fleet.Random(seed, size)); d != "" {
			small := fleet.Minimise(fleet.Random(seed, size), func(w fleet.World) bool { return differs(w) != "" })
			t.Fatalf("seed %d (repeat with -fleet-seed=%d): %s\nsmallest world that differs: %s\n%s", seed, seed, d, differs(small), fleet.Describe(small))
		}
		engine.SetFlatClassesMin(was)
	}
}
