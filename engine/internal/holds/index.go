// Package holds says which machines are held for which Needs. A reservation is live if its owner is in the demand, or
// may be because its cluster has not reported yet, and its deadline has not passed. An owner is a cluster, a profile
// without Same, and a group; several Needs may share it. What is held for an owner ends together; see End.
package holds

import (
	"cmp"
	"iter"
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
	held  bitmap.Numbered // the machines that were held when the pass began
	of    []int32         // by their numbers in held: the index of the holding
	live  bitmap.Dense    // those of held whose reservations have not ended
	// owners are the Needs that machines were held for when the pass began. By their numbers: rows are the machines that are held,
	// in keep order, and drains those that still drain of the ones whose reservations have ended in this pass. Needs of one owner
	// may share a slice of rows.
	owners       bitmap.Numbered
	rows, drains [][]columnar.Row
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
func (x *Index) Members(r columnar.Row) []int32 {
	if !x.Live(r) {
		return nil
	}
	return x.holdingOf(r).members
}

// holdingOf returns the holding of a machine that was held when the pass began.
func (x *Index) holdingOf(r columnar.Row) *holding {
	return &x.store.holdings[x.of[x.held.Number(uint32(r))]]
}

// IsVoided reports whether a machine's reservation has ended in this pass.
func (x *Index) IsVoided(r columnar.Row) bool { return x.held.Has(uint32(r)) && !x.Live(r) }

// HadMembers reports whether a machine was held for a Need until its reservation ended in this pass.
func (x *Index) HadMembers(r columnar.Row) bool {
	return x.IsVoided(r) && len(x.holdingOf(r).members) > 0
}

// WasHeldFor reports whether a machine was held for a Need until its reservation ended in this pass.
func (x *Index) WasHeldFor(r columnar.Row, need int32) bool {
	return x.IsVoided(r) && slices.Contains(x.holdingOf(r).members, need)
}

// Voided returns how many machines IsVoided is true for.
func (x *Index) Voided() int { return len(x.Ended) }

// EndOf returns why a reservation has ended in this pass.
func (x *Index) EndOf(res *model.Reservation) plan.PlanEnd {
	at, known := x.store.at[res.Owner]
	if !known {
		return plan.PlanStands
	}
	return x.store.holdings[at].end
}

// OwnedBy reports whether a machine is held for this Need. O(log members).
func (x *Index) OwnedBy(r columnar.Row, need int32) bool {
	if !x.Live(r) {
		return false
	}
	rankOf := x.store.t.RankOf
	_, owns := slices.BinarySearchFunc(x.holdingOf(r).members, rankOf[need], func(n, rank int32) int { return cmp.Compare(rankOf[n], rank) })
	return owns
}

// Of returns the machines held for a Need, in keep order; read-only.
func (x *Index) Of(need int32) []columnar.Row {
	if !x.Had(need) {
		return nil
	}
	return x.rows[x.owners.Number(uint32(need))]
}

// Draining returns the machines that still drain of those whose reservation for a Need has ended in this pass.
func (x *Index) Draining(need int32) []columnar.Row {
	if !x.Had(need) {
		return nil
	}
	return x.drains[x.owners.Number(uint32(need))]
}

// Had reports whether anything was held for a Need when the cycle began.
func (x *Index) Had(need int32) bool { return x.owners.Has(uint32(need)) }

// Has reports whether anything is held for a Need.
func (x *Index) Has(need int32) bool { return len(x.Of(need)) > 0 }

// Needs returns the Needs for which Had is true, ascending.
func (x *Index) Needs() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for need := range x.owners.All() {
			if !yield(int32(need)) {
				return
			}
		}
	}
}

// HadAny reports whether anything was held for any Need when the cycle began.
func (x *Index) HadAny() bool { return len(x.rows) > 0 }

// IsMixed reports whether a Need answers to several owners for whom something is held: a fold may.
func (x *Index) IsMixed(need int32) bool { return slices.Contains(x.store.mixed, need) }

// SortKeep sorts machines into keep order.
func SortKeep(s *snapshot.Snapshot, rows []columnar.Row) {
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(s.KeepKey(a), s.KeepKey(b)) })
}
