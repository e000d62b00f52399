package shard_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// stuckGang is a gang of four whose rack has two free machines; two others are
// held by a higher priority.
func stuckGang(t *testing.T) *world {
	var ms []model.Machine
	for _, id := range []string{"a", "b"} {
		ms = append(ms, inRack(machine(id, model.Idle, ""), "r"))
	}
	for _, id := range []string{"x", "y"} {
		ms = append(ms, inRack(machine(id, model.Configured, "c2"), "r"))
	}
	w := newWorld(t, ms)
	w.report("c1", gang(t, 100, 16))
	w.report("c2", need(t, 5000, 8))
	return w
}

// parkedFor returns in which of the next n cycles a row rests.
func parkedFor(w *world, n int) (out []uint64) {
	for range n {
		if c := w.step(); c.Parked > 0 {
			out = append(out, c.Number)
		}
	}
	return out
}

func TestGangIsParkedAndTriedAgain(t *testing.T) {
	w := stuckGang(t)
	got := parkedFor(w, 80)
	// In cycle 1 it acquires two machines, and is 8 cycles old after the 9th.
	var want []uint64
	for k := uint64(10); k <= 80; k++ {
		if age := k - 2; age%32 != 0 {
			want = append(want, k)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("parked in cycles %v, want %v", got, want)
	}
	if c := w.step(); c.Shortfalls != 1 || len(c.Started) != 0 {
		t.Errorf("a parked gang keeps its credit and its shortfall: %d, %v", c.Shortfalls, c.Started)
	}
}

// TestParkedGangWakesForMatchingSupply: at once when a machine that it could
// use turns free or is new, and not for others.
func TestParkedGangWakesForMatchingSupply(t *testing.T) {
	for what, x := range map[string]struct {
		add  model.Machine
		want bool
	}{
		"a new machine of its rack": {inRack(machine("n", model.Idle, ""), "r"), true},
		"a new quota slot":          {inRack(machine("n", model.Speculative, ""), "r"), true},
		"a machine without a rack":  {machine("n", model.Idle, ""), false},
		"a machine of another use":  {inRack(machine("n", model.Configured, "c2"), "r"), false},
	} {
		w := stuckGang(t)
		parkedFor(w, 15)
		if err := w.fleet.Add(x.add); err != nil {
			t.Fatal(err)
		}
		if c := w.step(); (c.Parked == 0) != x.want {
			t.Errorf("%s: parked %d", what, c.Parked)
		}
	}
	w := stuckGang(t)
	parkedFor(w, 15)
	w.report("c2")
	if got := w.steps(2); !slices.Equal(got, []string{"Reclaim x", "Reclaim y", "Bootstrap x", "Bootstrap y"}) {
		t.Errorf("machines that turned Idle: %v", got)
	}
}

// TestSiblingsOfAnotherSizeAreNotParked: a gang that fits one machine shares
// profile and group with one that nothing can hold.
func TestSiblingsOfAnotherSizeAreNotParked(t *testing.T) {
	w := newWorld(t, []model.Machine{inRack(machine("a", model.Idle, ""), "r")})
	w.report("c1", gang(t, 100, 400))
	parkedFor(w, 12)
	w.report("c1", gang(t, 100, 400), gang(t, 200, 4), gang(t, 100, 4))
	for range 3 {
		c := w.step()
		if !c.Plan.Satisfied(1) {
			t.Errorf("cycle %d: %+v", c.Number, c.Plan.Need(1))
		}
	}
}

func TestRollupDoesNotUnparkTheSameGang(t *testing.T) {
	w := stuckGang(t)
	parkedFor(w, 15)
	w.report("c1", gang(t, 100, 16))
	if c := w.step(); c.Parked != 1 {
		t.Errorf("parked %d after the same roll-up again", c.Parked)
	}
	if got := w.shard.Shortfalls(); len(got) != 1 || got[0].AgeCycles < 15 || got[0].Deficit.Get("cpu") != 8 {
		t.Errorf("shortfalls: %+v", got)
	}
	w.report("c1")
	if c := w.step(); c.Parked != 0 || c.Shortfalls != 0 {
		t.Errorf("withdrawn: parked %d, shortfalls %d", c.Parked, c.Shortfalls)
	}
}
