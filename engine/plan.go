package engine

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
	// Need is the index into Plan.Needs of the Need that acts: the acquirer or
	// the preemptor; −1 for Reclaim and Delete. Of a fold it is the first
	// member in rank order.
	Need         int32
	GraceSeconds int32
	// PreemptorPriority is set for Preempt.
	PreemptorPriority int32
	Kind              Kind
	Reason            Reason
}

// Unmet says why a Need is not satisfied: the first reason that holds.
type Unmet uint8

// The reasons, in the order in which they are tried.
const (
	UnmetNone                Unmet = iota // satisfied
	UnmetParked                           // waited too long in vain, tried again later
	UnmetNoMatchingSupply                 // no machine in any usable state matches and covers the minimum unit
	UnmetAwaitingDrain                    // what is in flight for it covers the rest
	UnmetPreemptionExhausted              // victims were found, not enough of them
	UnmetTopology                         // no domain can hold it
	UnmetSpread                           // hard spread forbids the machines that are free
	UnmetPriorityStarved                  // others of higher rank hold what matches

	// NumUnmet is the number of reasons, UnmetNone included.
	NumUnmet = int(UnmetPriorityStarved) + 1
)

var unmetNames = [NumUnmet]string{"", "parked", "no_matching_supply", "awaiting_drain", "preemption_exhausted", "topology_unsatisfiable", "spread_unsatisfiable", "priority_starved"}

// String returns the reason's name as files and metrics spell it.
func (u Unmet) String() string { return unmetNames[u] }

// NeedResult is what became of one row of the demand. Members of a fold all
// carry the fold's own figures.
type NeedResult struct {
	// Cluster and Row identify the row in the demand table.
	Cluster string
	Row     int
	// Fold is the index, into Plan.Needs, of the first member in rank order of
	// the fold that the row is part of; its own index when it is not folded.
	Fold int32
	// Rank is the place in the order of the pass, from 0; members of a fold
	// share it.
	Rank int32
	// Folded tells whether the row is part of a fold. Profile and Group are
	// what the need is walked as, and stamped: the fold's own for a fold.
	Folded  bool
	Profile *model.Profile
	Group   string
	// Claimed are the machines attributed to the Need: credited first, then
	// acquired, each in the order in which they were picked.
	Claimed   []columnar.Row
	Bootstrap int32
	Provision int32
	Preempt   int32
	Deficit   model.Resources
	// InFlight is what drains for the Need, at most its deficit.
	InFlight  model.Resources
	Domain    string // the chosen value of the Same key
	Satisfied bool
	// CouldCover says that some domain could have covered a Same-Need at its
	// turn, or that what is held for it has chosen one: it should not be
	// parked. True for all other Needs.
	CouldCover bool
	// Awaiting says that what drains for the Need, this cycle's victims
	// included, covers its deficit.
	Awaiting bool
	Unmet    Unmet
}

// Stats are the facts of one cycle; the edges turn them into metrics.
type Stats struct {
	Machines    int
	Needs       int // rows of the demand
	Folded      int // Needs after folding
	Classes     int
	Satisfied   int
	Unsatisfied int
	Actions     [NumKinds]int
	// Probes counts the candidates that were looked at in phases 1 and 2.
	Probes int64
	// Durations in nanoseconds, filled only when the caller gives a clock.
	SnapshotNanos  int64
	NormaliseNanos int64
	RankNanos      int64
	Phase1Nanos    int64
	Phase2Nanos    int64
	Phase3Nanos    int64
}

// Plan is the answer of one cycle. It is valid until the engine's next cycle.
type Plan struct {
	// Actions in emission order: Bootstraps, Provisions, Preempts, Reclaims,
	// Deletes; within a kind by rank, then in the order they were picked.
	Actions []Action
	// Needs has one entry for each row of the demand table: clusters by id,
	// rows in their order.
	Needs []NeedResult
	// Ended are the machines whose reservation has come to its end: its owner
	// is gone, was satisfied otherwise, or lost the machine to a higher rank,
	// or the deadline has passed. The caller takes the stamp off before the
	// next cycle.
	Ended []columnar.Row
	Stats Stats

	claimed []uint64 // words of a dense set of rows
}

// Claimed reports whether a machine is attributed to a Need in this plan.
func (p *Plan) Claimed(r columnar.Row) bool {
	w := int(r >> 6)
	return w < len(p.claimed) && p.claimed[w]>>(r&63)&1 == 1
}
