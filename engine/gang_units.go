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
	classSunk    unitClass = iota // what is left of a gang that is lost anyway
	classExcess                   // Configured and claimed by nobody, or on its way out for nobody
	classElastic                  // above a gang's minimum
	classPlain                    // claimed by a need of no gang
	classWhole                    // all members of a gang

	numUnitClasses = int(classWhole) + 1
)

// unitKey is the order of units, smallest first.
type unitKey struct {
	paid    bool    // excess costs nobody anything
	tenant  int64   // reclaim between tenants: minus the ratio of what it has to its share; see termOf
	band    float64 // −⌊S/δ⌋; δ = 0: −S, δ = ∞: 0
	class   unitClass
	roi     int64   // −⌊ROI/θ⌋ of a whole gang, else 0
	score   float64 // −S
	cluster int32   // of the gang, −1 for units of none: they are ordered by id alone
	group   string
	last    uint64 // of surplus: reverse keep order, before the id
	id      uint32 // least rank of a member's id
}

func (k *unitKey) compare(o *unitKey) int {
	if k.paid != o.paid {
		if o.paid {
			return -1
		}
		return 1
	}
	// Step by step: it is asked often, and the first that differs is near.
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

// unit is what can be taken: one machine, or all members of a gang.
type unit struct {
	key  unitKey
	row  columnar.Row // of one machine; None for a whole gang
	gang int32        // number in the table, −1 = none
	// level is the priority at which it can be had; of a gang the highest.
	level int32
	// spared: it drains already, or phase 3 reclaims it anyway and the need may not
	// preempt it; a plan only reserves it.
	spared bool
	// remainder: another plan of this cycle has broken its gang and has no use
	// for it.
	remainder bool
	// Of a whole gang: what the need can use, and all of it, of those whom the
	// plan has not taken already; its shape, which is that of all of them; and
	// whether it stands apart from others of that shape, since it is taken, or a part of it.
	local, global []int64
	shape         int32
	apart         bool
	// Reclaim between tenants: whom it is debited to; and of a whole gang what
	// is entered, in the dimensions of shares.
	giver         int32
	takes, debits []int64
}

// keyBand is the band as keys have it: between tenants there is none.
func (p *pass) keyBand(score float64) float64 {
	if p.reclaiming {
		return 0
	}
	return p.band(score)
}

// band is −⌊S/δ⌋: smaller = a better victim.
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

// flavour is machines of no gang that are alike as victims, as a scope has them.
type flavour struct {
	*alike
	score float64
	band  float64
	// Of the flavours that are alike in all but class, which are merged by id.
	tier int32
	// first is the rank of an id that none of the machines left goes before: in a
	// tier, flavours are in this order.
	first uint32
	// gone says that nothing is left, nor of those up to skip.
	gone bool
	skip int32
}

// unitScope is what could be taken in one domain, or anywhere, by needs of one
// priority and matcher.
type unitScope struct {
	value    uint32 // of the Same key, or the number of a cell; 0 = anywhere
	flavours []flavour
	broken   []columnar.Row // members of broken gangs
	gangs    []int32
	more     unread         // of flavours: those that have not been listed yet
	rest     []columnar.Row // what went with a gang; see restIn
	restSeen int            // how much of it is listed; anywhere: of gangTable.rest
	sunk     sunkList
	ordered  bool
	// Anywhere: the gangs with the best that can be had of them, by band; those
	// before at are gone.
	prospects  []prospect
	prospectAt int
	// What it could give at most, for needs of a kind; stale when somebody has
	// taken from it.
	most    []int64
	mostFor *kind
	stale   bool
}

// unitPool is the scopes of needs of one priority and matcher.
type unitPool struct {
	key      victimPoolKey
	anywhere unitScope
	// Of a pool that is dealt into the cells of a cut: what it deals.
	of     *unitPool
	cut    *cut
	dealt  bool   // into domains
	number uint32 // among the pools of the cycle; 0 = there are no units
	list   []*unitScope
	lost   int // how much of lane.lost has been seen
	rest   int // how much of gangTable.rest has been dealt
}

// unitsFor returns the pool of a kind.
func (l *lane) unitsFor(k *kind) *unitPool {
	key := victimPoolKey{k.matcher, k.priority}
	pool := l.unitPools[key]
	switch {
	case k.victims == l.noVictims && !l.reclaiming:
		none := &l.e.store.noUnits // of its kind; others may find some
		l.e.store.gangs.scopes = append(l.e.store.gangs.scopes, none.list...)
		none.list = none.list[:0]
		return none
	case pool == nil:
		pool = l.poolUnits(key)
		l.unitPools[key] = pool
	}
	if len(k.spread) > 0 { // who looks at all of them
		l.complete(&pool.anywhere)
	}
	return pool
}

// poolUnits makes the pool of a matcher and priority of what was found in the
// classes that the matcher accepts.
func (l *lane) poolUnits(key victimPoolKey) *unitPool {
	pool := l.e.store.emptyUnitPool()
	pool.key = key
	x := &pool.anywhere
	x.begin(0)
	classes := l.classesOf[key.matcher]
	for _, class := range classes {
		l.preyOf(class, key.priority) // which has rounds of its own
	}
	t := &l.e.store.gangs
	t.round++
	if l.s.Supply.SameKey(key.matcher) < 0 && !l.reclaiming && !l.e.opts.Explain {
		x.more.roster, x.more.priority, x.ordered = l.rosterOf(key), key.priority, true
	}
	for _, class := range classes {
		prey := l.preyOf(class, key.priority)
		if x.more.roster == nil {
			l.listFlavours(x, prey, key)
		}
		for _, r := range prey.broken {
			if l.mayTake(l.e.store.priority[r], key.priority) && l.inAnyDomain(key.matcher, r) {
				x.broken = alloc.Append(l.arena, x.broken, r)
			}
		}
		for _, g := range prey.gangs {
			if x := &t.list[g]; x.round != t.round && !l.noneBelow(x, key.priority) {
				x.round = t.round
				pool.anywhere.gangs = alloc.Append(l.arena, pool.anywhere.gangs, g)
			}
		}
	}
	return pool
}

// listFlavours lists the machines of no gang that were found of a class.
func (l *lane) listFlavours(x *unitScope, prey *prey, key victimPoolKey) {
	same := l.s.Supply.SameKey(key.matcher) >= 0
	for _, a := range prey.alikes {
		if !l.mayHave(a, key.priority) {
			continue
		}
		if same {
			if a = l.inSomeDomain(a, key.matcher); len(a.rows) == 0 {
				continue
			}
		}
		score := l.scoreOf(a, key.priority)
		x.flavours = append(x.flavours, flavour{alike: a, score: score, band: l.keyBand(score)})
	}
}

// emptyUnitPool returns a pool to fill.
func (st *store) emptyUnitPool() *unitPool {
	p := st.unitPools.lend()
	p.dealt, p.of, p.cut = false, nil, nil
	p.number = uint32(len(st.unitPools.lent))
	return p
}

// takeBackUnits ends the cycle for the pools and for the scopes that they deal into.
func (st *store) takeBackUnits() {
	for _, p := range slices.Backward(st.unitPools.lent) {
		for _, x := range slices.Backward(p.list) { // the first is lent first again
			st.gangs.scopes = append(st.gangs.scopes, x)
		}
		p.list = p.list[:0]
	}
	st.unitPools.takeBack()
	clear(st.gangs.domains)
}

// flavoursRoom is for how many flavours a scope has room at first.
const flavoursRoom = 16

// emptyScope returns a scope to fill: one of a cycle that is over, where there
// is one.
func (t *gangTable) emptyScope() *unitScope {
	if n := len(t.scopes); n > 0 {
		x := t.scopes[n-1]
		t.scopes = t.scopes[:n-1]
		return x
	}
	made, flavours := make([]unitScope, madeAtOnce), make([]flavour, madeAtOnce*flavoursRoom)
	for i := range slices.Backward(made) {
		made[i].flavours = flavours[i*flavoursRoom : i*flavoursRoom : (i+1)*flavoursRoom]
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
	x.flavours, x.broken, x.gangs, x.rest = x.flavours[:0], nil, nil, nil
	x.sunk.reset()
}

// dealFlavour deals the machines of a flavour into scopes, where each has a list
// of its own.
func (l *lane) dealFlavour(f *flavour, at func(columnar.Row) *unitScope) {
	dealt := l.e.store.gangs.dealt[:0]
	for _, r := range f.rows {
		x := at(r)
		if dealt = append(dealt, x); x == nil {
			continue
		}
		n := len(x.flavours)
		if n == 0 || x.flavours[n-1].flavourKey != f.flavourKey {
			own := l.e.store.alikes.lend()
			*own = alike{flavourKey: f.flavourKey}
			x.flavours = append(x.flavours, flavour{alike: own, score: f.score, band: f.band})
			n++
		}
		x.flavours[n-1].count++
	}
	l.e.store.gangs.dealt = dealt
	block := alloc.MakeDirty[columnar.Row](l.arena, len(f.rows))
	for i, r := range f.rows {
		if dealt[i] == nil {
			continue
		}
		last := &dealt[i].flavours[len(dealt[i].flavours)-1]
		if last.rows == nil {
			last.rows, block = block[:0:last.count], block[last.count:]
		}
		last.add(r, l.s.IDRank)
	}
}

// addGang adds a gang unless it is the last that was added.
func (x *unitScope) addGang(a *alloc.Arena, g int32) {
	if n := len(x.gangs); n == 0 || x.gangs[n-1] != g {
		x.gangs = alloc.Append(a, x.gangs, g)
	}
}

// noneBelow reports whether no role of a gang is below a priority.
func (l *lane) noneBelow(g *gang, priority int32) bool {
	return !slices.ContainsFunc(g.roles, func(x gangRole) bool { return l.mayTake(l.kindOf(x.need).priority, priority) })
}

// order puts the flavours in the order in which they are taken, and marks
// those that are merged by id.
func (x *unitScope) order(idRank []uint32) {
	if x.ordered {
		return
	}
	x.ordered = true
	for i := range x.flavours {
		f := &x.flavours[i]
		f.first = f.least(idRank)
	}
	slices.SortFunc(x.flavours, func(a, b flavour) int { return compareFlavours(&a, &b) })
	x.numberTiers(0)
}

// compareFlavours is the order in which flavours are listed.
func compareFlavours(a, b *flavour) int {
	return cmp.Or(compareTiers(a, b), cmp.Compare(a.first, b.first))
}

// numberTiers marks, from a place in the order on, the flavours that are merged by id.
func (x *unitScope) numberTiers(from int) {
	for i := max(from, 1); i < len(x.flavours); i++ {
		a, b := &x.flavours[i-1], &x.flavours[i]
		if b.tier = a.tier; compareTiers(a, b) != 0 {
			b.tier++
		}
	}
}

// live returns the place of the first flavour, from one on, of which there may be
// a machine left.
func (x *unitScope) live(from int) int {
	at := from
	for at < len(x.flavours) && x.flavours[at].gone {
		at = max(at+1, int(x.flavours[at].skip))
	}
	if at > from {
		x.flavours[from].skip = int32(at)
	}
	return at
}

// compareTiers orders flavours by key, but for ids.
func compareTiers(a, b *flavour) int {
	if a.excess != b.excess {
		if a.excess {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.giver(), b.giver()), cmp.Compare(a.band, b.band), cmp.Compare(b.score, a.score))
}

// inDomains deals the pool's machines into domains of its matcher's Same key, or
// into the cells of a cut.
func (l *lane) inDomains(pool *unitPool) {
	if pool.number == 0 {
		return
	}
	if !pool.dealt {
		l.deal(pool)
	}
	l.catchUpScopes(pool)
}

func (l *lane) deal(pool *unitPool) {
	pool.dealt, pool.lost, pool.rest = true, len(l.lost), 0
	from := &pool.anywhere
	if pool.of != nil {
		from = &pool.of.anywhere
	}
	scopes := l.e.store.gangs.scopesByValue(l.sitesMaxIn(pool.cut))
	at := func(r columnar.Row) *unitScope {
		value, ok := l.siteIn(pool.cut, pool.key.matcher, r)
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
	for i := range from.flavours {
		l.dealFlavour(&from.flavours[i], at)
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
