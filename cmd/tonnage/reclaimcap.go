package main

import (
	"math"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// capReclaims leaves out the Reclaims above rail 1's cap: of each cluster the
// first max(1, ⌊fraction × Configured⌋) stay. fraction 0 = no cap.
func capReclaims(actions []engine.Action, machines *supply.Table, fraction float64) []engine.Action {
	if fraction <= 0 {
		return actions
	}
	left := map[string]int{}
	for r := range machines.All() {
		if machines.State(r) == model.Configured {
			left[machines.Cluster(r)]++
		}
	}
	for c, n := range left {
		left[c] = max(1, int(math.Floor(fraction*float64(n)+1e-9)))
	}
	kept := make([]engine.Action, 0, len(actions))
	for _, a := range actions {
		if a.Kind == engine.Reclaim {
			c := machines.Cluster(a.Machine)
			if left[c] == 0 {
				continue
			}
			left[c]--
		}
		kept = append(kept, a)
	}
	return kept
}
