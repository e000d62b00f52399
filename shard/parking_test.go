package shard_test

import (
	"slices"
	"testing"
	"time"

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

// TestParkedGangWakesForWhatItMayPreempt: at once when a machine that it could use has been bound for
// a lower priority of another cluster, and so can be preempted.
func TestParkedGangWakesForWhatItMayPreempt(t *testing.T) {
	for what, x := range map[string]struct {
		cluster  string
		priority int32
		want     []string
	}{
		"a lower priority":  {"c2", 5, []string{"Preempt x", "Preempt y"}},
		"a higher priority": {"c2", 5000, nil},
		"its own cluster":   {"c1", 5000, nil},
	} {
		binding := func(id string) model.Machine {
			m := inRack(machine(id, model.Configuring, x.cluster), "r")
			m.Assigned.Priority = x.priority
			return m
		}
		w := newWorld(t, []model.Machine{binding("x"), binding("y")}, latencies(0, 150*time.Second, 0))
		other := need(t, x.priority, 8)
		w.report("c2")
		if wants := []model.Need{gang(t, 100, 8)}; x.cluster == "c1" {
			w.report("c1", append(wants, other)...)
		} else {
			w.report("c1", wants...)
			w.report("c2", other)
		}
		before := parkedFor(w, 14)
		c := w.step() // the first that sees the machines Configured
		var got []string
		for _, a := range c.Started {
			got = append(got, a.Kind.String()+" "+a.Machine)
		}
		if parked := c.Parked; len(before) == 0 || !slices.Equal(got, x.want) || (parked == 0) != (x.want != nil) {
			t.Errorf("%s: parked in %v, then %d; started %v, want %v", what, before, parked, got, x.want)
		}
	}
}

// TestParkedGangWakesForWhatServesLess: in the cycle after a machine that it could use has come to serve a lower priority.
func TestParkedGangWakesForWhatServesLess(t *testing.T) {
	for priority, want := range map[int32][]string{5: {"Preempt x", "Preempt y"}, 4000: nil} {
		bound := func(id string) model.Machine { return inRack(machine(id, model.Configured, "c2"), "r") }
		w := newWorld(t, []model.Machine{bound("x"), bound("y")})
		w.report("c1", gang(t, 100, 8))
		w.report("c2", need(t, 5000, 8))
		if before := parkedFor(w, 14); len(before) == 0 {
			t.Fatal("the gang is not parked")
		}
		w.report("c2", need(t, priority, 8))
		if got := w.steps(2); !slices.Equal(got, want) {
			t.Errorf("priority %d: started %v, want %v", priority, got, want)
		}
	}
}

// TestParkedGangWakesForWhatIsHeldNoMore: when a reservation on a machine that it could use has ended, and
// before that machine is deleted.
func TestParkedGangWakesForWhatIsHeldNoMore(t *testing.T) {
	held := inRack(machine("h", model.Idle, ""), "r")
	held.CapacityType, held.IdleSince = model.Spot, 1
	held.Reservation = model.Reservation{Owner: model.Owner{Cluster: "c2"}, Priority: 5000, Deadline: 1150 * second}
	w := newWorld(t, []model.Machine{held, inRack(machine("a", model.Idle, ""), "r")})
	w.report("c1", gang(t, 100, 8))
	if got, want := w.steps(20), []string{"Bootstrap a", "Bootstrap h"}; !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
}

// TestParkedGangWakesWhenAReservationRunsOut: in the cycle in which what was held is free, and not after a Need of lower priority
// has had it.
func TestParkedGangWakesWhenAReservationRunsOut(t *testing.T) {
	held := inRack(machine("h", model.Idle, ""), "r")
	held.Reservation = model.Reservation{Owner: model.Owner{Cluster: "c2"}, Priority: 5000, Deadline: 1150 * second}
	w := newWorld(t, []model.Machine{held, inRack(machine("a", model.Idle, ""), "r")})
	w.report("c1", gang(t, 100, 8))
	w.report("c3", need(t, 10, 4))
	if got, want := w.steps(20), []string{"Bootstrap a", "Bootstrap h"}; !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
	w.shard.Machines(func(m model.Machine) bool {
		if m.Cluster != "c1" {
			t.Errorf("%s is in cluster %q, want both in that of the gang", m.ID, m.Cluster)
		}
		return true
	})
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
