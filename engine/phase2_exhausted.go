package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Most needs that are short stay short, because supply is exhausted: no machine is left that
// phase 2 could take for them. This depends on the kind alone, so it is memoized per kind. An
// event that could give the kind something invalidates the memo: a plan leaves part of a gang
// to others, a plan ends, or a machine is put back. Needs for which something is held skip the
// memo and always have their turn.

// exhaustedForever marks, in worker.exhaustedSince, kinds for which no event of the pass can
// make a difference.
const exhaustedForever = ^uint64(0)

// happened is a version counter of the events that may give a kind something.
func (l *worker) happened() uint64 { return l.p.stock.epoch + l.mayHaveMore() }

// isKnownExhausted reports whether it is memoized that phase 2 can do nothing for needs of a
// kind for which nothing is held.
func (l *worker) isKnownExhausted(kind uint32) bool {
	since := l.search.exhaustedSince[kind]
	return since == exhaustedForever || since == l.happened()
}

// isExhausted finds out, with victims by gangs, whether phase 2 can do nothing for needs of a
// kind for which nothing is held, and memoizes a yes.
func (l *worker) isExhausted(kind uint32) bool {
	k := &l.p.kinds[kind]
	if !l.p.noneFreed(k) || !l.noneToTake(k) {
		return false
	}
	l.search.exhaustedSince[kind] = l.happened()
	return true
}

// noneFreed reports whether nothing that a kind could acquire has turned free since phase 1.
func (p *pass) noneFreed(k *state.Kind) bool { return !p.anyFree(k) || !p.preempted.wasPutBack(k) }

// noneToTake reports whether it is certain that no unit exists for a kind, whichever cluster
// asks. False may mean "not known".
func (l *worker) noneToTake(k *state.Kind) bool {
	switch {
	case l.p.tenants.reclaiming:
		return false // reclaim between tenants has other units
	case l.p.candidates.poolOf[k.Number] == l.p.candidates.noVictims:
		return true
	case l.p.e.opts.Explain:
		return false // Explain reports where the search looked, so it must look
	}
	t, x := &l.p.e.store.gangs, &l.unitsFor(k).anywhere
	usable := func(r columnar.Row) bool {
		return l.p.preempted.takenBy(r) == order.None && k.AcceptsClass(l.p.s.View.Class[r])
	}
	x.order(l.p.s.IDRank)
	for i := l.p.liveOrMore(x, 0); i < len(x.victimGroups); i = l.p.liveOrMore(x, i+1) {
		if f := &x.victimGroups[i]; k.AcceptsClass(f.Class) && l.p.hasLeft(f) && l.firstOpen(f.Alike) < len(f.Rows) {
			return false
		}
	}
	if slices.ContainsFunc(x.broken, usable) {
		return false
	}
	for _, g := range x.gangs {
		if slices.ContainsFunc(t.list[g].Members, usable) {
			return false
		}
	}
	return !slices.ContainsFunc(l.sunkIn(x, k), func(u units.Unit) bool { return u.Remainder && usable(u.Row) })
}

// hasLeft reports whether a victim group has a machine that no plan has taken, and sets gone.
func (p *pass) hasLeft(f *units.VictimGroup) bool {
	f.Gone = !p.someLeft(f.Alike)
	return !f.Gone
}

// firstOpen returns the index of an alike's first machine that is there for some Need; see isThere. Very many machines may be held
// for others while very many Needs look for one. So each is looked at once, and again only if it may be there since:
// amortized O(1), but for such changes.
func (l *worker) firstOpen(a *units.Alike) int {
	var changed []columnar.Row
	p := l.p
	if !a.Leaving {
		changed = p.reserved.Ended
	} else if a.IsFreeSoon() {
		changed = p.preempted.sparedRows
	}
	for ; a.Seen < len(changed); a.Seen++ {
		if r := changed[a.Seen]; p.s.View.Class[r] == a.Class {
			if at, ok := a.Find(r, p.s.IDRank); ok {
				a.Next = min(a.Next, at)
			}
		}
	}
	for a.Next = max(a.Next, a.At); a.Next < len(a.Rows) && !p.isThere(a, a.Rows[a.Next]); {
		l.figures.probes++
		a.Next++
	}
	return a.Next
}

// isThere reports whether a machine of an alike is no victim, no plan counts on it, and it is held for nobody or, if it leaves,
// is what the alike says.
func (p *pass) isThere(a *units.Alike, r columnar.Row) bool {
	if a.Leaving {
		return p.isThereAs(&a.VictimGroupKey, r)
	}
	return !p.preempted.victimOf.Has(uint32(r)) && p.preempted.takenBy(r) == order.None && !p.reserved.Live(r)
}

// someLeft is hasLeft for an alike, which the victim groups of several scopes share. It
// advances a.at past taken machines: amortized O(1), since a taken machine stays taken in a
// pass.
func (p *pass) someLeft(a *units.Alike) bool {
	a.Sort(p.s.IDRank)
	for a.At < len(a.Rows) && (p.preempted.victimOf.Has(uint32(a.Rows[a.At])) || p.preempted.takenBy(a.Rows[a.At]) != order.None) {
		a.At++
	}
	return a.At < len(a.Rows)
}
