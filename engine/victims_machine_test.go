package engine_test

import (
	"math"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// TestVictimsAreThoseOfThePriorityThatAsks: to a priority that is higher by 2³¹ the scores of two machines are equal, since they are rounded, and
// the id decides. A lower priority, whose turn comes after that, takes the machine with the higher score.
func TestVictimsAreThoseOfThePriorityThatAsks(t *testing.T) {
	e, in := scale(t, 0, func(x *scaled) {
		x.opts.Victims, x.opts.Weights.Interruption = engine.VictimsMachine, 1e-7
		victim := func(priority int32, interruption model.Bucket) {
			spec := model.ProfileSpec{Priority: priority, Interruption: interruption}
			x.need("low", spec, 1, "")
			p := x.needs["low"][len(x.needs["low"])-1].Profile
			x.machine("low", nil).Assigned = model.Assignment{Priority: priority, Interruption: interruption, Fingerprint: p.Fingerprint()}
		}
		victim(0, model.BucketOneDollar+1) // dearer to interrupt
		victim(0, model.BucketOneDollar)
		victim(-10, model.BucketOneDollar) // the first to go
		x.need("high", model.ProfileSpec{Priority: math.MaxInt32}, 1, "")
		x.need("high", model.ProfileSpec{Priority: 10}, 1, "")
	})
	defer e.Close()
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	took := map[int32]string{}
	for _, a := range plan.Actions {
		if a.Kind == engine.Preempt {
			took[plan.Need(int(a.Need)).Profile.Priority()] = in.Supply.ID(a.Machine)
		}
	}
	if len(took) != 2 || took[math.MaxInt32] != "m000002" || took[10] != "m000001" {
		t.Errorf("the priorities took %v", took)
	}
}
