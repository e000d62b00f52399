package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/intake"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/internal/worst"
)

// These names of the packages below are part of this one's vocabulary.

// Memory outlives the process: a map from keys to values. Set never waits; it
// returns a position that Durable can wait for, 0 when nothing changed. An empty
// value forgets the key. All calls visit for what an earlier process left, and
// is called before anything is set.
type Memory = memory.Memory

// DomainPrefix begins the keys of domains. A memory that loses them must say so, not
// forget them: a shard without any takes up whatever its provider lists.
const DomainPrefix = memory.DomainPrefix

// Switches are what stops the shard from outside while it runs, read before
// every cycle.
type Switches = rails.Switches

// Disposition is what becomes of a cycle's decisions.
type Disposition = rails.Disposition

// The dispositions, the stronger later.
const (
	Execute     = rails.Execute
	DryRun      = rails.DryRun
	Paused      = rails.Paused
	Tripped     = rails.Tripped // by the breaker
	DomainsLost = rails.DomainsLost
	Fenced      = rails.Fenced
)

// The bounds of rails.
const (
	BreakerMin       = rails.BreakerMin       // machines that a fleet may lose in a window whatever its size
	BreakerWindowMin = rails.BreakerWindowMin // shortest window of the breaker
)

// HeldBack is what the rails of a shard hold back, and why.
type HeldBack = rails.HeldBack

// HeldAction is an action that the last cycle held back.
type HeldAction = rails.HeldAction

// HeldBy is what holds an action back that the plan of a cycle has.
type HeldBy = rails.HeldBy

// What holds actions back: the budget of their kind, or what the comment says.
const (
	ByReclaimBudget   = rails.ByReclaimBudget
	ByDeleteBudget    = rails.ByDeleteBudget
	ByProvisionBudget = rails.ByProvisionBudget
	ByPreemptBudget   = rails.ByPreemptBudget
	ByActionLimit     = rails.ByActionLimit // Config.MaxActionsPerCycle
	ByQueue           = rails.ByQueue       // the queue of calls is full
	ByOperator        = rails.ByOperator    // the cluster's operator is not connected, or has refused lately
	ByMachine         = rails.ByMachine     // the machine is busy or has moved on
	NumHeldBy         = rails.NumHeldBy
)

// The bounds of what is told of actions that are held back.
const (
	HeldActionsMax = rails.HeldActionsMax // listed; the others are counted
	ReasonBytesMax = rails.ReasonBytesMax // of the reason for which nothing is carried out
)

// ReclaimCap returns how many machines of a cluster an interval may reclaim:
// max(1, ⌊fraction × configured⌋).
func ReclaimCap(fraction float64, configured int) int { return rails.ReclaimCap(fraction, configured) }

// CapReclaims is the budget of Reclaims of one cycle, for decisions without a shard. It returns
// the actions without the Reclaims above the cap: of each cluster the first in the order of
// emission stay, all other kinds stay whatever their number. fraction 0 = no cap. The second
// result is how many were left out; when it is 0, the first is the input itself.
func CapReclaims(actions []engine.Action, machines *supply.Table, fraction float64) ([]engine.Action, int) {
	return rails.CapReclaims(actions, machines, fraction)
}

// Ages are for how many cycles a need has been as a plan leaves it, that plan's
// included.
type Ages = ledgers.Ages

// Shortfall is demand of one profile that this shard could not meet and could
// not preempt for, all Needs of the profile together.
type Shortfall = ledgers.Shortfall

// ShortfallsReportedMax is how many shortfalls are reported at most.
const ShortfallsReportedMax = ledgers.ShortfallsReportedMax

// ParkAfterCycles is after how many cycles in vain a Same-Need rests.
const ParkAfterCycles = ledgers.ParkAfterCycles

// NodeState is what an operator is told of a machine of its cluster. Maps and
// slices are shared and must not be modified.
type NodeState = inventory.NodeState

// CreatedHold is how long a machine that was created for a Need stays its own
// after it turned Idle, in nanoseconds.
const CreatedHold = inventory.CreatedHold

// RollupOutcome is what became of a roll-up.
type RollupOutcome = intake.RollupOutcome

// The outcomes. A refused roll-up has an error instead.
const (
	RollupRefused  = intake.RollupRefused
	RollupAccepted = intake.RollupAccepted
	RollupHeld     = intake.RollupHeld // in quarantine; the demand accepted before stays
)

// MailboxBytesMax is how much memory the roll-ups may hold that wait for the next
// cycle, all clusters together.
const MailboxBytesMax = intake.MailboxBytesMax

// Domain is one value of a topology key.
type Domain = ownership.Domain

// DomainKnowledge is what a memory knows of the domains of a shard.
type DomainKnowledge = ownership.DomainKnowledge

// What is known: that none was ever assigned, which ones are, be it none, or neither.
const (
	DomainsNever   = ownership.DomainsNever
	DomainsKnown   = ownership.DomainsKnown
	DomainsUnknown = ownership.DomainsUnknown
)

// HandOver is machines that this shard gave to another.
type HandOver = ownership.HandOver

// Offer is machines of one kind that this shard could give to another: Idle and
// Speculative ones that it does without, Configured ones that serve demand of
// the priority and penalty given.
type Offer = ownership.Offer

// ErrInvalid says that an instruction cannot be followed, now or later.
var ErrInvalid = ownership.ErrInvalid

// The bounds of what a shard owns and offers.
const (
	OffersMax          = ownership.OffersMax          // kinds offered at a time
	OfferedMachinesMax = ownership.OfferedMachinesMax // machines named in one offer
	ArrivedCycles      = ownership.ArrivedCycles      // cycles for which a machine that came from another shard is not offered
	GoneLookListings   = ownership.GoneLookListings   // full listings, of one of which given and received machines are looked for
	GoneLooks          = ownership.GoneLooks          // looks in a row in which such a machine is missing before it is forgotten
)

// The traces of slow cycles.
const (
	WorstKept       = worst.Kept       // traces that a folder keeps, of the slowest cycles
	WorstMinDefault = worst.MinDefault // from when on a cycle is slow
)
