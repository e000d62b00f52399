package engine

import (
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
)

// The plain types of a cycle's input and answer are declared in engine/internal/plan, those of
// explanations in engine/internal/records: packages below the engine share them. Callers use these names.

// What a cycle depends on.

type (
	// Input is everything that a cycle depends on, apart from the engine's options.
	Input = plan.Input
	// NeedRow names a row of the demand.
	NeedRow = plan.NeedRow
	// Options are the engine's settings.
	Options = plan.Options
	// VictimMode says how phase 2 chooses victims.
	VictimMode = plan.VictimMode
	// AcquireRule says which free machines a Need takes.
	AcquireRule = plan.AcquireRule
	// Fit are the constants of AcquireFit, each from 0 to 1.
	Fit = plan.Fit
	// Weights are the factors of the terms of the victim score.
	Weights = plan.Weights
	// Release says how long an idle machine of a releasable capacity type is kept before it is deleted; 0
	// disables release of the type.
	Release = plan.Release
	// Tenancy is the policy of reclaim between tenants: it takes machines from tenants above their share
	// for tenants below theirs.
	Tenancy = plan.Tenancy
	// Tenant is a named set of clusters with a share of the fleet.
	Tenant = plan.Tenant
)

// What a plan is made of.

type (
	// Action is one step of a plan.
	Action = plan.Action
	// Kind is what an action does to a machine.
	Kind = plan.Kind
	// Reason says which rule emitted an action.
	Reason = plan.Reason
	// Reserved is a machine that a plan of preemption counts on: a victim that the Need will use, an Idle
	// machine, or one that is being reclaimed anyway.
	Reserved = plan.Reserved
	// Adopted is a bound machine and the Need that it is credited to.
	Adopted = plan.Adopted
	// NeedResult is the outcome for one row of the demand.
	NeedResult = plan.NeedResult
	// Unmet says why a Need is not satisfied: the first reason that applies.
	Unmet = plan.Unmet
	// PlanEnd says why a plan of preemption, or a reservation, ends in a cycle.
	PlanEnd = plan.PlanEnd
)

// The facts of a cycle.

type (
	// Stats are the facts of one cycle; the edges turn them into metrics.
	Stats = plan.Stats
	// AcquireCounts says how Needs came to free machines.
	AcquireCounts = plan.AcquireCounts
	// ProposeMode is how a Need acquires machines.
	ProposeMode = plan.ProposeMode
	// CreditCounts says which Needs credit concerned itself with.
	CreditCounts = plan.CreditCounts
	// CreditCause is why the credit of a Need was computed.
	CreditCause = plan.CreditCause
	// PlanCounts counts the fates of plans of preemption in a cycle.
	PlanCounts = plan.PlanCounts
)

// The ways to choose victims.
const (
	VictimsGang    = plan.VictimsGang
	VictimsMachine = plan.VictimsMachine
)

// The rules of acquisition.
const (
	AcquireCheapest = plan.AcquireCheapest
	AcquireFit      = plan.AcquireFit
)

// The defaults and bounds of options.
const (
	BandDefault         = plan.BandDefault
	TenantsMax          = plan.TenantsMax
	WeightMax           = plan.WeightMax
	TopDomainsDefault   = plan.TopDomainsDefault
	SearchPairsDefault  = plan.SearchPairsDefault
	SearchUnitsDefault  = plan.SearchUnitsDefault
	NestedMax           = plan.NestedMax
	CheckCyclesDefault  = plan.CheckCyclesDefault
	WorkersMax          = plan.WorkersMax
	DrainSecondsDefault = plan.DrainSecondsDefault

	// ConfigureAllowanceSeconds is how long a plan may take from the end of its drains until its machines are bound.
	ConfigureAllowanceSeconds = plan.ConfigureAllowanceSeconds
)

// The kinds of actions, in the order in which a plan emits them.
const (
	Bootstrap = plan.Bootstrap
	Provision = plan.Provision
	Preempt   = plan.Preempt
	Reclaim   = plan.Reclaim
	Delete    = plan.Delete
	NumKinds  = plan.NumKinds
)

// The reasons of actions.
const (
	ReasonIdle        = plan.ReasonIdle
	ReasonSpeculative = plan.ReasonSpeculative
	ReasonPreempt     = plan.ReasonPreempt
	ReasonExcess      = plan.ReasonExcess
	ReasonRelease     = plan.ReasonRelease
)

// The reasons why a Need is not satisfied, in the order in which they are tested.
const (
	UnmetNone                = plan.UnmetNone
	UnmetParked              = plan.UnmetParked
	UnmetNoMatchingSupply    = plan.UnmetNoMatchingSupply
	UnmetAwaitingDrain       = plan.UnmetAwaitingDrain
	UnmetPreemptionExhausted = plan.UnmetPreemptionExhausted
	UnmetTopology            = plan.UnmetTopology
	UnmetSpread              = plan.UnmetSpread
	UnmetInsufficientSupply  = plan.UnmetInsufficientSupply
	UnmetPriorityStarved     = plan.UnmetPriorityStarved
	NumUnmet                 = plan.NumUnmet
)

// The modes of acquisition.
const (
	ProposeOneByOne = plan.ProposeOneByOne
	ProposeWhole    = plan.ProposeWhole
	NumProposeModes = plan.NumProposeModes
)

// The causes for which a plan of preemption ends.
const (
	PlanStands         = plan.PlanStands
	PlanRankLost       = plan.PlanRankLost
	PlanDomainLost     = plan.PlanDomainLost
	PlanOwnerGone      = plan.PlanOwnerGone
	PlanOwnerSatisfied = plan.PlanOwnerSatisfied
	PlanUnneeded       = plan.PlanUnneeded
	PlanExpired        = plan.PlanExpired
	PlanMachinesGone   = plan.PlanMachinesGone
	NumPlanEnds        = plan.NumPlanEnds
)

// The causes for which the credit of a Need is computed.
const (
	CreditAnew    = plan.CreditAnew
	CreditRow     = plan.CreditRow
	CreditRobbed  = plan.CreditRobbed
	CreditHeld    = plan.CreditHeld
	CreditLost    = plan.CreditLost
	CreditWaiting = plan.CreditWaiting
	CreditStamps  = plan.CreditStamps
	CreditTempted = plan.CreditTempted
	CreditDomains = plan.CreditDomains
)

// The defaults of options that have several parts.
var (
	DefaultFit     = plan.DefaultFit
	DefaultWeights = plan.DefaultWeights
	DefaultRelease = plan.DefaultRelease
)

// DefaultOptions returns the options of the contract.
func DefaultOptions() Options { return plan.DefaultOptions() }

// ParseAcquireRule returns the rule of a name; the error names the rules that there are.
func ParseAcquireRule(name string) (AcquireRule, error) { return plan.ParseAcquireRule(name) }

// The explanations of a Need and of an action.

type (
	// AcquiredExplanation says why a Need acquired a free machine.
	AcquiredExplanation = records.AcquiredExplanation
	// ActionExplanation says why an action chose its machine.
	ActionExplanation = records.ActionExplanation
	// CoveredPart is how much of a dimension is covered, in parts of what the Need asks for.
	CoveredPart = records.CoveredPart
	// DomainExplanation is one domain as the Need saw it.
	DomainExplanation = records.DomainExplanation
	// GiverExplanation is the ledger's verdict on a tenant that might have given.
	GiverExplanation = records.GiverExplanation
	// NeedExplanation says why a Need got what it got.
	NeedExplanation = records.NeedExplanation
	// PlanCost is what the plan for a domain would destroy, in the order in which plans are compared.
	PlanCost = records.PlanCost
	// PlanExplanation is a plan of preemption: what it was made for, and what it takes.
	PlanExplanation = records.PlanExplanation
	// PreemptionExplanation is one domain in which phase 2 looked for victims.
	PreemptionExplanation = records.PreemptionExplanation
	// TenancyExplanation says what came of reclaim between tenants for a need.
	TenancyExplanation = records.TenancyExplanation
	// UnitExplanation is one unit of a plan of preemption: a machine, or all of a gang.
	UnitExplanation = records.UnitExplanation
	// Verdict says how a Need rated a machine: the first reason that applies.
	Verdict = records.Verdict
)

// The verdicts of a Need on a machine: the first that applies.
const (
	VerdictClaimed     = records.VerdictClaimed
	VerdictState       = records.VerdictState
	VerdictRequirement = records.VerdictRequirement
	VerdictSize        = records.VerdictSize
	VerdictCluster     = records.VerdictCluster
	VerdictRank        = records.VerdictRank
	VerdictReserved    = records.VerdictReserved
	VerdictDomain      = records.VerdictDomain
	VerdictSpread      = records.VerdictSpread
	VerdictUnneeded    = records.VerdictUnneeded
)
