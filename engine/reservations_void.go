package engine

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// What is reserved for an owner ends together. When a need of higher rank takes one of the
// machines, all the others are free at once, in the same pass, whether a plan holds them or
// not. The owner is no longer pinned and chooses anew. A plan of preemption also ends as a
// whole when its domain is lost. This reaches across clusters and classes. So while such
// reservations exist, needs acquire one after the other instead of in parallel, and a Same-Need
// for which something is reserved is credited only when its turn comes.

// ofPlan reports whether a reservation is part of a plan.
func (p *pass) ofPlan(res *model.Reservation) bool {
	return res.Plan != 0 && p.e.opts.Victims == VictimsGang
}

// forgetPlans clears the marks that followed from the last cycle's reservations.
func (p *pass) forgetPlans() {
	st := &p.e.store
	for _, need := range st.lent.planners {
		if !p.changed.fresh {
			p.lines[need].Status &^= state.IsHeldBack
		}
	}
	st.lent.planners = st.lent.planners[:0]
}

// notePlan records what a live reservation of a plan means for the needs that it is held for.
func (p *pass) notePlan(x *reservations, h *holding, r columnar.Row, res *model.Reservation) {
	if !p.ofPlan(res) {
		return
	}
	x.plans, h.ofPlan = true, true
	h.leaves = h.leaves || p.leaves(r, p.s.ClusterByName(h.owner.Cluster))
}

// leaves reports whether a machine still serves another cluster: its drain is not acknowledged.
func (fl *fleet) leaves(r columnar.Row, cluster int32) bool {
	return fl.s.View.State[r] == model.Configured && fl.s.ClusterOf[fl.s.View.Cluster[r]] != cluster
}

// noteOwners records what follows from what is held for an owner.
func (p *pass) noteOwners(x *reservations, h *holding) {
	if h.ofPlan {
		p.e.store.lent.planners = append(p.e.store.lent.planners, h.members...)
	}
	if h.leaves {
		for _, n := range h.members {
			p.holdBack(n)
		}
	}
	isSame := slices.ContainsFunc(h.members, func(n int32) bool { return p.kindOf(n).Same })
	idle, ends := false, 0
	for _, r := range h.rows {
		state := p.s.View.State[r]
		idle = idle || state == model.Idle
		if state != model.Creating {
			ends++
		}
		x.inOrder = x.inOrder || isSame && state == model.Configured
	}
	if idle && ends > 1 {
		x.breakable, x.inOrder = true, true
	}
}

// holdBack makes an all-or-nothing need acquire nothing, since a machine of its plan has not
// acknowledged its drain.
func (p *pass) holdBack(need int32) {
	if k := p.kindOf(need); k.Same && !columnar.Covers(k.Unit, p.aggregate(need)) {
		p.lines[need].Status |= state.IsHeldBack
	}
}

// voidFor voids the reservations of an owner when another need takes one of its machines.
func (l *worker) voidFor(need int32, r columnar.Row) {
	if l.p.reserved.live(r) && !l.p.reserved.ownedBy(r, need) {
		l.void(l.p.s.Supply.Reservation(r).Owner, PlanRankLost)
	}
}

// voidTaken voids the reservations on machines that a need has acquired. It runs after the need
// has acquired everything, so the need itself does not use what is set free.
func (l *worker) voidTaken(need int32) {
	if !l.p.reserved.breakable {
		return
	}
	for r := l.p.lines[need].Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		l.voidFor(need, r)
	}
}

// voidAllTaken voids, after all needs have acquired, the reservations on machines that others
// have claimed. An owner of a single machine was not checked before.
func (l *worker) voidAllTaken() {
	for _, b := range l.p.reserved.blocks {
		if holder := l.p.claims.Of(b.row); holder != state.Unclaimed {
			l.voidFor(holder, b.row)
		}
	}
}

// voidLost voids the plans of a need whose domain can no longer cover it, whatever is preempted
// there.
func (l *worker) voidLost(need int32) {
	if !l.p.reserved.plans {
		return
	}
	for _, r := range slices.Clone(l.p.reserved.of(need)) {
		if !l.p.reserved.live(r) {
			continue
		}
		if res := l.p.s.Supply.Reservation(r); l.p.ofPlan(&res) {
			l.void(res.Owner, PlanDomainLost)
		}
	}
}

// void ends an owner's reservations for a cause. O(machines held for the owner + its needs).
func (l *worker) void(owner model.Owner, why PlanEnd) {
	x, st := &l.p.reserved, &l.p.e.store.reserved
	if x.voided == nil {
		if st.voided == nil {
			st.voided, st.drains = map[columnar.Row][]int32{}, map[int32][]columnar.Row{}
		}
		clear(st.voided)
		clear(st.drains)
		x.voided, x.drains = st.voided, st.drains
	}
	at, known := st.at[owner]
	if !known {
		return
	}
	h := &st.holdings[at]
	kept, drains := l.endHoldings(h, why)
	if len(kept) == len(h.rows) {
		return
	}
	for _, n := range h.members {
		l.p.lines[n].Status &^= state.IsHeldBack
		x.rows[n] = l.withoutVoided(n, h, kept)
		if len(drains) > 0 && l.p.e.opts.Victims == VictimsGang {
			x.drains[n] = l.both(x.drains[n], drains)
		}
	}
	h.rows, h.end = kept, why
}

// endHoldings voids what is held for an owner. If the domain was lost, only machines of plans
// are voided; otherwise all but those being created for it. It returns what is still held, and
// the voided machines that still drain.
func (l *worker) endHoldings(h *holding, why PlanEnd) (kept, drains []columnar.Row) {
	x := &l.p.reserved
	kept = alloc.MakeDirty[columnar.Row](l.arena, len(h.rows))[:0]
	for _, r := range h.rows {
		res, state := l.p.s.Supply.Reservation(r), l.p.s.View.State[r]
		if why == PlanDomainLost && !l.p.ofPlan(&res) || why != PlanDomainLost && state == model.Creating {
			kept = append(kept, r)
			continue
		}
		x.voided[r] = h.members
		l.p.noteFreed(r)
		delete(x.members, r)
		switch state {
		case model.Draining:
			drains = alloc.Append(l.arena, drains, r)
			if last := l.p.lastRank(h.members); len(x.passing) == 0 || last < x.next {
				x.next = last
			}
			x.passing = append(x.passing, r)
		case model.Idle:
			l.unhold(r)
		}
	}
	return slices.Clip(kept), slices.Clip(drains)
}

// noRank is before the rank of every need.
const noRank int32 = -1

// lastRank returns the rank of the last of some needs, noRank if there are none.
func (nt *needTable) lastRank(needs []int32) int32 {
	last := noRank
	for _, n := range needs {
		last = max(last, nt.rankOf[n])
	}
	return last
}

// spareDrains lets plans count on machines that drain for nobody any more, now that the need at a
// rank has had its turn in phase 2: it waits for others that cover it, or all owners of a
// reservation that ended in this pass have had their turns and do not count on the machine.
// It reports whether there are any.
func (l *worker) spareDrains(rank int32) bool {
	before, x := l.search.moreUnits, &l.p.reserved
	spare := func(r columnar.Row) {
		if l.p.preempted.takenBy(r) == order.None && !l.p.preempted.spared.Has(uint32(r)) {
			l.p.preempted.spared.Set(uint32(r))
			l.search.moreUnits++
		}
	}
	if rank != noRank {
		l.p.eachUnneeded(l.p.order[rank], spare)
	}
	if len(x.passing) > 0 && x.next <= rank {
		left := x.passing[:0]
		x.next = math.MaxInt32
		for _, r := range x.passing {
			switch last := l.p.lastRank(x.voided[r]); {
			case last > rank:
				x.next = min(x.next, last)
				left = append(left, r)
			case !l.p.preempted.flying.Has(uint32(r)):
				spare(r)
			}
		}
		x.passing = left
	}
	return l.search.moreUnits > before
}

// eachUnneeded calls f for the draining machines that no owner needs any more, once the need has had its
// turn. Very many equal rows may share very many machines, so it looks at the machines only when no
// other owner is left that could need them.
func (p *pass) eachUnneeded(need int32, f func(columnar.Row)) {
	x := &p.reserved
	rows := x.of(need)
	if len(rows) == 0 || !slices.Contains(p.e.store.reserved.mixed, need) && !p.isLastShort(need, x.members[rows[0]]) {
		return
	}
	for _, r := range rows {
		if p.s.View.State[r] != model.Draining || !p.isLastShort(need, x.members[r]) {
			continue
		}
		if res := p.s.Supply.Reservation(r); p.isUnneeded(r, &res, x.members[r]) {
			f(r)
		}
	}
}

// isLastShort reports whether a need is the last in rank order, of some, that lacks something.
func (nt *needTable) isLastShort(need int32, needs []int32) bool {
	for i := len(needs) - 1; i >= 0; i-- {
		if !nt.lines[needs[i]].Is(state.IsSatisfied) {
			return needs[i] == need
		}
	}
	return false
}

// withoutVoided returns what is still held for a need after one owner's reservations ended. A
// need that has other owners too may be held back by their plans.
func (l *worker) withoutVoided(need int32, h *holding, kept []columnar.Row) []columnar.Row {
	x := &l.p.reserved
	rows := x.rows[need]
	if len(rows) == len(h.rows) { // it has no other owner
		return kept
	}
	others := alloc.MakeDirty[columnar.Row](l.arena, len(rows))[:0]
	for _, r := range rows {
		if _, gone := x.voided[r]; gone {
			continue
		}
		others = append(others, r)
		if res := l.p.s.Supply.Reservation(r); l.p.ofPlan(&res) && l.p.leaves(r, l.p.lines[need].Cluster) {
			l.p.holdBack(need)
		}
	}
	return others
}

// both returns the machines of two lists; the first may be empty.
func (l *worker) both(a, b []columnar.Row) []columnar.Row {
	if len(a) == 0 {
		return b
	}
	for _, r := range b {
		a = alloc.Append(l.arena, a, r)
	}
	return a
}

// revive lets needs that found nothing try again, since a machine of a class has become free.
func (l *worker) revive(class uint32) {
	for i := range l.p.kinds {
		if l.p.kinds[i].AcceptsClass(class) {
			atomic.StoreUint32(&l.p.shortage.spent[i], 0)
		}
	}
	l.acquiring.revived = true
}

// heldFor returns, in keep order, what is held for a need, and what still drains of its own
// plan that ended in this pass, unless another plan counts on it.
func (p *pass) heldFor(need int32) []columnar.Row {
	rows := p.reserved.of(need)
	drains := p.reserved.drains[need]
	if len(drains) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	for _, r := range drains {
		if p.preempted.takenBy(r) == order.None {
			rows = append(rows, r)
		}
	}
	p.sortKeep(rows)
	return rows
}

// isFreeFor reports whether a free machine is unclaimed and not held for an owner ranked above
// a need.
func (l *worker) isFreeFor(r columnar.Row, need int32) bool {
	return !l.p.claimed(r) && l.p.preempted.takenBy(r) == order.None && (!l.p.taken[r] || l.p.reserved.ownedBy(r, need))
}

// isUnneeded reports whether a plan's machine that is on its way is not needed: its owners are
// covered without it.
func (p *pass) isUnneeded(r columnar.Row, res *model.Reservation, members []int32) bool {
	if !p.ofPlan(res) || len(members) == 0 || p.preempted.flying.Has(uint32(r)) {
		return false
	}
	return !slices.ContainsFunc(members, func(n int32) bool {
		leaving := p.s.View.State[r] == model.Draining ||
			p.s.View.State[r] == model.Configured && p.s.ClusterOf[p.s.View.Cluster[r]] != p.lines[n].Cluster
		awaitsAll := p.lines[n].Is(state.IsAwaiting) && !p.lines[n].Is(state.HasOwnPlan)
		return !leaving || !p.lines[n].Is(state.IsSatisfied) && !awaitsAll
	})
}
