package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// keyBand is the band as keys have it: 0 between tenants, who take by ratio.
func (p *pass) keyBand(score float64) float64 {
	if p.tenants.reclaiming {
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

// unitScope is what could be taken in one domain, or in the whole fleet, by needs of one
// priority and matcher.
type unitScope struct {
	value        uint32 // of the Same key, or the number of a cell; 0 = the whole fleet
	victimGroups []units.VictimGroup
	broken       []columnar.Row // members of broken gangs
	gangs        []int32
	more         units.Unread   // victim groups that are not listed yet
	rest         []columnar.Row // remainder of broken gangs; see restIn
	restSeen     int            // how much of rest is listed; in the whole fleet, how much of gangTable.rest
	sunk         units.SunkList
	// ordered: victimGroups is sorted.
	ordered bool
	// Of the whole fleet: the gangs by a lower bound of their bands; those before prospectAt
	// are gone.
	prospects  []prospect
	prospectAt int
	// most memoizes what it could give at most to needs of the kind mostFor; stale = something
	// was taken from it since.
	most    []int64
	mostFor *state.Kind
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
func (l *worker) unitsFor(k *state.Kind) *unitPool {
	key := victimPoolKey{k.Matcher, k.Priority}
	pool := l.p.candidates.unitPools[key]
	switch {
	case l.p.candidates.poolOf[k.Number] == l.p.candidates.noVictims && !l.p.tenants.reclaiming:
		none := &l.p.e.store.lent.noUnits // shared by kinds without victims
		l.p.e.store.gangs.scopes = append(l.p.e.store.gangs.scopes, none.list...)
		none.list = none.list[:0]
		return none
	case pool == nil:
		pool = l.poolUnits(key)
		l.p.candidates.unitPools[key] = pool
	}
	if len(k.Spread) > 0 { // hard spread reads all of them
		l.p.complete(&pool.anywhere)
	}
	return pool
}

// poolUnits builds the pool of a matcher and priority from what was found in the classes that
// the matcher accepts.
func (l *worker) poolUnits(key victimPoolKey) *unitPool {
	pool := l.p.e.store.emptyUnitPool()
	pool.key = key
	x := &pool.anywhere
	x.begin(0)
	classes := l.p.classesOf[key.matcher]
	for _, class := range classes {
		l.victimsOf(class, key.priority) // listing has rounds of its own, so it comes first
	}
	t := &l.p.e.store.gangs
	t.round++
	if l.p.s.Supply.SameKey(key.matcher) < 0 && !l.p.tenants.reclaiming && !l.p.e.opts.Explain {
		x.more.Roster, x.more.Priority, x.ordered = l.rosterOf(key), key.priority, true
	}
	for _, class := range classes {
		classVictims := l.victimsOf(class, key.priority)
		if x.more.Roster == nil {
			l.listVictimGroups(x, classVictims, key)
		}
		for _, r := range classVictims.Broken {
			if l.p.tenants.mayTake(l.p.e.store.priority[r], key.priority) && l.p.inAnyDomain(key.matcher, r) {
				x.broken = alloc.Append(l.arena, x.broken, r)
			}
		}
		for _, g := range classVictims.Gangs {
			if x := &t.list[g]; x.Round != t.round && !l.p.noneBelow(x, key.priority) {
				x.Round = t.round
				pool.anywhere.gangs = alloc.Append(l.arena, pool.anywhere.gangs, g)
			}
		}
	}
	return pool
}

// listVictimGroups adds to a scope the machines without a gang that were found in a class.
func (l *worker) listVictimGroups(x *unitScope, classVictims *units.ClassVictims, key victimPoolKey) {
	same := l.p.s.Supply.SameKey(key.matcher) >= 0
	for _, a := range classVictims.Alikes {
		if !l.p.tenants.mayHave(a, key.priority) || a.Acquired && !same {
			continue
		}
		if same {
			if a = l.inSomeDomain(a, key.matcher); len(a.Rows) == 0 {
				continue
			}
		}
		score := l.p.scoreOf(a, key.priority)
		x.victimGroups = append(x.victimGroups, units.VictimGroup{Alike: a, Score: score, Band: l.p.keyBand(score)})
	}
}

// emptyUnitPool returns an empty pool, with the memory of an earlier one.
func (st *store) emptyUnitPool() *unitPool {
	p := st.lent.unitPools.Lend()
	p.dealt, p.of, p.cut = false, nil, nil
	p.number = uint32(len(st.lent.unitPools.Lent))
	return p
}

// takeBackUnits ends the cycle for the pools and for the scopes that they deal into.
func (st *store) takeBackUnits() {
	for _, p := range slices.Backward(st.lent.unitPools.Lent) {
		for _, x := range slices.Backward(p.list) { // reversed, so that the first is lent first again
			st.gangs.scopes = append(st.gangs.scopes, x)
		}
		p.list = p.list[:0]
	}
	st.lent.unitPools.TakeBack()
	clear(st.gangs.domains)
}

// emptyScope returns a scope to fill, with the memory of an earlier one if there is one.
func (t *gangTable) emptyScope() *unitScope {
	if n := len(t.scopes); n > 0 {
		x := t.scopes[n-1]
		t.scopes = t.scopes[:n-1]
		return x
	}
	made, victimGroups := make([]unitScope, reuse.MadeAtOnce), make([]units.VictimGroup, reuse.MadeAtOnce*units.VictimGroupsRoom)
	for i := range slices.Backward(made) {
		made[i].victimGroups = victimGroups[i*units.VictimGroupsRoom : i*units.VictimGroupsRoom : (i+1)*units.VictimGroupsRoom]
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
	x.most, x.more = nil, units.Unread{Pending: x.more.Pending[:0]}
	x.prospects, x.prospectAt = x.prospects[:0], 0
	x.victimGroups, x.broken, x.gangs, x.rest = x.victimGroups[:0], nil, nil, nil
	x.sunk.Reset()
}

// dealVictimGroup splits a victim group by scope. Each scope gets a list of its own.
func (l *worker) dealVictimGroup(f *units.VictimGroup, at func(columnar.Row) *unitScope) {
	dealt := l.p.e.store.gangs.dealt[:0]
	for _, r := range f.Rows {
		x := at(r)
		if dealt = append(dealt, x); x == nil {
			continue
		}
		n := len(x.victimGroups)
		if n == 0 || x.victimGroups[n-1].VictimGroupKey != f.VictimGroupKey {
			own := l.p.e.store.lent.alikes.Lend()
			*own = units.Alike{VictimGroupKey: f.VictimGroupKey}
			x.victimGroups = append(x.victimGroups, units.VictimGroup{Alike: own, Score: f.Score, Band: f.Band})
			n++
		}
		x.victimGroups[n-1].Count++
	}
	l.p.e.store.gangs.dealt = dealt
	block := alloc.MakeDirty[columnar.Row](l.arena, len(f.Rows))
	for i, r := range f.Rows {
		if dealt[i] == nil {
			continue
		}
		last := &dealt[i].victimGroups[len(dealt[i].victimGroups)-1]
		if last.Rows == nil {
			last.Rows, block = block[:0:last.Count], block[last.Count:]
		}
		last.Add(r, l.p.s.IDRank)
	}
}

// addGang adds a gang unless it was added last.
func (x *unitScope) addGang(a *alloc.Arena, g int32) {
	if n := len(x.gangs); n == 0 || x.gangs[n-1] != g {
		x.gangs = alloc.Append(a, x.gangs, g)
	}
}

// noneBelow reports whether needs of a priority may take no role of a gang.
func (p *pass) noneBelow(g *units.Gang, priority int32) bool {
	return !slices.ContainsFunc(g.Roles, func(x units.GangRole) bool { return p.tenants.mayTake(p.kindOf(x.Need).Priority, priority) })
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
		f.First = f.Least(idRank)
	}
	slices.SortFunc(x.victimGroups, func(a, b units.VictimGroup) int { return units.CompareVictimGroups(&a, &b) })
	x.numberTiers(0)
}

// numberTiers numbers the tiers from an index on. Victim groups of a tier are merged by id.
func (x *unitScope) numberTiers(from int) {
	for i := max(from, 1); i < len(x.victimGroups); i++ {
		a, b := &x.victimGroups[i-1], &x.victimGroups[i]
		if b.Tier = a.Tier; units.CompareTiers(a, b) != 0 {
			b.Tier++
		}
	}
}

// live returns the index of the first victim group, from an index on, that may have a machine
// left. It compresses the path over those without one, as union-find does.
func (x *unitScope) live(from int) int {
	at := from
	for at < len(x.victimGroups) && x.victimGroups[at].Gone {
		at = max(at+1, int(x.victimGroups[at].Skip))
	}
	if at > from {
		x.victimGroups[from].Skip = int32(at)
	}
	return at
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
	pool.dealt, pool.lost, pool.rest = true, len(l.search.lost), 0
	from := &pool.anywhere
	if pool.of != nil {
		from = &pool.of.anywhere
	}
	scopes := l.p.e.store.gangs.scopesByValue(l.p.cellsMaxIn(pool.cut))
	at := func(r columnar.Row) *unitScope {
		value, ok := l.p.cellIn(pool.cut, pool.key.matcher, r)
		if !ok {
			return nil
		}
		x := scopes[value]
		if x == nil {
			x = l.p.e.store.gangs.newScope(pool, value)
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
		for _, r := range l.p.e.store.gangs.list[g].Members {
			if !l.p.s.Classes[l.p.s.View.Class[r]].Matches(pool.key.matcher) {
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
