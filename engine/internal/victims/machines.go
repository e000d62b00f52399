package victims

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

// Victim is a machine that is preempted for a need.
type Victim struct {
	Row   columnar.Row
	Need  int32
	Grace int32 // seconds
}

// Candidate is a machine that could be preempted.
type Candidate struct {
	Row      columnar.Row
	priority int32
	Excess   bool    // no need claims it: phase 3 reclaims it in any case
	acquired bool    // Idle, and a Need of lower priority has acquired it in this pass
	Score    float64 // of an acquired one: the lower its priority, the higher
}

// victimPoolKey names the candidates that needs share: machines that a matcher accepts and
// whose priority is lower.
type victimPoolKey struct {
	matcher  uint32
	priority int32
}

// victimPool is the candidates of a matcher and priority in the order of victims: excess first, then, for Needs with Same, what Needs of
// lower priority have acquired, by their priority and then by id; then by score, the highest first, then by id.
type victimPool struct {
	VictimList
	priority int32
	byDomain map[uint32]*VictimList   // by value of the matcher's Same key; built on first use
	dealt    []tupleVictims           // by keys of hard spread
	byTuple  map[uint32][][]Candidate // by kind: see ByTuple
}

// tupleVictims is the candidates of a pool whose machines agree in all of some keys, list by list.
type tupleVictims struct {
	keys  []int
	lists [][]Candidate
}

// VictimList is candidates in the order of victims.
type VictimList struct {
	List []Candidate
	At   int // those before have been taken
}

// VictimPool returns the pool of a kind, built on first use. Reservations, priorities and what
// is excess do not change during phase 2; which machines are victims does, so readers check.
// Needs have their turns by priority, the highest first. So pools of a higher priority are read no more, and become
// those of the next one. With a priority for each Need, listing and sorting the candidates of each priority from nothing took most of a cycle.
func (l *Worker) VictimPool(k *state.Kind) *victimPool {
	x, key := &l.p.Candidates, victimPoolKey{k.Matcher, k.Priority}
	if x.pools == nil {
		x.pools = map[uint32]*victimPool{}
	}
	pool := x.pools[k.Matcher]
	switch {
	case pool == nil || pool.priority < key.priority:
		pool = l.buildVictimPool(key, k.Same)
		x.pools[k.Matcher] = pool
	case pool.priority > key.priority:
		pool.lower(l, key)
	}
	return pool
}

// lower makes a pool that of a lower priority. All scores fall by as much, but for rounding: the candidates are nearly sorted.
func (x *victimPool) lower(l *Worker, key victimPoolKey) {
	kept := x.List[:0]
	for _, c := range x.List {
		l.Figures.Probes++
		if c.priority >= key.priority || l.p.Preempted.VictimOf.Has(uint32(c.Row)) {
			continue
		}
		if !c.acquired {
			c.Score = l.p.Score(c.Row, key.priority, c.priority)
		}
		kept = append(kept, c)
	}
	x.begin(key.priority, kept)
	x.sort(l)
}

func (l *Worker) buildVictimPool(key victimPoolKey, same bool) *victimPool {
	pool := l.p.st.lent.pools.Lend()
	pool.begin(key.priority, pool.List[:0])
	if same {
		for _, m := range l.p.Candidates.leaving { // without gangs these are acquired
			if m.priority < key.priority && l.p.Snap.Classes[m.class].Matches(key.matcher) {
				pool.List = append(pool.List, Candidate{Row: m.row, priority: m.priority, acquired: true, Score: -float64(m.priority)})
			}
		}
	}
	if rows := l.p.Snap.Supply.Matching(model.Configured, key.matcher); rows != nil {
		l.addVictims(pool, key, rows)
	}
	pool.sort(l)
	return pool
}

// begin begins a pool of candidates for a priority.
func (x *victimPool) begin(priority int32, list []Candidate) {
	x.List, x.At, x.byDomain, x.dealt, x.byTuple, x.priority = list, 0, nil, nil, nil, priority
}

// sort sorts the candidates into the order of victims.
func (x *victimPool) sort(l *Worker) {
	slices.SortFunc(x.List, func(a, b Candidate) int {
		return cmp.Or(exact.TrueFirst(a.Excess, b.Excess), exact.TrueFirst(a.acquired, b.acquired),
			cmp.Compare(b.Score, a.Score), cmp.Compare(l.p.Snap.IDRank(a.Row), l.p.Snap.IDRank(b.Row)))
	})
}

// addVictims adds the Configured machines among some rows that may be preempted to a pool, and that nobody has taken.
func (l *Worker) addVictims(pool *victimPool, key victimPoolKey, rows *roaring.Bitmap) {
	l.Finding.rows.Initialize(rows)
	for l.Finding.rows.HasNext() {
		r := columnar.Row(l.Finding.rows.Next())
		l.Figures.Probes++
		priority := l.p.st.Priority[r]
		if priority >= key.priority || l.p.Preempted.VictimOf.Has(uint32(r)) || l.p.Reserved.Live(r) || l.p.Snap.Supply.Departs(r) {
			continue
		}
		pool.List = append(pool.List, Candidate{
			Row: r, priority: priority, Excess: l.p.IsExcess(r), Score: l.p.Score(r, key.priority, priority),
		})
	}
}

// VictimsIn returns the candidates of a kind in one domain, in the pool's order.
func (p *Pass) VictimsIn(k *state.Kind, value uint32) *VictimList {
	list := p.VictimsByDomain(k)[value]
	if list == nil {
		return &VictimList{}
	}
	return list
}

// VictimsByDomain returns the candidates of a kind by domain.
func (p *Pass) VictimsByDomain(k *state.Kind) map[uint32]*VictimList {
	v := p.Candidates.PoolOf[k.Number]
	if v.byDomain == nil {
		v.byDomain = map[uint32]*VictimList{}
		for _, c := range v.List {
			value, ok := p.Snap.Supply.Domain(k.Matcher, c.Row)
			if !ok {
				continue
			}
			list := v.byDomain[value]
			if list == nil {
				list = &VictimList{}
				v.byDomain[value] = list
			}
			list.List = append(list.List, c)
		}
	}
	return v.byDomain
}

// ByTuple returns the candidates of a kind by tuple of its keys of hard spread, each list in the pool's order. A list begins with one
// that nobody has taken and the kind accepts: amortized O(1), since a machine that was taken, or is not accepted, stays so. tupleOf numbers the tuples from 0 on; -1 is that of
// machines that lack a key.
func ByTuple(l *Worker, k *state.Kind, keys []int, tupleOf func(columnar.Row) int) [][]Candidate {
	v := l.p.Candidates.PoolOf[k.Number]
	lists := v.byTuple[k.Number]
	if lists == nil {
		if v.byTuple == nil {
			v.byTuple = map[uint32][][]Candidate{}
		}
		lists = slices.Clone(v.dealByTuple(keys, tupleOf))
		v.byTuple[k.Number] = lists
	}
	for i, list := range lists {
		for len(list) > 0 && (l.p.IsTaken(&list[0]) || !k.AcceptsClass(l.p.Snap.View.Class[list[0].Row])) {
			l.Figures.Probes++
			list = list[1:]
		}
		lists[i] = list
	}
	return lists
}

// dealByTuple deals all candidates into tuples, memoized by keys.
func (x *victimPool) dealByTuple(keys []int, tupleOf func(columnar.Row) int) [][]Candidate {
	for i := range x.dealt {
		if slices.Equal(x.dealt[i].keys, keys) {
			return x.dealt[i].lists
		}
	}
	t := tupleVictims{keys: slices.Clone(keys)}
	for _, c := range x.List {
		at := tupleOf(c.Row)
		if at < 0 {
			continue
		}
		for len(t.lists) <= at {
			t.lists = append(t.lists, nil)
		}
		t.lists[at] = append(t.lists[at], c)
	}
	x.dealt = append(x.dealt, t)
	return t.lists
}

// Eligible reports whether a need may preempt a candidate now.
func (p *Pass) Eligible(c *Candidate, need int32, k *state.Kind) bool {
	class := p.Snap.View.Class[c.Row]
	if c.acquired {
		return p.isAcquired(c.Row) && k.AcceptsClass(class)
	}
	return !p.Preempted.VictimOf.Has(uint32(c.Row)) && p.Snap.ClusterOf[p.Snap.View.Cluster[c.Row]] != p.ClusterOf(need) && k.AcceptsClass(class)
}

// IsTaken reports whether a candidate has been taken.
func (p *Pass) IsTaken(c *Candidate) bool {
	if c.acquired {
		return !p.isAcquired(c.Row)
	}
	return p.Preempted.VictimOf.Has(uint32(c.Row))
}

// SelectVictims takes candidates in order until what is missing is covered. It skips those that
// free nothing of it. found reports whether there was any candidate.
func (l *Worker) SelectVictims(v *VictimList, need int32, k *state.Kind) (chosen []Candidate, found bool) {
	if l.p.SpentVictims(v) {
		return nil, false
	}
	list := v.List[v.At:]
	for i := range list {
		if l.Lacks == 0 {
			break
		}
		c := &list[i]
		l.Figures.Probes++
		if !l.p.Eligible(c, need, k) {
			continue
		}
		found = true
		if l.Helps(c.Row) {
			chosen = append(chosen, *c)
			l.Subtract(l.p.Snap.View.Class[c.Row])
		}
	}
	return chosen, found
}

// DropUnneeded drops victims that turn out unneeded: without them as much of what is missing is
// covered. It tries those that serve the highest ranks first, excess last, and among equals the
// last chosen first.
func (p *Pass) DropUnneeded(chosen []Candidate, missing []int64) []Candidate {
	freed := make([]int64, p.Dims)
	for _, c := range chosen {
		columnar.SatAdd(freed, p.Vec(c.Row))
	}
	order := make([]int, len(chosen))
	for i := range order {
		order[i] = len(chosen) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.compareWorth(&chosen[a], &chosen[b]) })
	dropped := make([]bool, len(chosen))
	for _, i := range order {
		if rest := p.without(freed, chosen, dropped, i); CoversAsMuch(rest, freed, missing) {
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
func (p *Pass) compareWorth(a, b *Candidate) int {
	ha, hb := p.Claims.Of(a.Row), p.Claims.Of(b.Row)
	switch {
	case ha != state.Unclaimed && hb != state.Unclaimed:
		return cmp.Compare(p.RankOf[ha], p.RankOf[hb])
	case ha != state.Unclaimed:
		return -1
	case hb != state.Unclaimed:
		return 1
	case a.Excess != b.Excess: // unclaimed, but the cluster may still claim it
		return exact.TrueFirst(b.Excess, a.Excess)
	}
	return cmp.Compare(b.priority, a.priority)
}

// without returns the sum freed without candidate i. A saturated sum cannot be subtracted from,
// so it is computed anew.
func (p *Pass) without(freed []int64, chosen []Candidate, dropped []bool, i int) []int64 {
	rest := slices.Clone(freed)
	if !slices.Contains(freed, math.MaxInt64) {
		columnar.SubClamp(rest, p.Vec(chosen[i].Row))
		return rest
	}
	clear(rest)
	for j := range chosen {
		if j != i && !dropped[j] {
			columnar.SatAdd(rest, p.Vec(chosen[j].Row))
		}
	}
	return rest
}

// CoversAsMuch reports whether rest covers as much of what is missing as all does.
func CoversAsMuch(rest, all, missing []int64) bool {
	for d, m := range missing {
		if m > 0 && min(m, rest[d]) != min(m, all[d]) {
			return false
		}
	}
	return true
}

// MakeVictims makes the chosen candidates the need's victims, and takes what others have acquired.
func (l *Worker) MakeVictims(chosen []Candidate, need int32, k *state.Kind) {
	x := &l.p.Preempted
	for _, c := range chosen {
		if c.acquired {
			l.NoteTaker(c.Row, need)
			l.TakeAcquired(c.Row, need)
			continue
		}
		x.VictimOf.Set(uint32(c.Row))
		gap := int64(k.Priority) - int64(c.priority)
		x.Victims = append(x.Victims, Victim{Row: c.Row, Need: need, Grace: GraceFor(gap)})
	}
}

// SpentVictims reports whether every candidate of a list has been taken. It advances v.At past
// taken ones: amortized O(1).
func (p *Pass) SpentVictims(v *VictimList) bool {
	for v.At < len(v.List) && p.IsTaken(&v.List[v.At]) {
		v.At++
	}
	return v.At == len(v.List)
}
