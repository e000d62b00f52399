package victims

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// KeyBand is the band as keys have it: 0 between tenants, who take by ratio.
func (p *Pass) KeyBand(score float64) float64 {
	if p.Tenants.Reclaiming {
		return 0
	}
	return p.Band(score)
}

// Band returns −⌊S/δ⌋: the smaller, the better as a victim.
func (p *Pass) Band(score float64) float64 {
	switch width := p.Opts.Band; {
	case math.IsInf(width, 1):
		return 0
	case width == 0:
		return -score
	default:
		return -math.Floor(score / width)
	}
}

// UnitScope is what could be taken in one domain, or in the whole fleet, by needs of one
// priority and matcher.
type UnitScope struct {
	Value        uint32 // of the Same key, or the number of a cell; 0 = the whole fleet
	VictimGroups []units.VictimGroup
	Broken       []columnar.Row // members of broken gangs
	Gangs        []int32
	more         units.Unread   // victim groups that are not listed yet
	Rest         []columnar.Row // remainder of broken gangs; see RestIn
	restSeen     int            // how much of rest is listed; in the whole fleet, how much of gangTable.Rest
	sunk         units.SunkList
	// ordered: VictimGroups is sorted.
	ordered   bool
	prospects prospects
	// Most memoizes what it could give at most to needs of the kind MostFor; stale = something
	// was taken from it since.
	Most    []int64
	MostFor *state.Kind
	Stale   bool
}

// UnitPool is the scopes of needs of one priority and matcher.
type UnitPool struct {
	key      victimPoolKey
	Anywhere UnitScope
	// Of a pool that is dealt into the cells of a cut: the pool whose units it deals.
	of     *UnitPool
	cut    *cut
	dealt  bool   // the units are dealt into domains
	number uint32 // its number in the cycle; 0 = it has no units
	List   []*UnitScope
	lost   int // read position in Finding.Lost
	rest   int // read position in gangTable.Rest
}

// UnitsFor returns the pool of a kind, built on first use and shared by matcher and priority.
func (l *Worker) UnitsFor(k *state.Kind) *UnitPool {
	key := victimPoolKey{k.Matcher, k.Priority}
	pool := l.p.Candidates.UnitPools[key]
	switch {
	case l.p.Candidates.PoolOf[k.Number] == l.p.Candidates.noVictims && !l.p.Tenants.Reclaiming:
		none := &l.p.st.lent.noUnits // shared by kinds without victims
		l.p.st.Gangs.scopes = append(l.p.st.Gangs.scopes, none.List...)
		none.List = none.List[:0]
		return none
	case pool == nil:
		pool = l.poolUnits(key)
		l.p.Candidates.UnitPools[key] = pool
	}
	return pool
}

// poolUnits builds the pool of a matcher and priority from what was found in the classes that
// the matcher accepts.
func (l *Worker) poolUnits(key victimPoolKey) *UnitPool {
	pool := l.p.st.emptyUnitPool()
	pool.key = key
	x := &pool.Anywhere
	x.begin(0)
	classes := l.p.ClassesOf[key.matcher]
	for _, class := range classes {
		l.victimsOf(class, key.priority) // listing has rounds of its own, so it comes first
	}
	t := &l.p.st.Gangs
	t.Round++
	if l.p.Snap.Supply.SameKey(key.matcher) < 0 && !l.p.Tenants.Reclaiming {
		x.more.Roster, x.more.Priority, x.ordered = l.rosterOf(key), key.priority, true
	}
	for _, class := range classes {
		classVictims := l.victimsOf(class, key.priority)
		if x.more.Roster == nil {
			x.listVictimGroups(l, classVictims, key)
		}
		for _, r := range classVictims.Broken {
			if l.p.Tenants.MayTake(l.p.st.Priority[r], key.priority) && l.p.InAnyDomain(key.matcher, r) {
				x.Broken = alloc.Append(l.Arena, x.Broken, r)
			}
		}
		for _, g := range classVictims.Gangs {
			if x := &t.List[g]; x.Round != t.Round && !l.p.noneBelow(x, key.priority) {
				x.Round = t.Round
				pool.Anywhere.Gangs = alloc.Append(l.Arena, pool.Anywhere.Gangs, g)
			}
		}
	}
	return pool
}

// listVictimGroups adds to a scope the machines without a gang that were found in a class.
func (x *UnitScope) listVictimGroups(l *Worker, classVictims *units.ClassVictims, key victimPoolKey) {
	same := l.p.Snap.Supply.SameKey(key.matcher) >= 0
	for _, a := range classVictims.Alikes {
		if !l.p.Tenants.mayHave(a, key.priority) || a.Acquired && !same {
			continue
		}
		if same {
			if a = l.inSomeDomain(a, key.matcher); len(a.Rows) == 0 {
				continue
			}
		}
		score := l.p.scoreOf(a, key.priority)
		x.VictimGroups = append(x.VictimGroups, units.GroupOf(a, score, l.p.KeyBand(score)))
	}
}

// emptyUnitPool returns an empty pool, with the memory of an earlier one.
func (st *Store) emptyUnitPool() *UnitPool {
	p := st.lent.unitPools.Lend()
	p.dealt, p.of, p.cut = false, nil, nil
	p.number = uint32(len(st.lent.unitPools.Lent))
	return p
}

// TakeBackUnits ends the cycle for the pools.
func (st *Store) TakeBackUnits() {
	st.TakeBackDomains()
	st.lent.unitPools.TakeBack()
}

// TakeBackDomains takes back the scopes that pools have dealt their units into, so that their memory serves the next priority: turns come
// by priority, the highest first, and each pool has one priority. If a pool were asked again all the same, it would deal again.
func (st *Store) TakeBackDomains() {
	for _, p := range slices.Backward(st.Gangs.dealtPools) {
		for _, x := range slices.Backward(p.List) { // reversed, so that the first is lent first again
			st.Gangs.scopes = append(st.Gangs.scopes, x)
		}
		p.List, p.dealt = p.List[:0], false
	}
	st.Gangs.dealtPools = st.Gangs.dealtPools[:0]
	st.lent.dealt.TakeBack()
	st.lent.dealtRows.Empty()
	clear(st.Gangs.domains)
}

// emptyScope returns a scope to fill, with the memory of an earlier one if there is one.
func (t *gangTable) emptyScope() *UnitScope {
	if n := len(t.scopes); n > 0 {
		x := t.scopes[n-1]
		t.scopes = t.scopes[:n-1]
		return x
	}
	made, victimGroups := make([]UnitScope, reuse.MadeAtOnce), make([]units.VictimGroup, reuse.MadeAtOnce*units.VictimGroupsRoom)
	for i := range slices.Backward(made) {
		made[i].VictimGroups = victimGroups[i*units.VictimGroupsRoom : i*units.VictimGroupsRoom : (i+1)*units.VictimGroupsRoom]
		t.scopes = append(t.scopes, &made[i])
	}
	return t.emptyScope()
}

// NewScope adds a scope of a domain to a pool.
func (t *gangTable) NewScope(pool *UnitPool, value uint32) *UnitScope {
	x := t.emptyScope()
	x.begin(value)
	if pool.List = append(pool.List, x); pool.number != 0 {
		if t.domains == nil {
			t.domains = map[poolDomain]*UnitScope{}
		}
		t.domains[poolDomain{pool.number, value}] = x
	}
	return x
}

// ScopeOf returns a pool's scope of a domain, or nil.
func (t *gangTable) ScopeOf(pool *UnitPool, value uint32) *UnitScope {
	return t.domains[poolDomain{pool.number, value}]
}

// begin empties a scope.
func (x *UnitScope) begin(value uint32) {
	x.Value, x.ordered, x.MostFor, x.restSeen = value, false, nil, 0
	x.Most, x.more = nil, units.Unread{Pending: x.more.Pending[:0]}
	x.prospects.begin()
	x.VictimGroups, x.Broken, x.Gangs, x.Rest = x.VictimGroups[:0], nil, nil, nil
	x.sunk.Reset()
}

// dealVictimGroup splits a victim group by scope. Each scope gets a list of its own.
func (l *Worker) dealVictimGroup(f *units.VictimGroup, at func(columnar.Row) *UnitScope) {
	dealt := l.p.st.Gangs.dealt[:0]
	for _, r := range f.Rows {
		x := at(r)
		if dealt = append(dealt, x); x == nil {
			continue
		}
		n := len(x.VictimGroups)
		if n == 0 || x.VictimGroups[n-1].VictimGroupKey != f.VictimGroupKey {
			own := l.p.st.lent.dealt.Lend()
			*own = units.Alike{VictimGroupKey: f.VictimGroupKey}
			x.VictimGroups = append(x.VictimGroups, units.GroupOf(own, f.Score, f.Band))
			n++
		}
		x.VictimGroups[n-1].Count++
	}
	l.p.st.Gangs.dealt = dealt
	block := l.p.st.lent.dealtRows.Take(len(f.Rows))
	for i, r := range f.Rows {
		if dealt[i] == nil {
			continue
		}
		last := &dealt[i].VictimGroups[len(dealt[i].VictimGroups)-1]
		if last.Rows == nil {
			last.Rows, block = block[:0:last.Count], block[last.Count:]
		}
		last.Add(r, l.p.Snap.IDPlaces())
	}
}

// addGang adds a gang unless it was added last.
func (x *UnitScope) addGang(a *alloc.Arena, g int32) {
	if n := len(x.Gangs); n == 0 || x.Gangs[n-1] != g {
		x.Gangs = alloc.Append(a, x.Gangs, g)
	}
}

// noneBelow reports whether needs of a priority may take no role of a gang.
func (p *Pass) noneBelow(g *units.Gang, priority int32) bool {
	return !slices.ContainsFunc(g.Roles, func(x units.GangRole) bool { return p.Tenants.MayTake(p.KindOf(x.Need).Priority, priority) })
}

// SortGroups sorts the victim groups into the order in which they are taken, and numbers their
// tiers.
func (x *UnitScope) SortGroups(ids snapshot.Places) {
	if x.ordered {
		return
	}
	x.ordered = true
	for i := range x.VictimGroups {
		f := &x.VictimGroups[i]
		f.First = f.Least(ids)
	}
	slices.SortFunc(x.VictimGroups, func(a, b units.VictimGroup) int { return units.CompareVictimGroups(&a, &b) })
	x.numberTiers(0)
}

// numberTiers numbers the tiers from an index on. Victim groups of a tier are merged by id.
func (x *UnitScope) numberTiers(from int) {
	for i := max(from, 1); i < len(x.VictimGroups); i++ {
		a, b := &x.VictimGroups[i-1], &x.VictimGroups[i]
		if b.Tier = a.Tier; units.CompareTiers(a, b) != 0 {
			b.Tier++
		}
	}
}

// NextLive returns the index of the first victim group, from an index on, that may have a machine
// left. It compresses the path over those without one, as union-find does.
func (x *UnitScope) NextLive(from int) int {
	at := from
	for at < len(x.VictimGroups) && x.VictimGroups[at].Gone {
		at = max(at+1, int(x.VictimGroups[at].Skip))
	}
	if at > from {
		x.VictimGroups[from].Skip = int32(at)
	}
	return at
}

// DealIntoDomains deals the pool's machines into the domains of its matcher's Same key, or into the
// cells of its cut, and brings the scopes up to date.
func (pool *UnitPool) DealIntoDomains(l *Worker) {
	if pool.number == 0 {
		return
	}
	if !pool.dealt {
		pool.deal(l)
	}
	pool.catchUpScopes(l)
}

func (pool *UnitPool) deal(l *Worker) {
	pool.dealt, pool.lost, pool.rest = true, len(l.Finding.Lost), 0
	l.p.st.Gangs.dealtPools = append(l.p.st.Gangs.dealtPools, pool)
	from := &pool.Anywhere
	if pool.of != nil {
		from = &pool.of.Anywhere
	}
	scopes := l.p.st.Gangs.scopesByValue(pool.cut.cellsMaxIn(l.p))
	at := func(r columnar.Row) *UnitScope {
		value, ok := pool.cut.cellIn(l.p, pool.key.matcher, r)
		if !ok {
			return nil
		}
		x := scopes[value]
		if x == nil {
			x = l.p.st.Gangs.NewScope(pool, value)
			scopes[value] = x
		}
		return x
	}
	for i := range from.VictimGroups {
		l.dealVictimGroup(&from.VictimGroups[i], at)
	}
	for _, r := range from.Broken {
		if x := at(r); x != nil {
			x.Broken = alloc.Append(l.Arena, x.Broken, r)
		}
	}
	for _, g := range from.Gangs {
		for _, r := range l.p.st.Gangs.List[g].Members {
			if !l.p.Snap.Classes[l.p.Snap.View.Class[r]].Matches(pool.key.matcher) {
				continue
			}
			if x := at(r); x != nil {
				x.addGang(l.Arena, g)
			}
		}
	}
	for _, x := range pool.List {
		scopes[x.Value] = nil
	}
}

// catchUpScopes reads the logs that a pool has not read yet: it marks as stale the scopes whose
// machines were taken, and deals the unused remainder of broken gangs into the pool's domains.
func (pool *UnitPool) catchUpScopes(l *Worker) {
	at := func(r columnar.Row) *UnitScope {
		value, ok := pool.cut.cellIn(l.p, pool.key.matcher, r)
		if !ok {
			return nil
		}
		return l.p.st.Gangs.ScopeOf(pool, value)
	}
	for ; pool.lost < len(l.Finding.Lost); pool.lost++ {
		if x := at(l.Finding.Lost[pool.lost]); x != nil {
			x.Stale = true
		}
	}
	for rest := l.p.st.Gangs.Rest; pool.rest < len(rest); pool.rest++ {
		if x := at(rest[pool.rest]); x != nil {
			x.Rest = alloc.Append(l.Arena, x.Rest, rest[pool.rest])
		}
	}
}

// LogTaken logs that a plan has taken a machine that could be preempted, so that the bounds of its
// domain are measured again. Taking a member also changes what else its gang can give, in every
// domain, so all members are logged with it, once per plan. apart says that another plan had
// broken the machine off its gang before; then the gang does not change.
func (l *Worker) LogTaken(r columnar.Row, apart bool) {
	l.Finding.Lost = append(l.Finding.Lost, r)
	at := l.GangOf(r)
	if at == 0 || apart {
		return
	}
	g := &l.p.st.Gangs.List[at-1]
	if g.LostAt == len(l.p.Preempted.Plans)+1 {
		return // this plan has logged the gang already
	}
	if g.LostAt = len(l.p.Preempted.Plans) + 1; l.p.isMixed(g) {
		l.Finding.MoreUnits++ // the remaining members may have a lower priority than those taken
	}
	l.Finding.Lost = append(l.Finding.Lost, g.Members...)
}

// RestIn returns, for a scope, the remainder of broken gangs that no plan counts on, as far as
// needs of the scope's matcher and priority may take it.
func (x *UnitScope) RestIn(l *Worker, k *state.Kind) []columnar.Row {
	if x.Value == 0 {
		rest := l.p.st.Gangs.Rest
		for _, r := range rest[x.restSeen:] {
			if l.p.Tenants.MayTake(l.p.st.Priority[r], k.Priority) && l.p.Snap.Classes[l.p.Snap.View.Class[r]].Matches(k.Matcher) {
				x.Rest = alloc.Append(l.Arena, x.Rest, r)
			}
		}
		x.restSeen = len(rest)
	}
	x.Rest = slices.DeleteFunc(x.Rest, func(r columnar.Row) bool { return l.p.Promised.TakenBy(r) != ranks.None })
	return x.Rest
}

// isMixed reports whether a gang's roles differ in priority.
func (p *Pass) isMixed(g *units.Gang) bool {
	first := p.KindOf(g.Roles[0].Need).Priority
	return slices.ContainsFunc(g.Roles, func(x units.GangRole) bool { return p.KindOf(x.Need).Priority != first })
}

// Single makes a unit of one machine, scored for needs of a priority.
func (l *Worker) Single(r columnar.Row, class units.Class, priority int32) units.Unit {
	level := l.p.st.Priority[r]
	score := l.p.Score(r, priority, level)
	u := units.Unit{Row: r, Gang: -1, Level: level, Giver: l.p.giverOf(r), Key: units.Key{
		Paid: true, Band: l.p.KeyBand(score), Class: class, Score: -score, Cluster: -1, ID: l.p.Snap.IDRank(r),
	}}
	if g := l.GangOf(r); g != 0 {
		u.Gang = g - 1
		x := &l.p.st.Gangs.List[g-1]
		u.Key.Cluster, u.Key.Group = x.Cluster, x.Group
	}
	return u
}
