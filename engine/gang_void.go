package engine

import (
	"slices"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// The machines that a plan of preemption has reserved end together. When a need
// of higher rank takes one, or the plan's domain is lost, all of them are free
// at once, in the same pass: the owner is not pinned any more and plans anew.
// That reaches over clusters and classes, so while there are such plans, needs
// acquire one after the other, and an owner whose plan may end before its turn
// waits for it with its credit.

// ofPlan reports whether a reservation is part of a plan.
func (p *pass) ofPlan(res *model.Reservation) bool {
	return res.Plan != 0 && p.e.opts.Victims == VictimsGang
}

// forgetPlans forgets what followed from what was held in the cycle before.
func (p *pass) forgetPlans() {
	st := &p.e.store
	for _, need := range st.planners {
		if !p.fresh {
			p.lines[need].status &^= ofItsPlan
		}
	}
	st.planners = st.planners[:0]
}

// notePlan notes what a live reservation of a plan means for the pass.
func (p *pass) notePlan(x *reservations, r columnar.Row, res *model.Reservation, members []int32) {
	if !p.ofPlan(res) {
		return
	}
	x.plans = true
	x.idlePlans = x.idlePlans || p.s.View.State[r] == model.Idle
	p.e.store.planners = append(p.e.store.planners, members...)
	for _, n := range members {
		if p.s.View.State[r] == model.Idle && p.kindOf(n).same {
			p.lines[n].status |= mayBeVoid
		}
	}
	p.noteHeldBack(r, members)
}

// noteHeldBack notes who acquires nothing because the drain of a machine of its
// plan is not acknowledged: the members, if all or nothing helps them.
func (p *pass) noteHeldBack(r columnar.Row, members []int32) {
	if p.s.View.State[r] != model.Configured {
		return
	}
	for _, n := range members {
		k := p.kindOf(n)
		if k.same && p.s.ClusterOf[p.s.View.Cluster[r]] != p.lines[n].cluster && !columnar.Covers(k.unit, p.aggregate(n)) {
			p.lines[n].status |= isHeldBack
		}
	}
}

// voidFor ends the plan that has reserved a machine, when a need takes it for
// whom it is not.
func (l *lane) voidFor(need int32, r columnar.Row) {
	if !l.reserved.plans || !l.reserved.live(r) || l.reserved.ownedBy(r, need) {
		return
	}
	if res := l.s.Supply.Reservation(r); l.ofPlan(&res) {
		l.void(res.Owner)
	}
}

// voidTaken ends the plans whose machines a need has acquired, after all of
// them: it had no use of what that sets free.
func (l *lane) voidTaken(need int32) {
	if !l.reserved.plans {
		return
	}
	for r := l.lines[need].acquired; r != columnar.None; r = l.held[r].next {
		l.voidFor(need, r)
	}
}

// voidLost ends the plans of a need whose domain cannot cover it any more,
// whatever is preempted there.
func (l *lane) voidLost(need int32) {
	if !l.reserved.plans {
		return
	}
	for _, r := range slices.Clone(l.reserved.of(need)) {
		if !l.reserved.live(r) {
			continue
		}
		if res := l.s.Supply.Reservation(r); l.ofPlan(&res) {
			l.void(res.Owner)
		}
	}
}

// void ends an owner's plans.
func (l *lane) void(owner model.Owner) {
	x := &l.reserved
	if x.voided == nil {
		st := &l.e.store.reserved
		if st.voided == nil {
			st.voided, st.drains = map[columnar.Row][]int32{}, map[int32][]columnar.Row{}
		}
		clear(st.voided)
		clear(st.drains)
		x.voided, x.drains = st.voided, st.drains
	}
	for r, members := range x.members {
		res := l.s.Supply.Reservation(r)
		if !l.ofPlan(&res) || res.Owner != owner {
			continue
		}
		x.voided[r] = members
		l.noteFreed(r)
		delete(x.members, r)
		for _, n := range members {
			x.rows[n] = l.without(x.rows[n], r)
			l.lines[n].status &^= isHeldBack
			if l.s.View.State[r] == model.Draining {
				x.drains[n] = alloc.Append(l.arena, x.drains[n], r)
			}
		}
		if l.s.View.State[r] == model.Idle && !l.claimed(r) && l.takenBy(r) == noNeed {
			l.putBack(r)
			l.revive(l.s.View.Class[r])
		}
	}
	// Members may hold machines of other names too.
	for r, members := range x.members {
		if res := l.s.Supply.Reservation(r); l.ofPlan(&res) {
			l.noteHeldBack(r, members)
		}
	}
}

// without returns the others of some machines; members of a plan may share these.
func (l *lane) without(rows []columnar.Row, r columnar.Row) []columnar.Row {
	others := alloc.MakeDirty[columnar.Row](l.arena, len(rows))[:0]
	for _, o := range rows {
		if o != r {
			others = append(others, o)
		}
	}
	return others
}

// revive has needs looked at again for whom nothing was left, since a machine of a
// class is there now.
func (l *lane) revive(class uint32) {
	for i := range l.kinds {
		if l.kinds[i].acceptsClass(class) {
			atomic.StoreUint32(&l.spent[i], 0)
		}
	}
	l.revived = true
}

// heldFor returns what is held for a need, and what still drains of a plan of
// its own that has ended in this pass and nobody else counts on; in keep order.
func (p *pass) heldFor(need int32) []columnar.Row {
	rows := p.reserved.of(need)
	drains := p.reserved.drains[need]
	if len(drains) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	for _, r := range drains {
		if p.takenBy(r) == noNeed {
			rows = append(rows, r)
		}
	}
	p.sortKeep(rows)
	return rows
}

// isFreeFor reports whether a free machine is nobody's yet and not held for
// anybody ranked above a need.
func (l *lane) isFreeFor(r columnar.Row, need int32) bool {
	return !l.claimed(r) && l.takenBy(r) == noNeed && (!l.taken[r] || l.reserved.ownedBy(r, need))
}

// isUnneeded reports whether the owners of a plan's machine that is on its way
// are covered without it.
func (p *pass) isUnneeded(r columnar.Row, res *model.Reservation, members []int32) bool {
	if !p.ofPlan(res) || len(members) == 0 || p.flying.Has(uint32(r)) {
		return false
	}
	return !slices.ContainsFunc(members, func(n int32) bool {
		leaving := p.s.View.State[r] == model.Draining ||
			p.s.View.State[r] == model.Configured && p.s.ClusterOf[p.s.View.Cluster[r]] != p.lines[n].cluster
		awaitsAll := p.lines[n].is(isAwaiting) && !p.lines[n].is(hasOwnPlan)
		return !leaving || !p.lines[n].is(isSatisfied) && !awaitsAll
	})
}
