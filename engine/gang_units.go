package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// unitClass says what losing a unit does to a workload, the gentlest first.
type unitClass uint8

// The classes. Excess goes before all others, whatever the band.
const (
	classSunk    unitClass = iota // left of a gang that is lost anyway
	classExcess                   // Configured and claimed by no need, or draining and free for the taker
	classElastic                  // above a gang's minimum
	classPlain                    // claimed by a need that is no gang
	classWhole                    // all members of a gang

	numUnitClasses = int(classWhole) + 1
)

// unitKey is the order in which units are taken, smallest first, field by field.
type unitKey struct {
	paid    bool    // false for excess, which costs nothing
	tenant  int64   // between tenants: minus the ratio of what the giver has to its share; see termOf
	band    float64 // −⌊S/δ⌋; δ = 0: −S, δ = ∞: 0
	class   unitClass
	roi     int64   // −⌊ROI/θ⌋ of a whole gang, else 0
	score   float64 // −S
	cluster int32   // of the gang; −1 for units without one, which are ordered by id alone
	group   string
	last    uint64 // of surplus: the keep order reversed
	id      uint32 // rank of the id; of a gang the least of its members'
}

// compare orders keys field by field, the smaller first.
func (k *unitKey) compare(o *unitKey) int {
	if k.paid != o.paid {
		if o.paid {
			return -1
		}
		return 1
	}
	// Plain comparisons, not cmp.Or: compare runs often, and keys mostly differ in an early
	// field.
	switch {
	case k.tenant != o.tenant:
		return cmp.Compare(k.tenant, o.tenant)
	case k.band != o.band:
		return cmp.Compare(k.band, o.band)
	case k.class != o.class:
		return cmp.Compare(k.class, o.class)
	case k.roi != o.roi:
		return cmp.Compare(k.roi, o.roi)
	case k.score != o.score:
		return cmp.Compare(k.score, o.score)
	case k.cluster != o.cluster:
		return cmp.Compare(k.cluster, o.cluster)
	case k.group != o.group:
		return cmp.Compare(k.group, o.group)
	case k.last != o.last:
		return cmp.Compare(k.last, o.last)
	}
	return cmp.Compare(k.id, o.id)
}

// unit is what a plan can take: one machine, or all members of a gang.
type unit struct {
	key  unitKey
	row  columnar.Row // the machine; None for a whole gang
	gang int32        // index in gangTable.list, −1 = none
	// level is the priority at which it can be taken; of a gang the highest of its members.
	level int32
	// spared: the machine drains already, or phase 3 will reclaim it and the need may not
	// preempt it. A plan only reserves it.
	spared bool
	// remainder: another plan of this cycle broke its gang and does not use it.
	remainder bool
	// Of a whole gang: what the need can use (local), and everything (global), without members
	// that the plan has taken; the shape with these vectors. apart: it is taken, or a part of
	// it is, so its vectors are no longer its shape's.
	local, global []int64
	shape         int32
	apart         bool
	// Reclaim between tenants: the tenant that is debited; of a whole gang, what the taker is
	// credited and the giver debited, in the dimensions of shares.
	giver         int32
	takes, debits []int64
}

// keyBand is the band as keys have it: 0 between tenants, who take by ratio.
func (p *pass) keyBand(score float64) float64 {
	if p.reclaiming {
		return 0
	}
	return p.band(score)
}

// band returns −⌊S/δ⌋: the smaller, the better as a victim.
func (p *pass) band(score float64) float64 {
	switch width := p.e.opts.Band; {
	case math.IsInf(width, 1):
		return 0
	case width == 0:
		return -score
	default:
		return -math.Floor(score / width)
	}
}

// victimGroup is machines without a gang that are alike as victims, as one scope has them.
type victimGroup struct {
	*alike
	score float64
	band  float64
	// Victim groups of one tier have keys that differ in the id alone; their machines are
	// merged by id.
	tier int32
	// first is a lower bound of the id ranks of its machines. Within a tier victim groups are
	// sorted by it.
	first uint32
	// gone: no machine is left. skip is an index: all victim groups before it are gone too.
	gone bool
	skip int32
}

// unitScope is what could be taken in one domain, or in the whole fleet, by needs of one
// priority and matcher.
type unitScope struct {
	value        uint32 // of the Same key, or the number of a cell; 0 = the whole fleet
	victimGroups []victimGroup
	broken       []columnar.Row // members of broken gangs
	gangs        []int32
	more         unread         // victim groups that are not listed yet
	rest         []columnar.Row // remainder of broken gangs; see restIn
	restSeen     int            // how much of rest is listed; in the whole fleet, how much of gangTable.rest
	sunk         sunkList
	// ordered: victimGroups is sorted.
	ordered bool
	// Of the whole fleet: the gangs by a lower bound of their bands; those before prospectAt
	// are gone.
	prospects  []prospect
	prospectAt int
	// most memoizes what it could give at most to needs of the kind mostFor; stale = something
	// was taken from it since.
	most    []int64
	mostFor *kind
	stale   bool
}

// unitPool is the scopes of needs of one priority and matcher.
type unitPool struct {
	key      victimPoolKey
	anywhere unitScope
	// Of a pool that is dealt into the cells of a cut: the pool whose units it deals.
	of     *unitPool
	cut    *cut
	dealt  bool   // the units are dealt into domains
	number uint32 // its number in the cycle; 0 = it has no units
	list   []*unitScope
	lost   int // read position in worker.lost
	rest   int // read position in gangTable.rest
}

// unitsFor returns the pool of a kind, built on first use and shared by matcher and priority.
func (l *worker) unitsFor(k *kind) *unitPool {
	key := victimPoolKey{k.matcher, k.priority}
	pool := l.unitPools[key]
	switch {
	case k.victims == l.noVictims && !l.reclaiming:
		none := &l.e.store.noUnits // shared by kinds without victims
		l.e.store.gangs.scopes = append(l.e.store.gangs.scopes, none.list...)
		none.list = none.list[:0]
		return none
	case pool == nil:
		pool = l.poolUnits(key)
		l.unitPools[key] = pool
	}
	if len(k.spread) > 0 { // hard spread reads all of them
		l.complete(&pool.anywhere)
	}
	return pool
}

// poolUnits builds the pool of a matcher and priority from what was found in the classes that
// the matcher accepts.
func (l *worker) poolUnits(key victimPoolKey) *unitPool {
	pool := l.e.store.emptyUnitPool()
	pool.key = key
	x := &pool.anywhere
	x.begin(0)
	classes := l.classesOf[key.matcher]
	for _, class := range classes {
		l.victimsOf(class, key.priority) // listing has rounds of its own, so it comes first
	}
	t := &l.e.store.gangs
	t.round++
	if l.s.Supply.SameKey(key.matcher) < 0 && !l.reclaiming && !l.e.opts.Explain {
		x.more.roster, x.more.priority, x.ordered = l.rosterOf(key), key.priority, true
	}
	for _, class := range classes {
		classVictims := l.victimsOf(class, key.priority)
		if x.more.roster == nil {
			l.listVictimGroups(x, classVictims, key)
		}
		for _, r := range classVictims.broken {
			if l.mayTake(l.e.store.priority[r], key.priority) && l.inAnyDomain(key.matcher, r) {
				x.broken = alloc.Append(l.arena, x.broken, r)
			}
		}
		for _, g := range classVictims.gangs {
			if x := &t.list[g]; x.round != t.round && !l.noneBelow(x, key.priority) {
				x.round = t.round
				pool.anywhere.gangs = alloc.Append(l.arena, pool.anywhere.gangs, g)
			}
		}
	}
	return pool
}

// listVictimGroups adds to a scope the machines without a gang that were found in a class.
func (l *worker) listVictimGroups(x *unitScope, classVictims *classVictims, key victimPoolKey) {
	same := l.s.Supply.SameKey(key.matcher) >= 0
	for _, a := range classVictims.alikes {
		if !l.mayHave(a, key.priority) {
			continue
		}
		if same {
			if a = l.inSomeDomain(a, key.matcher); len(a.rows) == 0 {
				continue
			}
		}
		score := l.scoreOf(a, key.priority)
		x.victimGroups = append(x.victimGroups, victimGroup{alike: a, score: score, band: l.keyBand(score)})
	}
}

// emptyUnitPool returns an empty pool, with the memory of an earlier one.
func (st *store) emptyUnitPool() *unitPool {
	p := st.unitPools.lend()
	p.dealt, p.of, p.cut = false, nil, nil
	p.number = uint32(len(st.unitPools.lent))
	return p
}

// takeBackUnits ends the cycle for the pools and for the scopes that they deal into.
func (st *store) takeBackUnits() {
	for _, p := range slices.Backward(st.unitPools.lent) {
		for _, x := range slices.Backward(p.list) { // reversed, so that the first is lent first again
			st.gangs.scopes = append(st.gangs.scopes, x)
		}
		p.list = p.list[:0]
	}
	st.unitPools.takeBack()
	clear(st.gangs.domains)
}

// victimGroupsRoom is the initial capacity of a scope's list of victim groups.
const victimGroupsRoom = 16

// emptyScope returns a scope to fill, with the memory of an earlier one if there is one.
func (t *gangTable) emptyScope() *unitScope {
	if n := len(t.scopes); n > 0 {
		x := t.scopes[n-1]
		t.scopes = t.scopes[:n-1]
		return x
	}
	made, victimGroups := make([]unitScope, madeAtOnce), make([]victimGroup, madeAtOnce*victimGroupsRoom)
	for i := range slices.Backward(made) {
		made[i].victimGroups = victimGroups[i*victimGroupsRoom : i*victimGroupsRoom : (i+1)*victimGroupsRoom]
		t.scopes = append(t.scopes, &made[i])
	}
	return t.emptyScope()
}

// newScope adds a scope of a domain to a pool.
func (t *gangTable) newScope(pool *unitPool, value uint32) *unitScope {
	x := t.emptyScope()
	x.begin(value)
	if pool.list = append(pool.list, x); pool.number != 0 {
		if t.domains == nil {
			t.domains = map[poolDomain]*unitScope{}
		}
		t.domains[poolDomain{pool.number, value}] = x
	}
	return x
}

// scopeOf returns a pool's scope of a domain, or nil.
func (t *gangTable) scopeOf(pool *unitPool, value uint32) *unitScope {
	return t.domains[poolDomain{pool.number, value}]
}

// begin empties a scope.
func (x *unitScope) begin(value uint32) {
	x.value, x.ordered, x.mostFor, x.restSeen = value, false, nil, 0
	x.most, x.more = nil, unread{pending: x.more.pending[:0]}
	x.prospects, x.prospectAt = x.prospects[:0], 0
	x.victimGroups, x.broken, x.gangs, x.rest = x.victimGroups[:0], nil, nil, nil
	x.sunk.reset()
}

// dealVictimGroup splits a victim group by scope. Each scope gets a list of its own.
func (l *worker) dealVictimGroup(f *victimGroup, at func(columnar.Row) *unitScope) {
	dealt := l.e.store.gangs.dealt[:0]
	for _, r := range f.rows {
		x := at(r)
		if dealt = append(dealt, x); x == nil {
			continue
		}
		n := len(x.victimGroups)
		if n == 0 || x.victimGroups[n-1].victimGroupKey != f.victimGroupKey {
			own := l.e.store.alikes.lend()
			*own = alike{victimGroupKey: f.victimGroupKey}
			x.victimGroups = append(x.victimGroups, victimGroup{alike: own, score: f.score, band: f.band})
			n++
		}
		x.victimGroups[n-1].count++
	}
	l.e.store.gangs.dealt = dealt
	block := alloc.MakeDirty[columnar.Row](l.arena, len(f.rows))
	for i, r := range f.rows {
		if dealt[i] == nil {
			continue
		}
		last := &dealt[i].victimGroups[len(dealt[i].victimGroups)-1]
		if last.rows == nil {
			last.rows, block = block[:0:last.count], block[last.count:]
		}
		last.add(r, l.s.IDRank)
	}
}

// addGang adds a gang unless it was added last.
func (x *unitScope) addGang(a *alloc.Arena, g int32) {
	if n := len(x.gangs); n == 0 || x.gangs[n-1] != g {
		x.gangs = alloc.Append(a, x.gangs, g)
	}
}

// noneBelow reports whether needs of a priority may take no role of a gang.
func (l *worker) noneBelow(g *gang, priority int32) bool {
	return !slices.ContainsFunc(g.roles, func(x gangRole) bool { return l.mayTake(l.kindOf(x.need).priority, priority) })
}

// order sorts the victim groups into the order in which they are taken, and numbers their
// tiers.
func (x *unitScope) order(idRank []uint32) {
	if x.ordered {
		return
	}
	x.ordered = true
	for i := range x.victimGroups {
		f := &x.victimGroups[i]
		f.first = f.least(idRank)
	}
	slices.SortFunc(x.victimGroups, func(a, b victimGroup) int { return compareVictimGroups(&a, &b) })
	x.numberTiers(0)
}

// compareVictimGroups is the order in which victim groups are listed.
func compareVictimGroups(a, b *victimGroup) int {
	return cmp.Or(compareTiers(a, b), cmp.Compare(a.first, b.first))
}

// numberTiers numbers the tiers from an index on. Victim groups of a tier are merged by id.
func (x *unitScope) numberTiers(from int) {
	for i := max(from, 1); i < len(x.victimGroups); i++ {
		a, b := &x.victimGroups[i-1], &x.victimGroups[i]
		if b.tier = a.tier; compareTiers(a, b) != 0 {
			b.tier++
		}
	}
}

// live returns the index of the first victim group, from an index on, that may have a machine
// left. It compresses the path over those without one, as union-find does.
func (x *unitScope) live(from int) int {
	at := from
	for at < len(x.victimGroups) && x.victimGroups[at].gone {
		at = max(at+1, int(x.victimGroups[at].skip))
	}
	if at > from {
		x.victimGroups[from].skip = int32(at)
	}
	return at
}

// compareTiers orders victim groups by key, without the id.
func compareTiers(a, b *victimGroup) int {
	if a.excess != b.excess {
		if a.excess {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.giver(), b.giver()), cmp.Compare(a.band, b.band), cmp.Compare(b.score, a.score))
}

// inDomains deals the pool's machines into the domains of its matcher's Same key, or into the
// cells of its cut, and brings the scopes up to date.
func (l *worker) inDomains(pool *unitPool) {
	if pool.number == 0 {
		return
	}
	if !pool.dealt {
		l.deal(pool)
	}
	l.catchUpScopes(pool)
}

func (l *worker) deal(pool *unitPool) {
	pool.dealt, pool.lost, pool.rest = true, len(l.lost), 0
	from := &pool.anywhere
	if pool.of != nil {
		from = &pool.of.anywhere
	}
	scopes := l.e.store.gangs.scopesByValue(l.cellsMaxIn(pool.cut))
	at := func(r columnar.Row) *unitScope {
		value, ok := l.cellIn(pool.cut, pool.key.matcher, r)
		if !ok {
			return nil
		}
		x := scopes[value]
		if x == nil {
			x = l.e.store.gangs.newScope(pool, value)
			scopes[value] = x
		}
		return x
	}
	for i := range from.victimGroups {
		l.dealVictimGroup(&from.victimGroups[i], at)
	}
	for _, r := range from.broken {
		if x := at(r); x != nil {
			x.broken = alloc.Append(l.arena, x.broken, r)
		}
	}
	for _, g := range from.gangs {
		for _, r := range l.e.store.gangs.list[g].members {
			if !l.matches(l.s.View.Class[r], pool.key.matcher) {
				continue
			}
			if x := at(r); x != nil {
				x.addGang(l.arena, g)
			}
		}
	}
	for _, x := range pool.list {
		scopes[x.value] = nil
	}
}
