package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/twin"
)

// stampAdopted does what a caller does about a plan's Adopted.
func stampAdopted(x *script, plan *engine.Plan) {
	for _, a := range plan.Adopted {
		x.supply.Stamp(a.Machine, plan.Stamp(int(a.Need)))
	}
}

// unstamped returns a Configured machine that does not carry the stamp of whom
// it serves.
func unstamped(x *script, plan *engine.Plan) (columnar.Row, bool) {
	for i := range plan.Len() {
		n := plan.Need(i)
		for _, r := range n.Claimed {
			is, want := x.supply.Assigned(r), plan.Stamp(i)
			if int(n.Fold) == i && x.supply.State(r) == model.Configured && (is.Fingerprint != want.Fingerprint || is.Group != want.Group) {
				return r, true
			}
		}
	}
	return columnar.None, false
}

// TestAdoptedAreAllThatServeOthers: when a caller stamps what plans list, each
// machine carries the stamp of whom it serves, whatever changes in between and
// whether or not a cycle builds on the one before.
func TestAdoptedAreAllThatServeOthers(t *testing.T) {
	adopted, built := 0, 0
	for seed := int64(1); seed <= 20; seed++ {
		x, err := newScript(seed)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(twin.Options(x.options))
		if err != nil {
			t.Fatal(err)
		}
		var plan *engine.Plan
		for step := range scriptSteps {
			x.edit(t, plan)
			if plan, err = e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now}); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			adopted += len(plan.Adopted)
			if !plan.Stats.Full {
				built++
			}
			stampAdopted(x, plan)
			if r, found := unstamped(x, plan); found {
				t.Fatalf("seed %d, step %d: %q carries the stamp %+v after %v", seed, step, x.supply.ID(r), x.supply.Assigned(r), x.notes)
			}
		}
		e.Close()
	}
	if adopted == 0 || built == 0 {
		t.Errorf("%d machines were adopted, %d cycles built on another: nothing was tried", adopted, built)
	}
}
