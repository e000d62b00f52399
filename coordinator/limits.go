package coordinator

import "github.com/tonnage/tonnage/engine/model"

// Limits of the fleet that one coordinator serves. Input beyond them is refused.
const (
	ShardsMax  = 1024
	DomainsMax = 1 << 20
	// NameBytesMax is the longest id, address, domain key or value.
	NameBytesMax = model.NameBytesMax
	// ShortfallsMax is how many shortfalls of a report are looked at; shards send
	// the worst first.
	ShortfallsMax = 100
	// RequirementsMax bounds the requirements of a shortfall, and the values of
	// each together.
	RequirementsMax      = 64
	RequirementValuesMax = 4096
	// OffersMax, OfferedMachinesMax and VariedLabelsMax bound what one shard may offer.
	OffersMax          = 256
	OfferedMachinesMax = 200 // in one offer
	VariedLabelsMax    = 64  // in one offer
	// HandOversMax is how many unsettled hand-overs one shard may mention. All must
	// be mentioned, so more are refused, not cut.
	HandOversMax = 4096
	// AcksMax is how many acknowledgements of one report are taken; the others
	// stay pending and are asked for again.
	AcksMax = 1000
	// InstructionsMax is how many instructions one answer carries.
	InstructionsMax = 1000
)

// Rules of shortfalls and of rebalancing, in cycles of the shard that reports.
const (
	// EscalateAgeCycles: a shortfall that is older is a matter of the fleet.
	EscalateAgeCycles = 5
	// PreemptAgeCycles: one that is older may take machines that are in use.
	PreemptAgeCycles = 12
	// CooldownReports is how many reports of the receiver a pair of shards waits
	// between two moves of the same kind of machine.
	CooldownReports = 8
	// SurplusMarginPerMille of the idle machines of a kind stay with the donor,
	// and one at least.
	SurplusMarginPerMille = 100
	// BenefitPerMille of what is missing, or BenefitMachines machines, is the
	// least that a move must bring, unless it brings all that is missing.
	BenefitPerMille = 50
	BenefitMachines = 8
)

// Bounds of rebalancing.
const (
	MovesOpenMax     = 64
	MovesFinishedMax = 512 // kept for cooldowns and for those who ask why
	// LoansMax is how many machines may be away from the shard whose domain they lie
	// in before no more are moved; those of moves that are open may come on top.
	LoansMax         = 1 << 16
	MoveMachinesMax  = OfferedMachinesMax
	DecisionsMax     = 1024 // shortfalls that one pass looks at
	DecisionStepsMax = 12
	// AskedPassesMax is how many passes, of those in which shards are heard, a donor may take to release machines
	// before the move is given up; DrainPassesMax the same when they are in use
	// and must be drained first.
	AskedPassesMax = 3
	DrainPassesMax = 36
	shapesMax      = 1 << 14
)

// A donor must keep something, and one move must fit into what may be offered.
var (
	_ [SurplusMarginPerMille - 1]struct{}
	_ [OfferedMachinesMax - MoveMachinesMax]struct{}
	_ [PreemptAgeCycles - EscalateAgeCycles - 1]struct{}
)
