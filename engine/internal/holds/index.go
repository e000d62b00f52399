// Package holds says which machines are held for which Needs. A reservation is live if its owner is in the demand, or
// may be because its cluster has not reported yet, and its deadline has not passed. An owner is a cluster, a profile
// without Same, and a group; several Needs may share it. What is held for an owner ends together; see End.
package holds

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Tables are what an index is made from, in a cycle.
type Tables struct {
	Snapshot *snapshot.Snapshot
	Arena    *alloc.Arena // what the index refers to lives there until the next cycle
	Shares   *tenancy.Shares
	Lines    []state.Line // the index writes the flag IsHeldBack
	Kinds    []state.Kind
	Sources  []state.Source
	Atlas    state.Atlas
	Order    []int32 // Needs in rank order
	RankOf   []int32 // by line: the Need's place in Order
	// Plans says that the machines of a plan of preemption are held for as long as one of them is. Without
	// it each is held for itself.
	Plans bool
}

func (t *Tables) kindOf(need int32) *state.Kind { return &t.Kinds[t.Lines[need].Kind] }

func (t *Tables) ofPlan(res *model.Reservation) bool { return res.Plan != 0 && t.Plans }

// Index says, for one cycle, which machines are held for which Needs. The zero Index holds nothing; Store.Index makes others.
type Index struct {
	// Blocks say, by Idle machine, the first place in the order that it is withdrawn from; ascending.
	Blocks []Block
	Lower  Lower // the held Idle machines, as candidates for Needs of higher rank
	// Plans says that some machines are held by a plan of preemption.
	Plans bool
	// Breakable says that a Need of higher rank may take an Idle machine of several that are held for
	// one owner. That ends the reservations of the others, which are free for the very next turn.
	// InOrder says that turns depend on claims of held machines, so that all turns must run in rank
	// order on one worker.
	Breakable, InOrder bool
	// Ended are the machines whose reservations have ended in this pass, in the order in which they did.
	Ended []columnar.Row

	store *Store
	// members are, by machine with a live reservation, the Needs that own it, in rank order. Empty = its
	// cluster has not reported.
	members map[columnar.Row][]int32
	live    bitmap.Dense // the machines of members
	// rows are, by Need, the machines held for it, in keep order. Needs of one owner may share a slice.
	rows map[int32][]columnar.Row
	// voided are the machines whose reservations have ended in this pass, with their members, and drains,
	// by Need, those of them that still drain.
	voided map[columnar.Row][]int32
	drains map[int32][]columnar.Row
	// passing are the machines that still drain and that no plan may count on yet: a heap by the rank after whose turn plans may.
	passing []passing
}

// Block withdraws an Idle machine from all Needs at place From in the order, and below.
type Block struct {
	From int32
	Row  columnar.Row
}

// Live reports whether a machine is held for an owner.
func (x *Index) Live(r columnar.Row) bool { return x.live.Has(uint32(r)) }

// Members returns the Needs that a machine is held for, in rank order; read-only.
func (x *Index) Members(r columnar.Row) []int32 { return x.members[r] }

// IsVoided reports whether a machine's reservation has ended in this pass.
func (x *Index) IsVoided(r columnar.Row) bool {
	_, void := x.voided[r]
	return void
}

// HadMembers reports whether a machine was held for a Need until its reservation ended in this pass.
func (x *Index) HadMembers(r columnar.Row) bool { return len(x.voided) > 0 && x.voided[r] != nil }

// WasHeldFor reports whether a machine was held for a Need until its reservation ended in this pass.
func (x *Index) WasHeldFor(r columnar.Row, need int32) bool {
	return len(x.voided) > 0 && slices.Contains(x.voided[r], need)
}

// Voided returns how many machines IsVoided is true for.
func (x *Index) Voided() int { return len(x.voided) }

// EndOf returns why a reservation has ended in this pass.
func (x *Index) EndOf(res *model.Reservation) plan.PlanEnd {
	return x.store.holdingOf(&res.Owner, nil).end
}

// OwnedBy reports whether a machine is held for this Need. O(log members).
func (x *Index) OwnedBy(r columnar.Row, need int32) bool {
	if len(x.members) == 0 {
		return false
	}
	rankOf := x.store.t.RankOf
	_, owns := slices.BinarySearchFunc(x.members[r], rankOf[need], func(n, rank int32) int { return cmp.Compare(rankOf[n], rank) })
	return owns
}

// Of returns the machines held for a Need, in keep order; read-only.
func (x *Index) Of(need int32) []columnar.Row {
	if len(x.rows) == 0 {
		return nil
	}
	return x.rows[need]
}

// Draining returns the machines that still drain of those whose reservation for a Need has ended in this pass.
func (x *Index) Draining(need int32) []columnar.Row { return x.drains[need] }

// Had reports whether anything was held for a Need when the cycle began.
func (x *Index) Had(need int32) bool {
	_, ok := x.rows[need]
	return ok
}

// Has reports whether anything is held for a Need.
func (x *Index) Has(need int32) bool { return len(x.Of(need)) > 0 }

// Needs returns the Needs for which Had is true, in any order.
func (x *Index) Needs() iter.Seq[int32] { return maps.Keys(x.rows) }

// HadAny reports whether anything was held for any Need when the cycle began.
func (x *Index) HadAny() bool { return len(x.rows) > 0 }

// IsMixed reports whether a Need answers to several owners for whom something is held: a fold may.
func (x *Index) IsMixed(need int32) bool { return slices.Contains(x.store.mixed, need) }

// SortKeep sorts machines into keep order.
func SortKeep(s *snapshot.Snapshot, rows []columnar.Row) {
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(s.KeepKey(a), s.KeepKey(b)) })
}
