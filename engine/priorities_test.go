package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/fleet"
)

// TestManyPrioritiesEqualReference: what is listed once for needs of one priority, and passed over by those of others, is what the
// reference finds for each.
func TestManyPrioritiesEqualReference(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	sizes := []fleet.Size{fleet.Tiny, fleet.Small, fleet.Small}
	for _, seed := range fleetSeeds(fleetsToTry()) {
		w := fleet.Prioritised(fleet.Random(seed, sizes[seed%int64(len(sizes))]), seed)
		switch seed % 5 {
		case 1:
			w = fleet.Shared(w, seed)
		case 2:
			w = fleet.Fitted(w, seed)
		case 3:
			w = overHosts(w, seed)
		}
		mustAgree(t, seed, w)
	}
}
