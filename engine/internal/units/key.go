// Package units has what phase 2 takes: machines and whole gangs with the keys by which they are
// ordered, the groups of machines that are alike as victims, and the tables that list them.
package units

import (
	"cmp"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
)

// Class says what losing a unit does to a workload, the gentlest first.
type Class uint8

// The classes. Excess goes before all others, whatever the band.
const (
	ClassSunk    Class = iota // left of a gang that is lost anyway
	ClassExcess               // Configured and claimed by no need, or draining and free for the taker
	ClassElastic              // above a gang's minimum
	ClassPlain                // claimed by a need that is no gang
	ClassWhole                // all members of a gang

	NumUnitClasses = int(ClassWhole) + 1
)

// Key is the order in which units are taken, smallest first, field by field.
type Key struct {
	Paid    bool    // false for excess, which costs nothing
	Tenant  int64   // between tenants: minus the ratio of what the giver has to its share; see tenancy.Ledger.Term
	Band    float64 // −⌊S/δ⌋; δ = 0: −S, δ = ∞: 0
	Class   Class
	Roi     int64   // −⌊ROI/θ⌋ of a whole gang, else 0
	Score   float64 // −S
	Cluster int32   // of the gang; −1 for units without one, which are ordered by id alone
	Group   string
	Last    uint64 // of surplus: the keep order reversed
	ID      uint32 // rank of the id; of a gang the least of its members'
}

// Compare orders keys field by field, the smaller first.
func (k *Key) Compare(o *Key) int {
	if k.Paid != o.Paid {
		return exact.TrueFirst(o.Paid, k.Paid)
	}
	// Plain comparisons, not cmp.Or: compare runs often, and keys mostly differ in an early
	// field.
	switch {
	case k.Tenant != o.Tenant:
		return cmp.Compare(k.Tenant, o.Tenant)
	case k.Band != o.Band:
		return cmp.Compare(k.Band, o.Band)
	case k.Class != o.Class:
		return cmp.Compare(k.Class, o.Class)
	case k.Roi != o.Roi:
		return cmp.Compare(k.Roi, o.Roi)
	case k.Score != o.Score:
		return cmp.Compare(k.Score, o.Score)
	case k.Cluster != o.Cluster:
		return cmp.Compare(k.Cluster, o.Cluster)
	case k.Group != o.Group:
		return cmp.Compare(k.Group, o.Group)
	case k.Last != o.Last:
		return cmp.Compare(k.Last, o.Last)
	}
	return cmp.Compare(k.ID, o.ID)
}

// Unit is what a plan can take: one machine, or all members of a gang.
type Unit struct {
	Key  Key
	Row  columnar.Row // the machine; None for a whole gang
	Gang int32        // index in gangTable.list, −1 = none
	// Level is the priority at which it can be taken; of a gang the highest of its members.
	Level int32
	// Spared: the machine drains already, or phase 3 will reclaim it and the need may not
	// preempt it. A plan only reserves it.
	Spared bool
	// Remainder: another plan of this cycle broke its gang and does not use it.
	Remainder bool
	// Of a whole gang: what the need can use (local), and everything (global), without members
	// that the plan has taken; the shape with these vectors. apart: it is taken, or a part of
	// it is, so its vectors are no longer its shape's.
	Local, Global []int64
	Shape         int32
	Apart         bool
	List          int32 // of a whole gang: 1 + the index of the list of gangs that it was read from, 0 = none
	// Reclaim between tenants: the tenant that is debited; of a whole gang, what the taker is
	// credited and the giver debited, in the dimensions of shares.
	Giver         int32
	Takes, Debits []int64
}
