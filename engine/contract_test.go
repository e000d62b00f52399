package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet/contract"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestContract holds the engine to the contract, sentence by sentence.
func TestContract(t *testing.T) {
	contract.Run(t, func(in reference.Input) reference.Plan {
		plan, err := twin.Decide(in)
		if err != nil {
			t.Error(err)
		}
		return plan
	})
}
