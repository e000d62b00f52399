package records

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// TriedMax is of how many domains for which a search made no plan the explanation of a need tells, at most. They
// stand by name, behind those for which it did, the best of these first.
const TriedMax = 64

// ComparedPlansMax is for how many plans of preemption in a cycle, those of the highest ranks,
// the compared domains are kept without Explain: at most TopDomains a plan, twice that between
// tenants.
const ComparedPlansMax = 16

// PlanExplanation is a plan of preemption: what it was made for, and what it takes.
type PlanExplanation struct {
	Domain  string          // of a Same-Need
	Missing model.Resources // before any victim
	// Units are what the plan takes, in the order in which they were chosen.
	Units []UnitExplanation
	// Reprieved were chosen first and then dropped: they were not needed, or a gentler unit
	// replaced them.
	Reprieved []UnitExplanation
	// Tenants says that the plan, or a later part of it, is of reclaim between tenants.
	Tenants bool
}

// UnitExplanation is one unit of a plan of preemption: a machine, or all of a gang.
type UnitExplanation struct {
	Class    string // sunk, excess, elastic, plain, whole
	Machines []columnar.Row
	// Band is ⌊Score/band width⌋; a unit with a larger band is taken sooner. Score is the
	// victim score, of a whole gang the least of its members'.
	Band, Score float64
	// Gain is what the need can use of the unit, Cost what the unit has. Both are sums of
	// have/missing over the dimensions that the plan misses; in Gain each term is at most 1.
	Gain, Cost float64
	// ROI is Gain/Cost, 0 if the unit has nothing that is missing.
	ROI float64
	// Cluster is the cluster that loses the machines. Group is the gang's name, empty for units
	// without a gang and for gangs without a name.
	Cluster, Group string
	Gang           bool    // the machines are a gang's
	Holders        []int32 // numbers of the needs that the machines serve
	GraceSeconds   int32   // the longest of its machines
	// The terms of the score, weights included; of a whole gang those of the member with the
	// least score.
	Gap, Drain, Interruption, Reclamation float64
	// What the members' workloads lose by their stamps, in all, in US dollars; +Inf if one is
	// pinned.
	InterruptionDollars, ReclamationDollars float64
	// plan.Reclaim between tenants: the tenant that gives the unit, and the largest ratio of what
	// that tenant had to its share, in whole steps of a twentieth. Empty for units that
	// priority took, and for those that are debited to no tenant.
	Tenant string
	Ratio  float64
	// Spared: excess that is not preempted, only held for the plan until phase 3 has reclaimed
	// it or its drain ends. Remainder: another plan breaks the machine's gang and does not use
	// it.
	Spared, Remainder bool
}

// PlanCost is what the plan for a domain would destroy, in the order in which plans are
// compared. Excess counts only for the grace.
type PlanCost struct {
	Band     float64 // the least of the units' bands; 0 when nothing has a cost
	Gangs    int     // broken whole
	Machines int     // lost: drained, or left with a broken gang
	// Destroyed is the sum of have/aggregate, in steps of a twentieth.
	Destroyed    float64
	GraceSeconds int32 // the longest
}

// The reasons why a domain was not chosen, in addition to those of costRule.
const (
	RejectedCapacity   = "capacity"    // everything together does not cover the need
	RejectedTopDomains = "top_domains" // TopDomains better ones were tried
	RejectedUnits      = "units"       // the units do not cover what is missing
	RejectedLedger     = "ledger"      // the units that the tenants' shares admit do not cover it either
	RejectedDryRun     = "dry_run"     // with what is freed, phase 1 would not cover the need
)

// Planned is the explanation of a need's plan.
type Planned struct {
	PlanExplanation
	Need int32
}
