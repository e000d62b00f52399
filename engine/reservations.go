package engine

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// What the stages do with reservations. Which machines are held for which Needs, and what ends together, is in
// engine/internal/holds.

// beginHolds prepares mayHold. What needs lines and their order is not known yet.
func (p *pass) beginHolds() {
	p.e.store.holds.Begin(p.s, p.e.opts.Victims == VictimsGang)
}

// indexHolds finds what is held for whom, once the order is known.
func (p *pass) indexHolds() {
	p.reserved = p.e.store.holds.Index(holds.Tables{
		Snapshot: p.s, Arena: p.e.arena, Shares: p.tenants.shares, Plans: p.e.opts.Victims == VictimsGang,
		Lines: p.lines, Kinds: p.kinds, Sources: p.sources, Aggregates: p.aggregates, Order: p.order, RankOf: p.rankOf,
	}, p.changed.fresh)
}

// mayHold reports whether a reservation is in force; see holds.Store.MayHold.
func (p *pass) mayHold(r columnar.Row, res *model.Reservation) bool {
	return p.e.store.holds.MayHold(r, res)
}

// blockUpTo withdraws, before the turn of the Need at a place in the order, the machines held for Needs
// that rank above it.
func (l *worker) blockUpTo(rank int32) {
	blocks := l.p.reserved.Blocks
	for l.nextBlock < len(blocks) && blocks[l.nextBlock].From <= rank {
		if r := blocks[l.nextBlock].Row; l.has(l.p.s.View.Class[r]) && l.p.reserved.Live(r) {
			l.take(r)
			l.undone = append(l.undone, r)
		}
		l.nextBlock++
	}
}

// anyLower reports whether an available machine is left for a kind that is held for a Need of lower rank.
func (p *pass) anyLower(k *state.Kind) bool { return p.reserved.Lower.Any(k, p.taken) }

// headCost is the sort key of a machine when the heads of tuples are compared; held machines follow all others.
func (p *pass) headCost(cost []uint32, r columnar.Row) uint64 {
	return p.reserved.Lower.HeadKey(cost[p.s.View.Class[r]], r)
}

// acquireLower claims machines of a stage that are held for Needs of lower rank, the lowest first.
func (l *worker) acquireLower(need int32, k *state.Kind, stage int) {
	if len(l.p.reserved.Lower.Classes[stage]) == 0 {
		return
	}
	for l.lacks != 0 {
		r := l.nextLower(need, k, stage)
		if r == columnar.None {
			return
		}
		l.acquired(r, need, stage)
	}
}

// nextLower returns the available held machine that goes first, of those that help the Need at work.
func (l *worker) nextLower(need int32, k *state.Kind, stage int) columnar.Row {
	best, first := columnar.None, uint32(math.MaxUint32)
	lower := &l.p.reserved.Lower
	list := lower.Classes[stage]
	for i := range list {
		x := &list[i]
		if l.p.classMask[x.Class]&l.lacks == 0 || !k.AcceptsClass(x.Class) || !lower.Head(x, l.p.taken) {
			continue
		}
		for _, r := range x.Rows[x.At:] {
			l.figures.probes++
			place := lower.Place(r)
			if place >= first {
				break
			}
			if lower.IsOpen(r, l.p.taken) && l.p.inDomain(r, need) {
				best, first = r, place
				break
			}
		}
	}
	return best
}

// voidFor ends the reservations of an owner when another Need takes one of its machines.
func (l *worker) voidFor(need int32, r columnar.Row) {
	if l.p.reserved.Live(r) && !l.p.reserved.OwnedBy(r, need) {
		l.void(l.p.s.Supply.Reservation(r).Owner, PlanRankLost)
	}
}

// voidTaken ends the reservations on machines that a Need has acquired. It runs after the Need
// has acquired everything, so the Need itself does not use what is set free.
func (l *worker) voidTaken(need int32) {
	if !l.p.reserved.Breakable {
		return
	}
	for r := l.p.lines[need].Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		l.voidFor(need, r)
	}
}

// voidAllTaken ends, after all Needs have acquired, the reservations on machines that others
// have claimed. An owner of a single machine was not checked before.
func (l *worker) voidAllTaken() {
	for _, b := range l.p.reserved.Blocks {
		if holder := l.p.claims.Of(b.Row); holder != state.Unclaimed {
			l.voidFor(holder, b.Row)
		}
	}
}

// voidLost ends the plans of a Need whose domain can no longer cover it, whatever is preempted
// there.
func (l *worker) voidLost(need int32) {
	if !l.p.reserved.Plans {
		return
	}
	for _, r := range slices.Clone(l.p.reserved.Of(need)) {
		if !l.p.reserved.Live(r) {
			continue
		}
		if res := l.p.s.Supply.Reservation(r); l.p.e.store.holds.OfPlan(&res) {
			l.void(res.Owner, PlanDomainLost)
		}
	}
}

// voidAll ends all that is held for a Need which a higher rank has taken something from.
func (l *worker) voidAll(need int32) {
	for _, r := range slices.Clone(l.p.reserved.Of(need)) {
		if l.p.reserved.Live(r) {
			l.void(l.p.s.Supply.Reservation(r).Owner, PlanRankLost)
		}
	}
}

// void ends an owner's reservations for a cause. The Idle machines among them become available like any other.
func (l *worker) void(owner model.Owner, why PlanEnd) {
	l.p.reserved.End(l.arena, owner, why, func(r columnar.Row) {
		l.p.noteFreed(r)
		if l.p.s.View.State[r] == model.Idle {
			l.unhold(r)
		}
	})
}

// unhold makes an Idle machine available that is not held any more.
func (l *worker) unhold(r columnar.Row) {
	if l.p.claimed(r) || l.p.preempted.takenBy(r) != order.None {
		return
	}
	if l.p.taken[r] {
		l.putBack(r)
	} else {
		l.p.stock.epoch++ // as putBack does
		l.offer(r)
		l.acquiring.domains.Rewind(r)
	}
	l.revive(l.p.s.View.Class[r])
}

// revive lets Needs that found nothing try again, since a machine of a class has become free.
func (l *worker) revive(class uint32) {
	for i := range l.p.kinds {
		if l.p.kinds[i].AcceptsClass(class) {
			atomic.StoreUint32(&l.p.shortage.spent[i], 0)
		}
	}
	l.acquiring.revived = true
}

// spareDrains lets plans count on machines that drain for nobody any more, now that the Need at a
// rank has had its turn in phase 2: it waits for others that cover it, or all owners of a
// reservation that ended in this pass have had their turns and do not count on the machine.
// It reports whether there are any.
func (l *worker) spareDrains(rank int32) bool {
	before := l.search.moreUnits
	spare := func(r columnar.Row) {
		if l.p.preempted.takenBy(r) == order.None && !l.p.preempted.spared.Has(uint32(r)) {
			l.p.preempted.spared.Set(uint32(r))
			l.p.preempted.sparedRows = alloc.Append(l.p.e.arena, l.p.preempted.sparedRows, r)
			l.search.moreUnits++
		}
	}
	if rank != holds.NoRank {
		l.p.eachUnneeded(l.p.order[rank], spare)
	}
	l.p.reserved.Passed(rank, func(r columnar.Row) {
		if !l.p.preempted.flying.Has(uint32(r)) {
			spare(r)
		}
	})
	return l.search.moreUnits > before
}

// eachUnneeded calls f for the draining machines that no owner needs any more, once the Need has had its
// turn. Very many equal rows may share very many machines, so it looks at the machines only when no
// other owner is left that could need them.
func (p *pass) eachUnneeded(need int32, f func(columnar.Row)) {
	rows := p.reserved.Of(need)
	if len(rows) == 0 || !p.reserved.IsMixed(need) && !p.isLastShort(need, p.reserved.Members(rows[0])) {
		return
	}
	for _, r := range rows {
		members := p.reserved.Members(r)
		if p.s.View.State[r] != model.Draining || !p.isLastShort(need, members) {
			continue
		}
		if res := p.s.Supply.Reservation(r); p.isUnneeded(r, &res, members) {
			f(r)
		}
	}
}

// isLastShort reports whether a Need is the last in rank order, of some, that lacks something.
func (nt *needTable) isLastShort(need int32, needs []int32) bool {
	for i := len(needs) - 1; i >= 0; i-- {
		if !nt.lines[needs[i]].Is(state.IsSatisfied) {
			return needs[i] == need
		}
	}
	return false
}

// heldFor returns, in keep order, what is held for a Need, and what still drains of its own
// plan that ended in this pass, unless another plan counts on it.
func (p *pass) heldFor(need int32) []columnar.Row {
	rows, drains := p.reserved.Of(need), p.reserved.Draining(need)
	if len(drains) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	for _, r := range drains {
		if p.preempted.takenBy(r) == order.None {
			rows = append(rows, r)
		}
	}
	holds.SortKeep(p.s, rows)
	return rows
}

// isFreeFor reports whether a free machine is unclaimed and not held for an owner ranked above
// a Need.
func (l *worker) isFreeFor(r columnar.Row, need int32) bool {
	return !l.p.claimed(r) && l.p.preempted.takenBy(r) == order.None && (!l.p.taken[r] || l.p.reserved.OwnedBy(r, need))
}

// isUnneeded reports whether a plan's machine that is on its way is not needed: its owners are
// covered without it.
func (p *pass) isUnneeded(r columnar.Row, res *model.Reservation, members []int32) bool {
	if !p.e.store.holds.OfPlan(res) || len(members) == 0 || p.preempted.flying.Has(uint32(r)) {
		return false
	}
	return !slices.ContainsFunc(members, func(n int32) bool {
		leaving := p.s.View.State[r] == model.Draining ||
			p.s.View.State[r] == model.Configured && p.s.ClusterOf[p.s.View.Cluster[r]] != p.lines[n].Cluster
		awaitsAll := p.lines[n].Is(state.IsAwaiting) && !p.lines[n].Is(state.HasOwnPlan)
		return !leaving || !p.lines[n].Is(state.IsSatisfied) && !awaitsAll
	})
}
