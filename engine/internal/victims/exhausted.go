package victims

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Most needs that are short stay short, because supply is exhausted: no machine is left that
// phase 2 could take for them. This depends on the kind alone, so it is memoized per kind. An
// event that could give the kind something invalidates the memo: a plan leaves part of a gang
// to others, a plan ends, or a machine is put back. Needs for which something is held skip the
// memo and always have their turn.

// ExhaustedForever marks, in worker.ExhaustedSince, kinds for which no event of the pass can
// make a difference.
const ExhaustedForever = ^uint64(0)

// Happened is a version counter of the events that may give a kind something.
func (l *Worker) Happened() uint64 { return l.p.Stock.Epoch + l.MayHaveMore() }

// IsKnownExhausted reports whether it is memoized that phase 2 can do nothing for needs of a
// kind for which nothing is held.
func (l *Worker) IsKnownExhausted(kind uint32) bool {
	since := l.Finding.ExhaustedSince[kind]
	return since == ExhaustedForever || since == l.Happened()
}

// IsExhausted finds out, with victims by gangs, whether phase 2 can do nothing for needs of a
// kind for which nothing is held, and memoizes a yes.
func (l *Worker) IsExhausted(kind uint32) bool {
	k := &l.p.Kinds[kind]
	if !l.p.noneFreed(k) || !l.NoneToTake(k) {
		return false
	}
	l.Finding.ExhaustedSince[kind] = l.Happened()
	return true
}

// noneFreed reports whether nothing that a kind could acquire has turned free since phase 1.
func (p *Pass) noneFreed(k *state.Kind) bool {
	return !p.AnyFree(k) || !p.WasPutBack(k)
}

// NoneToTake reports whether it is certain that no unit exists for a kind, whichever cluster
// asks. False may mean "not known".
func (l *Worker) NoneToTake(k *state.Kind) bool {
	switch {
	case l.p.Tenants.Reclaiming:
		return false // reclaim between tenants has other units
	case l.p.Candidates.PoolOf[k.Number] == l.p.Candidates.noVictims:
		return true
	case l.p.Opts.Explain:
		return false // Explain reports where the search looked, so it must look
	}
	t, x := &l.p.st.Gangs, &l.UnitsFor(k).Anywhere
	usable := func(r columnar.Row) bool {
		return l.p.Promised.TakenBy(r) == ranks.None && k.AcceptsClass(l.p.Snap.View.Class[r])
	}
	x.Order(l.p.Snap.IDRank)
	for i := x.liveOrMore(l.p, 0); i < len(x.VictimGroups); i = x.liveOrMore(l.p, i+1) {
		if f := &x.VictimGroups[i]; k.AcceptsClass(f.Class) && l.p.HasLeft(f) && l.FirstOpen(f.Alike) < len(f.Rows) {
			return false
		}
	}
	if slices.ContainsFunc(x.Broken, usable) {
		return false
	}
	for _, g := range x.Gangs {
		if slices.ContainsFunc(t.List[g].Members, usable) {
			return false
		}
	}
	return !slices.ContainsFunc(x.SunkIn(l, k), func(u units.Unit) bool { return u.Remainder && usable(u.Row) })
}

// HasLeft reports whether a victim group has a machine that no plan has taken, and sets gone.
func (p *Pass) HasLeft(f *units.VictimGroup) bool {
	f.Gone = !p.someLeft(f.Alike)
	return !f.Gone
}

// FirstOpen returns the index of an alike's first machine that is there for some Need; see IsThere. Very many machines may be held
// for others while very many Needs look for one. So each is looked at once, and again only if it may be there since:
// amortized O(1), but for such changes.
func (l *Worker) FirstOpen(a *units.Alike) int {
	var changed []columnar.Row
	p := l.p
	if !a.Leaving {
		changed = p.Reserved.Ended
	} else if a.IsFreeSoon() {
		changed = p.Preempted.sparedRows
	}
	for ; a.Seen < len(changed); a.Seen++ {
		if r := changed[a.Seen]; p.Snap.View.Class[r] == a.Class {
			if at, ok := a.Find(r, p.Snap.IDRank); ok {
				a.Next = min(a.Next, at)
			}
		}
	}
	for a.Next = max(a.Next, a.At); a.Next < len(a.Rows) && !p.IsThere(a, a.Rows[a.Next]); {
		l.Figures.Probes++
		a.Next++
	}
	return a.Next
}

// IsThere reports whether a machine of an alike is no victim, no plan counts on it, and it is held for nobody or, if it leaves,
// is what the alike says.
func (p *Pass) IsThere(a *units.Alike, r columnar.Row) bool {
	if a.Leaving {
		return p.isThereAs(&a.VictimGroupKey, r)
	}
	return !p.Preempted.VictimOf.Has(uint32(r)) && p.Promised.TakenBy(r) == ranks.None && !p.Reserved.Live(r)
}

// someLeft is HasLeft for an alike, which the victim groups of several scopes share. It
// advances a.at past taken machines: amortized O(1), since a taken machine stays taken in a
// pass.
func (p *Pass) someLeft(a *units.Alike) bool {
	a.Sort(p.Snap.IDRank)
	for a.At < len(a.Rows) && (p.Preempted.VictimOf.Has(uint32(a.Rows[a.At])) || p.Promised.TakenBy(a.Rows[a.At]) != ranks.None) {
		a.At++
	}
	return a.At < len(a.Rows)
}

// ExcessClasses returns the set of classes of which a cluster may have unclaimed Configured machines;
// nil if there are none. With gangs the lowest priorities by class say so; with single victims any
// class may have some.
func (l *Worker) ExcessClasses(c int) []uint64 {
	gangs, some := l.p.Opts.Victims == plan.VictimsGang, false
	l.Crediting.Words = reuse.Resize(l.Crediting.Words, (len(l.p.Snap.Classes)+63)/64)
	for _, x := range l.p.st.Clusters[c].Cheapest {
		if !gangs || x.Priority == math.MinInt32 {
			l.Crediting.Words[x.Class>>6] |= 1 << (x.Class & 63)
			some = true
		}
	}
	if !some {
		return nil
	}
	return l.Crediting.Words
}
