package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// Most gangs that are short stay so, in every domain. What a domain could have at
// most for needs of a kind, whoever asks, is therefore formed once and kept: what
// is taken or put back afterwards makes that one domain be measured again. Only
// where the bound, with what is the need's own there, covers it are units listed.
// A vector that no domain covers is remembered: whoever wants as much is refused
// without a look, until some domain has more than it had.

// refusedMax is how many refused vectors are remembered of a kind.
const refusedMax = 8

// groundBound is the most that each domain could have for needs of a kind, apart
// from what is theirs alone: what is free, and what could be preempted.
type groundBound struct {
	list    []boundedGround
	at      map[uint32]int32 // by value: 1 + place in list
	sums    []int64          // vector after vector
	refused [][]int64
	oldest  int // of refused
	// How far what has happened since has been looked at.
	touched, lost, voided int
	queue                 []int32  // places to be measured again
	values                []uint32 // scratch: where a need may be covered

	candidates candidateMemo
}

// boundedGround is a domain with what there is in it.
type boundedGround struct {
	value   uint32
	shelves []uint32
	scope   *unitScope // nil = no units
	dirty   bool
	// units are the machines that could be preempted, lowest priority first; they
	// are listed when the bound has first covered somebody.
	units  []groundUnit
	listed bool
}

// groundUnit is a machine that could be preempted.
type groundUnit struct {
	level   int64
	id      uint32
	class   uint32
	cluster int32
	gang    int32 // −1 = of none, or gone from it
	state   gangState
}

// choosesFreely reports whether a need may be planned for wherever it is covered,
// and nobody wants to know where it was not.
func (l *lane) choosesFreely(need int32) bool {
	return !l.reclaiming && !l.e.opts.Explain && !l.lines[need].is(isPinned) && !l.reserved.had(need)
}

// planFreely is planWhole for a need that chooses freely.
func (l *lane) planFreely(need int32, k *kind, pool *unitPool) {
	if l.searchEnded() {
		return
	}
	from, to := l.narrowKeys(need, k)
	values := l.openGrounds(need, k, pool)
	if len(values) == 0 {
		l.findCandidates(need, k, pool)
		l.findInCells(need, k, pool, from, to)
		return
	}
	if l.planInCells(need, k, pool, from, to) || l.searchEnded() {
		return
	}
	if from < to { // the domains at hand were cells
		values = l.openGrounds(need, k, pool)
	}
	l.findCandidates(need, k, pool)
	l.planAmong(need, k, l.coveringGrounds(need, k, pool, values))
}

// isRefused reports whether no domain covers the gang in a place of the order,
// whose outline is known. It is planFreely for most gangs that are short.
func (l *lane) isRefused(t *turns, rank int) bool {
	need, k := l.order[rank], &l.kinds[l.kindAt[rank]]
	b := k.grounds
	if b == nil || l.e.opts.Explain || len(l.e.opts.Nested) > 0 {
		return false
	}
	l.e.store.gangs.turn++
	l.vecs.empty()
	pool := l.unitsFor(k)
	l.inDomains(pool)
	l.boundFor(k, pool)
	want, own := l.outlineOf(t, rank)
	if !b.refuses(want) && b.coversAny(want) || b.coversWith(own, want) {
		return false
	}
	if m := &b.candidates; m.since != l.mayHaveMore() || m.for2 < 0 {
		if l.findCandidates(need, k, pool); l.lines[need].is(hasCandidates) {
			l.visit(need)
		}
	}
	return true
}

// coveringGrounds returns, of some domains, those in which everything together
// covers a need, of at most TopDomains the best.
func (l *lane) coveringGrounds(need int32, k *kind, pool *unitPool, values []uint32) []ground {
	out := l.sel.grounds[:0]
	first, waits := l.lines[need].domain, l.backsOff(need)
	worst := -1 // of those in out, once it is full
	for _, value := range values {
		g := ground{value: value, scope: l.scopeAt(pool, value), missing: l.lackingIn(need, l.sites.find(value))}
		var covers bool
		var offered int
		if waits {
			s := l.selectFor(need, k, g.scope, g.missing)
			if covers, offered = s.couldCover(); covers {
				s.measure(&g)
			}
		} else {
			covers, offered = l.measureListed(need, k, &g)
		}
		if !covers {
			continue
		}
		l.meet(need, offered)
		switch {
		case worst < 0:
			out = append(out, g)
		case l.compareGrounds(&g, &out[worst], first) < 0:
			out[worst] = g
		default:
			continue
		}
		if len(out) == l.e.opts.TopDomains {
			worst = l.worstGround(out, first)
		}
	}
	l.sel.grounds = out
	return out
}

// worstGround returns the place of the last of some domains by order.
func (l *lane) worstGround(grounds []ground, first uint32) int {
	worst := 0
	for i := range grounds {
		if l.compareGrounds(&grounds[i], &grounds[worst], first) > 0 {
			worst = i
		}
	}
	return worst
}

// measureListed is couldCover and measure by the list of a domain's machines.
func (l *lane) measureListed(need int32, k *kind, g *ground) (covers bool, offered int) {
	missing := l.copyOf(g.missing)
	g.level, g.count = math.MinInt64, 0
	covers = columnar.IsZero(missing)
	b := k.grounds
	at := int(b.at[g.value]) - 1
	if at < 0 || b.list[at].scope == nil {
		return covers, 0
	}
	x := &b.list[at]
	if !x.listed {
		l.listUnits(b, at, k)
	}
	c := l.lines[need].cluster
	for i := range x.units {
		u := &x.units[i]
		if u.cluster == c || u.gang >= 0 && l.stateInTurn(&l.e.store.gangs.list[u.gang]) != u.state {
			continue
		}
		if offered++; covers {
			continue
		}
		columnar.SubClamp(missing, l.vector(u.class))
		g.level = u.level
		g.count++
		covers = columnar.IsZero(missing)
	}
	return covers, offered
}

// listUnits lists what could be preempted in a domain by whoever asks, and makes
// the bound what that is.
func (l *lane) listUnits(b *groundBound, at int, k *kind) {
	x, sum := &b.list[at], b.sum(at, l.dims)
	s := &l.sel
	s.need, s.cluster, s.waits = noNeed, anyCluster, false
	l.selectUnits(k, x.scope, l.vecs.take(l.dims))
	clear(sum)
	l.addShelves(sum, k, l.domainsFor(k.matcher), x.shelves)
	x.listed = true
	list := s.had[:0]
	t := &l.e.store.gangs
	s.eachMachine(func(r columnar.Row, level int64) {
		class := l.s.View.Class[r]
		u := groundUnit{level: level, id: l.s.IDRank[r], class: class, cluster: l.s.ClusterOf[l.s.View.Cluster[r]], gang: -1}
		if at := l.gangOf(r); at != 0 && !l.victimOf.Has(uint32(r)) {
			u.gang = at - 1
			u.state = l.stateOf(&t.list[u.gang])
		}
		list = append(list, u)
		columnar.SatAdd(sum, l.vector(class))
	})
	s.had = list
	slices.SortFunc(list, compareGroundUnits)
	if cap(x.units) < len(list) {
		x.units = alloc.MakeDirty[groundUnit](l.arena, len(list))
	}
	x.units = append(x.units[:0], list...)
}

// compareGroundUnits is the order in which machines are freed: lowest priority
// first, then by id.
func compareGroundUnits(a, b groundUnit) int {
	return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.id, b.id))
}

// openGrounds returns the domains that may cover a need, and forms what it would
// have in each without preemption.
func (l *lane) openGrounds(need int32, k *kind, pool *unitPool) []uint32 {
	b := l.boundFor(k, pool)
	want := l.aggregate(need)
	values := b.covering(b.values[:0], want)
	sites := &l.sites
	sites.reset(l.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok {
			columnar.SatAdd(sites.of(v, l.dims).available, l.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := l.lines[need].acquired; r != columnar.None; r = l.held[r].next {
		add(r)
	}
	for i := range sites.list {
		d := &sites.list[i]
		copy(d.potential, d.available)
		if at := int(b.at[d.value]) - 1; at >= 0 {
			if columnar.Covers(b.sum(at, l.dims), want) {
				continue // it is among them
			}
			columnar.SatAdd(d.potential, b.sum(at, l.dims))
		}
		if columnar.Covers(d.potential, want) {
			values = append(values, d.value)
		}
		clear(d.potential)
	}
	d := l.domainsFor(k.matcher)
	for _, value := range values {
		site := sites.of(value, l.dims)
		if at := int(b.at[value]) - 1; at >= 0 {
			l.addShelves(site.available, k, d, b.list[at].shelves)
		}
	}
	b.values = values
	return values
}

// sum returns the bound of a domain.
func (b *groundBound) sum(at, dims int) []int64 { return b.sums[at*dims:][:dims] }

// covering appends the domains whose bound covers what is wanted.
func (b *groundBound) covering(values []uint32, want []int64) []uint32 {
	if len(b.list) == 0 || b.refuses(want) {
		return values
	}
	from, dims := len(values), len(b.sums)/len(b.list)
	for i := range b.list {
		if columnar.Covers(b.sum(i, dims), want) {
			values = append(values, b.list[i].value)
		}
	}
	if len(values) == from {
		b.refuse(want)
	}
	return values
}

// coversAny reports whether the bound of some domain covers what is wanted, and
// remembers it when none does.
func (b *groundBound) coversAny(want []int64) bool {
	for at, dims := 0, len(want); at < len(b.sums); at += dims {
		if columnar.Covers(b.sums[at:at+dims], want) {
			return true
		}
	}
	b.refuse(want)
	return false
}

// coversWith reports whether a domain covers what is wanted together with what is
// the gang's own there: value and vector by turns.
func (b *groundBound) coversWith(own, want []int64) bool {
	for dims := len(want); len(own) > 0; own = own[1+dims:] {
		var sum []int64
		if at := b.at[uint32(own[0])]; at != 0 {
			sum = b.sum(int(at)-1, dims)
		}
		covers := true
		for d, w := range want {
			have := own[1+d]
			if sum != nil {
				have = satSum(have, sum[d])
			}
			covers = covers && have >= w
		}
		if covers {
			return true
		}
	}
	return false
}

// refuses reports whether it is remembered that no domain covers what is wanted.
func (b *groundBound) refuses(want []int64) bool {
	return slices.ContainsFunc(b.refused, func(x []int64) bool { return columnar.Covers(want, x) })
}

// refuse remembers what no domain covers.
func (b *groundBound) refuse(want []int64) {
	at := len(b.refused)
	switch {
	case at == refusedMax:
		at = b.oldest
		b.oldest = (at + 1) % refusedMax
	case at < cap(b.refused):
		b.refused = b.refused[:at+1]
	default:
		b.refused = append(b.refused, nil)
	}
	b.refused[at] = append(b.refused[at][:0], want...)
}

// boundFor returns the bound of a kind as it is now.
func (l *lane) boundFor(k *kind, pool *unitPool) *groundBound {
	b := k.grounds
	d := l.domainsFor(k.matcher)
	if b == nil {
		b = l.e.store.grounds.lend()
		k.grounds, b.voided = b, -1
	}
	if b.voided != len(l.reserved.voided) {
		l.formBound(b, k, d, pool)
	}
	for ; b.touched < len(d.touched); b.touched++ {
		b.mark(d.touched[b.touched])
	}
	for ; b.lost < len(l.lost); b.lost++ {
		if r := l.lost[b.lost]; k.acceptsClass(l.s.View.Class[r]) {
			if v, ok := l.s.Supply.Domain(k.matcher, r); ok {
				b.mark(v)
			}
		}
	}
	if len(b.queue) > 0 {
		l.remeasure(b, k, d)
	}
	return b
}

// mark notes that something has changed in a domain.
func (b *groundBound) mark(value uint32) {
	if at := b.at[value]; at != 0 && !b.list[at-1].dirty {
		b.list[at-1].dirty = true
		b.queue = append(b.queue, at-1)
	}
}

// formBound measures every domain.
func (l *lane) formBound(b *groundBound, k *kind, d *domainIndex, pool *unitPool) {
	b.touched, b.lost, b.voided = len(d.touched), len(l.lost), len(l.reserved.voided)
	b.list, b.queue, b.refused, b.oldest = b.list[:0], b.queue[:0], b.refused[:0], 0
	b.candidates = candidateMemo{for1: -1, for2: -1}
	if b.at == nil {
		b.at = map[uint32]int32{}
	}
	clear(b.at)
	for _, ds := range d.of(l.pass, k.matcher).list {
		b.add(ds.value).shelves = ds.shelves
	}
	for _, x := range pool.list {
		at := b.at[x.value]
		if at == 0 {
			b.add(x.value)
			at = int32(len(b.list))
		}
		b.list[at-1].scope = x
	}
	b.sums = resize(b.sums, len(b.list)*l.dims)
	for i := range b.list {
		l.measureGround(b.sum(i, l.dims), &b.list[i], k, d)
	}
}

// add adds a domain.
func (b *groundBound) add(value uint32) *boundedGround {
	b.list = slices.Grow(b.list, 1)[:len(b.list)+1]
	x := &b.list[len(b.list)-1]
	*x = boundedGround{value: value}
	b.at[value] = int32(len(b.list))
	return x
}

// remeasure measures the domains again in which something has changed.
func (l *lane) remeasure(b *groundBound, k *kind, d *domainIndex) {
	was := l.vecs.take(l.dims)
	for _, at := range b.queue {
		x, sum := &b.list[at], b.sum(int(at), l.dims)
		x.dirty = false
		copy(was, sum)
		if x.listed {
			l.listUnits(b, int(at), k)
		} else {
			clear(sum)
			l.measureGround(sum, x, k, d)
		}
		if !columnar.Covers(was, sum) {
			b.refused, b.oldest = b.refused[:0], 0
		}
	}
	b.queue = b.queue[:0]
}

// measureGround adds up the most that a domain could have for needs of a kind.
func (l *lane) measureGround(sum []int64, x *boundedGround, k *kind, d *domainIndex) {
	l.addShelves(sum, k, d, x.shelves)
	if x.scope == nil {
		return
	}
	t := &l.e.store.gangs
	add := func(r columnar.Row) {
		if k.acceptsClass(l.s.View.Class[r]) && l.takenBy(r) == noNeed {
			columnar.SatAdd(sum, l.vec(r))
		}
	}
	for i := range x.scope.flavours {
		if f := &x.scope.flavours[i]; k.acceptsClass(f.class) {
			columnar.SatAddScaled(sum, l.vector(f.class), l.countLeft(f.rows))
		}
	}
	for _, r := range x.scope.broken {
		if !l.victimOf.Has(uint32(r)) {
			add(r)
		}
	}
	for _, g := range x.scope.gangs {
		if t.list[g].state != gangSound {
			continue
		}
		for _, r := range t.list[g].members {
			// Also one that its own cluster's plan counts on: with its gang it goes.
			if v, ok := l.s.Supply.Domain(k.matcher, r); ok && v == x.value && !l.victimOf.Has(uint32(r)) && k.acceptsClass(l.s.View.Class[r]) {
				columnar.SatAdd(sum, l.vec(r))
			}
		}
	}
	for _, r := range x.scope.rest {
		add(r)
	}
}

// countLeft counts the machines that no plan has taken.
func (l *lane) countLeft(rows []columnar.Row) int64 {
	if len(l.plans) == 0 {
		return int64(len(rows))
	}
	n := int64(0)
	for _, r := range rows {
		if !l.victimOf.Has(uint32(r)) && l.takenBy(r) == noNeed {
			n++
		}
	}
	return n
}

// addShelves adds what is free on some shelves for needs of a kind.
func (l *lane) addShelves(sum []int64, k *kind, d *domainIndex, shelves []uint32) {
	for _, i := range shelves {
		if sh := &d.shelves[i]; sh.left > 0 && k.acceptsClass(sh.class) {
			columnar.SatAddScaled(sum, l.vector(sh.class), int64(sh.left))
		}
	}
}

// scopeAt returns the units of a pool in a domain.
func (l *lane) scopeAt(pool *unitPool, value uint32) *unitScope {
	scope := l.e.store.gangs.scopeOf(pool, value)
	if scope == nil {
		scope = l.e.store.gangs.newScope(pool, value)
	}
	return scope
}

// mayHaveMore counts what may give somebody a unit that had none.
func (l *lane) mayHaveMore() uint64 { return uint64(l.moreUnits + len(l.reserved.voided)) }

// lose notes that a plan has taken a machine that was to be preempted. What else
// can be had of its gang changes too, wherever that is, unless the machine was apart from
// it already: another plan had broken it off.
func (l *lane) lose(r columnar.Row, apart bool) {
	l.lost = append(l.lost, r)
	at := l.gangOf(r)
	if at == 0 || apart {
		return
	}
	g := &l.e.store.gangs.list[at-1]
	if g.lostAt == len(l.plans)+1 {
		return // by this plan
	}
	if g.lostAt = len(l.plans) + 1; l.isMixed(g) {
		l.moreUnits++ // what is left of it may be worth less than what is gone
	}
	l.lost = append(l.lost, g.members...)
}

// catchUpScopes deals what plans have left of gangs into a pool's domains, and
// notes which have less to preempt than they had.
func (l *lane) catchUpScopes(pool *unitPool) {
	at := func(r columnar.Row) *unitScope {
		value, ok := l.siteIn(pool.cut, pool.key.matcher, r)
		if !ok {
			return nil
		}
		return l.e.store.gangs.scopeOf(pool, value)
	}
	for ; pool.lost < len(l.lost); pool.lost++ {
		if x := at(l.lost[pool.lost]); x != nil {
			x.stale = true
		}
	}
	for rest := l.e.store.gangs.rest; pool.rest < len(rest); pool.rest++ {
		if x := at(rest[pool.rest]); x != nil {
			x.rest = alloc.Append(l.arena, x.rest, rest[pool.rest])
		}
	}
}

// restIn returns what went with a gang in a scope, and no plan counts on, of
// what needs of the scope's matcher and priority may have.
func (l *lane) restIn(x *unitScope, k *kind) []columnar.Row {
	if x.value == 0 {
		rest := l.e.store.gangs.rest
		for _, r := range rest[x.restSeen:] {
			if l.mayTake(l.e.store.priority[r], k.priority) && l.matches(l.s.View.Class[r], k.matcher) {
				x.rest = alloc.Append(l.arena, x.rest, r)
			}
		}
		x.restSeen = len(rest)
	}
	x.rest = slices.DeleteFunc(x.rest, func(r columnar.Row) bool { return l.takenBy(r) != noNeed })
	return x.rest
}

// isMixed reports whether a gang's roles differ in priority.
func (l *lane) isMixed(g *gang) bool {
	first := l.kindOf(g.roles[0].need).priority
	return slices.ContainsFunc(g.roles, func(x gangRole) bool { return l.kindOf(x.need).priority != first })
}
