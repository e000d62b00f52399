package records

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
)

// ActionExplanation says why an action chose its machine.
type ActionExplanation struct {
	// Price is the machine's price. EffectiveCost is what a Speculative machine costs the Need: +Inf if
	// the Need is pinned and the machine may be interrupted. For other machines it is the price.
	Price         float64
	EffectiveCost float64
	// plan.Reserved says that the machine was held for the Need.
	Reserved bool
	// The terms of a victim's score, weighted, and their sum.
	Gap, Drain, Interruption, Reclamation, Score float64
	// Excess says that no Need claimed the victim.
	Excess bool
	// Holder is the number of the Need that the victim served, −1 = none.
	Holder int32
	// Acquired says why a plan.Bootstrap or a plan.Provision takes this machine; nil for other actions.
	Acquired *AcquiredExplanation
	// IdleSeconds is how long a deleted machine has been idle.
	IdleSeconds float64
}

// AcquiredExplanation says why a Need acquired a free machine.
type AcquiredExplanation struct {
	// Rule is the rule of acquisition.
	Rule plan.AcquireRule
	// Covers is the part of the Need that the machine covers, 0 to 1, by dimension of the aggregate.
	Covers []CoveredPart
	// RunnerUp is the machine that would have been taken in its place at the least cost: free for the Need at
	// its turn, in the same state, of another price or size, and covering the Need together with the Need's
	// others. Cost is what it costs the Need, in dollars an hour. None = there is none, or none among
	// the first few thousand machines that could be it.
	RunnerUp     columnar.Row
	RunnerUpCost float64
}

// CoveredPart is how much of a dimension is covered, in parts of what the Need asks for.
type CoveredPart struct {
	Name string
	Part float64
}
