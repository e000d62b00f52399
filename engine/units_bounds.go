package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Most gangs that are short stay short, in every domain. So the engine memoizes, per kind, an
// upper bound for each domain: what is free there plus what could be preempted there, whichever
// need of the kind asks. A change in a domain (a machine taken or put back) invalidates the
// bound of that domain alone. Units are listed only where the bound, plus what the need itself
// has in the domain, covers the need.
//
// A vector that no domain covers is remembered as refused. A need that wants at least as much
// is then refused without a scan, until the bound of some domain grows.

// refusedMax is how many refused vectors are remembered per kind; the oldest is overwritten.
const refusedMax = 8

// domainBounds holds, for needs of one kind, an upper bound per domain: what is free there plus
// what could be preempted there. What a need already has in a domain is not part of it.
type domainBounds struct {
	list    []boundedDomain
	at      map[uint32]int32 // by value: 1 + index in list
	sums    []int64          // the bounds: vector i is of list[i]
	refused [][]int64
	oldest  int // index in refused of the entry to overwrite next
	// Read positions in logs of changes: domains.Index.Touched, worker.lost. voided is the number
	// of voided reservations at which the bounds were formed, −1 = not formed.
	touched, lost, voided int
	queue                 []int32  // indices in list whose bounds are stale
	values                []uint32 // scratch: domains that may cover a need

	candidates candidateMemo
}

// boundedDomain is one domain of a domainBounds.
type boundedDomain struct {
	value   uint32
	shelves []uint32   // indices in domains.Index.Shelves of the free machines in the domain
	scope   *unitScope // nil = no units
	dirty   bool       // the bound is stale and the domain is queued
	// units are the machines that could be preempted, lowest priority first, then by id. They
	// are listed (listed = true) when the bound first covers a need.
	units  []units.BoundUnit
	listed bool
}

// choosesFreely reports whether a need may be planned for in any domain that covers it. It is
// not pinned, nothing was reserved for it when the cycle began, its turn is not one of reclaim
// between tenants, and Explain does not ask for the domains that were rejected.
func (p *pass) choosesFreely(need int32) bool {
	return !p.tenants.reclaiming && !p.e.opts.Explain && !p.lines[need].Is(state.IsPinned) && !p.reserved.Had(need)
}

// planFreely is planWhole for a need that chooses freely: it lists units only in domains whose
// upper bound covers the need.
func (l *worker) planFreely(need int32, k *state.Kind, pool *unitPool) {
	if l.p.searchEnded() {
		return
	}
	from, to := l.p.narrowKeys(need, k)
	values := l.openCandidateDomains(need, k, pool)
	if len(values) == 0 {
		l.findCandidates(need, k, pool)
		l.findInCells(need, k, pool, from, to)
		return
	}
	if l.planInCells(need, k, pool, from, to) || l.p.searchEnded() {
		return
	}
	if from < to { // planInCells has overwritten the domain totals with those of cells
		values = l.openCandidateDomains(need, k, pool)
	}
	l.findCandidates(need, k, pool)
	l.planAmong(need, k, l.coveringCandidateDomains(need, k, pool, values))
}

// isRefused is the fast path of planFreely for the common case, a gang that is short and that no
// domain covers: it reports whether that holds for the gang at a rank. The gang's outline must be
// known; see turns. It costs one pass over the bounds, or over the refused vectors.
func (l *worker) isRefused(t *turns, rank int) bool {
	need, k := l.p.order[rank], &l.p.kinds[l.p.kindAt[rank]]
	b := l.p.candidates.boundsOf[k.Number]
	if b == nil || l.p.e.opts.Explain || len(l.p.e.opts.Nested) > 0 {
		return false
	}
	l.p.e.store.gangs.turn++
	l.search.vecs.Empty()
	pool := l.unitsFor(k)
	l.inDomains(pool)
	l.boundFor(k, pool)
	want, own := l.p.outlineOf(t, rank)
	if !b.refuses(want) && b.coversAny(want) || b.coversWith(own, want) {
		return false
	}
	if m := &b.candidates; m.since != l.mayHaveMore() || m.for2 < 0 {
		if l.findCandidates(need, k, pool); l.p.lines[need].Is(state.HasCandidates) {
			l.visit(need)
		}
	}
	return true
}

// coveringCandidateDomains returns, of the given domains, those in which everything together
// covers a need: the best TopDomains of them, unordered.
func (l *worker) coveringCandidateDomains(need int32, k *state.Kind, pool *unitPool, values []uint32) []candidateDomain {
	out := l.search.sel.memory.candidateDomains[:0]
	first, waits := l.p.lines[need].Domain, l.p.backsOff(need)
	worst := -1 // index in out of the worst; −1 = out is not full
	for _, value := range values {
		g := candidateDomain{value: value, scope: l.p.scopeAt(pool, value), missing: l.lackingIn(need, l.search.domainTotals.find(value))}
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
		l.p.meet(need, offered)
		switch {
		case worst < 0:
			out = append(out, g)
		case l.p.compareCandidateDomains(&g, &out[worst], first) < 0:
			out[worst] = g
		default:
			continue
		}
		if len(out) == l.p.e.opts.TopDomains {
			worst = l.p.worstCandidateDomain(out, first)
		}
	}
	l.search.sel.memory.candidateDomains = out
	return out
}

// worstCandidateDomain returns the index of the domain that comes last in the order.
func (p *pass) worstCandidateDomain(candidateDomains []candidateDomain, first uint32) int {
	worst := 0
	for i := range candidateDomains {
		if p.compareCandidateDomains(&candidateDomains[i], &candidateDomains[worst], first) > 0 {
			worst = i
		}
	}
	return worst
}

// measureListed is couldCover and measure over the domain's memoized list of machines. offered
// counts all machines of other clusters that could be freed; level and count stop as soon as
// the missing vector is covered.
func (l *worker) measureListed(need int32, k *state.Kind, g *candidateDomain) (covers bool, offered int) {
	missing := l.copyOf(g.missing)
	g.level, g.count = math.MinInt64, 0
	covers = columnar.IsZero(missing)
	b := l.p.candidates.boundsOf[k.Number]
	at := int(b.at[g.value]) - 1
	if at < 0 || b.list[at].scope == nil {
		return covers, 0
	}
	x := &b.list[at]
	if !x.listed {
		l.listUnits(b, at, k)
	}
	c := l.p.lines[need].Cluster
	for i := range x.units {
		u := &x.units[i]
		if u.Cluster == c || u.Gang >= 0 && l.p.stateInTurn(&l.p.e.store.gangs.list[u.Gang]) != u.State {
			continue
		}
		if offered++; covers {
			continue
		}
		columnar.SubClamp(missing, l.p.vector(u.Class))
		g.level = u.Level
		g.count++
		covers = columnar.IsZero(missing)
	}
	return covers, offered
}

// listUnits lists what could be preempted in a domain, whichever cluster asks, and tightens the
// domain's bound to that list plus what is free.
func (l *worker) listUnits(b *domainBounds, at int, k *state.Kind) {
	x, sum := &b.list[at], b.sum(at, l.p.dims)
	s := &l.search.sel
	s.need, s.cluster, s.planFailed = order.None, anyCluster, false
	l.selectUnits(k, x.scope, l.search.vecs.Take(l.p.dims))
	clear(sum)
	l.domainsFor(k.Matcher).AddLeft(sum, x.shelves, k.Accepts)
	x.listed = true
	list := s.memory.had[:0]
	t := &l.p.e.store.gangs
	s.eachMachine(func(r columnar.Row, level int64) {
		class := l.p.s.View.Class[r]
		u := units.BoundUnit{Level: level, ID: l.p.s.IDRank[r], Class: class, Cluster: l.p.s.ClusterOf[l.p.s.View.Cluster[r]], Gang: -1}
		if at := l.gangOf(r); at != 0 && !l.p.preempted.victimOf.Has(uint32(r)) {
			u.Gang = at - 1
			u.State = l.p.stateOf(&t.list[u.Gang])
		}
		list = append(list, u)
		columnar.SatAdd(sum, l.p.vector(class))
	})
	s.memory.had = list
	slices.SortFunc(list, units.CompareBoundUnits)
	if cap(x.units) < len(list) {
		x.units = alloc.MakeDirty[units.BoundUnit](l.arena, len(list))
	}
	x.units = append(x.units[:0], list...)
}

// openCandidateDomains returns the domains that may cover a need, and sums up what the need
// would have in each without preemption: its own machines and what is free.
func (l *worker) openCandidateDomains(need int32, k *state.Kind, pool *unitPool) []uint32 {
	b := l.boundFor(k, pool)
	want := l.p.aggregate(need)
	values := b.covering(b.values[:0], want)
	domainTotals := &l.search.domainTotals
	domainTotals.reset(l.p.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.s.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.of(v, l.p.dims).available, l.p.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := l.p.lines[need].Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		add(r)
	}
	for i := range domainTotals.list {
		d := &domainTotals.list[i]
		copy(d.potential, d.available)
		if at := int(b.at[d.value]) - 1; at >= 0 {
			if columnar.Covers(b.sum(at, l.p.dims), want) {
				continue // b.covering has returned it already
			}
			columnar.SatAdd(d.potential, b.sum(at, l.p.dims))
		}
		if columnar.Covers(d.potential, want) {
			values = append(values, d.value)
		}
		clear(d.potential)
	}
	d := l.domainsFor(k.Matcher)
	for _, value := range values {
		cell := domainTotals.of(value, l.p.dims)
		if at := int(b.at[value]) - 1; at >= 0 {
			d.AddLeft(cell.available, b.list[at].shelves, k.Accepts)
		}
	}
	b.values = values
	return values
}

// sum returns the bound of the domain at an index, as a slice of dims values.
func (b *domainBounds) sum(at, dims int) []int64 { return b.sums[at*dims:][:dims] }

// covering appends the domains whose bound covers a vector; when none does, it remembers the
// vector as refused.
func (b *domainBounds) covering(values []uint32, want []int64) []uint32 {
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

// coversAny reports whether the bound of some domain covers a vector; when none does, it
// remembers the vector as refused.
func (b *domainBounds) coversAny(want []int64) bool {
	for at, dims := 0, len(want); at < len(b.sums); at += dims {
		if columnar.Covers(b.sums[at:at+dims], want) {
			return true
		}
	}
	b.refuse(want)
	return false
}

// coversWith reports whether the bound of some domain, plus what the gang has there, covers a
// vector. own is a flat list: a domain's value, then the vector, for each domain.
func (b *domainBounds) coversWith(own, want []int64) bool {
	for dims := len(want); len(own) > 0; own = own[1+dims:] {
		var sum []int64
		if at := b.at[uint32(own[0])]; at != 0 {
			sum = b.sum(int(at)-1, dims)
		}
		covers := true
		for d, w := range want {
			have := own[1+d]
			if sum != nil {
				have = exact.SatSum(have, sum[d])
			}
			covers = covers && have >= w
		}
		if covers {
			return true
		}
	}
	return false
}

// refuses reports whether a vector is known to be covered by no domain: it covers one that was
// refused.
func (b *domainBounds) refuses(want []int64) bool {
	return slices.ContainsFunc(b.refused, func(x []int64) bool { return columnar.Covers(want, x) })
}

// refuse remembers a vector that no domain covers, in a ring of refusedMax entries.
func (b *domainBounds) refuse(want []int64) {
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

// boundFor returns the bounds of a kind, brought up to date: it forms them on first use and
// after a reservation was voided, else measures only the domains that changed.
func (l *worker) boundFor(k *state.Kind, pool *unitPool) *domainBounds {
	b := l.p.candidates.boundsOf[k.Number]
	d := l.domainsFor(k.Matcher)
	if b == nil {
		b = l.p.e.store.lent.candidateDomains.Lend()
		l.p.candidates.boundsOf[k.Number], b.voided = b, -1
	}
	if b.voided != l.p.reserved.Voided() {
		l.formBound(b, k, d, pool)
	}
	for ; b.touched < len(d.Touched); b.touched++ {
		b.mark(d.Touched[b.touched])
	}
	for ; b.lost < len(l.search.lost); b.lost++ {
		if r := l.search.lost[b.lost]; k.AcceptsClass(l.p.s.View.Class[r]) {
			if v, ok := l.p.s.Supply.Domain(k.Matcher, r); ok {
				b.mark(v)
			}
		}
	}
	if len(b.queue) > 0 {
		l.remeasure(b, k, d)
	}
	return b
}

// mark invalidates the bound of a domain and queues the domain.
func (b *domainBounds) mark(value uint32) {
	if at := b.at[value]; at != 0 && !b.list[at-1].dirty {
		b.list[at-1].dirty = true
		b.queue = append(b.queue, at-1)
	}
}

// formBound builds the bounds of all domains from scratch and empties the memos.
func (l *worker) formBound(b *domainBounds, k *state.Kind, d *domains.Index, pool *unitPool) {
	b.touched, b.lost, b.voided = len(d.Touched), len(l.search.lost), l.p.reserved.Voided()
	b.list, b.queue, b.refused, b.oldest = b.list[:0], b.queue[:0], b.refused[:0], 0
	b.candidates = candidateMemo{for1: -1, for2: -1}
	if b.at == nil {
		b.at = map[uint32]int32{}
	}
	clear(b.at)
	for _, ds := range d.Of(k.Matcher).List {
		b.add(ds.Value).shelves = ds.Shelves
	}
	for _, x := range pool.list {
		at := b.at[x.value]
		if at == 0 {
			b.add(x.value)
			at = int32(len(b.list))
		}
		b.list[at-1].scope = x
	}
	b.sums = reuse.Resize(b.sums, len(b.list)*l.p.dims)
	for i := range b.list {
		l.p.measureCandidateDomain(b.sum(i, l.p.dims), &b.list[i], k, d)
	}
}

// add appends a domain to the list.
func (b *domainBounds) add(value uint32) *boundedDomain {
	b.list = slices.Grow(b.list, 1)[:len(b.list)+1]
	x := &b.list[len(b.list)-1]
	*x = boundedDomain{value: value}
	b.at[value] = int32(len(b.list))
	return x
}

// remeasure recomputes the bounds of the queued domains. If one has grown in some dimension,
// the refused vectors are forgotten.
func (l *worker) remeasure(b *domainBounds, k *state.Kind, d *domains.Index) {
	was := l.search.vecs.Take(l.p.dims)
	for _, at := range b.queue {
		x, sum := &b.list[at], b.sum(int(at), l.p.dims)
		x.dirty = false
		copy(was, sum)
		if x.listed {
			l.listUnits(b, int(at), k)
		} else {
			clear(sum)
			l.p.measureCandidateDomain(sum, x, k, d)
		}
		if !columnar.Covers(was, sum) {
			b.refused, b.oldest = b.refused[:0], 0
		}
	}
	b.queue = b.queue[:0]
}

// measureCandidateDomain adds up the upper bound of a domain for needs of a kind: what is free,
// and every machine that could be preempted.
func (p *pass) measureCandidateDomain(sum []int64, x *boundedDomain, k *state.Kind, d *domains.Index) {
	d.AddLeft(sum, x.shelves, k.Accepts)
	if x.scope == nil {
		return
	}
	t := &p.e.store.gangs
	add := func(r columnar.Row) {
		if k.AcceptsClass(p.s.View.Class[r]) && p.preempted.takenBy(r) == order.None {
			columnar.SatAdd(sum, p.vec(r))
		}
	}
	for i := range x.scope.victimGroups {
		if f := &x.scope.victimGroups[i]; k.AcceptsClass(f.Class) {
			columnar.SatAddScaled(sum, p.vector(f.Class), p.preempted.countLeft(f.Rows))
		}
	}
	for _, r := range x.scope.broken {
		if !p.preempted.victimOf.Has(uint32(r)) {
			add(r)
		}
	}
	for _, g := range x.scope.gangs {
		if t.list[g].State != units.GangSound {
			continue
		}
		for _, r := range t.list[g].Members {
			// A machine that a plan of its own cluster counts on is included: it goes with its
			// gang.
			if v, ok := p.s.Supply.Domain(k.Matcher, r); ok && v == x.value && !p.preempted.victimOf.Has(uint32(r)) && k.AcceptsClass(p.s.View.Class[r]) {
				columnar.SatAdd(sum, p.vec(r))
			}
		}
	}
	for _, r := range x.scope.rest {
		add(r)
	}
}

// countLeft counts the machines that no plan has taken.
func (x *preempted) countLeft(rows []columnar.Row) int64 {
	if len(x.plans) == 0 {
		return int64(len(rows))
	}
	n := int64(0)
	for _, r := range rows {
		if !x.victimOf.Has(uint32(r)) && x.takenBy(r) == order.None {
			n++
		}
	}
	return n
}

// scopeAt returns a pool's scope of a domain; it makes an empty one if the pool has none.
func (p *pass) scopeAt(pool *unitPool, value uint32) *unitScope {
	scope := p.e.store.gangs.scopeOf(pool, value)
	if scope == nil {
		scope = p.e.store.gangs.newScope(pool, value)
	}
	return scope
}

// mayHaveMore is a version counter: it grows whenever a need may find a unit where it found
// none before. Memos of "nothing to preempt" are valid as long as it stays the same.
func (l *worker) mayHaveMore() uint64 { return uint64(l.search.moreUnits + l.p.reserved.Voided()) }

// lose logs that a plan has taken a machine that could be preempted, so that the bounds of its
// domain are measured again. Taking a member also changes what else its gang can give, in every
// domain, so all members are logged with it, once per plan. apart says that another plan had
// broken the machine off its gang before; then the gang does not change.
func (l *worker) lose(r columnar.Row, apart bool) {
	l.search.lost = append(l.search.lost, r)
	at := l.gangOf(r)
	if at == 0 || apart {
		return
	}
	g := &l.p.e.store.gangs.list[at-1]
	if g.LostAt == len(l.p.preempted.plans)+1 {
		return // this plan has logged the gang already
	}
	if g.LostAt = len(l.p.preempted.plans) + 1; l.p.isMixed(g) {
		l.search.moreUnits++ // the remaining members may have a lower priority than those taken
	}
	l.search.lost = append(l.search.lost, g.Members...)
}

// catchUpScopes reads the logs that a pool has not read yet: it marks as stale the scopes whose
// machines were taken, and deals the unused remainder of broken gangs into the pool's domains.
func (l *worker) catchUpScopes(pool *unitPool) {
	at := func(r columnar.Row) *unitScope {
		value, ok := l.p.cellIn(pool.cut, pool.key.matcher, r)
		if !ok {
			return nil
		}
		return l.p.e.store.gangs.scopeOf(pool, value)
	}
	for ; pool.lost < len(l.search.lost); pool.lost++ {
		if x := at(l.search.lost[pool.lost]); x != nil {
			x.stale = true
		}
	}
	for rest := l.p.e.store.gangs.rest; pool.rest < len(rest); pool.rest++ {
		if x := at(rest[pool.rest]); x != nil {
			x.rest = alloc.Append(l.arena, x.rest, rest[pool.rest])
		}
	}
}

// restIn returns, for a scope, the remainder of broken gangs that no plan counts on, as far as
// needs of the scope's matcher and priority may take it.
func (l *worker) restIn(x *unitScope, k *state.Kind) []columnar.Row {
	if x.value == 0 {
		rest := l.p.e.store.gangs.rest
		for _, r := range rest[x.restSeen:] {
			if l.p.tenants.mayTake(l.p.e.store.priority[r], k.Priority) && l.p.s.Classes[l.p.s.View.Class[r]].Matches(k.Matcher) {
				x.rest = alloc.Append(l.arena, x.rest, r)
			}
		}
		x.restSeen = len(rest)
	}
	x.rest = slices.DeleteFunc(x.rest, func(r columnar.Row) bool { return l.p.preempted.takenBy(r) != order.None })
	return x.rest
}

// isMixed reports whether a gang's roles differ in priority.
func (p *pass) isMixed(g *units.Gang) bool {
	first := p.kindOf(g.Roles[0].Need).Priority
	return slices.ContainsFunc(g.Roles, func(x units.GangRole) bool { return p.kindOf(x.Need).Priority != first })
}
