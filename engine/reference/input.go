package reference

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// Input is everything that a cycle decides from.
type Input struct {
	// Machines with unique ids, in any order.
	Machines []model.Machine
	// Needs in any order of clusters; rows of one cluster in their row order.
	Needs []model.Need
	// Reported holds the clusters that have reported, also those that reported
	// nothing.
	Reported map[string]bool
	Now      int64 // Unix nanoseconds
	// DrainSeconds is the observed drain time by instance type; a type that is
	// absent takes DrainSecondsDefault.
	DrainSeconds map[string]float64
	// BackingOff holds owners whose plan has failed: they keep what they have,
	// acquire and reserve, and preempt nobody in this cycle.
	BackingOff map[model.Owner]bool
	Options    Options
}

// Options are the settings that may change an answer.
type Options struct {
	Weights    Weights
	Release    Release
	TopDomains int // domains that phase 2 tries for one Need
	// SearchPairs is how many pairs of a Same-Need and a domain that covers it phase
	// 2 looks at in one cycle, SearchUnits how many machines it may be offered there.
	SearchPairs, SearchUnits int
	Victims                  VictimMode
	// Band is δ, the width of a band of the victim score in priority points: 0
	// = the score alone decides, +Inf = the gentlest unit goes first.
	Band float64
	// Nested are topology keys from the widest to the narrowest, each of whose
	// values lies in one value of the key before. A Same-Need on one of them looks
	// for victims in the narrowest domains first. None = only in its own.
	Nested []string
	// Tenants share the fleet; none = priority is the only throttle.
	Tenants []Tenant
	// Acquire says which free machines a Need takes; Fit and MaxMachineShare belong to AcquireFit.
	Acquire AcquireRule
	Fit     Fit
	// MaxMachineShare is the largest part of a Need that one machine should be, if others cover it; 0 = any.
	MaxMachineShare float64
}

// Fit are the constants of a choice: what of a machine beyond the shape of a Need does not count, and what
// of a minimum unit each machine loses.
type Fit struct{ Lambda, Epsilon float64 }

// VictimMode says how phase 2 chooses victims.
type VictimMode uint8

// The ways to choose victims.
const (
	VictimsGang    VictimMode = iota // units: machines and whole gangs
	VictimsMachine                   // one by one, by score
)

// Tenant is a named set of clusters and what is theirs by right. A dimension
// that the share does not name is not limited.
type Tenant struct {
	Name     string
	Clusters []string
	Share    model.Resources
}

// Weights are the factors of the victim score's terms.
type Weights struct{ Priority, DrainSpeed, Interruption, Reclamation float64 }

// Release says how long an idle machine of the capacity type is held before it
// is deleted; 0 switches the type's release off.
type Release struct{ OnDemand, Spot time.Duration }

// DrainSecondsDefault is the drain time of a machine whose own is not known.
const DrainSecondsDefault = 30

// DefaultOptions returns the options of the contract.
func DefaultOptions() Options {
	return Options{
		Weights:    Weights{Priority: 1, DrainSpeed: 0.1, Interruption: 0.1, Reclamation: 0.1},
		Release:    Release{OnDemand: 10 * time.Minute, Spot: time.Minute},
		TopDomains: 8,

		SearchPairs: 4 << 20,
		SearchUnits: 32 << 20,
		Victims:     VictimsGang,
		Band:        1,
		Fit:         Fit{Lambda: 0.2, Epsilon: 0.03},
	}
}

// The kinds of actions, in the order in which a plan emits them.
const (
	Bootstrap = "Bootstrap"
	Provision = "Provision"
	Preempt   = "Preempt"
	Reclaim   = "Reclaim"
	Delete    = "Delete"
)

// The reasons of actions.
const (
	ReasonIdle        = "phase1.idle"
	ReasonSpeculative = "phase1.speculative"
	ReasonPreempt     = "phase2.preempt"
	ReasonExcess      = "phase3.excess"
	ReasonRelease     = "phase3.release"
)

// The reasons for which a Need is unmet, in the order in which they are tried.
const (
	UnmetParked              = "parked"
	UnmetNoMatchingSupply    = "no_matching_supply"
	UnmetAwaitingDrain       = "awaiting_drain"
	UnmetPreemptionExhausted = "preemption_exhausted"
	UnmetTopology            = "topology_unsatisfiable"
	UnmetSpread              = "spread_unsatisfiable"
	UnmetInsufficientSupply  = "insufficient_supply"
	UnmetPriorityStarved     = "priority_starved"
)

// NoNeed is the Need of an action that serves none.
const NoNeed = -1

// Action is one step of a plan; a machine has at most one.
type Action struct {
	Kind    string
	Machine string
	// Cluster is the acquirer's for Bootstrap and Provision, the victim's for
	// Preempt, the machine's for Reclaim, and empty for Delete.
	Cluster string
	// Need is the index into Input.Needs of the acquirer or the preemptor, of
	// a fold its first member in rank order; NoNeed for Reclaim and Delete.
	Need              int
	Grace             int // seconds
	PreemptorPriority int // Preempt only
	Reason            string
}

// NeedResult is what became of one row; members of a fold all carry the
// fold's figures.
type NeedResult struct {
	Satisfied bool
	// Claimed holds ids in the order in which they were picked: credited,
	// Idle, Speculative.
	Claimed []string
	// Deficit is what phase 1 left, whatever is in flight.
	Deficit model.Resources
	// InFlight is what drains for the Need, at most its deficit.
	InFlight  model.Resources
	Domain    string
	Bootstrap int
	Provision int
	Preempt   int
	Unmet     string
	// CouldCover is true for a Same-Need that some domain could have covered
	// at its turn, were it not parked, and for every other Need.
	CouldCover bool
	// Fold is the index of the first member in rank order of the Need that the
	// row belongs to, its own when it is alone; Rank that Need's place.
	Fold int
	Rank int
}

// Plan is the answer.
type Plan struct {
	Actions []Action     // in emission order
	Needs   []NeedResult // one for each row of Input.Needs
	// Ended are the machines whose reservation is over, by id. One that is
	// reserved anew in the same plan stands in both lists.
	Ended []string
	// Reserved are the machines that the plans of this cycle reserve, with
	// VictimsGang: victims that the preemptor uses, Idle machines that it
	// counts on, and excess that is reclaimed anyway. By the Need's rank, then
	// by id.
	Reserved []Reserved
	// SearchPairs is how many pairs the search for plans has met, SearchUnits how many
	// machines were offered there; see Options.
	SearchPairs, SearchUnits int
}

// Reserved is a machine that a plan reserves for a Need. The machines of one
// Need are one plan: they end together.
type Reserved struct {
	Machine string
	Need    int    // as in Action
	Domain  string // of the Need's Same key; empty = none
	Grace   int    // the longest of the plan, in seconds
}
