package units

import (
	"cmp"

	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/records"
)

// Explain returns the cost as explanations have it.
func (a *PlanCost) Explain() records.PlanCost {
	x := records.PlanCost{Gangs: a.Gangs, Machines: a.Machines, Destroyed: float64(a.Destroyed) / exact.ThetaSteps, GraceSeconds: a.Grace}
	if a.Paid {
		x.Band = 0 - a.Band
	}
	return x
}

// PlanCost is what a plan destroys, in the order of comparison. Excess, and machines that
// another plan of this cycle has broken off, cost nothing.
type PlanCost struct {
	// Paid: at least one unit is not excess
	Paid      bool
	Band      float64 // of the worst unit: the largest −⌊S/δ⌋
	Gangs     int     // gangs broken
	Machines  int     // drained, or left with a broken gang
	Destroyed int64   // Σ global/aggregate, in steps of θ
	Grace     int32   // the longest, in seconds
}

// Compare orders costs field by field, the smaller first.
func (a *PlanCost) Compare(b *PlanCost) int {
	if a.Paid != b.Paid {
		return exact.TrueFirst(b.Paid, a.Paid)
	}
	return cmp.Or(
		cmp.Compare(a.Band, b.Band), cmp.Compare(a.Gangs, b.Gangs), cmp.Compare(a.Machines, b.Machines),
		cmp.Compare(a.Destroyed, b.Destroyed), cmp.Compare(a.Grace, b.Grace),
	)
}
