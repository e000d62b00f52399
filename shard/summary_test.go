package shard_test

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
)

// TestSummary: Idle and Speculative machines are counted apart.
func TestSummary(t *testing.T) {
	w := newWorld(t, slices.Concat(machines(1, model.Configured, "c1"), []model.Machine{
		machine("i-1", model.Idle, ""), machine("i-2", model.Idle, ""), machine("s-1", model.Speculative, ""),
	}))
	w.step()
	if got := w.shard.Summary(); got.Total != 4 || got.Idle != 2 || got.Speculative != 1 {
		t.Errorf("%+v", got)
	}
}
