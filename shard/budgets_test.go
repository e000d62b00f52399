package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// stepAfter lets some time pass and runs a cycle.
func (w *world) stepAfter(d time.Duration) *shard.Cycle {
	w.t.Helper()
	w.now += int64(d)
	w.fleet.Advance(w.now)
	c, err := w.shard.Step(context.Background(), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// bounded has a budget for each interval of ten seconds.
func bounded(change func(*shard.Config)) option {
	return func(c *shard.Config, _ *shard.Deps, _ *provCfg) {
		c.BudgetInterval = 10 * time.Second
		change(c)
	}
}

// TestReclaimsAreBoundOverTime: a neighbour that repeats its roll-up ten times a second starts
// as many cycles, and a cluster that asks for nothing loses a twentieth of its
// machines in an interval all the same; in the first one nothing.
func TestReclaimsAreBoundOverTime(t *testing.T) {
	w := newWorld(t, machines(200, model.Configured, "quiet"), bounded(func(c *shard.Config) { c.ReclaimCapFraction, c.Quarantine = 0.05, false }))
	w.report("quiet")
	left := 200
	for interval := range 6 {
		lost, limit := 0, left/20
		for range 100 {
			w.report("loud")
			lost += w.stepAfter(100 * time.Millisecond).Counts[engine.Reclaim]
		}
		if interval == 0 {
			limit = 0
		}
		if lost != limit {
			t.Errorf("interval %d: %d machines were reclaimed, want %d of %d", interval, lost, limit, left)
		}
		left -= lost
	}
}

// TestPurchasesAndDeletesAreBoundOverTime: at least 100 and 10 in an interval, and a
// tenth of large fleets.
func TestPurchasesAndDeletesAreBoundOverTime(t *testing.T) {
	for _, x := range []struct {
		kind           engine.Kind
		state          model.State
		fleet, allowed int
	}{
		{engine.Provision, model.Speculative, 400, 100},
		{engine.Provision, model.Speculative, 3000, 300},
		{engine.Delete, model.Idle, 60, 10},
		{engine.Delete, model.Idle, 400, 40},
	} {
		t.Run(fmt.Sprintf("%v of %d", x.kind, x.fleet), func(t *testing.T) {
			ms := machines(x.fleet, x.state, "")
			for i := range ms {
				ms[i].CapacityType = model.Spot
			}
			w := newWorld(t, ms, bounded(func(c *shard.Config) { c.ProvisionCapFraction, c.DeleteCapFraction = 0.1, 0.1 }),
				latencies(time.Hour, time.Hour, time.Hour))
			if x.kind == engine.Provision {
				w.report("c", need(t, 1, 4*int64(x.fleet)))
			}
			w.step() // the buckets are empty
			for range 10 {
				w.stepAfter(20 * time.Second) // past the least time that machines are kept
				if n := w.shard.Count()[x.state]; n < x.fleet {
					break
				}
			}
			before := w.shard.Count()[x.state]
			held := 0
			for range 9 {
				c := w.stepAfter(time.Second)
				held += c.Limited[x.kind]
			}
			if got := x.fleet - w.shard.Count()[x.state]; got != x.allowed || before != x.fleet-x.allowed || held == 0 {
				t.Errorf("%d actions within an interval, want %d; %d were held", got, x.allowed, held)
			}
		})
	}
}

// TestALargePlanGoesAlone: one that preempts more than an interval may goes when nothing
// else has gone in the interval, whole; until then it is held whole.
func TestALargePlanGoesAlone(t *testing.T) {
	var ms []model.Machine
	for i, m := range machines(40, model.Configured, "low") {
		rack := "r1"
		if i >= 30 {
			rack = "r2"
		}
		ms = append(ms, inRack(m, rack))
	}
	w := newWorld(t, ms, latencies(0, 0, time.Hour), bounded(func(c *shard.Config) {
		c.PreemptCapFraction, c.Engine.Victims = 0.1, engine.VictimsGang
	}))
	w.report("low", need(t, 1, 160))
	w.step()
	within := func(n model.Need, rack string) model.Need {
		n.Profile = profile(t, model.ProfileSpec{Priority: n.Profile.Priority(), Requirements: append(n.Profile.Requirements(), model.Requirement{Key: "rack", Operator: model.In, Values: []string{rack}})})
		return n
	}
	w.report("small", within(gang(t, 90, 4*10), "r2"))
	if c := w.step(); c.Counts[engine.Preempt] != 10 {
		t.Fatalf("the small plan: %v", c.Counts)
	}
	w.report("large", within(gang(t, 100, 4*30), "r1")) // more than the 20 of an interval
	if c := w.stepAfter(time.Second); c.Counts[engine.Preempt] != 0 || c.Limited[engine.Preempt] != 30 {
		t.Errorf("beside the small one: started %d, held %d, want none of 30", c.Counts[engine.Preempt], c.Limited[engine.Preempt])
	}
	if c := w.step(); c.Counts[engine.Preempt] != 30 || c.Limited[engine.Preempt] != 0 {
		t.Errorf("in the next interval: started %d, held %d, want all of 30", c.Counts[engine.Preempt], c.Limited[engine.Preempt])
	}
}

// fragile is a fleet whose breaker trips when a fifth of it is taken away within ten minutes.
func fragile(t *testing.T, options ...option) *world {
	return newWorld(t, machines(500, model.Configured, "c"), append([]option{configured(func(c *shard.Config) {
		c.BreakerShare, c.BreakerWindow, c.Quarantine = 0.2, 10*time.Minute, false
	})}, options...)...)
}

// TestBreakerStopsWhateverTheCause: when too much is taken away the shard pauses itself
// before it, and goes on when it is told to.
func TestBreakerStopsWhateverTheCause(t *testing.T) {
	w := fragile(t, configured(func(c *shard.Config) { c.ReclaimCapFraction = 0.05 }))
	w.report("c")
	lost := 0
	var last *shard.Cycle
	for range 40 {
		last = w.step()
		lost += last.Counts[engine.Reclaim]
	}
	if lost > 100 || lost < 80 || last.Disposition != shard.Tripped || last.Suppressed[engine.Reclaim] == 0 || w.shard.Disposition() != shard.Tripped {
		t.Fatalf("%d of 500 machines were reclaimed, want nearly 100; at the end: %v", lost, last.Disposition)
	}
	if !w.shard.Resume() || w.shard.Resume() {
		t.Error("it says that it had not tripped, or twice that it had")
	}
	if c := w.step(); c.Disposition != shard.Execute || c.Counts[engine.Reclaim] == 0 {
		t.Errorf("after it was told to go on: %v, %v", c.Disposition, c.Counts)
	}
}

// TestBreakerLetsGoWhenLittleIsWanted: for a whole window.
func TestBreakerLetsGoWhenLittleIsWanted(t *testing.T) {
	w := fragile(t)
	w.report("c")
	if c := w.step(); c.Disposition != shard.Tripped || len(c.Started) != 0 {
		t.Fatalf("500 at once: %v, %d started", c.Disposition, len(c.Started))
	}
	w.report("c", need(t, 1, 4*490)) // it was a mistake
	began := w.now
	for w.shard.Disposition() == shard.Tripped && w.now < began+30*60*second {
		w.step()
	}
	if took := time.Duration(w.now - began); took < 10*time.Minute || took > 11*time.Minute {
		t.Errorf("it let go after %v, want the window's 10 minutes", took)
	}
	if c := w.step(); w.shard.Disposition() != shard.Execute {
		t.Errorf("afterwards it is %v", c.Disposition)
	}
}

// TestBreakerForgetsWhatIsLongAgo: what is taken away in more than a window does not count
// together.
func TestBreakerForgetsWhatIsLongAgo(t *testing.T) {
	w := fragile(t)
	for asked := 500; asked > 0; asked -= 50 {
		w.report("c", need(t, 1, 4*int64(asked)))
		if c := w.step(); c.Disposition != shard.Execute {
			t.Fatalf("with %d machines asked for: %v", asked, c.Disposition)
		}
		w.stepAfter(11 * time.Minute)
	}
}

// TestBreakerOutlivesTheProcess: where it can be kept, by whoever takes back what is kept it is let go.
func TestBreakerOutlivesTheProcess(t *testing.T) {
	kept, fails := "", false
	w := fragile(t, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Switches = func() shard.Switches { return shard.Switches{Tripped: kept != ""} }
		d.Trip = func(why string) error {
			if fails {
				return errors.New("the disk is full")
			}
			kept = why
			return nil
		}
	})
	w.report("c")
	if w.step(); kept == "" {
		t.Fatal("nothing is kept")
	}
	w.restart()
	w.report("c", need(t, 1, 4))
	if c := w.step(); c.Disposition != shard.Tripped {
		t.Fatalf("after a restart it is %v", c.Disposition)
	}
	kept = "" // as ctl resume does
	if c := w.step(); c.Disposition != shard.Tripped || kept == "" {
		t.Errorf("499 are still too many: %v", c.Disposition)
	}
	w.report("c", need(t, 1, 4*495))
	kept = ""
	if c := w.step(); c.Disposition != shard.Execute || c.Counts[engine.Reclaim] != 5 {
		t.Errorf("after it was let go: %v, %v", c.Disposition, c.Counts)
	}
	fails = true
	w.report("c")
	if c := w.step(); c.Disposition != shard.Tripped {
		t.Errorf("where it cannot be kept it does not trip: %v", c.Disposition)
	}
	if c := w.step(); c.Disposition != shard.Tripped {
		t.Errorf("where it cannot be kept it does not stay: %v", c.Disposition)
	}
}

// TestAMoveWaitsForItsBudget: machines that another shard is to have are drained as the budget of
// Preempts lets them, and given together; that none can be drained now is no refusal.
func TestAMoveWaitsForItsBudget(t *testing.T) {
	w := newWorld(t, machines(30, model.Configured, "c"), bounded(func(c *shard.Config) { c.PreemptCapFraction = 0.1 }))
	w.report("c", need(t, 1, 120))
	w.step()
	var all []string
	for _, m := range machines(30, model.Configured, "c") {
		all = append(all, m.ID)
	}
	for _, x := range []struct {
		after               time.Duration
		draining, handOvers int
	}{{0, 0, 0}, {10 * time.Second, 20, 0}, {time.Second, 20, 0}, {10 * time.Second, 30, 0}, {time.Second, 30, 1}} {
		w.stepAfter(x.after)
		if err := w.shard.DrainAway(t.Context(), "move", all, 100); err != nil {
			t.Errorf("%d are to be on their way: %v", x.draining, err)
		}
		given, err := w.shard.HandOvers(t.Context())
		if got := 30 - w.shard.Count()[model.Configured]; got != x.draining || err != nil || len(given) != x.handOvers {
			t.Errorf("%d are on their way, want %d; given: %v, %v", got, x.draining, given, err)
		}
	}
}

// TestBreakerCountsWhatWasDone: calls that do not reach the provider take nothing away.
func TestBreakerCountsWhatWasDone(t *testing.T) {
	w := fragile(t, configured(func(c *shard.Config) { c.ReclaimCapFraction = 0.05 }))
	f := &failing{Provider: w.fleet, err: shard.ErrUnsent, left: 10 * 25}
	w.deps.Provider = f
	w.restart()
	w.report("c", need(t, 1, 4*450))
	for range 10 {
		if c := w.stepAfter(29 * time.Second); c.Disposition != shard.Execute || c.Counts[engine.Reclaim] != 25 {
			t.Fatalf("nothing was drained, and it is %v: %v", c.Disposition, c.Counts)
		}
	}
	w.report("c")
	lost := 0
	for range 10 {
		lost += w.step().Counts[engine.Reclaim]
	}
	if lost > 100 || lost < 80 || w.shard.Disposition() != shard.Tripped {
		t.Errorf("%d of 500 machines were reclaimed, want nearly 100; at the end: %v", lost, w.shard.Disposition())
	}
}

// TestBreakerKnowsTheFleetAsItWas: machines that were given back within the window belonged to the
// fleet of which they are a share.
func TestBreakerKnowsTheFleetAsItWas(t *testing.T) {
	ms := machines(500, model.Configured, "c")
	for i := range ms[:95] {
		ms[i].State, ms[i].Cluster, ms[i].CapacityType = model.Idle, "", model.Spot
	}
	w := newWorld(t, ms, configured(func(c *shard.Config) { c.BreakerShare, c.BreakerWindow = 0.2, 10*time.Minute }))
	w.report("c", need(t, 1, 4*405))
	deleted := 0
	for range 40 {
		c := w.step()
		if deleted += c.Counts[engine.Delete]; c.Disposition != shard.Execute {
			t.Fatalf("%d of 500 machines were given back, nothing more is to be, and it is %v", deleted, c.Disposition)
		}
	}
	if deleted != 95 {
		t.Errorf("%d machines were given back, want 95", deleted)
	}
}

// TestBreakerStaysWithoutSwitches: where nothing is read of what is kept, nobody has let go of it.
func TestBreakerStaysWithoutSwitches(t *testing.T) {
	w := fragile(t, func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Trip = func(string) error { return nil } })
	w.report("c")
	w.step()
	w.report("c", need(t, 1, 4*490))
	if c := w.step(); c.Disposition != shard.Tripped {
		t.Errorf("in the cycle after it has tripped it is %v", c.Disposition)
	}
}
