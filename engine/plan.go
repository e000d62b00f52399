package engine

import (
	"unsafe"

	"github.com/tonnage/tonnage/alloc"
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

// Unmet says why a Need is not satisfied: the first reason that applies.
type Unmet uint8

// The reasons, in the order in which they are tested.
const (
	UnmetNone                Unmet = iota // satisfied
	UnmetParked                           // parked: it waited too long, and is tried again later
	UnmetNoMatchingSupply                 // some wanted resource is offered by no machine that matches and fits
	UnmetAwaitingDrain                    // what drains for it covers the rest
	UnmetPreemptionExhausted              // phase 2 found victims, but not enough
	UnmetTopology                         // no domain could hold it, even without other claims
	UnmetSpread                           // hard spread forbade free machines
	UnmetInsufficientSupply               // all matching machines are not enough, even without other claims
	UnmetPriorityStarved                  // Needs of higher rank hold the matching machines

	// NumUnmet is the number of reasons, UnmetNone included.
	NumUnmet = int(UnmetPriorityStarved) + 1
)

var unmetNames = [NumUnmet]string{"", "parked", "no_matching_supply", "awaiting_drain", "preemption_exhausted", "topology_unsatisfiable", "spread_unsatisfiable", "insufficient_supply", "priority_starved"}

// String returns the reason's name as files and metrics spell it.
func (u Unmet) String() string { return unmetNames[u] }

// NeedResult is the outcome for one row of the demand. All members of a fold carry the figures of the
// fold.
type NeedResult struct {
	// Cluster and Row identify the row in the demand table.
	Cluster string
	Row     int
	// Fold is the number of the row after which the row's fold is named: the fold's first in rank
	// order. It is the row's own number if the row is not folded.
	Fold int32
	// Rank is the place in the rank order of Needs, from 0; members of a fold share it.
	Rank int32
	// Folded says that the row is part of a fold. Profile and Group are then the fold's: the row is
	// decided, and its machines are stamped, with these.
	Folded  bool
	Profile *model.Profile
	Group   string
	// Claimed are the machines attributed to the Need: credited ones, then acquired ones, each in the
	// order in which they were picked.
	Claimed   []columnar.Row
	Bootstrap int32
	Provision int32
	Preempt   int32
	Deficit   model.Resources
	// InFlight is what drains for the Need, capped at its deficit.
	InFlight  model.Resources
	Domain    string // the chosen value of the Same key
	Satisfied bool
	// CouldCover is false for a Same-Need that no domain could cover at its turn, unless a reservation
	// pinned its domain; only such a Need should be parked. It is true for all other Needs.
	CouldCover bool
	// Awaiting says that what drains for the Need, victims of this cycle included, covers its deficit.
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
	Unoffered   int // rows that ask for a resource that no machine offers
	Actions     [NumKinds]int
	// Full says that the cycle built on nothing. Checked says that an incremental answer was compared
	// with one from nothing. Differs says that the two were not equal, which is a fault of the engine.
	Full, Checked, Differs bool
	// Credited counts the Needs whose credit was computed: all of them if Full, else those that the
	// changes since the last cycle may concern.
	Credited int
	CreditCounts
	// Clusters counts the clusters with rows or machines, ClustersCredited those in which the credit of
	// some Need was computed. The others keep the credit of the last cycle.
	Clusters, ClustersCredited int
	// Adopted counts the machines of Plan.Adopted, each once: their stamps change, since they serve
	// another Need of their cluster.
	Adopted int
	PlanCounts
	// SearchPairs counts the pairs of a Same-Need and a domain that could hold it, SearchUnits the
	// machines that could be freed there. SearchEnded says that one of them reached its bound in
	// Options, so that Same-Needs of lower rank made no plan.
	SearchPairs, SearchUnits int
	SearchEnded              bool
	// Probes counts the candidates that phases 1 and 2 looked at.
	Probes int64
	AcquireCounts
	// Durations in nanoseconds; 0 without Input.Clock.
	SnapshotNanos  int64
	NormaliseNanos int64
	RankNanos      int64
	Phase1Nanos    int64
	Phase2Nanos    int64
	Phase3Nanos    int64
}

// AcquireCounts says how Needs came to free machines. Counters of conflicts are 0 outside of tests:
// Needs have their turns in rank order.
type AcquireCounts struct {
	// Proposals counts the turns of Needs in acquisition.
	Proposals int64
	// Retries counts the repeated turns, of Needs that had lost a machine.
	Retries int64
	// Conflicts counts the machines that a Need of higher rank had claimed meanwhile, Displacements
	// those that were taken over from a lower rank.
	Conflicts, Displacements int64
	// RetriesExhausted counts the Needs that lost machines too often, and were decided in their turn.
	RetriesExhausted int64
	// Timed counts, by mode, the proposals that were timed, a sample; TimedNanos is the time that these
	// took.
	Timed, TimedNanos [NumProposeModes]int64
}

// ProposeMode is how a Need acquires machines.
type ProposeMode uint8

// The modes.
const (
	ProposeOneByOne ProposeMode = iota // machine by machine, until the Need is covered
	ProposeWhole                       // a Same-Need in one domain

	// NumProposeModes is the number of modes.
	NumProposeModes = int(ProposeWhole) + 1
)

var proposeModeNames = [NumProposeModes]string{"incremental", "all_or_nothing"}

// String returns the mode's name as metrics spell it.
func (m ProposeMode) String() string { return proposeModeNames[m] }

func (c *AcquireCounts) add(x *AcquireCounts) {
	c.Proposals += x.Proposals
	c.Retries += x.Retries
	c.Conflicts += x.Conflicts
	c.Displacements += x.Displacements
	c.RetriesExhausted += x.RetriesExhausted
	for m := range c.Timed {
		c.Timed[m] += x.Timed[m]
		c.TimedNanos[m] += x.TimedNanos[m]
	}
}

// Plan is the answer of one cycle. It is valid until the engine's next cycle; what it says of Needs is
// valid until the tables change.
type Plan struct {
	// Actions in emission order: Bootstraps, Provisions, Preempts, Reclaims, Deletes. Bootstraps,
	// Provisions and Preempts are sorted by rank, then in the order in which they were picked.
	Actions []Action
	// Ended are the machines whose reservation ends: its owner is gone, was satisfied by other
	// machines, no longer needs it, or lost the machine to a higher rank; or the deadline has passed,
	// in a plan that of all machines. The caller removes the reservation before the next cycle.
	Ended []columnar.Row
	// Reservations are what the plans of this cycle reserve, with VictimsGang: by the Need's rank, then
	// by id. A machine that is reserved again may stand in Ended too; the new reservation counts. A
	// machine that a plan preempts but does not use is not reserved.
	Reservations []Reserved
	// Adopted are machines that serve another Need of their cluster than the one whose stamp they
	// carry. The caller stamps them before the next cycle, which makes them that Need's own. It lists
	// only machines of Needs that were credited in this cycle (Stats.Credited), in no order; a machine
	// may occur more than once.
	Adopted []Adopted
	Stats   Stats

	pass *pass
}

// Memory returns the memory of the plan's lists, which the next plan reuses. What a plan says of Needs
// lies in the engine's working memory; see Engine.Memory.
func (p *Plan) Memory() (u alloc.Usage) {
	count := func(size uintptr, used, held int) {
		u.Used += int64(size) * int64(used)
		u.Reserved += int64(size) * int64(held)
	}
	count(unsafe.Sizeof(Action{}), len(p.Actions), cap(p.Actions))
	count(unsafe.Sizeof(columnar.Row(0)), len(p.Ended), cap(p.Ended))
	count(unsafe.Sizeof(Reserved{}), len(p.Reservations), cap(p.Reservations))
	count(unsafe.Sizeof(Adopted{}), len(p.Adopted), cap(p.Adopted))
	return u
}

// Claimed reports whether a machine is attributed to a Need in this plan.
func (p *Plan) Claimed(r columnar.Row) bool {
	return p.pass != nil && int(r) < len(p.pass.held) && p.pass.claimed(r)
}

// Breaks reports whether the plan's Preempts leave the Need that claims the machine with less than its
// minimum. O(machines of the Need).
func (p *Plan) Breaks(r columnar.Row) bool { return p.Claimed(r) && p.pass.breaks(p.pass.held[r].need) }

// Len returns the number of rows of the demand. Rows are numbered by cluster id, then in the cluster's
// order.
func (p *Plan) Len() int {
	if p.pass == nil {
		return 0
	}
	return p.pass.rows
}

// Need returns the outcome for a row, 0 ≤ i < Len. O(machines claimed).
func (p *Plan) Need(i int) NeedResult { return p.pass.result(p.pass.rowAt(i)) }

// Identity returns the cluster and the row that a number stands for.
func (p *Plan) Identity(i int) (cluster string, row int) {
	n := &p.pass.lines[p.pass.rowAt(i)]
	return p.pass.s.Clusters[n.cluster], i - int(p.pass.sources[n.cluster].outer)
}

// Satisfied reports whether a row has everything that it asks for.
func (p *Plan) Satisfied(i int) bool { return p.pass.isMet(p.pass.needAt(i)) }

// Rank returns a row's place in the rank order of Needs.
func (p *Plan) Rank(i int) int32 { return p.pass.rankOf[p.pass.needAt(i)] }

// Fold returns the number of the row after which the row's fold is named; its own number if it is not
// folded.
func (p *Plan) Fold(i int) int32 { return p.pass.named(p.pass.needAt(i)) }

// Unmet says why a row is not satisfied. What all machines could give is computed on first use and
// memoized for the cycle: once for each kind and, for rows with Same, once for each key in O(machines).
func (p *Plan) Unmet(i int) Unmet { return p.pass.unmet(p.pass.needAt(i)) }

// AwaitsDrain reports whether Unmet is UnmetAwaitingDrain; it is cheaper where the answer is no.
func (p *Plan) AwaitsDrain(i int) bool {
	need := p.pass.needAt(i)
	return p.pass.lines[need].is(isAwaiting) && p.pass.unmet(need) == UnmetAwaitingDrain
}

// Profile returns the profile as which a row is decided: its own or its fold's.
func (p *Plan) Profile(i int) *model.Profile { return p.pass.kindOf(p.pass.needAt(i)).profile }

// Suits reports whether machines of a class cover a row's minimum unit and offer something that it
// wants. It does not test the row's requirements.
func (p *Plan) Suits(i int, class uint32) bool {
	return p.pass.suits(class, p.pass.kindOf(p.pass.needAt(i)))
}

// Stamp returns the stamp for machines that serve a row; for a row in a fold, the fold's.
func (p *Plan) Stamp(i int) model.Assignment {
	need := p.pass.needAt(i)
	x := p.pass.kindOf(need).profile
	return model.Assignment{
		Priority: x.Priority(), Interruption: x.Interruption(), Reclamation: x.Reclamation(),
		Fingerprint: x.Fingerprint(), Group: p.pass.groupName(need),
	}
}

// CouldCover returns NeedResult.CouldCover of a row.
func (p *Plan) CouldCover(i int) bool { return p.pass.couldCover(p.pass.at(i)) }

// Dims returns the names of the dimensions of AddDeficit's vector.
func (p *Plan) Dims() []string { return p.pass.s.Dims[:p.pass.dims] }

// Unoffered returns what a row asks for under names that no machine offers, for which AddDeficit has no
// dimension; mostly nil.
func (p *Plan) Unoffered(i int) model.Resources { return p.pass.unoffered(p.pass.needAt(i)).Aggregate }

// AddDeficit adds what a row lacks to a vector over Dims. Sums saturate.
func (p *Plan) AddDeficit(sum []int64, i int) { p.pass.addDeficit(sum, p.pass.needAt(i)) }
