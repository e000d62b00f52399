package records

import "github.com/tonnage/tonnage/engine/model"

// TenancyExplanation says what came of reclaim between tenants for a need.
type TenancyExplanation struct {
	// plan.Tenant is the need's tenant. Has is what it had when the need's turn began, Share its
	// share, both in the dimensions that the share names and some machine has.
	Tenant     string
	Has, Share model.Resources
	// Verdict says why the need had no turn: no_tenant, backs_off; or what came of it:
	// reclaims, reserves (what is free, in flight or excess was enough), nothing.
	Verdict string
	Givers  []GiverExplanation // all other tenants, in the order of the policy
}

// GiverExplanation is the ledger's verdict on a tenant that might have given.
type GiverExplanation struct {
	Tenant     string
	Has, Share model.Resources
	// Ratio is the largest Has/Share of any dimension, in whole steps of a twentieth.
	Ratio float64
	// Verdict is gives, or why the tenant gives nothing: within_share; nothing_of_use (it has
	// nothing that the need could use at its priority); taker_share, giver_share (any unit
	// would bring the taker above its share, or this tenant below its own); not_needed (others
	// gave, or no plan was made).
	Verdict string
}

// The verdicts on a turn of reclaim.
const (
	TurnNoTenant = "no_tenant"
	TurnBacksOff = "backs_off"
	TurnReclaims = "reclaims"
	TurnReserves = "reserves"
	TurnNothing  = "nothing"
)

// The verdicts of the ledger on a tenant.
const (
	GiverGives       = "gives"
	GiverWithinShare = "within_share"
	GiverNothing     = "nothing_of_use"
	GiverTakerShare  = "taker_share"
	GiverGiverShare  = "giver_share"
	GiverNotNeeded   = "not_needed"
)

// Turn is the explanation of a need's turn of reclaim.
type Turn struct {
	TenancyExplanation
	Need int32
}
