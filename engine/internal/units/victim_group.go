package units

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Roster is the victims of all classes of a matcher: excess first, then the rest, the lowest
// priority first.
type Roster struct {
	Alikes []*Alike
	At     int    // alikes before at are all taken
	Serial uint64 // sum of the serials of its ClassVictims; another sum = stale
}

// Unread is the victim groups that a scope has not listed yet.
type Unread struct {
	Roster   *Roster // nil = all are listed
	Priority int32   // of the pool's needs
	Next     int     // index in Roster.Alikes: those before are read
	// Pending is read but not listed, since unread groups may go before; see settle.
	Pending []VictimGroup
}

// First returns the first unread entry of the roster that needs of the priority may take; nil
// when there is none.
func (m *Unread) First() *Alike {
	m.Next = max(m.Next, m.Roster.At)
	for ; m.Next < len(m.Roster.Alikes); m.Next++ {
		switch a := m.Roster.Alikes[m.Next]; {
		case a.Promised && a.Level >= m.Priority:
		case a.Excess || a.Level < m.Priority:
			return a
		default:
			return nil
		}
	}
	return nil
}

// ReadMin is the least number of victim groups that are read at a time. Tests lower it.
var ReadMin = VictimGroupsRoom

// VictimGroup is machines without a gang that are alike as victims, as one scope has them.
type VictimGroup struct {
	*Alike
	// Of the alike, copied by GroupOf for walks over very many groups: to follow the pointer is a wait for memory. They hide the
	// alike's own fields.
	Class uint32
	Level int32
	Score float64
	Band  float64
	// Victim groups of one tier have keys that differ in the id alone; their machines are
	// merged by id.
	Tier int32
	// First is a lower bound of the id ranks of its machines. Within a tier victim groups are
	// sorted by it.
	First  uint32
	Excess bool // of the alike, as Class and Level are
	// Gone: no machine is left. skip is an index: all victim groups before it are gone too.
	Gone bool
	Skip int32
}

// GroupOf returns the victim group that an alike is in a scope, with the terms of its order but for First and Tier.
func GroupOf(a *Alike, score, band float64) VictimGroup {
	return VictimGroup{Alike: a, Class: a.Class, Level: a.Level, Excess: a.Excess, Score: score, Band: band}
}

// VictimGroupsRoom is the initial capacity of a scope's list of victim groups.
const VictimGroupsRoom = 16

// CompareVictimGroups is the order in which victim groups are listed.
func CompareVictimGroups(a, b *VictimGroup) int {
	return cmp.Or(CompareTiers(a, b), cmp.Compare(a.First, b.First))
}

// CompareTiers orders victim groups by key, without the id.
func CompareTiers(a, b *VictimGroup) int {
	if a.Excess != b.Excess {
		return exact.TrueFirst(a.Excess, b.Excess)
	}
	return cmp.Or(cmp.Compare(a.Giver(), b.Giver()), cmp.Compare(a.Band, b.Band), cmp.Compare(b.Score, a.Score))
}

// VictimGroupKey is what machines that are alike as victims have in common.
type VictimGroupKey struct {
	Class uint32
	// Level is the priority of the Need that a machine serves or drains for, or of its stamp.
	Level                     int32
	Interruption, Reclamation model.Bucket
	// Excess: no need claims the machine and it may be reclaimed, or it is draining.
	Excess   bool
	Tenant   int32 // between tenants: the cluster's tenant, else tenancy.None
	Leaving  bool  // the machine is draining, or Acquired
	Promised bool  // it is there for higher priorities than level alone: it drains for a Need of that priority, or Acquired
	Acquired bool  // it is Idle, and a Need of that priority has acquired it in this pass: for Needs with Same
}

// Giver returns the tenant that units of a victim group are debited to.
func (k *VictimGroupKey) Giver() int32 {
	if k.Excess {
		return tenancy.None
	}
	return k.Tenant
}

// IsFreeSoon reports whether the machines are draining and reserved for no need.
func (k *VictimGroupKey) IsFreeSoon() bool { return k.Leaving && !k.Promised }

// Alike is machines of no gang that are alike as victims: one class, and equal keys but for the
// id. Pools share them.
type Alike struct {
	VictimGroupKey
	Rows   []columnar.Row // by id, if sorted
	Count  int            // number of rows, while they are dealt
	At     int            // rows before at were taken
	Sorted bool
	// No Need can take a row before Next. A reservation that ends can change that for a row; Next takes the first Seen of
	// these changes into account. See FirstOpen in package victims.
	Next, Seen int
	Own        OwnRows
}

// OwnRows says how far a list of victims is of no use to the cluster that asked last: no Need of it can take a row before Next.
type OwnRows struct {
	Cluster int32
	Next    int
}

// Find returns the index of a machine in the rows, which are by id; false when it is none of them.
func (a *Alike) Find(r columnar.Row, ids snapshot.Places) (at int, ok bool) {
	return slices.BinarySearchFunc(a.Rows, ids.Of(r), func(x columnar.Row, id uint32) int { return cmp.Compare(ids.Of(x), id) })
}

// Add appends a machine and tracks whether rows are still in the order of ids.
func (a *Alike) Add(r columnar.Row, ids snapshot.Places) {
	n := len(a.Rows)
	a.Sorted = n == 0 || a.Sorted && ids.Of(a.Rows[n-1]) < ids.Of(r)
	a.Rows = append(a.Rows, r)
}

// Sort puts the machines in the order of ids.
func (a *Alike) Sort(ids snapshot.Places) {
	if a.Sorted {
		return
	}
	a.Sorted = true
	slices.SortFunc(a.Rows, func(x, y columnar.Row) int { return cmp.Compare(ids.Of(x), ids.Of(y)) })
}

// Least returns the least id rank.
func (a *Alike) Least(ids snapshot.Places) uint32 {
	least := ids.Of(a.Rows[0])
	if !a.Sorted {
		for _, r := range a.Rows[1:] {
			least = min(least, ids.Of(r))
		}
	}
	return least
}
