package shard_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// gpu makes the first n machines offer one piece of something that there is little of.
func gpu(ms []model.Machine, n int) []model.Machine {
	for i := range ms[:n] {
		ms[i].Resources = model.NewResources(model.Amount{Name: "cpu", Value: 4}, model.Amount{Name: "gpu", Value: 1})
	}
	return ms
}

// TestNothingOfAFewPiecesIsHeld: none is less than a tenth, also of fewer than ten.
func TestNothingOfAFewPiecesIsHeld(t *testing.T) {
	w := newWorld(t, gpu(machines(20, model.Configured, "c"), 8))
	all := need(t, 1, 80)
	all.Aggregate = model.NewResources(model.Amount{Name: "cpu", Value: 80}, model.Amount{Name: "gpu", Value: 8})
	w.report("c", all)
	w.step()
	w.report("c", need(t, 1, 80))
	if c := w.step(); len(c.Held) != 1 {
		t.Error("all GPUs are given up, and the roll-up is not held")
	}

	w = newWorld(t, gpu(machines(20, model.Configured, "c"), 8))
	w.report("c") // of whose demand nothing is known
	if c := w.step(); len(c.Held) != 1 || c.Counts[engine.Reclaim] != 0 {
		t.Errorf("held: %v; %d machines are reclaimed", c.Held, c.Counts[engine.Reclaim])
	}
}

// TestMoreThanNothingIsNotHeld: a cluster that has asked for nothing, and whose machines are being
// reclaimed, asks for some of them.
func TestMoreThanNothingIsNotHeld(t *testing.T) {
	w := newWorld(t, machines(40, model.Configured, "c"), configured(func(c *shard.Config) { c.ReclaimCapFraction = 0.05 }))
	w.report("c", need(t, 1, 160))
	w.step()
	for range 3 {
		w.report("c")
		w.step()
	}
	if c := w.step(); len(c.Held) != 0 || c.Counts[engine.Reclaim] == 0 {
		t.Fatalf("after it was confirmed: held %v, %v", c.Held, c.Counts)
	}
	for _, n := range []int64{0, 1} {
		var rows []model.Need
		if n > 0 {
			rows = append(rows, need(t, 1, 4*n))
		}
		w.report("c", rows...)
		if c := w.step(); len(c.Held) != 0 {
			t.Errorf("%d machines are asked for after none, and the roll-up is held", n)
		}
	}
}

// TestARepeatOfWhatWasConfirmedIsConfirmed: the third roll-up in a row confirms, and a fourth that
// says the same comes before the cycle that takes it over; one that asks for still less is held.
func TestARepeatOfWhatWasConfirmedIsConfirmed(t *testing.T) {
	rows := func(n int, each int64) (out []model.Need) {
		for i := range n {
			out = append(out, need(t, int32(i+1), each))
		}
		return out
	}
	for _, x := range []struct {
		confirmed, last []model.Need
		held            int
	}{{nil, nil, 0}, {rows(1, 40), rows(1, 40), 0}, {rows(1, 40), rows(2, 40), 0}, {rows(1, 40), nil, 1}} {
		w := newWorld(t, machines(40, model.Configured, "c"))
		w.report("c", rows(20, 8)...)
		w.step()
		for range 3 {
			w.report("c", x.confirmed...)
			w.now += 9 * second
		}
		w.report("c", x.last...)
		if c := w.step(); len(c.Held) != x.held {
			t.Errorf("%d rows after %d rows were confirmed: held %v, want %d", len(x.last), len(x.confirmed), c.Held, x.held)
		}
	}
}
