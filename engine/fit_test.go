package engine_test

import (
	"cmp"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestFitIsNeverDearer: alone in a fleet, a Need that one stage covers pays by fit at most what it pays by cheapest, and
// often less. A gang that folds by cheapest and not by fit chooses among machines of one domain, and may find them dearer;
// most pay less.
func TestFitIsNeverDearer(t *testing.T) {
	compared, cheaper := 0, 0
	apart := [3]int{} // gangs that fold by cheapest alone: cheaper, the same, dearer
	for _, seed := range fleetSeeds(fleetsToTry() / 2) {
		w := fleet.Fitted(fleet.Random(seed, fleet.Small), seed)
		for i := range w.Needs {
			one := w
			one.Needs, one.MaxMachineShare = w.Needs[i:i+1], 0
			one.BackingOff = nil
			fit := costOf(t, one)
			one.Fit = false
			cheapest := costOf(t, one)
			if !fit.counts || !cheapest.counts || len(w.Needs[i].Profile.HardSpread()) > 0 {
				continue
			}
			if w.Needs[i].Profile.Same() != nil && (fit.domain != cheapest.domain || fit.domain == "") {
				apart[1+cmp.Compare(fit.dollars, cheapest.dollars)]++
				continue
			}
			if !fit.oneHolder || !cheapest.oneHolder {
				continue
			}
			compared++
			if fit.dollars > cheapest.dollars*(1+1e-12) {
				t.Fatalf("seed %d, need %d: by fit it costs %v, by cheapest %v\n%s", seed, i, fit.dollars, cheapest.dollars, fleet.Describe(one))
			}
			if fit.dollars < cheapest.dollars*(1-1e-9) {
				cheaper++
			}
			break
		}
	}
	t.Logf("%d Needs were compared, %d are cheaper by fit, none dearer; %d, %d and %d gangs that do not fold by fit are cheaper, the same and dearer", compared, cheaper, apart[0], apart[1], apart[2])
	if *fleetSeed == 0 && !testing.Short() && apart[0] <= 3*apart[2] {
		t.Errorf("%d gangs that do not fold by fit are cheaper, %d are dearer: too many", apart[0], apart[2])
	}
	if *fleetSeed == 0 && (compared < fleetsToTry()/10 || cheaper < compared/20) {
		t.Errorf("%d Needs were compared, %d are cheaper by fit: they show too little", compared, cheaper)
	}
}

// acquired is what a Need acquires.
type acquired struct {
	dollars float64 // an hour
	domain  string  // of a gang
	counts  bool    // it covers the Need, all of it is Idle or all Speculative, and its cost is finite
	// oneHolder says that all machines are held for one Need, or all for none. A Need takes machines that are held for it before
	// other Idle ones, and chooses among each by itself.
	oneHolder bool
}

// costOf decides a world of one Need.
func costOf(t *testing.T, w fleet.World) (out acquired) {
	t.Helper()
	plan, err := twin.Decide(inputOf(w))
	if err != nil {
		t.Fatal(err)
	}
	n, machines := &plan.Needs[0], map[string]*model.Machine{}
	for i := range w.Machines {
		machines[w.Machines[i].ID] = &w.Machines[i]
	}
	if !n.Satisfied || (n.Bootstrap > 0) == (n.Provision > 0) {
		return acquired{}
	}
	penalty := w.Needs[0].Profile.Interruption()
	out = acquired{domain: n.Domain, counts: true, oneHolder: true}
	for _, id := range n.Claimed {
		if machines[id].Reservation.Owner != machines[n.Claimed[0]].Reservation.Owner {
			out.oneHolder = false
		}
	}
	for _, a := range plan.Actions {
		m := machines[a.Machine]
		switch a.Kind {
		case reference.Bootstrap:
			out.dollars += m.PricePerHour
		case reference.Provision:
			if out.dollars += m.PricePerHour; m.InterruptionProbability > 0 {
				if penalty == model.BucketPinned {
					return acquired{}
				}
				out.dollars += m.InterruptionProbability * penalty.Dollars()
			}
		}
	}
	return out
}
