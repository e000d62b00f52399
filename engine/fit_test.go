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
			fit, domain, fromOne := costOf(t, one)
			one.Fit = false
			cheapest, without, alsoFromOne := costOf(t, one)
			if !fromOne || !alsoFromOne || len(w.Needs[i].Profile.HardSpread()) > 0 {
				continue
			}
			if w.Needs[i].Profile.Same() != nil && (domain != without || domain == "") {
				apart[1+cmp.Compare(fit, cheapest)]++
				continue
			}
			compared++
			if fit > cheapest*(1+1e-12) {
				t.Fatalf("seed %d, need %d: by fit it costs %v, by cheapest %v\n%s", seed, i, fit, cheapest, fleet.Describe(one))
			}
			if fit < cheapest*(1-1e-9) {
				cheaper++
			}
			break
		}
	}
	t.Logf("%d Needs were compared, %d are cheaper by fit, none dearer; %d, %d and %d gangs that do not fold by fit are cheaper, the same and dearer", compared, cheaper, apart[0], apart[1], apart[2])
	if *fleetSeed == 0 && !testing.Short() && apart[0] <= 2*apart[2] {
		t.Errorf("%d gangs that do not fold by fit are cheaper, %d are dearer: too many", apart[0], apart[2])
	}
	if *fleetSeed == 0 && (compared < fleetsToTry()/10 || cheaper < compared/20) {
		t.Errorf("%d Needs were compared, %d are cheaper by fit: they show too little", compared, cheaper)
	}
}

// costOf decides a world of one Need, and returns what it acquires for that, in dollars an hour; false unless all comes
// from one stage, covers the Need and has a finite cost; and the domain of a gang. What is held for a Need is a stage before
// the other Idle machines.
func costOf(t *testing.T, w fleet.World) (cost float64, domain string, fromOne bool) {
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
		return 0, "", false
	}
	penalty := w.Needs[0].Profile.Interruption()
	for _, id := range n.Claimed {
		if m, first := machines[id], machines[n.Claimed[0]]; m.Reservation.Owner != first.Reservation.Owner {
			return 0, "", false
		}
	}
	for _, a := range plan.Actions {
		m := machines[a.Machine]
		switch a.Kind {
		case reference.Bootstrap:
			cost += m.PricePerHour
		case reference.Provision:
			if cost += m.PricePerHour; m.InterruptionProbability > 0 {
				if penalty == model.BucketPinned {
					return 0, "", false
				}
				cost += m.InterruptionProbability * penalty.Dollars()
			}
		}
	}
	return cost, n.Domain, true
}
