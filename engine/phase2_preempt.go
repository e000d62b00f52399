package engine

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// preempt is phase 2. For each unsatisfied need, in rank order, it looks for machines of lower
// priority in other clusters that would cover the rest. It binds nothing: a victim drains, and
// the need acquires it in a later cycle.
func (l *worker) preempt() {
	l.p.candidates.turns = turns{}
	l.findLeaving()
	l.findVictims()
	l.reopen()
	if l.p.e.opts.Victims == VictimsGang {
		l.preemptByGangs()
	} else {
		l.preemptSingly()
	}
	l.p.preempted.settleVictims()
	l.reclaimBetweenTenants()
}

// preemptByGangs is phase 2 over units, where a gang is one unit (Options.Victims = gang).
func (l *worker) preemptByGangs() {
	l.p.e.store.gangs.begin(l.p)
	if l.p.nobodyHasTurn() {
		return
	}
	l.spareDrains(holds.NoRank)
	t := l.findTurns()
	since := l.happened()
	for rank := t.next(0); rank < len(l.p.order); rank = t.next(rank + 1) {
		if t.marks[rank]&hasTurn != 0 {
			had := len(l.p.preempted.victims)
			since = l.turnAt(t, rank, since)
			l.p.noteLosers(t, had)
		}
		if t.marks[rank]&hasLost != 0 {
			l.replaceLost(l.p.order[rank])
		}
	}
}

// turnAt is the turn in phase 2 of the need at a rank. since is happened() after the turn before; it returns
// that after this one.
func (l *worker) turnAt(t *turns, rank int, since uint64) uint64 {
	kind := l.p.kindAt[rank]
	if at := l.search.exhaustedSince[kind]; (at == since || at == exhaustedForever) && !l.p.shortage.special[rank] && l.p.shortage.skewed[kind] == 0 {
		return since // the common case: supply of the kind is exhausted
	}
	need := l.p.order[rank]
	passed := t.marks[rank]&isOutlined != 0 && !l.p.searchEnded() && l.isRefused(t, rank) || l.isPassedOver(rank, need, kind)
	if !passed {
		l.blockUpTo(int32(rank))
		l.planFor(need, &l.p.kinds[kind])
	}
	if l.spareDrains(int32(rank)) || !passed {
		l.watch(t, rank+1)
		return l.happened()
	}
	return since
}

// preemptSingly is phase 2 over single machines (Options.Victims = machine).
func (l *worker) preemptSingly() {
	for rank, lacks := range l.p.lacking[:len(l.p.order)] {
		if !lacks {
			continue
		}
		if need, kind := l.p.order[rank], l.p.kindAt[rank]; !l.isPassedOver(rank, need, kind) {
			l.blockUpTo(int32(rank))
			l.preemptFor(need, kind)
		}
	}
}

// isPassedOver reports whether phase 2 can do nothing for a need that lacked something after
// credit. rank and kind are the need's.
func (l *worker) isPassedOver(rank int, need int32, kind uint32) bool {
	gangs := l.p.e.opts.Victims == VictimsGang
	exhausted := !l.p.shortage.special[rank] && !(gangs && l.mayEvenOut(rank, kind))
	if exhausted && l.isKnownExhausted(kind) {
		return true // the common case: supply of the kind is exhausted
	}
	return l.p.lines[need].Status&(state.IsSatisfied|state.IsParked) != 0 || !l.p.isShort(rank) || exhausted && gangs && l.isExhausted(kind)
}

// preemptFor takes victims for a need machine by machine.
func (l *worker) preemptFor(need int32, kind uint32) {
	k := &l.p.kinds[kind]
	if l.nothingToPreempt(need, k) {
		if !k.Same && l.p.spentVictims(&l.p.candidates.poolOf[k.Number].victimList) {
			l.search.exhaustedSince[kind] = exhaustedForever
		}
		return
	}
	l.visit(need)
	switch {
	case k.Same:
		l.preemptSame(need, k)
	case len(k.Spread) > 0:
		l.preemptSpread(need, k)
	default:
		l.preemptPlain(need, k)
	}
}

// mayEvenOut reports whether the need at a rank may find a free machine in phase 2 that hard
// spread did not allow in phase 1: later claims may have evened out the counts. goneSince
// memoizes that nothing is free for the kind.
func (l *worker) mayEvenOut(rank int, kind uint32) bool {
	if l.p.shortage.skewed[kind] == 0 || l.search.goneSince[kind] == l.happened() {
		return false
	}
	if !l.p.anyFree(&l.p.kinds[kind]) {
		l.search.goneSince[kind] = l.happened()
		return false
	}
	return l.p.lines[l.p.order[rank]].Is(state.IsSkewBlocked)
}

// reopen restarts phase 2 at the head of the order. A reserved Idle machine is again a
// candidate for every need that ranks above its owner, so it is put back.
func (l *worker) reopen() {
	for _, b := range l.p.reserved.Blocks {
		if !l.p.claimed(b.Row) && l.p.preempted.takenBy(b.Row) == order.None {
			l.putBack(b.Row)
		}
	}
	l.nextBlock = 0
}

// cheapestByClass returns lower bounds by class, for Needs without and with Same: at most the lowest priority of a
// Configured machine, or of the Need that a draining machine is reserved for or, with Same, that has acquired a
// machine. A kind of that priority or lower finds nothing in the class, unless the bound is math.MinInt32, which means
// that a machine is there for every priority.
func (p *pass) cheapestByClass() (out, same []int32) {
	out = alloc.MakeDirty[int32](p.e.arena, len(p.s.Classes))
	for c := range out {
		out[c] = math.MaxInt32
	}
	for c := range p.e.store.clusters {
		for _, x := range p.e.store.clusters[c].cheapest {
			out[x.class] = min(out[x.class], x.priority)
		}
	}
	some := false
	for i := range p.candidates.leaving {
		m := &p.candidates.leaving[i]
		if m.acquired {
			some = true
			continue
		}
		out[m.class] = min(out[m.class], m.priority) // math.MinInt32 if it drains for nobody
	}
	if !some {
		return out, out
	}
	same = alloc.MakeDirty[int32](p.e.arena, len(out))
	copy(same, out)
	for i := range p.candidates.leaving {
		m := &p.candidates.leaving[i]
		same[m.class] = min(same[m.class], m.priority)
	}
	return out, same
}

// leavingMachine is a draining machine, either with the priority of the Need it drains for, or as one that
// drains for nobody. One that is promised is listed both ways: drainsAs tells which holds.
type leavingMachine struct {
	class, id uint32 // id is the rank of its id
	priority  int32
	promised  bool
	acquired  bool // see listAcquired
	row       columnar.Row
}

// findLeaving lists the machines of listAcquired and, with victims by gangs, the draining machines: by class; of a class
// first all that drain by id, then by priority, those that drain first.
func (l *worker) findLeaving() {
	p := l.p
	p.candidates.leaving = nil
	acquired := l.listAcquired()
	count := 0
	if p.e.opts.Victims == VictimsGang {
		count = p.s.Supply.Count(model.Draining)
	}
	if count+len(acquired) == 0 {
		return
	}
	list := alloc.MakeDirty[leavingMachine](p.e.arena, 2*count+len(acquired))
	list = list[:copy(list, acquired)]
	if count > 0 { // an iterator is allocated
		for rows := p.s.Supply.InState(model.Draining).Iterator(); rows.HasNext(); {
			r := columnar.Row(rows.Next())
			x := leavingMachine{class: p.s.View.Class[r], id: p.s.IDRank[r], priority: math.MinInt32, row: r}
			list = append(list, x)  // from the beginning, or once its owners turn out not to need it
			if p.reserved.Live(r) { // or until they do: a plan may take what has satisfied one
				x.priority, x.promised = p.priorityOfHold(r), true
				list = append(list, x)
			}
		}
	}
	slices.SortFunc(list, func(a, b leavingMachine) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.priority, b.priority),
			exact.TrueFirst(b.promised, a.promised), exact.TrueFirst(b.acquired, a.acquired), cmp.Compare(a.id, b.id))
	})
	p.candidates.leaving = list
}

// promisedTo returns the priority of the Need that a machine drains for. promised is false if
// it drains for nobody, or for needs that are satisfied without it.
func (p *pass) promisedTo(r columnar.Row) (priority int32, promised bool) {
	if !p.reserved.Live(r) || p.isGivenUp(r) {
		return math.MinInt32, false
	}
	return p.priorityOfHold(r), true
}

// priorityOfHold returns the priority of the first owner of a live reservation; the record's, if none is known.
func (p *pass) priorityOfHold(r columnar.Row) int32 {
	if members := p.reserved.Members(r); len(members) > 0 {
		return p.kindOf(members[0]).Priority
	}
	return p.s.Supply.Reservation(r).Priority
}

// isGivenUp reports whether a machine drains for needs that are satisfied without it. Its
// reservation ends, but only after this pass.
func (p *pass) isGivenUp(r columnar.Row) bool {
	members := p.reserved.Members(r)
	return len(members) > 0 && p.s.View.State[r] == model.Draining &&
		!slices.ContainsFunc(members, func(n int32) bool { return !p.lines[n].Is(state.IsSatisfied) })
}

// drainsAs reports whether a draining machine is what a list has it as: promised to a Need, or there for
// everybody. One whose reservation was voided in this pass is neither until its owners have had their
// turns.
func (p *pass) drainsAs(r columnar.Row, promised bool) bool {
	if p.preempted.spared.Has(uint32(r)) || p.reserved.IsVoided(r) {
		return !promised && p.preempted.spared.Has(uint32(r))
	}
	_, is := p.promisedTo(r)
	return is == promised
}

// isThereAs reports whether no plan counts on a draining or acquired machine, and it is still what a list has it as.
func (p *pass) isThereAs(list *units.VictimGroupKey, r columnar.Row) bool {
	if list.Acquired {
		return p.isAcquired(r)
	}
	return p.preempted.takenBy(r) == order.None && p.drainsAs(r, list.Promised)
}

// leavingOf returns the draining and acquired machines of a class.
func (x *candidates) leavingOf(class uint32) []leavingMachine {
	compare := func(m leavingMachine, class uint32) int { return cmp.Compare(m.class, class) }
	from, _ := slices.BinarySearchFunc(x.leaving, class, compare)
	to, _ := slices.BinarySearchFunc(x.leaving, class+1, compare)
	return x.leaving[from:to]
}

// classPriority is the lowest priority of a cluster's Configured machines of a class.
type classPriority struct {
	class    uint32
	priority int32
}

// notePriorities records what each of a cluster's machines is worth as a victim after its
// credit: the priority of the need that claims it, or of its stamp if none does. classes is a
// bitmap of the classes to refresh, nil = all; the values of other classes stay valid.
func (l *worker) notePriorities(c int, classes []uint64) {
	priority := l.p.e.store.priority
	bound := l.p.s.BoundOf(c)
	for _, g := range l.p.s.GroupsOf(c) {
		if classes == nil || classes[g.Class>>6]>>(g.Class&63)&1 != 0 {
			for at := g.First + 1; at != 0; at = bound[at-1].Next {
				r := bound[at-1].Row
				priority[r] = l.p.priorityOf(r)
			}
		}
	}
	l.findCheapest(c, classes)
}

// findCheapest finds, per class, the lowest recorded priority of a cluster's Configured
// machines. classes is a bitmap of the classes to refresh, nil = all; others keep their value.
func (l *worker) findCheapest(c int, classes []uint64) {
	x, priority := &l.p.e.store.clusters[c], l.p.e.store.priority
	l.crediting.cheapest = append(l.crediting.cheapest[:0], x.cheapest...)
	was := l.crediting.cheapest
	x.cheapest = x.cheapest[:0]
	configured := uint32(l.p.s.Configured(c))
	bound := l.p.s.BoundOf(c)
	for _, g := range l.p.s.GroupsOf(c) {
		for len(was) > 0 && was[0].class < g.Class {
			was = was[1:]
		}
		if classes != nil && classes[g.Class>>6]>>(g.Class&63)&1 == 0 && len(was) > 0 && was[0].class == g.Class {
			x.cheapest = append(x.cheapest, was[0])
			continue
		}
		lowest := int32(math.MaxInt32)
		for at := g.First + 1; at != 0 && at <= configured; at = bound[at-1].Next {
			r := bound[at-1].Row
			if lowest = min(lowest, priority[r]); !l.p.claimed(r) && l.p.e.opts.Victims == VictimsGang {
				lowest = math.MinInt32 // excess is there for every priority
			}
		}
		x.cheapest = append(x.cheapest, classPriority{g.Class, lowest})
	}
}

// noteLate is notePriorities for a cluster of which some needs were credited after the others.
func (l *worker) noteLate(c int) {
	if x := &l.p.e.store.clusters[c]; len(x.uncredited) > 0 {
		l.notePriorities(c, x.waiting)
	}
}

// findVictims marks the kinds for which no victim exists anywhere.
func (l *worker) findVictims() {
	l.p.e.crew.Each(len(l.p.e.store.clusters), clustersPerChunk, l.p.e.tasks.worths)
	plain, same := l.p.cheapestByClass()
	l.search.exhaustedSince = alloc.Make[uint64](l.arena, len(l.p.kinds))
	l.search.goneSince = alloc.Make[uint64](l.arena, len(l.p.kinds))
	for i := range l.p.kinds {
		k, cheapest := &l.p.kinds[i], plain
		if k.Same {
			cheapest = same
		}
		if !isBelow(cheapest, k.Classes, k.Priority) {
			l.p.candidates.poolOf[k.Number] = l.p.candidates.noVictims
			if l.p.e.opts.Victims != VictimsGang && !k.Same {
				l.search.exhaustedSince[i] = exhaustedForever
			}
		}
	}
}

// isBelow reports whether the lower bound of some class, of cheapestByClass, lets a priority find something.
func isBelow(cheapest []int32, classes []uint32, priority int32) bool {
	for _, c := range classes {
		if lowest := cheapest[c]; lowest < priority || lowest == math.MinInt32 {
			return true
		}
	}
	return false
}

// nothingToPreempt reports whether phase 2 can change nothing for a need: no victim is left for
// it, and nothing drains for it. Exception: a Same-Need may find a domain complete once plans
// of this cycle have put back machines that phase 1 did not see free.
func (l *worker) nothingToPreempt(need int32, k *state.Kind) bool {
	if l.p.candidates.poolOf[k.Number] == nil {
		l.p.candidates.poolOf[k.Number] = l.victimPool(k)
	}
	return l.p.spentVictims(&l.p.candidates.poolOf[k.Number].victimList) && !l.p.reserved.Has(need) && !(k.Same && l.p.preempted.wasPutBack(k))
}

// spentVictims reports whether every candidate of a list has been taken. It advances v.at past
// taken ones: amortized O(1).
func (p *pass) spentVictims(v *victimList) bool {
	for v.at < len(v.list) && p.isTaken(&v.list[v.at]) {
		v.at++
	}
	return v.at == len(v.list)
}

// wasPutBack reports whether a machine was put back that could serve a kind: one bitmap test.
func (x *preempted) wasPutBack(k *state.Kind) bool {
	return x.freed != nil && meet(x.freed, k.Accepts)
}

// noteFreed records the class of a machine that is put back after phase 1 skipped it.
func (p *pass) noteFreed(r columnar.Row) {
	if p.preempted.freed == nil {
		p.preempted.freed = alloc.Make[uint64](p.e.arena, (len(p.s.Classes)+63)/64)
	}
	class := p.s.View.Class[r]
	p.preempted.freed[class>>6] |= 1 << (class & 63)
}

// preemptPlain takes victims for whatever is missing. A partial cover is of use too.
func (l *worker) preemptPlain(need int32, k *state.Kind) {
	l.resume(need)
	l.p.countInFlight(need, k, 0, l.missing)
	if l.lacks = positive(l.missing); l.lacks == 0 {
		l.p.lines[need].Status |= state.IsAwaiting
		return
	}
	l.search.wanted = append(l.search.wanted[:0], l.missing...)
	missing := l.search.wanted
	chosen, found := l.selectVictims(&l.p.candidates.poolOf[k.Number].victimList, need, k)
	if found {
		l.p.lines[need].Status |= state.HasCandidates
	}
	if l.lacks == 0 {
		l.p.lines[need].Status |= state.IsAwaiting
	}
	l.commit(l.p.giveBack(chosen, missing), need, k)
}

// countInFlight subtracts what drains for the need from what it misses, so that nothing is
// preempted for it twice, and records those machines. With domain ≠ 0 only machines in that
// domain, or cell, count. Needs of one owner use a machine up in rank order.
func (p *pass) countInFlight(need int32, k *state.Kind, domain uint32, missing []int64) (counted int) {
	for r := range p.onTheirWay(need) {
		if columnar.IsZero(missing) {
			return counted
		}
		if !p.arrives(r, need, k) || !columnar.Helps(p.vec(r), missing) {
			continue
		}
		if v, ok := p.cell(k.Matcher, r); !ok || domain != 0 && v != domain {
			continue
		}
		p.preempted.flying.Set(uint32(r))
		p.tenants.noteCounted(r, need)
		p.lines[need].Status |= state.HasPlan
		if counted++; p.reserved.HadMembers(r) {
			p.preempted.awaited = append(p.preempted.awaited, r)
		}
		if p.preempted.inFlight == nil {
			p.preempted.inFlight = map[int32][]int64{}
		}
		if p.preempted.inFlight[need] == nil {
			p.preempted.inFlight[need] = alloc.Make[int64](p.e.arena, p.dims)
		}
		columnar.SatAdd(p.preempted.inFlight[need], p.vec(r))
		columnar.SubClamp(missing, p.vec(r))
	}
	return counted
}

// onTheirWay lists what is held for a need as it counts on it: what drains already first, each in keep order.
func (p *pass) onTheirWay(need int32) iter.Seq[columnar.Row] {
	return func(yield func(columnar.Row) bool) {
		rows := p.heldFor(need)
		for _, drains := range [2]bool{true, false} {
			for _, r := range rows {
				if (p.s.View.State[r] == model.Draining) == drains && !yield(r) {
					return
				}
			}
		}
	}
}

// drainsFor reports whether a machine that is held for the need is on its way to it: it drains,
// or it will because its preemption was accepted.
func (p *pass) drainsFor(r columnar.Row, need int32, k *state.Kind) bool {
	switch p.s.View.State[r] {
	case model.Draining:
	case model.Configured:
		if p.s.ClusterOf[p.s.View.Cluster[r]] == p.lines[need].Cluster {
			return false
		}
	default:
		return false
	}
	return p.accepts(r, k)
}

// subInFlight subtracts what countInFlight would use, without recording it.
func (p *pass) subInFlight(need int32, k *state.Kind, domain uint32, missing []int64) {
	for r := range p.onTheirWay(need) {
		if columnar.IsZero(missing) {
			return
		}
		if v, ok := p.cell(k.Matcher, r); ok && v == domain && p.arrives(r, need, k) && columnar.Helps(p.vec(r), missing) {
			columnar.SubClamp(missing, p.vec(r))
		}
	}
}

// arrives reports whether a machine drains for the need and no other need of the same owner
// counts on it.
func (p *pass) arrives(r columnar.Row, need int32, k *state.Kind) bool {
	return p.drainsFor(r, need, k) && !p.preempted.flying.Has(uint32(r))
}
