package rails

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
)

// TestActionsGoByRankNotByPhase: those of a Need by its rank, then those of nobody.
func TestActionsGoByRankNotByPhase(t *testing.T) {
	ranks := []int32{2, 0, 1}
	rank := func(need int) int32 { return ranks[need] }
	actions := []engine.Action{
		{Machine: 1, Kind: engine.Bootstrap, Need: 2}, {Machine: 2, Kind: engine.Bootstrap, Need: 0}, {Machine: 3, Kind: engine.Provision, Need: 0},
		{Machine: 4, Kind: engine.Preempt, Need: 1}, {Machine: 5, Kind: engine.Preempt, Need: 1}, {Machine: 6, Kind: engine.Reclaim, Need: -1}, {Machine: 7, Kind: engine.Delete, Need: -1},
	}
	var got []int
	for _, a := range ByRank(actions, rank) {
		got = append(got, int(a.Machine))
	}
	if want := []int{4, 5, 1, 2, 3, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
