package victims

import (
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Needs of many matchers and priorities look at the same machines. So what could be preempted
// is found once per class, on first use, and pools are composed of that:
//
//	clusters    lowest priority of each class (ClusterState.Cheapest): prunes most clusters,
//	            since their machines are not low enough
//	classes     machines of no gang, grouped by what makes them alike; gangs; victimsOf
//	pools       of the classes of a matcher, what is below a priority; poolUnits
//	domains     dealt from the pools of matchers with a Same key; deal
//
// A class is listed for the highest priority that will ask, so lower ones read the same list.

// victimsOf returns what needs of a priority could preempt of a class. It lists the class again
// if the last listing was for a lower priority.
func (l *Worker) victimsOf(class uint32, priority int32) *units.ClassVictims {
	t := &l.p.st.Gangs.Victims
	if len(t.Of) == 0 {
		l.p.layVictims(t)
	}
	x := &t.Of[class]
	if !x.Listed || x.Priority < priority {
		if x.Listed, x.Priority = true, priority; t.Most != nil {
			x.Priority = max(priority, t.Most[class])
		}
		l.listVictims(t, x, class)
	}
	return x
}

// layVictims builds holders, a counting sort of the clusters by class.
func (p *Pass) layVictims(t *units.VictimTable) {
	classes := len(p.Snap.Classes)
	t.Of = reuse.Grown(t.Of, classes)
	for c := range t.Of {
		t.Of[c].Listed = false
		t.Of[c].Reopen()
	}
	clusters := p.st.Clusters
	t.From = reuse.Resize(t.From, classes+2)
	for c := range clusters {
		for _, x := range clusters[c].Cheapest {
			t.From[x.Class+2]++
		}
	}
	for c := range classes {
		t.From[c+2] += t.From[c+1]
	}
	t.Holders = reuse.Grown(t.Holders, int(t.From[classes+1]))
	for c := range clusters {
		groups := p.Snap.GroupsOf(c)
		for i, x := range clusters[c].Cheapest { // one for each group
			at := &t.From[x.Class+1]
			t.Holders[*at] = units.Holder{Cluster: int32(c), First: groups[i].First, Lowest: x.Priority}
			*at++
		}
	}
}

// listVictims finds what could be preempted of a class.
func (l *Worker) listVictims(t *units.VictimTable, x *units.ClassVictims, class uint32) {
	x.Alikes, x.Broken, x.Gangs = x.Alikes[:0], nil, nil
	t.Serial++
	x.Serial = t.Serial
	gangs := &l.p.st.Gangs
	gangs.Round++
	if t.Rows.Top() < l.p.Snap.Supply.RowMax() {
		t.Rows.Grow(l.p.Snap.Supply.RowMax())
	}
	some := false
	for _, h := range t.Holders[t.From[class]:t.From[class+1]] {
		if h.Lowest != math.MinInt32 && !l.p.Tenants.MayTake(h.Lowest, x.Priority) {
			continue
		}
		bound, configured := l.p.Snap.BoundOf(int(h.Cluster)), uint32(l.p.Snap.Configured(int(h.Cluster)))
		for at := h.First + 1; at != 0 && at <= configured; at = bound[at-1].Next {
			l.Figures.Probes++
			r := bound[at-1].Row
			if holder := l.p.Claims.Of(r); holder != state.Unclaimed {
				if !l.p.Tenants.MayTake(l.p.st.Priority[r], x.Priority) {
					continue
				}
				if l.GangOf(r) != 0 {
					l.addMember(x, r)
					continue
				}
			}
			t.Rows.Set(uint32(r))
			some = true
		}
	}
	if some {
		l.dealAlike(t, x, class)
	}
	l.dealLeaving(x, class)
	sortPlain(x)
}

// addMember adds a gang's machine, or its gang once.
func (l *Worker) addMember(x *units.ClassVictims, r columnar.Row) {
	t := &l.p.st.Gangs
	g := t.Of[r] - 1
	switch gang := &t.List[g]; {
	case gang.State == units.GangAlone:
	case gang.State == units.GangBroken:
		x.Broken = alloc.Append(l.Arena, x.Broken, r)
	case gang.Round != t.Round:
		gang.Round = t.Round
		x.Gangs = alloc.Append(l.Arena, x.Gangs, g)
	}
}

// dealAlike groups the machines that were found of a class by units.VictimGroupKey. It visits them by
// row, which is nearly the order of ids.
func (l *Worker) dealAlike(t *units.VictimTable, x *units.ClassVictims, class uint32) {
	if t.ByKey == nil {
		t.ByKey = map[units.VictimGroupKey]int32{}
	}
	clear(t.ByKey)
	view, levels := &l.p.Snap.View, l.p.st.Priority
	t.Found, t.Count = t.Found[:0], t.Count[:0]
	claims, reclaiming, last, lastKey := l.p.Claims, l.p.Tenants.Reclaiming, int32(-1), units.VictimGroupKey{}
	for i, word := range t.Rows.Words() {
		for ; word != 0; word &= word - 1 {
			r := columnar.Row(i<<6 + bits.TrailingZeros64(word))
			level, giver := levels[r], tenancy.None
			if reclaiming { // giverOf would check Reclaiming for each machine
				giver = l.p.giverOf(r)
			}
			free := claims.Of(r) == state.Unclaimed
			excess := free && l.p.IsExcess(r)
			if free && !excess && (view.Group[r] != 0 || !l.p.Tenants.MayTake(level, x.Priority)) {
				continue // its cluster has not reported: it is no excess, and may be a gang's
			}
			if !excess && reclaiming && giver == tenancy.None {
				continue
			}
			key := units.VictimGroupKey{Class: class, Level: level, Interruption: view.Interruption[r], Reclamation: view.Reclamation[r], Excess: excess, Tenant: giver, Leaving: false, Promised: false}
			if last < 0 || key != lastKey { // neighbours are often alike: skip the map lookup
				last, lastKey = l.p.alikeFor(t, x, key), key
			}
			t.Found = append(t.Found, units.FoundRow{Row: r, At: last})
			t.Count[last]++
		}
	}
	t.Rows.Reset()
	block := alloc.MakeDirty[columnar.Row](l.Arena, len(t.Found))
	for i, a := range x.Alikes {
		a.Rows, block = block[:0:t.Count[i]], block[t.Count[i]:]
	}
	for _, f := range t.Found {
		x.Alikes[f.At].Add(f.Row, l.p.Snap.IDPlaces())
	}
}

// dealLeaving groups the draining and acquired machines of a class by the priority of the Need that each
// drains for, or that has acquired it.
func (l *Worker) dealLeaving(x *units.ClassVictims, class uint32) {
	list := l.p.Candidates.leavingOf(class)
	rows := alloc.MakeDirty[columnar.Row](l.Arena, len(list))[:0]
	for i := range list {
		m := &list[i]
		if i == 0 || m.priority != list[i-1].priority || m.promised != list[i-1].promised || m.acquired != list[i-1].acquired {
			rows = rows[len(rows):] // the next group shares the array
			a := l.p.st.lent.alikes.Lend()
			*a = units.Alike{VictimGroupKey: units.VictimGroupKey{Class: class, Level: m.priority, Excess: true, Tenant: tenancy.None, Leaving: true, Promised: m.promised, Acquired: m.acquired}, Sorted: true}
			x.Alikes = append(x.Alikes, a)
		}
		rows = append(rows, m.row)
		x.Alikes[len(x.Alikes)-1].Rows = slices.Clip(rows)
	}
}

// mayHave reports whether needs of a priority may take machines of an alike. Excess is for all;
// draining machines that are reserved are only for priorities above their owner's.
func (x *Tenants) mayHave(a *units.Alike, priority int32) bool {
	if a.Promised {
		return a.Level < priority
	}
	return a.Excess || x.MayTake(a.Level, priority)
}

// alikeFor returns the index of the alike with a key, and adds it if there is none.
func (p *Pass) alikeFor(t *units.VictimTable, x *units.ClassVictims, key units.VictimGroupKey) int32 {
	at, ok := t.ByKey[key]
	if !ok {
		at = int32(len(x.Alikes))
		a := p.st.lent.alikes.Lend()
		*a = units.Alike{VictimGroupKey: key}
		x.Alikes, t.Count = append(x.Alikes, a), append(t.Count, 0)
		t.ByKey[key] = at
	}
	return at
}

// inSomeDomain returns an alike with only the machines that lie in a domain of the matcher's Same key: it itself if all do, as is
// common, else a copy.
func (l *Worker) inSomeDomain(of *units.Alike, matcher uint32) *units.Alike {
	if !slices.ContainsFunc(of.Rows, func(r columnar.Row) bool { return !l.p.InAnyDomain(matcher, r) }) {
		return of
	}
	a := l.p.st.lent.alikes.Lend()
	*a = units.Alike{VictimGroupKey: of.VictimGroupKey, Rows: alloc.MakeDirty[columnar.Row](l.Arena, len(of.Rows))[:0]}
	for _, r := range of.Rows {
		if l.p.InAnyDomain(matcher, r) {
			a.Add(r, l.p.Snap.IDPlaces())
		}
	}
	return a
}
