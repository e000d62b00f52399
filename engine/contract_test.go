package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet/contract"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestContract holds the engine to the contract, sentence by sentence.
func TestContract(t *testing.T) {
	decide := func(in reference.Input) reference.Plan {
		plan, err := twin.Decide(in)
		if err != nil {
			t.Error(err)
		}
		return plan
	}
	t.Run("OneByOne", func(t *testing.T) { contract.Run(t, decide) })
	t.Run("Gangs", func(t *testing.T) { contract.RunGangs(t, decide) })
	t.Run("Nested", func(t *testing.T) { contract.RunNested(t, decide) })
}
