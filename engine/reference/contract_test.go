package reference_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/fleet/contract"
)

func TestContract(t *testing.T) { contract.Run(t, reference.Decide) }

func TestRandomFleets(t *testing.T) {
	contract.RunRandom(t, reference.Decide, fleet.Tiny, 0, 3000)
	contract.RunRandom(t, reference.Decide, fleet.Small, 0, 200)
	contract.RunRandom(t, reference.Decide, fleet.Medium, 0, 5)
}
