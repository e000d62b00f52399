package bruteforce_test

import (
	"flag"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/fleet/bruteforce"
)

var cases = flag.Int64("cases", 5000, "random small fleets to hold against every set of victims")

// destroyedRatioMax is how much more than the optimum plans may destroy, on
// average.
const destroyedRatioMax = 1.02

// TestPlansAgainstEverySet: when some set of victims meets the Need there is a
// plan, its worst band is the best possible, and on average it destroys hardly
// more than the best set of that band.
func TestPlansAgainstEverySet(t *testing.T) {
	short, optimal, destroyed, ratios := 0, 0, 0, 0.0
	for seed := range *cases {
		in := bruteforce.Random(seed)
		plan := reference.Decide(in)
		others := slices.ContainsFunc(plan.Needs[1:], func(n reference.NeedResult) bool { return !n.Satisfied || n.Bootstrap > 0 })
		if plan.Needs[0].Satisfied || others {
			continue // the others take part in this
		}
		b := bruteforce.New(&in, &plan)
		best, found := b.Optimum()
		victims := b.VictimsOf()
		planned := plan.Needs[0].Unmet == reference.UnmetAwaitingDrain
		if found != planned || planned && !b.Meets(victims) {
			t.Fatalf("seed %d: some set meets the Need: %v; the plan does: %v\n%+v\n%s", seed, found, planned, plan, describe(in))
		}
		if !found {
			continue
		}
		short++
		got := b.CostOf(victims)
		if got.Paid != best.Paid || got.Band != best.Band {
			t.Errorf("seed %d: worst band %v, the best possible is %v\n%s", seed, got, best, describe(in))
		}
		if best.Destroyed > 0 {
			destroyed++
			ratios += float64(got.Destroyed) / float64(best.Destroyed)
		}
		if got == best {
			optimal++
		} else if testing.Verbose() && short-optimal < 4 {
			t.Logf("seed %d: %+v, the best is %+v\n%v\n%s", seed, got, best, plan.Actions, describe(in))
		}
	}
	mean := ratios / float64(max(1, destroyed))
	t.Logf("%d plans: %d optimal (%.2f %%), destroyed %.4f × the optimum on average over %d", short, optimal, 100*float64(optimal)/float64(max(1, short)), mean, destroyed)
	if short == 0 || mean > destroyedRatioMax {
		t.Errorf("plans destroy %.4f × the optimum on average, at most %v is allowed", mean, destroyedRatioMax)
	}
}

func describe(in reference.Input) string {
	return fleet.Describe(fleet.World{Machines: in.Machines, Needs: in.Needs, Reported: in.Reported, Now: in.Now, Band: in.Options.Band})
}
