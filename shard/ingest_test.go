package shard_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// rows are n needs of one machine each.
func rows(t *testing.T, n int) (out []model.Need) {
	for i := range n {
		x := need(t, 100, 4)
		x.Group = fmt.Sprint("g", i)
		out = append(out, x)
	}
	return out
}

func TestRefusedRollupLeavesTheLastGoodDemand(t *testing.T) {
	w := newWorld(t, machines(2, model.Configured, "c1"))
	w.report("c1", need(t, 1, 8))
	for what, bad := range map[string]struct {
		cluster string
		rows    []model.Need
	}{
		"no cluster":              {"", rows(t, 1)},
		"no profile":              {"c1", []model.Need{{Aggregate: cpu(1)}}},
		"another cluster":         {"c1", []model.Need{{Cluster: "c2", Profile: need(t, 1, 1).Profile}}},
		"minimum above the whole": {"c1", []model.Need{{Profile: need(t, 1, 1).Profile, Aggregate: cpu(1), MinAggregate: cpu(2)}}},
		"nameless dim":            {"c1", []model.Need{{Profile: need(t, 1, 1).Profile, Aggregate: model.Resources{{Name: "", Value: 1}}}}},
	} {
		if outcome, err := w.shard.ApplyRollup(bad.cluster, bad.rows, w.now); err == nil || outcome != shard.RollupRefused {
			t.Errorf("%s: %v and %v", what, outcome, err)
		}
	}
	if got := w.steps(3); len(got) != 0 {
		t.Errorf("the last good demand is covered, but: %v", got)
	}
}

func TestQuarantine(t *testing.T) {
	for _, x := range []struct {
		name     string
		accepted int
		rollups  []int // rows of each
		want     []shard.RollupOutcome
	}{
		{"below ten rows nothing is suspicious", 9, []int{0}, []shard.RollupOutcome{shard.RollupAccepted}},
		{"a tenth is enough", 20, []int{2}, []shard.RollupOutcome{shard.RollupAccepted}},
		{"less than a tenth is held twice", 20, []int{1, 0, 1}, []shard.RollupOutcome{shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted}},
		{"a normal one resets", 10, []int{0, 0, 10, 0, 0, 0}, []shard.RollupOutcome{
			shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted, shard.RollupHeld, shard.RollupHeld, shard.RollupAccepted}},
	} {
		w := newWorld(t, nil)
		w.report("c1", rows(t, x.accepted)...)
		for i, n := range x.rollups {
			got := w.report("c1", rows(t, n)...)
			if got != x.want[i] {
				t.Errorf("%s: roll-up %d with %d rows: got %v, want %v", x.name, i, n, got, x.want[i])
			}
			if held := slices.Contains(w.shard.Held(), "c1"); held != (got == shard.RollupHeld) {
				t.Errorf("%s: roll-up %d: held %v", x.name, i, held)
			}
		}
	}
}

func TestQuarantineCanBeOff(t *testing.T) {
	w := newWorld(t, nil, configured(func(c *shard.Config) { c.Quarantine = false }))
	w.report("c1", rows(t, 20)...)
	if got := w.report("c1"); got != shard.RollupAccepted {
		t.Errorf("got %v", got)
	}
}

// TestRowsThatGoOnKeepTheirArrival: a roll-up's new time stamp does not make a
// row younger, nor a cycle look at it again.
func TestRowsThatGoOnKeepTheirArrival(t *testing.T) {
	var arrivals []int64
	var version uint64
	w := newWorld(t, nil, func(_ *shard.Config, d *shard.Deps, _ *provCfg) {
		d.Decided = func(in engine.Input, _ *engine.Plan) {
			arrivals, version = slices.Clone(in.Demand.Block("c1").Arrivals()), in.Demand.Version()
		}
	})
	at := func(arrival int64, groups ...string) (out []model.Need) {
		for _, g := range groups {
			n := need(t, 100, 4)
			n.Group, n.Arrival = g, arrival
			out = append(out, n)
		}
		return out
	}
	w.report("c1", at(10, "a", "b")...)
	w.step()
	before := version
	w.report("c1", at(20, "a", "b")...)
	w.step()
	if !slices.Equal(arrivals, []int64{10, 10}) || version != before {
		t.Errorf("the same again: arrived at %v, version %d, was %d", arrivals, version, before)
	}
	w.report("c1", at(30, "b", "new")...)
	w.step()
	if !slices.Equal(arrivals, []int64{10, 30}) {
		t.Errorf("one went, one came: arrived at %v", arrivals)
	}
}

// TestNothingIsReclaimedBeforeTheFirstReport: also a cluster that reports
// nothing has reported, and a held roll-up opens the gate too.
func TestNothingIsReclaimedBeforeTheFirstReport(t *testing.T) {
	w := newWorld(t, machines(2, model.Configured, "c1"))
	if got := w.steps(5); len(got) != 0 {
		t.Fatalf("before any report: %v", got)
	}
	w.report("c1")
	if c := w.step(); c.Counts[engine.Reclaim] != 2 {
		t.Errorf("after an empty report: %v", c.Counts)
	}
}

func TestHeldRollupOpensTheGate(t *testing.T) {
	w := newWorld(t, append(machines(10, model.Configured, "c1"), machine("x", model.Configured, "c1")))
	if err := w.shard.LoadDemand("c1", rows(t, 10)); err != nil {
		t.Fatal(err)
	}
	if got := w.steps(3); len(got) != 0 {
		t.Fatalf("demand of a file is no report: %v", got)
	}
	if got := w.report("c1"); got != shard.RollupHeld {
		t.Fatalf("got %v", got)
	}
	c := w.step()
	if c.Counts[engine.Reclaim] != 1 || !slices.Equal(c.Held, []string{"c1"}) {
		t.Errorf("the eleventh machine is excess: %v, held %v", c.Counts, c.Held)
	}
}
