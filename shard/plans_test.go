package shard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// byGangs has victims chosen by gangs.
func byGangs(c *shard.Config) { c.Engine.Victims = engine.VictimsGang }

// contested is a rack of four machines that a low cluster serves two gangs of two
// with, and drains that take three cycles.
func contested(t *testing.T, options ...option) *world {
	t.Helper()
	var ms []model.Machine
	for i := range 4 {
		ms = append(ms, inRack(machine(fmt.Sprintf("m-%02d", i), model.Idle, ""), "r1"))
	}
	w := newWorld(t, ms, append([]option{latencies(0, 0, 30*time.Second), configured(byGangs)}, options...)...)
	a, b := gang(t, 1, 8), gang(t, 1, 8)
	a.Group, b.Group = "a", "b"
	w.report("low", a, b)
	w.steps(2)
	return w
}

// TestPlanIsStampedWhole: victims and Idle machines that a plan counts carry its
// id, and keep it until it is carried out.
func TestPlanIsStampedWhole(t *testing.T) {
	w := contested(t)
	w.report("top", gang(t, 1000, 16))
	c := w.step()
	if c.Counts[engine.Preempt] != 4 {
		t.Fatalf("it preempts %d machines", c.Counts[engine.Preempt])
	}
	plan := w.get("m-00").Reservation.Plan
	for i := range 4 {
		m := w.get(fmt.Sprintf("m-%02d", i))
		if m.State != model.Draining || m.Reservation.Plan != plan || plan == 0 || m.Reservation.Domain != "r1" || m.Reservation.Owner.Cluster != "top" {
			t.Errorf("%s is %s, held for %+v", m.ID, m.State, m.Reservation)
		}
	}
	for range 2 {
		if got := w.steps(1); len(got) != 0 {
			t.Errorf("while they drain, it starts %v", got)
		}
	}
	if got := w.steps(2); len(got) != 4 || got[0] != "Bootstrap m-00" {
		t.Errorf("when they have drained, it starts %v", got)
	}
}

// TestWhatDrainsAlreadyIsStamped: machines that a cluster has let go of, and that a plan
// counts on while they drain, are held for it, and nobody is preempted in their place.
func TestWhatDrainsAlreadyIsStamped(t *testing.T) {
	w := contested(t)
	a := gang(t, 1, 8)
	a.Group = "a"
	w.report("low", a) // the gang b has gone
	if got := w.steps(1); len(got) == 0 || got[0][:7] != "Reclaim" {
		t.Fatalf("it starts %v", got)
	}
	w.report("top", gang(t, 1000, 4))
	if c := w.step(); c.Counts[engine.Preempt] != 0 {
		t.Errorf("%d are preempted", c.Counts[engine.Preempt])
	}
	held := 0
	for i := range 4 {
		if m := w.get(fmt.Sprintf("m-%02d", i)); m.State == model.Draining && m.Reservation.Owner.Cluster == "top" && m.Reservation.Deadline == 0 {
			held++
		}
	}
	if held != 1 {
		t.Errorf("%d machines are held", held)
	}
	got := w.steps(3)
	if slices.ContainsFunc(got, func(s string) bool { return s[:7] == "Preempt" }) || !slices.ContainsFunc(got, func(s string) bool { return s[:9] == "Bootstrap" }) {
		t.Errorf("it starts %v", got)
	}
}

// TestPlanComesBackAfterARestart: the provider echoes it.
func TestPlanComesBackAfterARestart(t *testing.T) {
	w := contested(t)
	w.report("top", gang(t, 1000, 16))
	w.step()
	was := w.get("m-01").Reservation
	w.restart()
	w.step()
	if is := w.get("m-01").Reservation; is != was {
		t.Errorf("held for %+v, it was %+v", is, was)
	}
}

// TestExcessThatAPlanCountsOnIsHeldAfterARestart: a rail leaves it bound for a while, and then only the
// shard knows whom it is held for.
func TestExcessThatAPlanCountsOnIsHeldAfterARestart(t *testing.T) {
	w := contested(t, func(c *shard.Config, d *shard.Deps, _ *simulated.Config) {
		c.ReclaimCapFraction, d.Memory = 0.05, newMemory()
	})
	a := gang(t, 1, 8)
	a.Group = "a"
	w.report("low", a) // the gang b has gone, and one of its machines may be reclaimed in a cycle
	w.report("top", gang(t, 1, 8))
	if c := w.step(); c.Counts[engine.Reclaim] != 1 || c.Counts[engine.Preempt] != 0 {
		t.Fatalf("it starts %v", c.Counts)
	}
	held := func() (n int) {
		for i := range 4 {
			if m := w.get(fmt.Sprintf("m-%02d", i)); m.State == model.Configured && m.Reservation.Owner.Cluster == "top" {
				n++
			}
		}
		return n
	}
	if n := held(); n != 1 {
		t.Fatalf("%d machines are held and bound", n)
	}
	w.cfg.ReclaimCapFraction = 0
	w.restart()
	w.cfg.ReclaimCapFraction = 0.05
	if w.step(); held() != 1 {
		t.Error("it is held no more")
	}
}

// TestFailedDrainEndsAllThatWasPlannedForItsOwner: a plan that adds to one of an earlier cycle is the
// same plan.
func TestFailedDrainEndsAllThatWasPlannedForItsOwner(t *testing.T) {
	w := contested(t, func(_ *shard.Config, _ *shard.Deps, p *simulated.Config) {
		p.Faults = []simulated.Fault{{Op: shard.OpDrain, Machine: "m-03", Times: 1}}
	})
	w.report("top", gang(t, 1000, 8))
	if c := w.step(); c.Counts[engine.Preempt] != 2 {
		t.Fatalf("it starts %v", c.Counts)
	}
	w.report("top", gang(t, 1000, 16))
	w.step()
	for i := range 4 {
		if m := w.get(fmt.Sprintf("m-%02d", i)); m.Reservation.Active() {
			t.Errorf("%s is held for %+v", m.ID, m.Reservation)
		}
	}
}

// TestSearchesThatEndAreCounted: with room for one pair, the second of two gangs makes no plan.
func TestSearchesThatEndAreCounted(t *testing.T) {
	for pairs, want := range map[int]float64{1: 1, 0: 0} { // 0 = the default
		reg := prometheus.NewRegistry()
		w := contested(t, func(c *shard.Config, d *shard.Deps, _ *simulated.Config) {
			c.Engine.SearchPairs, d.Registerer = pairs, reg
		})
		w.report("top", gang(t, 1000, 8))
		w.report("next", gang(t, 900, 8))
		w.step()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			got[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue()
		}
		met, offered := got["tonnage_shard_search_pairs_total"], got["tonnage_shard_search_units_total"]
		if ended := got["tonnage_shard_searches_ended_total"]; ended != want || met == 0 || offered <= met {
			t.Errorf("room for %d pairs: %v searches ended, %v pairs, %v machines", pairs, ended, met, offered)
		}
	}
}

// TestPlanIsNotCutInTwo: by no limit. One that is larger than the limit goes when
// it stands first; what comes after it waits.
func TestPlanIsNotCutInTwo(t *testing.T) {
	for _, limit := range []int{1, 3, 4, 5} {
		w := contested(t)
		w.report("top", gang(t, 1000, 16))
		w.cfg.MaxActionsPerCycle = limit
		w.restart()
		a, b := gang(t, 1, 8), gang(t, 1, 8)
		a.Group, b.Group = "a", "b"
		w.report("low", a, b)
		w.report("top", gang(t, 1000, 16))
		if c := w.step(); c.Counts[engine.Preempt] != 4 {
			t.Errorf("limit %d: %d of a plan of 4 are preempted", limit, c.Counts[engine.Preempt])
		}
	}
}

// TestPlanWaitsForRoom: behind other calls it is let in whole or not at all, and
// what it would reserve is not.
func TestPlanWaitsForRoom(t *testing.T) {
	var ms []model.Machine
	for i := range 4 {
		ms = append(ms, inRack(machine(fmt.Sprintf("m-%02d", i), model.Configured, "low"), "r1"))
	}
	for i := range 3 {
		ms = append(ms, inRack(machine(fmt.Sprintf("i-%02d", i), model.Idle, ""), "none"))
	}
	w := newWorld(t, ms, configured(byGangs), configured(func(c *shard.Config) { c.Concurrency = 2 }))
	a, b := gang(t, 1, 8), gang(t, 1, 8)
	a.Group, b.Group = "a", "b"
	w.report("low", a, b)
	first := need(t, 2000, 12)
	first.Profile = profile(t, model.ProfileSpec{Priority: 2000, Requirements: []model.Requirement{{Key: "rack", Operator: model.In, Values: []string{"none"}}}})
	w.report("first", first)
	w.report("top", gang(t, 1000, 16))
	c := w.step()
	if c.Counts[engine.Bootstrap] != 3 || c.Counts[engine.Preempt] != 0 || c.Dropped != 4 {
		t.Errorf("it starts %v and drops %d", c.Counts, c.Dropped)
	}
	for i := range 4 {
		if m := w.get(fmt.Sprintf("m-%02d", i)); m.State != model.Configured || m.Reservation.Active() {
			t.Errorf("%s is %s, held for %+v", m.ID, m.State, m.Reservation)
		}
	}
}

// TestFailedDrainEndsThePlan: its machines are free, and its owner waits before it
// preempts again, longer each time.
func TestFailedDrainEndsThePlan(t *testing.T) {
	w := contested(t, func(_ *shard.Config, _ *shard.Deps, p *simulated.Config) {
		p.Faults = []simulated.Fault{{Op: shard.OpDrain, Machine: "m-03", Times: 1}}
	})
	w.report("top", gang(t, 1000, 16))
	if got := w.steps(1); len(got) != 4 {
		t.Fatalf("it starts %v", got)
	}
	for i := range 3 {
		if m := w.get(fmt.Sprintf("m-%02d", i)); m.Reservation.Active() {
			t.Errorf("%s is held for %+v", m.ID, m.Reservation)
		}
	}
	if got := w.steps(2); slices.ContainsFunc(got, func(s string) bool { return s[:7] == "Preempt" }) {
		t.Errorf("right after a failure it starts %v", got)
	}
}

// TestWhatDrainsOfAVoidPlanIsHeldAnew: a higher rank takes the first machine that
// has drained, which voids the plan. The second drains on, the owner counts on it,
// also when there is no room for its new plan, and nothing is preempted twice.
func TestWhatDrainsOfAVoidPlanIsHeldAnew(t *testing.T) {
	for _, x := range []struct {
		actions     int // a cycle; 0 = no limit
		void, after []string
	}{
		{0, []string{"Bootstrap m-00", "Preempt m-02"}, []string{"Bootstrap m-01", "Bootstrap m-02"}},
		{1, []string{"Bootstrap m-00"}, []string{"Bootstrap m-01", "Preempt m-02", "Bootstrap m-02"}},
	} {
		w := newWorld(t, machines(4, model.Configured, "low"), latencies(0, 0, 40*time.Second), configured(byGangs),
			configured(func(c *shard.Config) { c.MaxActionsPerCycle = x.actions }))
		w.report("low", need(t, 1, 16))
		w.report("mid", need(t, 100, 4))
		if got := w.steps(1); !slices.Equal(got, []string{"Preempt m-00"}) {
			t.Fatalf("limit %d: it starts %v", x.actions, got)
		}
		w.report("mid", need(t, 100, 8))
		w.step()
		w.report("low", need(t, 1, 8)) // it wants nothing back
		w.steps(2)
		w.report("top", need(t, 1000, 4))
		if got := w.steps(1); !slices.Equal(got, x.void) {
			t.Fatalf("limit %d: when the first has drained, it starts %v", x.actions, got)
		}
		if m := w.get("m-01"); m.State != model.Draining || m.Reservation.Plan == 0 || m.Reservation.Deadline != 0 || m.Reservation.Owner.Cluster != "mid" {
			t.Errorf("limit %d: m-01 is %s, held for %+v", x.actions, m.State, m.Reservation)
		}
		if got := w.steps(12); !slices.Equal(got, x.after) {
			t.Errorf("limit %d: from then on it starts %v", x.actions, got)
		}
	}
}

// TestPauseStampsNothing, nor does a dry run.
func TestPauseStampsNothing(t *testing.T) {
	w := contested(t)
	w.shard.SetPaused(true)
	w.report("top", gang(t, 1000, 16))
	w.step()
	for i := range 4 {
		if m := w.get(fmt.Sprintf("m-%02d", i)); m.Reservation.Active() {
			t.Errorf("%s is held for %+v", m.ID, m.Reservation)
		}
	}
	w.shard.SetPaused(false)
	if c, err := w.shard.Step(context.Background(), w.now+1); err != nil || c.Counts[engine.Preempt] != 4 {
		t.Errorf("%v, %v", c.Counts, err)
	}
}
