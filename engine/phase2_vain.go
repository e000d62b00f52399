package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// Most needs that are short stay so, because supply is: nothing is left that
// could be taken for them. That hangs on the kind alone, so it is found out once
// per kind, and anew when something has happened that could give it something: a
// plan has left some of a gang to others, or one has ended, or a machine was put
// back. What is held for a need is its own, and needs with that have their
// turn in any case.

// vainForever stands in lane.vainSince for kinds for which nothing that happens
// makes a difference.
const vainForever = ^uint64(0)

// happened counts what may give a kind something.
func (l *lane) happened() uint64 { return l.epoch + l.mayHaveMore() }

// isKnownVain reports whether it has been found out that phase 2 can do nothing
// for needs of a kind for whom nothing is held.
func (l *lane) isKnownVain(kind uint32) bool {
	since := l.vainSince[kind]
	return since == vainForever || since == l.happened()
}

// isInVain finds out, with gangs, whether phase 2 can do anything for needs of a
// kind for whom nothing is held.
func (l *lane) isInVain(kind uint32) bool {
	k := &l.kinds[kind]
	if !l.noneFreed(k) || !l.noneToTake(k) {
		return false
	}
	l.vainSince[kind] = l.happened()
	return true
}

// noneFreed reports whether nothing that a kind could acquire has turned free
// since phase 1.
func (l *lane) noneFreed(k *kind) bool { return !l.anyFree(k) || !l.wasPutBack(k) }

// noneToTake reports whether it is certain that there is no unit for a kind,
// whoever asks.
func (l *lane) noneToTake(k *kind) bool {
	switch {
	case l.reclaiming:
		return false // other units are there
	case k.victims == l.noVictims:
		return true
	case l.e.opts.Explain:
		return false // where was looked is told
	}
	t, x := &l.e.store.gangs, &l.unitsFor(k).anywhere
	usable := func(r columnar.Row) bool { return l.takenBy(r) == noNeed && k.acceptsClass(l.s.View.Class[r]) }
	x.order(l.s.IDRank)
	for i := l.liveOrMore(x, 0); i < len(x.flavours); i = l.liveOrMore(x, i+1) {
		if f := &x.flavours[i]; k.acceptsClass(f.class) && l.hasLeft(f) {
			return false
		}
	}
	if slices.ContainsFunc(x.broken, usable) {
		return false
	}
	for _, g := range x.gangs {
		if slices.ContainsFunc(t.list[g].members, usable) {
			return false
		}
	}
	return !slices.ContainsFunc(l.sunkIn(x, k), func(u unit) bool { return u.remainder && usable(u.row) })
}

// hasLeft reports whether a flavour has a machine that no plan has taken.
func (l *lane) hasLeft(f *flavour) bool {
	f.gone = !l.someLeft(f.alike)
	return !f.gone
}

// someLeft is hasLeft for machines that are alike, whatever flavour they are.
func (l *lane) someLeft(a *alike) bool {
	a.sort(l.s.IDRank)
	for a.at < len(a.rows) && (l.victimOf.Has(uint32(a.rows[a.at])) || l.takenBy(a.rows[a.at]) != noNeed) {
		a.at++
	}
	return a.at < len(a.rows)
}
