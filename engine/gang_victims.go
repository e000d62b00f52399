package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Needs of many matchers and priorities look at the same machines. So what could be preempted
// is found once per class, on first use, and pools are composed of that:
//
//	clusters    lowest priority of each class (clusterState.cheapest): prunes most clusters,
//	            since their machines are not low enough
//	classes     machines of no gang, grouped by what makes them alike; gangs; victimsOf
//	pools       of the classes of a matcher, what is below a priority; poolUnits
//	domains     dealt from the pools of matchers with a Same key; deal
//
// A class is listed for the highest priority that will ask, so lower ones read the same list.

// victimGroupKey is what machines that are alike as victims have in common.
type victimGroupKey struct {
	class uint32
	// level is the priority of the Need that a machine serves or drains for, or of its stamp.
	level                     int32
	interruption, reclamation model.Bucket
	// excess: no need claims the machine and it may be reclaimed, or it is draining.
	excess   bool
	tenant   int32 // between tenants: the cluster's tenant, else noTenant
	leaving  bool  // the machine is draining
	promised bool  // it is draining, and reserved for a Need whose priority is level
}

// giver returns the tenant that units of a victim group are debited to.
func (k *victimGroupKey) giver() int32 {
	if k.excess {
		return noTenant
	}
	return k.tenant
}

// isFreeSoon reports whether the machines are draining and reserved for no need.
func (k *victimGroupKey) isFreeSoon() bool { return k.leaving && !k.promised }

// alike is machines of no gang that are alike as victims: one class, and equal keys but for the
// id. Pools share them.
type alike struct {
	victimGroupKey
	rows   []columnar.Row // by id, if sorted
	count  int            // number of rows, while they are dealt
	at     int            // rows before at were taken
	sorted bool
}

// add appends a machine and tracks whether rows are still in the order of ids.
func (a *alike) add(r columnar.Row, idRank []uint32) {
	n := len(a.rows)
	a.sorted = n == 0 || a.sorted && idRank[a.rows[n-1]] < idRank[r]
	a.rows = append(a.rows, r)
}

// sort puts the machines in the order of ids.
func (a *alike) sort(idRank []uint32) {
	if a.sorted {
		return
	}
	a.sorted = true
	slices.SortFunc(a.rows, func(x, y columnar.Row) int { return cmp.Compare(idRank[x], idRank[y]) })
}

// least returns the least id rank.
func (a *alike) least(idRank []uint32) uint32 {
	least := idRank[a.rows[0]]
	if !a.sorted {
		for _, r := range a.rows[1:] {
			least = min(least, idRank[r])
		}
	}
	return least
}

// classVictims is what needs up to a priority could preempt of a class. It ignores reservations
// and what was taken since: readers check those.
type classVictims struct {
	listed bool
	// priority is the highest that it is complete for.
	priority int32
	serial   uint64 // number of its last listing
	alikes   []*alike
	broken   []columnar.Row // members of broken gangs
	gangs    []int32
}

// victimTable is the victims of all classes.
type victimTable struct {
	of []classVictims // by class; empty = not laid out in this pass
	// holders are the clusters with Configured machines, by class: those of class c are
	// holders[from[c]:from[c+1]].
	holders []holder
	from    []uint32
	// most is, by class, the highest priority that will ask; nil = not known.
	most []int32
	// serial counts the listings of classes. roster is by matcher.
	serial  uint64
	rosters stock[roster]
	roster  map[uint32]*roster

	// Scratch of one class.
	rows  bitmap.Dense
	found []foundRow
	count []int32
	byKey map[victimGroupKey]int32
}

// holder is a cluster that has machines of a class.
type holder struct {
	cluster int32
	first   uint32 // index of the first in its chain of bound machines
	lowest  int32  // lowest priority; see clusterState.cheapest
}

// foundRow is a machine and the index of its alike.
type foundRow struct {
	row columnar.Row
	at  int32
}

// forget empties the table for the next pass.
func (t *victimTable) forget() {
	t.of, t.most = t.of[:0], nil
	t.rosters.takeBack()
	clear(t.roster)
}

// victimsOf returns what needs of a priority could preempt of a class. It lists the class again
// if the last listing was for a lower priority.
func (l *worker) victimsOf(class uint32, priority int32) *classVictims {
	t := &l.e.store.gangs.victims
	if len(t.of) == 0 {
		l.layVictims(t)
	}
	x := &t.of[class]
	if !x.listed || x.priority < priority {
		if x.listed, x.priority = true, priority; t.most != nil {
			x.priority = max(priority, t.most[class])
		}
		l.listVictims(t, x, class)
	}
	return x
}

// layVictims builds holders, a counting sort of the clusters by class.
func (l *worker) layVictims(t *victimTable) {
	classes := len(l.s.Classes)
	t.of = grown(t.of, classes)
	for c := range t.of {
		t.of[c].listed = false
	}
	clusters := l.e.store.clusters
	t.from = resize(t.from, classes+2)
	for c := range clusters {
		for _, x := range clusters[c].cheapest {
			t.from[x.class+2]++
		}
	}
	for c := range classes {
		t.from[c+2] += t.from[c+1]
	}
	t.holders = grown(t.holders, int(t.from[classes+1]))
	for c := range clusters {
		groups := l.s.GroupsOf(c)
		for i, x := range clusters[c].cheapest { // one for each group
			at := &t.from[x.class+1]
			t.holders[*at] = holder{int32(c), groups[i].First, x.priority}
			*at++
		}
	}
}

// listVictims finds what could be preempted of a class.
func (l *worker) listVictims(t *victimTable, x *classVictims, class uint32) {
	x.alikes, x.broken, x.gangs = x.alikes[:0], nil, nil
	t.serial++
	x.serial = t.serial
	gangs := &l.e.store.gangs
	gangs.round++
	if t.rows.Top() < l.s.Supply.RowMax() {
		t.rows.Grow(l.s.Supply.RowMax())
	}
	some := false
	for _, h := range t.holders[t.from[class]:t.from[class+1]] {
		if h.lowest != math.MinInt32 && !l.mayTake(h.lowest, x.priority) {
			continue
		}
		bound, configured := l.s.BoundOf(int(h.cluster)), uint32(l.s.Configured(int(h.cluster)))
		for at := h.first + 1; at != 0 && at <= configured; at = bound[at-1].Next {
			l.probes++
			r := bound[at-1].Row
			if holder := l.held[r].need; holder != unheld {
				if !l.mayTake(l.e.store.priority[r], x.priority) {
					continue
				}
				if l.gangOf(r) != 0 {
					l.addMember(x, r)
					continue
				}
			}
			t.rows.Set(uint32(r))
			some = true
		}
	}
	if some {
		l.dealAlike(t, x, class)
	}
	l.dealLeaving(x, class)
}

// addMember adds a gang's machine, or its gang once.
func (l *worker) addMember(x *classVictims, r columnar.Row) {
	t := &l.e.store.gangs
	g := t.of[r] - 1
	switch gang := &t.list[g]; {
	case gang.state == gangAlone:
	case gang.state == gangBroken:
		x.broken = alloc.Append(l.arena, x.broken, r)
	case gang.round != t.round:
		gang.round = t.round
		x.gangs = alloc.Append(l.arena, x.gangs, g)
	}
}

// dealAlike groups the machines that were found of a class by victimGroupKey. It visits them by
// row, which is nearly the order of ids.
func (l *worker) dealAlike(t *victimTable, x *classVictims, class uint32) {
	if t.byKey == nil {
		t.byKey = map[victimGroupKey]int32{}
	}
	clear(t.byKey)
	view, levels := &l.s.View, l.e.store.priority
	t.found, t.count = t.found[:0], t.count[:0]
	held, reclaiming, last, lastKey := l.held, l.reclaiming, int32(-1), victimGroupKey{}
	for i, word := range t.rows.Words() {
		for ; word != 0; word &= word - 1 {
			r := columnar.Row(i<<6 + bits.TrailingZeros64(word))
			level, giver := levels[r], noTenant
			if reclaiming { // giverOf would check reclaiming for each machine
				giver = l.giverOf(r)
			}
			unclaimed := held[r].need == unheld
			excess := unclaimed && l.isExcess(r)
			if unclaimed && !excess && (view.Group[r] != 0 || !l.mayTake(level, x.priority)) {
				continue // its cluster has not reported: it is no excess, and may be a gang's
			}
			if !excess && reclaiming && giver == noTenant {
				continue
			}
			key := victimGroupKey{class, level, view.Interruption[r], view.Reclamation[r], excess, giver, false, false}
			if last < 0 || key != lastKey { // neighbours are often alike: skip the map lookup
				last, lastKey = l.alikeFor(t, x, key), key
			}
			t.found = append(t.found, foundRow{r, last})
			t.count[last]++
		}
	}
	t.rows.Reset()
	block := alloc.MakeDirty[columnar.Row](l.arena, len(t.found))
	for i, a := range x.alikes {
		a.rows, block = block[:0:t.count[i]], block[t.count[i]:]
	}
	for _, f := range t.found {
		x.alikes[f.at].add(f.row, l.s.IDRank)
	}
}

// dealLeaving groups the draining machines of a class by the priority of the Need that each
// drains for.
func (l *worker) dealLeaving(x *classVictims, class uint32) {
	list := l.leavingOf(class)
	rows := alloc.MakeDirty[columnar.Row](l.arena, len(list))[:0]
	for i := range list {
		m := &list[i]
		if i == 0 || m.priority != list[i-1].priority || m.promised != list[i-1].promised {
			rows = rows[len(rows):] // the next group shares the array
			a := l.e.store.alikes.lend()
			*a = alike{victimGroupKey: victimGroupKey{class: class, level: m.priority, excess: true, tenant: noTenant, leaving: true, promised: m.promised}, sorted: true}
			x.alikes = append(x.alikes, a)
		}
		rows = append(rows, m.row)
		x.alikes[len(x.alikes)-1].rows = slices.Clip(rows)
	}
}

// mayHave reports whether needs of a priority may take machines of an alike. Excess is for all;
// draining machines that are reserved are only for priorities above their owner's.
func (l *worker) mayHave(a *alike, priority int32) bool {
	if a.promised {
		return a.level < priority
	}
	return a.excess || l.mayTake(a.level, priority)
}

// alikeFor returns the index of the alike with a key, and adds it if there is none.
func (l *worker) alikeFor(t *victimTable, x *classVictims, key victimGroupKey) int32 {
	at, ok := t.byKey[key]
	if !ok {
		at = int32(len(x.alikes))
		a := l.e.store.alikes.lend()
		*a = alike{victimGroupKey: key}
		x.alikes, t.count = append(x.alikes, a), append(t.count, 0)
		t.byKey[key] = at
	}
	return at
}

// inSomeDomain returns a copy of an alike with only the machines that lie in a domain of the
// matcher's Same key.
func (l *worker) inSomeDomain(of *alike, matcher uint32) *alike {
	a := l.e.store.alikes.lend()
	*a = alike{victimGroupKey: of.victimGroupKey, rows: alloc.MakeDirty[columnar.Row](l.arena, len(of.rows))[:0]}
	for _, r := range of.rows {
		if l.inAnyDomain(matcher, r) {
			a.add(r, l.s.IDRank)
		}
	}
	return a
}
