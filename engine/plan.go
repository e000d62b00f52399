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
	// Need is the number of the Need that acts, as Plan.Need takes it: the acquirer or
	// the preemptor; −1 for Reclaim and Delete. Of a fold it is the first
	// member in rank order.
	Need         int32
	GraceSeconds int32
	// PreemptorPriority is set for Preempt.
	PreemptorPriority int32
	Kind              Kind
	Reason            Reason
	// Plan is the id of the plan of preemption that a Preempt is part of, 0 =
	// none. The Preempts of a plan are carried out together or not at all, and
	// stand together.
	Plan uint64
}

// Reserved is a machine that a plan of preemption counts on: a victim that the
// Need will use, an Idle machine, or one that is reclaimed anyway. What a plan
// holds is stamped when it is accepted, whole, and not before.
type Reserved struct {
	Machine columnar.Row
	Need    int32 // as in Action
	// GraceSeconds is the longest grace of the plan.
	GraceSeconds int32
	// Reservation is what to stamp on the machine. Its deadline is the plan's; a victim
	// has none, and gets one when it turns Idle.
	Reservation model.Reservation
}

// Adopted is a bound machine and the Need that it is credited to.
type Adopted struct {
	Machine columnar.Row
	Need    int32 // as in Action
}

// Unmet says why a Need is not satisfied: the first reason that holds.
type Unmet uint8

// The reasons, in the order in which they are tried.
const (
	UnmetNone                Unmet = iota // satisfied
	UnmetParked                           // waited too long in vain, tried again later
	UnmetNoMatchingSupply                 // of what matches and covers the minimum unit, nothing holds some resource that is wanted
	UnmetAwaitingDrain                    // what is in flight for it covers the rest
	UnmetPreemptionExhausted              // victims were found, not enough of them
	UnmetTopology                         // no domain could hold it, even with nobody else's claims
	UnmetSpread                           // hard spread forbade the machines that were free
	UnmetInsufficientSupply               // all that matches is not enough, even with nobody else's claims
	UnmetPriorityStarved                  // others of higher rank hold what matches

	// NumUnmet is the number of reasons, UnmetNone included.
	NumUnmet = int(UnmetPriorityStarved) + 1
)

var unmetNames = [NumUnmet]string{"", "parked", "no_matching_supply", "awaiting_drain", "preemption_exhausted", "topology_unsatisfiable", "spread_unsatisfiable", "insufficient_supply", "priority_starved"}

// String returns the reason's name as files and metrics spell it.
func (u Unmet) String() string { return unmetNames[u] }

// NeedResult is what became of one row of the demand. Members of a fold all
// carry the fold's own figures.
type NeedResult struct {
	// Cluster and Row identify the row in the demand table.
	Cluster string
	Row     int
	// Fold is the number of the row that comes first in rank order in the fold
	// that the row is part of; its own number when it is not folded.
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
	Unoffered   int // rows that ask for a resource that no machine offers
	Actions     [NumKinds]int
	// Full says that nothing of the cycle before was built upon; Checked, that
	// an answer which did build on it was compared with one that does not;
	// Differs, that the two were not the same: a fault of the engine.
	Full, Checked, Differs bool
	// Credited counts the Needs whose credit was worked out: all of them when
	// Full, else those that the changes since the cycle before may concern.
	Credited int
	// Clusters are those that have rows or machines; ClustersCredited counts those of which some Need's
	// credit was worked out. What the others were credited was taken over from the cycle before.
	Clusters, ClustersCredited int
	// Adopted counts the machines whose stamp changes since they serve another Need of
	// their cluster: those of Plan.Adopted, each once.
	Adopted int
	PlanCounts
	// SearchPairs counts the pairs of a Same-Need and a domain that could hold it, SearchUnits the machines that were
	// offered there; SearchEnded says that one of them is as large as Options.SearchPairs or Options.SearchUnits allows,
	// so that Same-Needs of lower rank made no plan.
	SearchPairs, SearchUnits int
	SearchEnded              bool
	// Probes counts the candidates that were looked at in phases 1 and 2.
	Probes int64
	AcquireCounts
	// Durations in nanoseconds, filled only when the caller gives a clock.
	SnapshotNanos  int64
	NormaliseNanos int64
	RankNanos      int64
	Phase1Nanos    int64
	Phase2Nanos    int64
	Phase3Nanos    int64
}

// AcquireCounts say how needs came to free machines. All but Proposals are 0
// where they have their turns in rank order, as they always do outside of tests.
type AcquireCounts struct {
	// Proposals counts the walks of needs over free machines.
	Proposals int64
	// Retries counts those of them by needs that had walked before, and had lost a machine.
	Retries int64
	// Conflicts counts the machines that somebody of higher rank had claimed
	// meanwhile; Displacements, those that were taken over from a lower rank.
	Conflicts, Displacements int64
	// RetriesExhausted counts the needs that lost machines too often, and were
	// decided in their turn.
	RetriesExhausted int64
	// Timed counts the proposals whose time was taken, a sample of them, by mode;
	// TimedNanos is what these took.
	Timed, TimedNanos [NumProposeModes]int64
}

// ProposeMode is how a need comes to machines.
type ProposeMode uint8

// The modes.
const (
	ProposeOneByOne ProposeMode = iota // until it is covered
	ProposeWhole                       // a gang in one domain: all or nothing

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

// Plan is the answer of one cycle. It is valid until the engine's next cycle;
// what it says of Needs, until the tables change.
type Plan struct {
	// Actions in emission order: Bootstraps, Provisions, Preempts, Reclaims,
	// Deletes; within a kind by rank, then in the order they were picked.
	Actions []Action
	// Ended are the machines whose reservation has come to its end: its owner
	// is gone, was satisfied otherwise, or lost the machine to a higher rank,
	// or the deadline has passed, of a plan all of them. The caller takes the stamp off before the
	// next cycle.
	Ended []columnar.Row
	// Reservations are what the plans of this cycle reserve, with VictimsGang: by
	// the Need's rank, then by id. A machine that is reserved anew may stand in
	// Ended too; the new reservation counts. Of what else a plan preempts, the
	// rest of gangs that it breaks, nothing is held for anybody.
	Reservations []Reserved
	// Adopted are machines that serve another Need of their cluster than the one
	// whose stamp they carry. The caller stamps them before the next cycle, so
	// that they are that Need's own from then on. Listed are those whose Need was
	// credited in this cycle (Stats.Credited); in no order, a machine perhaps
	// more than once.
	Adopted []Adopted
	Stats   Stats

	pass *pass
}

// Memory returns what the plan's lists hold, which the next plan uses again. What a
// plan says of Needs lies in the engine's working memory.
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

// Breaks reports whether the plan's Preempts leave the Need that claims the machine with
// less than its minimum. O(machines of the Need).
func (p *Plan) Breaks(r columnar.Row) bool { return p.Claimed(r) && p.pass.breaks(p.pass.held[r].need) }

// Len returns the number of rows of the demand. They are numbered clusters by
// id, rows in their order.
func (p *Plan) Len() int {
	if p.pass == nil {
		return 0
	}
	return p.pass.rows
}

// Need returns what became of a row, 0 ≤ i < Len. Cost: O(machines claimed).
func (p *Plan) Need(i int) NeedResult { return p.pass.result(p.pass.rowAt(i)) }

// Identity returns the cluster and row that a number stands for.
func (p *Plan) Identity(i int) (cluster string, row int) {
	n := &p.pass.lines[p.pass.rowAt(i)]
	return p.pass.s.Clusters[n.cluster], i - int(p.pass.sources[n.cluster].outer)
}

// Satisfied reports whether nothing is missing of what a row asks for.
func (p *Plan) Satisfied(i int) bool { return p.pass.isMet(p.pass.needAt(i)) }

// Rank returns a row's place in the order of the pass.
func (p *Plan) Rank(i int) int32 { return p.pass.rankOf[p.pass.needAt(i)] }

// Fold returns the number of the row that comes first in the fold that a row is
// part of; its own number when it is not folded.
func (p *Plan) Fold(i int) int32 { return p.pass.named(p.pass.needAt(i)) }

// Unmet says why a row is not satisfied. What all machines together could give is
// summed up when it is first asked for: once in a cycle for what matches alike, and for
// rows with Same also once for each key, O(machines).
func (p *Plan) Unmet(i int) Unmet { return p.pass.unmet(p.pass.needAt(i)) }

// AwaitsDrain reports whether Unmet is UnmetAwaitingDrain, which takes less to find out.
func (p *Plan) AwaitsDrain(i int) bool {
	need := p.pass.needAt(i)
	return p.pass.lines[need].is(isAwaiting) && p.pass.unmet(need) == UnmetAwaitingDrain
}

// Profile returns what a row is walked as.
func (p *Plan) Profile(i int) *model.Profile { return p.pass.kindOf(p.pass.needAt(i)).profile }

// Suits reports whether machines of a class cover a row's minimum unit and have something
// of what it wants. Whether they meet its requirements is not looked at.
func (p *Plan) Suits(i int, class uint32) bool {
	return p.pass.suits(class, p.pass.kindOf(p.pass.needAt(i)))
}

// Stamp returns what a machine that serves a row is stamped with: of a fold, the
// fold's own.
func (p *Plan) Stamp(i int) model.Assignment {
	need := p.pass.needAt(i)
	x := p.pass.kindOf(need).profile
	return model.Assignment{
		Priority: x.Priority(), Interruption: x.Interruption(), Reclamation: x.Reclamation(),
		Fingerprint: x.Fingerprint(), Group: p.pass.groupName(need),
	}
}

// CouldCover is NeedResult's.
func (p *Plan) CouldCover(i int) bool { return p.pass.couldCover(p.pass.at(i)) }

// Dims returns the names of the dimensions of AddDeficit.
func (p *Plan) Dims() []string { return p.pass.s.Dims[:p.pass.dims] }

// Unoffered returns what a row lacks under names that no machine offers, which
// AddDeficit has no dimension for; nil as a rule.
func (p *Plan) Unoffered(i int) model.Resources { return p.pass.unoffered(p.pass.needAt(i)).Aggregate }

// AddDeficit adds what a row lacks to a vector over Dims, saturating.
func (p *Plan) AddDeficit(sum []int64, i int) { p.pass.addDeficit(sum, p.pass.needAt(i)) }
