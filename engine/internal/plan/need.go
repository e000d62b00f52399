package plan

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

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
	// LostAcquired says that the Need lacked nothing until the plan of a Need of higher priority counted on an Idle machine that
	// it had acquired. All reservations for it have ended with that.
	LostAcquired bool
	Unmet        Unmet
}
