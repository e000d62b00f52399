package victims

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Most needs that are short stay short, because supply is exhausted: no machine is left that
// phase 2 could take for them. This depends on the kind alone, so it is memoized per kind. An
// event that could give the kind something invalidates the memo: a plan leaves part of a gang
// to others, a plan ends, or a machine is put back. Needs for which something is held skip the
// memo and always have their turn.

// ExhaustedForever marks, in Finding.ExhaustedSince, kinds for which no event of the pass can
// make a difference.
const ExhaustedForever = ^uint64(0)

// EventsVersion is a version counter of the events that may give a kind something.
func (l *Worker) EventsVersion() uint64 { return l.p.Stock.Epoch + l.UnitsVersion() }

// IsKnownExhausted reports whether it is memoized that phase 2 can do nothing for needs of a
// kind for which nothing is held.
func (l *Worker) IsKnownExhausted(kind uint32) bool {
	since := l.Finding.ExhaustedSince[kind]
	return since == ExhaustedForever || since == l.EventsVersion()
}

// IsExhausted finds out, with victims by gangs, whether phase 2 can do nothing for needs of a
// kind for which nothing is held, and memoizes a yes.
func (l *Worker) IsExhausted(kind uint32) bool {
	k := &l.p.Kinds[kind]
	if !l.p.noneFreed(k) || !l.NoneToTake(k) {
		return false
	}
	l.Finding.ExhaustedSince[kind] = l.EventsVersion()
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
	}
	t, x := &l.p.st.Gangs, &l.UnitsFor(k).Anywhere
	usable := func(r columnar.Row) bool {
		return l.p.Promised.TakenBy(r) == ranks.None && k.AcceptsClass(l.p.Snap.View.Class[r])
	}
	x.SortGroups(l.p.Snap.IDPlaces())
	for i := x.NextLive(0); i < len(x.VictimGroups); i = x.NextLive(i + 1) {
		f := &x.VictimGroups[i]
		if IsShut(l.p, f) || !k.AcceptsClass(f.Class) {
			continue
		}
		if l.p.HasLeft(f) && l.FirstOpen(f.Alike, AnyCluster) < len(f.Rows) {
			return false
		}
		NoteShut(l, f)
	}
	if x.someUnlisted(l, k) || slices.ContainsFunc(x.Broken, usable) {
		return false
	}
	for _, g := range x.Gangs {
		if slices.ContainsFunc(t.List[g].Members, usable) {
			return false
		}
	}
	return !slices.ContainsFunc(x.SunkIn(l, k), func(u units.Unit) bool { return u.Remainder && usable(u.Row) })
}

// someUnlisted reports whether a victim group that the scope does not list yet has a machine for a kind. To list groups, Extend scores and
// sorts them; that is not needed to know whether there is one.
func (x *UnitScope) someUnlisted(l *Worker, k *state.Kind) bool {
	is := func(a *units.Alike) bool {
		return k.AcceptsClass(a.Class) && (a.Excess || a.Level >= shutBelow(l.p, a.Class)) && !noneOpen(l, a)
	}
	if slices.ContainsFunc(x.more.Pending, func(f units.VictimGroup) bool { return is(f.Alike) }) {
		return true
	}
	if x.more.Roster == nil {
		return false
	}
	rest := x.more
	for a := rest.First(); a != nil; a = rest.First() {
		if is(a) {
			return true
		}
		rest.Next++
	}
	return false
}

// HasLeft reports whether a victim group has a machine that no plan has taken, and sets gone.
func (p *Pass) HasLeft(f *units.VictimGroup) bool {
	f.Gone = !p.someLeft(f.Alike)
	return !f.Gone
}

// AnyCluster stands for no cluster: the machines of all clusters are others'.
const AnyCluster int32 = -1

// FirstOpen returns the index of an alike's first machine that is there for some Need of a cluster, to which none of its own is; see
// IsThere. Very many machines may be held for others, or be the cluster's own, while very many Needs look for one. So each is looked
// at once, and again only if it may be there since or another cluster asks: amortized O(1), but for such changes.
func (l *Worker) FirstOpen(a *units.Alike, cluster int32) int {
	p := l.p
	switch {
	case !a.Leaving:
		p.Candidates.ended.update(p, a, p.Reserved.Ended)
	case a.IsFreeSoon():
		p.Candidates.spared.update(p, a, p.Preempted.SparedRows)
	}
	for a.Next = max(a.Next, a.At); a.Next < len(a.Rows) && !p.IsThere(a, a.Rows[a.Next]); {
		l.Figures.Probes++
		a.Next++
	}
	if cluster == AnyCluster || a.Acquired { // what was acquired is in no cluster
		return a.Next
	}
	if a.Own.Cluster != cluster {
		a.Own = units.OwnRows{Cluster: cluster}
	}
	for a.Own.Next = max(a.Own.Next, a.Next); a.Own.Next < len(a.Rows); a.Own.Next++ {
		if r := a.Rows[a.Own.Next]; p.Snap.ClusterOf[p.Snap.View.Cluster[r]] != cluster && p.IsThere(a, r) {
			break
		}
		l.Figures.Probes++
	}
	return a.Own.Next
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
// advances a.At past taken machines: amortized O(1), since a taken machine stays taken in a
// pass.
func (p *Pass) someLeft(a *units.Alike) bool {
	a.Sort(p.Snap.IDPlaces())
	for a.At < len(a.Rows) && (p.Preempted.VictimOf.Has(uint32(a.Rows[a.At])) || p.Promised.TakenBy(a.Rows[a.At]) != ranks.None) {
		a.At++
	}
	return a.At < len(a.Rows)
}

// cheapestByClass returns lower bounds by class, for Needs without and with Same: at most the lowest priority of a
// Configured machine, or of the Need that a draining machine is reserved for or, with Same, that has acquired a
// machine. A kind of that priority or lower finds nothing in the class, unless the bound is math.MinInt32, which means
// that a machine is there for every priority.
func (p *Pass) cheapestByClass() (out, same []int32) {
	out = alloc.MakeDirty[int32](p.Arena, len(p.Snap.Classes))
	for c := range out {
		out[c] = math.MaxInt32
	}
	for c := range p.st.Clusters {
		for _, x := range p.st.Clusters[c].Cheapest {
			out[x.Class] = min(out[x.Class], x.Priority)
		}
	}
	some := false
	for i := range p.Candidates.leaving {
		m := &p.Candidates.leaving[i]
		if m.acquired {
			some = true
			continue
		}
		out[m.class] = min(out[m.class], m.priority) // math.MinInt32 if it drains for nobody
	}
	if !some {
		return out, out
	}
	same = alloc.MakeDirty[int32](p.Arena, len(out))
	copy(same, out)
	for i := range p.Candidates.leaving {
		m := &p.Candidates.leaving[i]
		same[m.class] = min(same[m.class], m.priority)
	}
	return out, same
}

// FindVictims marks the kinds for which no victim exists anywhere.
func (l *Worker) FindVictims() {
	l.p.Crew.Each(len(l.p.st.Clusters), cycle.ClustersPerChunk, l.p.st.tasks.worths)
	plain, same := l.p.cheapestByClass()
	l.Finding.ExhaustedSince = alloc.Make[uint64](l.Arena, len(l.p.Kinds))
	l.Finding.GoneSince = alloc.Make[uint64](l.Arena, len(l.p.Kinds))
	for i := range l.p.Kinds {
		k, cheapest := &l.p.Kinds[i], plain
		if k.Same {
			cheapest = same
		}
		if !isBelow(cheapest, k.Classes, k.Priority) {
			l.p.Candidates.PoolOf[k.Number] = l.p.Candidates.noVictims
			if l.p.Opts.Victims != plan.VictimsGang && !k.Same {
				l.Finding.ExhaustedSince[i] = ExhaustedForever
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

// noteLate is NotePriorities for a cluster of which some needs were credited after the others.
func (l *Worker) noteLate(c int) {
	if x := &l.p.st.Clusters[c]; len(x.Uncredited) > 0 {
		l.NotePriorities(c, x.Waiting)
	}
}

// UnitsVersion is a version counter: it grows whenever a need may find a unit where it found
// none before. Memos of "nothing to preempt" are valid as long as it stays the same.
func (l *Worker) UnitsVersion() uint64 {
	return uint64(l.Finding.MoreUnits + l.p.Reserved.Voided())
}

// WasPutBack reports whether a machine was put back that could serve a kind: one bitmap test.
func (p *Pass) WasPutBack(k *state.Kind) bool {
	return p.Promised.Freed != nil && cycle.Meet(p.Promised.Freed, k.Accepts)
}
