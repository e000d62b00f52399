package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard"
)

func TestReclaimCap(t *testing.T) {
	for _, x := range []struct {
		fraction   float64
		configured int
		want       int
	}{{0.05, 0, 1}, {0.05, 1, 1}, {0.05, 39, 1}, {0.05, 40, 2}, {0.05, 100, 5}, {0.29, 100, 29}, {0.25, 30, 7}, {1, 12, 12}, {0.07, 100, 7}} {
		if got := shard.ReclaimCap(x.fraction, x.configured); got != x.want {
			t.Errorf("%v of %d: got %d, want %d", x.fraction, x.configured, got, x.want)
		}
	}
}

// fullTable holds 40 machines of c1 and 3 of c2.
func fullTable(t *testing.T) *supply.Table {
	t.Helper()
	s := supply.New()
	put := func(n int, cluster string) {
		for i := range n {
			m := machine(fmt.Sprintf("%s-%02d", cluster, i), model.Configured, cluster)
			if err := s.Put(&m); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(40, "c1")
	put(3, "c2")
	return s
}

func TestCapKeepsTheHeadOfEachClustersReclaims(t *testing.T) {
	s := fullTable(t)
	var actions []engine.Action
	for i, r := range slices.Collect(s.All()) {
		kind := engine.Reclaim
		if i%10 == 9 {
			kind = engine.Preempt
		}
		actions = append(actions, engine.Action{Machine: r, Kind: kind, Need: -1})
	}
	before := slices.Clone(actions)
	kept, held := shard.CapReclaims(actions, s, 0.05)
	var got []string
	for _, a := range kept {
		got = append(got, a.Kind.String()+" "+s.ID(a.Machine))
	}
	want := []string{
		"Reclaim c1-00", "Reclaim c1-01", "Preempt c1-09", "Preempt c1-19", "Preempt c1-29", "Preempt c1-39", "Reclaim c2-00",
	}
	if !slices.Equal(got, want) || held != 43-len(want) {
		t.Errorf("kept %v, held %d; want %v", got, held, want)
	}
	if !slices.Equal(actions, before) {
		t.Error("the plan's own actions were changed")
	}
	if kept, held := shard.CapReclaims(actions, s, 0); len(kept) != 43 || held != 0 {
		t.Errorf("with the cap off: kept %d, held %d", len(kept), held)
	}
}

// TestCapSpreadsAShrinkage: the rest is derived anew, a cycle at a time, and no
// extra cycle is asked for.
func TestCapSpreadsAShrinkage(t *testing.T) {
	w := newWorld(t, machines(40, model.Configured, "c1"), configured(func(c *shard.Config) { c.ReclaimCapFraction, c.Quarantine = 0.25, false }))
	w.report("c1")
	var got []int
	for range 15 {
		c := w.step()
		got = append(got, c.Counts[engine.Reclaim])
		if c.FollowUp {
			t.Error("a follow-up cycle was asked for")
		}
	}
	if want := []int{10, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("reclaims per cycle: got %v, want %v", got, want)
	}
}

func TestPauseAndDryRunDecideAndDoNothing(t *testing.T) {
	for _, x := range []struct {
		paused, dryRun bool
		want           shard.Disposition
	}{{true, false, shard.Paused}, {false, true, shard.DryRun}, {true, true, shard.Paused}} {
		w := newWorld(t, append(machines(4, model.Idle, ""), machine("k", model.Configured, "c2")), configured(func(c *shard.Config) {
			c.Paused, c.DryRun, c.MaxActionsPerCycle, c.ReclaimCapFraction = x.paused, x.dryRun, 1, 0.05
		}))
		w.report("c1", need(t, 1, 16))
		w.report("c2")
		for range 3 {
			c := w.step()
			if c.Disposition != x.want || len(c.Started) != 0 || c.Suppressed[engine.Bootstrap] != 4 || c.Suppressed[engine.Reclaim] != 1 {
				t.Fatalf("paused %v, dry run %v: %v, started %d, suppressed %v", x.paused, x.dryRun, c.Disposition, len(c.Started), c.Suppressed)
			}
			if c.Cut != 0 || c.FollowUp {
				t.Error("the limit of a cycle counts what is not carried out")
			}
		}
		for id, want := range map[string]model.State{"m-00": model.Idle, "k": model.Configured} {
			if m := w.get(id); m.State != want || m.Reservation.Active() {
				t.Errorf("%s is %s, reserved %v", id, m.State, m.Reservation.Active())
			}
		}
	}
}

func TestResumeCarriesOut(t *testing.T) {
	w := newWorld(t, machines(2, model.Idle, ""), configured(func(c *shard.Config) { c.Paused = true }))
	w.report("c1", need(t, 1, 8))
	w.step()
	w.shard.SetPaused(false)
	if c := w.step(); c.Counts[engine.Bootstrap] != 2 {
		t.Errorf("after the pause: %v", c.Counts)
	}
}

// TestLimitCutsInRankOrder: the Preempts of the highest Need go before the
// Bootstraps of a lower one, and a further cycle is asked for.
func TestLimitCutsInRankOrder(t *testing.T) {
	var ms []model.Machine
	for _, id := range []string{"v-1", "v-2"} {
		m := machine(id, model.Configured, "low")
		m.Labels = map[string]string{"pool": "x"}
		ms = append(ms, m)
	}
	ms = append(ms, machines(4, model.Idle, "")...)
	w := newWorld(t, ms, configured(func(c *shard.Config) { c.MaxActionsPerCycle = 2 }))
	inPool := func(n model.Need, op model.Operator) model.Need {
		n.Profile = profile(t, model.ProfileSpec{Priority: n.Profile.Priority(), Requirements: []model.Requirement{{Key: "pool", Operator: op}}})
		return n
	}
	w.report("low", inPool(need(t, 1, 8), model.Exists))
	w.report("top", inPool(need(t, 900, 8), model.Exists))
	w.report("mid", inPool(need(t, 50, 16), model.DoesNotExist))
	c := w.step()
	if c.Counts[engine.Preempt] != 2 || len(c.Started) != 2 || c.Cut != 4 || !c.FollowUp {
		t.Errorf("started %v, cut %d, follow-up %v", c.Started, c.Cut, c.FollowUp)
	}
}
