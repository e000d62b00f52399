package shard_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
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
