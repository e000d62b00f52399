package reference_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/fleet/contract"
)

func TestContract(t *testing.T) {
	t.Run("OneByOne", func(t *testing.T) { contract.Run(t, reference.Decide) })
	t.Run("Gangs", func(t *testing.T) { contract.RunGangs(t, reference.Decide) })
	t.Run("Nested", func(t *testing.T) { contract.RunNested(t, reference.Decide) })
}

func TestRandomFleets(t *testing.T) {
	contract.RunRandom(t, reference.Decide, fleet.Tiny, 0, 3000)
	contract.RunRandom(t, reference.Decide, fleet.Small, 0, 200)
	contract.RunRandom(t, reference.Decide, fleet.Medium, 0, 5)
}
