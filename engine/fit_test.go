package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestFitIsNeverDearer: alone in a fleet, a Need that one stage covers pays by fit at most what it pays by cheapest, and
// often less.
func TestFitIsNeverDearer(t *testing.T) {
	compared, cheaper := 0, 0
	for _, seed := range fleetSeeds(fleetsToTry() / 2) {
		w := fleet.Fitted(fleet.Random(seed, fleet.Small), seed)
		for i := range w.Needs {
			one := w
			one.Needs, one.MaxMachineShare = w.Needs[i:i+1], 0
			one.BackingOff = nil
			fit, fromOne := costOf(t, one)
			one.Fit = false
			cheapest, alsoFromOne := costOf(t, one)
			if !fromOne || !alsoFromOne || len(w.Needs[i].Profile.HardSpread()) > 0 {
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
	t.Logf("%d Needs were compared, %d are cheaper by fit, none dearer", compared, cheaper)
	if *fleetSeed == 0 && (compared < fleetsToTry()/10 || cheaper < compared/20) {
		t.Errorf("%d Needs were compared, %d are cheaper by fit: they show too little", compared, cheaper)
	}
}

// costOf decides a world of one Need, and returns what it acquires for that, in dollars an hour; false unless all comes
// from one stage, covers the Need and has a finite cost.
func costOf(t *testing.T, w fleet.World) (cost float64, fromOne bool) {
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
		return 0, false
	}
	penalty := w.Needs[0].Profile.Interruption()
	for _, a := range plan.Actions {
		m := machines[a.Machine]
		switch a.Kind {
		case reference.Bootstrap:
			cost += m.PricePerHour
		case reference.Provision:
			if cost += m.PricePerHour; m.InterruptionProbability > 0 {
				if penalty == model.BucketPinned {
					return 0, false
				}
				cost += m.InterruptionProbability * penalty.Dollars()
			}
		}
	}
	return cost, true
}
