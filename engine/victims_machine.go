package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// victim is a machine that is preempted for a need.
type victim struct {
	row   columnar.Row
	need  int32
	grace int32 // seconds
}

// candidate is a machine that could be preempted.
type candidate struct {
	row      columnar.Row
	priority int32
	excess   bool    // no need claims it: phase 3 reclaims it in any case
	acquired bool    // Idle, and a Need of lower priority has acquired it in this pass
	score    float64 // of an acquired one: the lower its priority, the higher
}

// victimPoolKey names the candidates that needs share: machines that a matcher accepts and
// whose priority is lower.
type victimPoolKey struct {
	matcher  uint32
	priority int32
}

// victimPool is the candidates of a key in the order of victims: excess first, then, for Needs with Same, what Needs of
// lower priority have acquired, by their priority and then by id; then by score, the highest first, then by id.
type victimPool struct {
	victimList
	byDomain map[uint32]*victimList // by value of the matcher's Same key; built on first use
}

// victimList is candidates in the order of victims.
type victimList struct {
	list []candidate
	at   int // those before have been taken
}

// victimPool returns the pool of a kind, built on first use. Reservations, priorities and what
// is excess do not change during phase 2; which machines are victims does, so readers check.
func (l *worker) victimPool(k *state.Kind) *victimPool {
	key := victimPoolKey{k.Matcher, k.Priority}
	pool, ok := l.p.candidates.pools[key]
	if !ok {
		pool = l.buildVictimPool(key, k.Same)
		if l.p.candidates.pools == nil {
			l.p.candidates.pools = map[victimPoolKey]*victimPool{}
		}
		l.p.candidates.pools[key] = pool
	}
	return pool
}

func (l *worker) buildVictimPool(key victimPoolKey, same bool) *victimPool {
	pool := l.p.e.store.emptyPool()
	if same {
		for _, m := range l.p.candidates.leaving { // without gangs these are acquired
			if m.priority < key.priority && l.p.s.Classes[m.class].Matches(key.matcher) {
				pool.list = append(pool.list, candidate{row: m.row, priority: m.priority, acquired: true, score: -float64(m.priority)})
			}
		}
	}
	if rows := l.p.s.Supply.Matching(model.Configured, key.matcher); rows != nil {
		l.addVictims(pool, key, rows)
	}
	slices.SortFunc(pool.list, func(a, b candidate) int {
		return cmp.Or(exact.TrueFirst(a.excess, b.excess), exact.TrueFirst(a.acquired, b.acquired),
			cmp.Compare(b.score, a.score), cmp.Compare(l.p.s.IDRank[a.row], l.p.s.IDRank[b.row]))
	})
	return pool
}

// addVictims adds the Configured machines among some rows that may be preempted to a pool.
func (l *worker) addVictims(pool *victimPool, key victimPoolKey, rows *roaring.Bitmap) {
	l.search.rows.Initialize(rows)
	for l.search.rows.HasNext() {
		r := columnar.Row(l.search.rows.Next())
		l.figures.probes++
		priority := l.p.e.store.priority[r]
		if priority >= key.priority || l.p.reserved.Live(r) || l.p.s.Supply.Departs(r) {
			continue
		}
		pool.list = append(pool.list, candidate{
			row: r, priority: priority, excess: l.p.isExcess(r), score: l.p.score(r, key.priority, priority),
		})
	}
}

// emptyPool returns an empty pool, with the memory of an earlier one.
func (st *store) emptyPool() *victimPool {
	p := st.lent.pools.Lend()
	p.list, p.at, p.byDomain = p.list[:0], 0, nil
	return p
}

// in returns the pool's candidates in one domain, in the pool's order.
func (v *victimPool) in(p *pass, matcher, value uint32) *victimList {
	list := v.domains(p, matcher)[value]
	if list == nil {
		return &victimList{}
	}
	return list
}

func (v *victimPool) domains(p *pass, matcher uint32) map[uint32]*victimList {
	if v.byDomain == nil {
		v.byDomain = map[uint32]*victimList{}
		for _, c := range v.list {
			value, ok := p.s.Supply.Domain(matcher, c.row)
			if !ok {
				continue
			}
			list := v.byDomain[value]
			if list == nil {
				list = &victimList{}
				v.byDomain[value] = list
			}
			list.list = append(list.list, c)
		}
	}
	return v.byDomain
}

// eligible reports whether a need may preempt a candidate now.
func (p *pass) eligible(c *candidate, need int32, k *state.Kind) bool {
	class := p.s.View.Class[c.row]
	if c.acquired {
		return p.isAcquired(c.row) && k.AcceptsClass(class)
	}
	return !p.preempted.victimOf.Has(uint32(c.row)) && p.s.ClusterOf[p.s.View.Cluster[c.row]] != p.lines[need].Cluster && k.AcceptsClass(class)
}

// isTaken reports whether a candidate has been taken.
func (p *pass) isTaken(c *candidate) bool {
	if c.acquired {
		return !p.isAcquired(c.row)
	}
	return p.preempted.victimOf.Has(uint32(c.row))
}

// selectVictims takes candidates in order until what is missing is covered. It skips those that
// free nothing of it. found reports whether there was any candidate.
func (l *worker) selectVictims(v *victimList, need int32, k *state.Kind) (chosen []candidate, found bool) {
	if l.p.spentVictims(v) {
		return nil, false
	}
	list := v.list[v.at:]
	for i := range list {
		if l.lacks == 0 {
			break
		}
		c := &list[i]
		l.figures.probes++
		if !l.p.eligible(c, need, k) {
			continue
		}
		found = true
		if l.helps(c.row) {
			chosen = append(chosen, *c)
			l.subtract(l.p.s.View.Class[c.row])
		}
	}
	return chosen, found
}

// giveBack drops victims that turn out unneeded: without them as much of what is missing is
// covered. It tries those that serve the highest ranks first, excess last, and among equals the
// last chosen first.
func (p *pass) giveBack(chosen []candidate, missing []int64) []candidate {
	freed := make([]int64, p.dims)
	for _, c := range chosen {
		columnar.SatAdd(freed, p.vec(c.row))
	}
	order := make([]int, len(chosen))
	for i := range order {
		order[i] = len(chosen) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.compareWorth(&chosen[a], &chosen[b]) })
	dropped := make([]bool, len(chosen))
	for _, i := range order {
		if rest := p.without(freed, chosen, dropped, i); coversAsMuch(rest, freed, missing) {
			dropped[i] = true
			copy(freed, rest)
		}
	}
	kept := chosen[:0]
	for i, c := range chosen {
		if !dropped[i] {
			kept = append(kept, c)
		}
	}
	return kept
}

// compareWorth is the order of giving back: machines that serve a need, by its rank; machines
// that may serve one, by stamp; excess, by stamp.
func (p *pass) compareWorth(a, b *candidate) int {
	ha, hb := p.claims.Of(a.row), p.claims.Of(b.row)
	switch {
	case ha != state.Unclaimed && hb != state.Unclaimed:
		return cmp.Compare(p.rankOf[ha], p.rankOf[hb])
	case ha != state.Unclaimed:
		return -1
	case hb != state.Unclaimed:
		return 1
	case a.excess != b.excess: // unclaimed, but the cluster may still claim it
		return exact.TrueFirst(b.excess, a.excess)
	}
	return cmp.Compare(b.priority, a.priority)
}

// without returns the sum freed without candidate i. A saturated sum cannot be subtracted from,
// so it is computed anew.
func (fl *fleet) without(freed []int64, chosen []candidate, dropped []bool, i int) []int64 {
	rest := slices.Clone(freed)
	if !slices.Contains(freed, math.MaxInt64) {
		columnar.SubClamp(rest, fl.vec(chosen[i].row))
		return rest
	}
	clear(rest)
	for j := range chosen {
		if j != i && !dropped[j] {
			columnar.SatAdd(rest, fl.vec(chosen[j].row))
		}
	}
	return rest
}

// coversAsMuch reports whether rest covers as much of what is missing as all does.
func coversAsMuch(rest, all, missing []int64) bool {
	for d, m := range missing {
		if m > 0 && min(m, rest[d]) != min(m, all[d]) {
			return false
		}
	}
	return true
}

// commit makes the chosen candidates the need's victims, and takes what others have acquired.
func (l *worker) commit(chosen []candidate, need int32, k *state.Kind) {
	x := &l.p.preempted
	for _, c := range chosen {
		if c.acquired {
			l.noteTaker(c.row, need)
			l.takeAcquired(c.row, need)
			continue
		}
		x.victimOf.Set(uint32(c.row))
		gap := int64(k.Priority) - int64(c.priority)
		x.victims = append(x.victims, victim{row: c.row, need: need, grace: graceFor(gap)})
	}
}
