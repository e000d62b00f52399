package reference_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet/contract"
)

func TestContract(t *testing.T) { contract.Run(t, reference.Decide) }
