package holds

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// What is reserved for an owner ends together. When a Need of higher rank takes one of the
// machines, all the others are free at once, in the same pass, whether a plan holds them or
// not. The owner's domain is no longer fixed, and the owner chooses a domain again. A plan of
// preemption also ends as a whole when its domain is lost. This reaches across clusters and classes. So while such
// reservations exist, Needs acquire one after the other instead of in parallel, and a Same-Need
// for which something is reserved is credited only when its turn comes.

// NoRank is before the rank of every Need.
const NoRank int32 = -1

// End ends an owner's reservations for a cause, and calls freed for each machine that is not held any more. If the
// domain was lost, only those of plans end; otherwise all but those of machines that are being created for the owner.
// a is where new lists live until the next cycle. O(machines held for the owner + its Needs).
func (x *Index) End(a *alloc.Arena, owner model.Owner, why plan.PlanEnd, freed func(columnar.Row)) {
	st := x.store
	at, known := st.at[owner]
	if !known {
		return
	}
	h := &st.holdings[at]
	kept, drains := x.endHolding(a, h, why, freed)
	if len(kept) == len(h.rows) {
		return
	}
	for _, n := range h.members {
		x.store.t.Lines[n].Status &^= state.IsHeldBack
		at := x.owners.Number(uint32(n))
		x.rows[at] = x.withoutVoided(a, n, h, kept)
		if len(drains) > 0 && x.store.t.Plans {
			x.drains[at] = both(a, x.drains[at], drains)
		}
	}
	h.rows, h.end = kept, why
}

// endHolding is End for the machines. It returns what is still held, and the machines that still drain of those that
// are not.
func (x *Index) endHolding(a *alloc.Arena, h *holding, why plan.PlanEnd, freed func(columnar.Row)) (kept, drains []columnar.Row) {
	t := &x.store.t
	kept = alloc.MakeDirty[columnar.Row](a, len(h.rows))[:0]
	for _, r := range h.rows {
		res, state := t.Snapshot.Supply.Reservation(r), t.Snapshot.View.State[r]
		if why == plan.PlanDomainLost && !t.ofPlan(&res) || why != plan.PlanDomainLost && state == model.Creating {
			kept = append(kept, r)
			continue
		}
		x.live.Clear(uint32(r))
		x.Ended = alloc.Append(a, x.Ended, r)
		switch state {
		case model.Draining:
			drains = alloc.Append(a, drains, r)
			x.pass(passing{x.LastRank(h.members), r})
		case model.Idle:
			x.Lower.Rows.Clear(uint32(r))
		}
		freed(r)
	}
	return slices.Clip(kept), slices.Clip(drains)
}

// LastRank returns the rank of the last of some Needs, NoRank if there are none.
func (x *Index) LastRank(needs []int32) int32 {
	last := NoRank
	for _, n := range needs {
		last = max(last, x.store.t.RankOf[n])
	}
	return last
}

// Passed calls f for the draining machines whose reservations have ended in this pass and whose owners have all had
// their turns, now that the Need at a rank has had its turn. It calls f once for each.
func (x *Index) Passed(rank int32, f func(columnar.Row)) {
	for len(x.passing) > 0 && x.passing[0].last <= rank {
		f(x.passing[0].row)
		end := len(x.passing) - 1
		x.passing[0] = x.passing[end]
		x.passing = x.passing[:end]
		for at := 0; 2*at+1 < end; {
			least := 2*at + 1
			if least+1 < end && x.passing[least+1].last < x.passing[least].last {
				least++
			}
			if x.passing[at].last <= x.passing[least].last {
				break
			}
			x.passing[at], x.passing[least] = x.passing[least], x.passing[at]
			at = least
		}
	}
}

// passing is a draining machine, and the rank of the last of the Needs that it was held for.
type passing struct {
	last int32
	row  columnar.Row
}

// pass adds a machine to the heap of those that Passed waits for.
func (x *Index) pass(p passing) {
	x.passing = append(x.passing, p)
	for at := len(x.passing) - 1; at > 0; {
		up := (at - 1) / 2
		if x.passing[up].last <= x.passing[at].last {
			return
		}
		x.passing[up], x.passing[at] = x.passing[at], x.passing[up]
		at = up
	}
}

// withoutVoided returns what is still held for a Need after one owner's reservations ended. A
// Need that has other owners too may be held back by their plans.
func (x *Index) withoutVoided(a *alloc.Arena, need int32, h *holding, kept []columnar.Row) []columnar.Row {
	rows := x.Of(need)
	if len(rows) == len(h.rows) { // it has no other owner
		return kept
	}
	others := alloc.MakeDirty[columnar.Row](a, len(rows))[:0]
	for _, r := range rows {
		if x.IsVoided(r) {
			continue
		}
		others = append(others, r)
		if res := x.store.t.Snapshot.Supply.Reservation(r); x.store.t.ofPlan(&res) && x.store.t.leaves(r, x.store.t.Atlas.ClusterOf(need)) {
			x.store.t.holdBack(need)
		}
	}
	return others
}

// both returns the machines of two lists; the first may be empty.
func both(x *alloc.Arena, a, b []columnar.Row) []columnar.Row {
	if len(a) == 0 {
		return b
	}
	for _, r := range b {
		a = alloc.Append(x, a, r)
	}
	return a
}
