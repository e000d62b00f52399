// Package plan has the plain types of a cycle: its input, its options, the actions and figures of its
// answer. They hold no state of the engine, which gives them its own names for its callers.
package plan

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Kind is what an action does to a machine.
type Kind uint8

// The kinds, in the order in which a plan emits them.
const (
	Bootstrap Kind = iota // bind an Idle machine to the Need's cluster
	Provision             // create a Speculative machine for the Need
	Preempt               // drain a machine of another cluster for the Need
	Reclaim               // drain a machine that no demand claims
	Delete                // give an idle machine back to the provider

	// NumKinds is the number of kinds.
	NumKinds = int(Delete) + 1
)

var kindNames = [NumKinds]string{"Bootstrap", "Provision", "Preempt", "Reclaim", "Delete"}

// String returns the kind's name as files and metrics spell it.
func (k Kind) String() string { return kindNames[k] }

// Reason says which rule emitted an action.
type Reason uint8

// The reasons of actions.
const (
	ReasonIdle        Reason = iota // phase1.idle
	ReasonSpeculative               // phase1.speculative
	ReasonPreempt                   // phase2.preempt
	ReasonExcess                    // phase3.excess
	ReasonRelease                   // phase3.release
)

var reasonNames = [...]string{"phase1.idle", "phase1.speculative", "phase2.preempt", "phase3.excess", "phase3.release"}

// String returns the reason's name as files spell it.
func (r Reason) String() string { return reasonNames[r] }

// Action is one step of a plan. A machine has at most one action in a plan.
type Action struct {
	Machine columnar.Row
	// Need is the number of the row that acquires or preempts, as Plan.Need takes it; −1 for Reclaim
	// and Delete. For a fold it is its first row in rank order.
	Need         int32
	GraceSeconds int32
	// PreemptorPriority is set for Preempt.
	PreemptorPriority int32
	Kind              Kind
	Reason            Reason
	// Plan is the id of the plan of preemption to which a Preempt belongs, 0 = none. The Preempts of a
	// plan are adjacent. The caller executes all of them or none.
	Plan uint64
}

// Reserved is a machine that a plan of preemption counts on: a victim that the Need will use, an Idle
// machine, or one that is being reclaimed anyway. The caller stamps all machines of a plan when it
// accepts the plan, not before.
type Reserved struct {
	Machine columnar.Row
	Need    int32 // as in Action
	// GraceSeconds is the longest grace of the plan.
	GraceSeconds int32
	// Reservation is what to stamp on the machine. Its deadline is the plan's. A victim's has none: it
	// gets one when the machine turns Idle.
	Reservation model.Reservation
}

// Adopted is a bound machine and the Need that it is credited to.
type Adopted struct {
	Machine columnar.Row
	Need    int32 // as in Action
}
