package search

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/model"
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
	// Read positions in logs of changes: domains.Index.Touched, Finding.Lost, Preempted.SparedRows. voided is the number
	// of voided reservations at which the bounds were formed, −1 = not formed.
	touched, lost, spared, voided int
	queue                         []int32      // indices in list whose bounds are stale
	open                          []openDomain // scratch: domains that may cover a need

	candidates candidateMemo
}

// openDomain is a domain that may cover a need.
type openDomain struct {
	value uint32
	at    int32 // index in domainBounds.list; −1 = it has no bound
}

// boundedDomain is one domain of a domainBounds.
type boundedDomain struct {
	value   uint32
	shelves []uint32           // indices in domains.Index.Shelves of the free machines in the domain
	scope   *victims.UnitScope // nil = no units
	dirty   bool               // the bound is stale and the domain is queued
	// units are the machines that could be preempted, lowest priority first, then by id. They
	// are listed (listed = true) when the bound first covers a need.
	units  []units.BoundUnit
	listed bool
	lost   int // how many entries of Finding.Lost the list takes into account
}

// choosesFreely reports whether a need may be planned for in any domain that covers it. It is
// not pinned, nothing was reserved for it when the cycle began, its turn is not one of reclaim
// between tenants, and Explain does not ask for the domains that were rejected.
func (p *Pass) choosesFreely(need int32) bool {
	return !p.Tenants.Reclaiming && !p.Told.Explains(need) && !p.Lines[need].Is(state.IsPinned) && !p.Reserved.Had(need)
}

// planFreely is planWhole for a need that chooses freely: it lists units only in domains whose
// upper bound covers the need.
func (l *Worker) planFreely(need int32, k *state.Kind, pool *victims.UnitPool) {
	if l.p.SearchEnded() {
		return
	}
	from, to := l.p.NarrowKeys(need, k)
	open := l.openCandidateDomains(need, k, pool)
	if len(open) == 0 {
		l.findCandidates(need, k, pool)
		l.findInCells(need, k, pool, from, to)
		return
	}
	if l.planInCells(need, k, pool, from, to) || l.p.SearchEnded() {
		return
	}
	if from < to { // planInCells has overwritten the domain totals with those of cells
		open = l.openCandidateDomains(need, k, pool)
	}
	l.findCandidates(need, k, pool)
	l.planAmong(need, k, l.coveringCandidateDomains(need, k, pool, open))
}

// IsRefused is the fast path of planFreely for the common case, a gang that is short and that no
// domain covers: it reports whether that holds for the gang at a rank. The gang's outline must be
// known; see victims.Turns. It costs one pass over the bounds, or over the refused vectors.
func (l *Worker) IsRefused(t *victims.Turns, rank int) bool {
	need, k := l.p.Order[rank], &l.p.Kinds[l.p.KindAt[rank]]
	b := l.p.boundsOf[k.Number]
	if b == nil || l.p.Told.Explains(need) || len(l.p.Opts.Nested) > 0 {
		return false
	}
	l.p.st.Gangs.Turn++
	l.Finding.Vecs.Empty()
	pool := l.UnitsFor(k)
	pool.DealIntoDomains(&l.Worker)
	l.boundFor(k, pool)
	want, own := l.p.OutlineOf(t, rank)
	if !b.refuses(want) && b.coversAny(want) || b.coversWith(own, want) {
		return false
	}
	if m := &b.candidates; m.since != l.UnitsVersion() || m.for2 < 0 {
		if l.findCandidates(need, k, pool); l.p.Lines[need].Is(state.HasCandidates) {
			l.Visit(need)
		}
	}
	return true
}

// coveringCandidateDomains returns, of the given domains, those in which everything together
// covers a need: the best TopDomains of them, unordered.
func (l *Worker) coveringCandidateDomains(need int32, k *state.Kind, pool *victims.UnitPool, open []openDomain) []candidateDomain {
	out := l.sel.memory.candidateDomains[:0]
	first, waits := l.p.Lines[need].Domain, l.p.backsOff(need)
	worst := -1 // index in out of the worst; −1 = out is not full
	for _, d := range open {
		g := candidateDomain{value: d.value, missing: l.LackingIn(need, l.Finding.DomainTotals.Find(d.value))}
		var covers bool
		var offered int
		if waits {
			g.scope = l.p.scopeAt(pool, d.value)
			s := l.selectFor(need, k, g.scope, g.missing)
			if covers, offered, _ = s.couldCover(); covers {
				s.measure(&g)
			}
		} else {
			covers, offered = l.measureListed(need, k, &g, int(d.at))
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
		if len(out) == l.p.Opts.TopDomains {
			worst = l.p.worstCandidateDomain(out, first)
		}
	}
	for i := range out { // of the few that are left, to save a look-up for each of the others
		if g := &out[i]; g.scope == nil {
			g.scope = l.p.scopeAt(pool, g.value)
		}
	}
	l.sel.memory.candidateDomains = out
	return out
}

// worstCandidateDomain returns the index of the domain that comes last in the order.
func (p *Pass) worstCandidateDomain(candidateDomains []candidateDomain, first uint32) int {
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
// the missing vector is covered. at is the domain's index in the bounds of the kind, −1 = it has none.
func (l *Worker) measureListed(need int32, k *state.Kind, g *candidateDomain, at int) (covers bool, offered int) {
	missing := l.CopyForPlan(g.missing)
	g.level, g.count = math.MinInt64, 0
	covers = columnar.IsZero(missing)
	b := l.p.boundsOf[k.Number]
	if at < 0 || b.list[at].scope == nil {
		return covers, 0
	}
	x := &b.list[at]
	if !x.listed {
		b.listUnits(l, at, k)
	}
	c := l.p.ClusterOf(need)
	for i := range x.units {
		u := &x.units[i]
		if u.Cluster == c {
			continue
		}
		if offered++; covers {
			continue
		}
		columnar.SubClamp(missing, l.p.Vector(u.Class))
		g.level = u.Level
		g.count++
		covers = columnar.IsZero(missing)
	}
	return covers, offered
}

// listUnits lists what could be preempted in a domain, whichever cluster asks, and tightens the
// domain's bound to that list plus what is free.
func (b *domainBounds) listUnits(l *Worker, at int, k *state.Kind) {
	x := &b.list[at]
	s := l.selectAny(k, x.scope)
	s.listGangs() // in no order
	x.listed, x.lost = true, len(l.Finding.Lost)
	list := s.memory.had[:0]
	s.eachMachine(nil, func(r columnar.Row, level int64) { list = append(list, boundUnit(l, r, level)) })
	s.memory.had = list
	slices.SortFunc(list, units.CompareBoundUnits)
	if cap(x.units) < len(list) {
		x.units = l.p.st.boundUnits.Take(len(list))
	}
	x.units = append(x.units[:0], list...)
	b.sumListed(l, at, k)
}

// relist updates the list of a domain after machines were lost. If a gang has lost a machine, relist lists the gang's machines
// again. It lists all draining and acquired machines again, since another need may count on them now. It removes every other machine that was
// lost; such a machine never returns to the list.
func (b *domainBounds) relist(l *Worker, at int, k *state.Kind) {
	x, t := &b.list[at], &l.p.st.Gangs
	lost := l.Finding.Lost[x.lost:]
	if len(lost) > len(x.units) {
		b.listUnits(l, at, k)
		return
	}
	s := l.selectAny(k, x.scope)
	t.Round++
	s.memory.lost.Grow(l.p.Snap.Supply.RowMax())
	for _, r := range lost {
		s.memory.lost.Set(uint32(r))
		if g := l.GangOf(r); g != 0 {
			t.List[g-1].Round = t.Round
		}
	}
	differs := func(r columnar.Row) bool {
		if s.memory.lost.Has(uint32(r)) || l.p.Snap.View.State[r] != model.Configured {
			return true
		}
		g := l.GangOf(r)
		return g != 0 && t.List[g-1].Round == t.Round
	}
	for _, g := range x.scope.Gangs {
		if t.List[g].Round == t.Round {
			s.listGang(g)
		}
	}
	list := s.memory.had[:0]
	s.eachMachine(func(a *units.Alike) bool { return a.Leaving }, func(r columnar.Row, level int64) {
		if differs(r) {
			list = append(list, boundUnit(l, r, level))
		}
	})
	s.memory.had = list
	slices.SortFunc(list, units.CompareBoundUnits)
	kept := slices.DeleteFunc(x.units, func(u units.BoundUnit) bool { return differs(u.Row) })
	for _, r := range lost {
		s.memory.lost.Clear(uint32(r))
	}
	x.units, x.lost = reuse.Merge(kept, list, units.CompareBoundUnits), x.lost+len(lost)
	b.sumListed(l, at, k)
}

// sumListed sums up a domain's bound: its list, and what is free.
func (b *domainBounds) sumListed(l *Worker, at int, k *state.Kind) {
	x, sum := &b.list[at], b.sum(at, l.p.Dims)
	clear(sum)
	l.DomainsFor(k.Matcher).AddLeft(sum, x.shelves, k.Accepts)
	for i := range x.units {
		columnar.SatAdd(sum, l.p.Vector(x.units[i].Class))
	}
}

// boundUnit returns a machine that could be preempted at a level.
func boundUnit(l *Worker, r columnar.Row, level int64) units.BoundUnit {
	return units.BoundUnit{Level: level, ID: l.p.Snap.IDRank(r), Row: r, Class: l.p.Snap.View.Class[r], Cluster: l.p.Snap.ClusterOf[l.p.Snap.View.Cluster[r]]}
}

// openCandidateDomains returns the domains that may cover a need, and sums up what the need
// would have in each without preemption: its own machines and what is free.
func (l *Worker) openCandidateDomains(need int32, k *state.Kind, pool *victims.UnitPool) []openDomain {
	b := l.boundFor(k, pool)
	want := l.p.Aggregate(need)
	open := b.covering(b.open[:0], want)
	domainTotals := &l.Finding.DomainTotals
	domainTotals.Reset(l.p.Snap.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.Of(v, l.p.Dims).Available, l.p.Vec(r))
		}
	}
	l.EachOwn(need, k, add)
	for n, r := l.p.Claims.WalkAcquired(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		add(r)
	}
	for i := range domainTotals.List {
		d := &domainTotals.List[i]
		copy(d.Potential, d.Available)
		at := int(b.at[d.Value]) - 1
		if at >= 0 {
			if columnar.Covers(b.sum(at, l.p.Dims), want) {
				continue // b.covering has returned it already
			}
			columnar.SatAdd(d.Potential, b.sum(at, l.p.Dims))
		}
		if columnar.Covers(d.Potential, want) {
			open = append(open, openDomain{d.Value, int32(at)})
		}
		clear(d.Potential)
	}
	d := l.DomainsFor(k.Matcher)
	for _, o := range open {
		cell := domainTotals.Of(o.value, l.p.Dims)
		if o.at >= 0 {
			d.AddLeft(cell.Available, b.list[o.at].shelves, k.Accepts)
		}
	}
	b.open = open
	return open
}

// sum returns the bound of the domain at an index, as a slice of dims values.
func (b *domainBounds) sum(at, dims int) []int64 { return b.sums[at*dims:][:dims] }

// covering appends the domains whose bound covers a vector; when none does, it remembers the
// vector as refused.
func (b *domainBounds) covering(open []openDomain, want []int64) []openDomain {
	if len(b.list) == 0 || b.refuses(want) {
		return open
	}
	from, dims := len(open), len(b.sums)/len(b.list)
	for i := range b.list {
		if columnar.Covers(b.sum(i, dims), want) {
			open = append(open, openDomain{b.list[i].value, int32(i)})
		}
	}
	if len(open) == from {
		b.refuse(want)
	}
	return open
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
func (l *Worker) boundFor(k *state.Kind, pool *victims.UnitPool) *domainBounds {
	b := l.p.boundsOf[k.Number]
	d := l.DomainsFor(k.Matcher)
	if b == nil {
		b = l.p.st.domainBounds.Lend()
		l.p.boundsOf[k.Number], b.voided = b, -1
		l.p.st.bounded = append(l.p.st.bounded, k.Number)
	}
	if b.voided != l.p.Reserved.Voided() {
		b.formBound(l, k, d, pool)
	}
	for ; b.touched < len(d.Touched); b.touched++ {
		b.mark(d.Touched[b.touched])
	}
	markDomainOf := func(r columnar.Row) {
		if !k.AcceptsClass(l.p.Snap.View.Class[r]) {
			return
		}
		if v, ok := l.p.Snap.Supply.Domain(k.Matcher, r); ok {
			b.mark(v)
		}
	}
	for ; b.lost < len(l.Finding.Lost); b.lost++ {
		markDomainOf(l.Finding.Lost[b.lost])
	}
	for ; b.spared < len(l.p.Preempted.SparedRows); b.spared++ {
		markDomainOf(l.p.Preempted.SparedRows[b.spared])
	}
	if len(b.queue) > 0 {
		b.remeasure(l, k, d)
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
func (b *domainBounds) formBound(l *Worker, k *state.Kind, d *domains.Index, pool *victims.UnitPool) {
	b.touched, b.lost, b.spared, b.voided = len(d.Touched), len(l.Finding.Lost), len(l.p.Preempted.SparedRows), l.p.Reserved.Voided()
	b.list, b.queue, b.refused, b.oldest = b.list[:0], b.queue[:0], b.refused[:0], 0
	b.candidates = candidateMemo{for1: -1, for2: -1}
	if b.at == nil {
		b.at = map[uint32]int32{}
	}
	clear(b.at)
	free := d.Of(k.Matcher).List
	b.list = slices.Grow(b.list, len(free)+len(pool.List))
	for _, ds := range free {
		b.add(ds.Value).shelves = ds.Shelves
	}
	for _, x := range pool.List {
		at := b.at[x.Value]
		if at == 0 {
			b.add(x.Value)
			at = int32(len(b.list))
		}
		b.list[at-1].scope = x
	}
	b.sums = reuse.Resize(b.sums, len(b.list)*l.p.Dims)
	for i := range b.list {
		l.p.measureCandidateDomain(b.sum(i, l.p.Dims), &b.list[i], k, d)
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
func (b *domainBounds) remeasure(l *Worker, k *state.Kind, d *domains.Index) {
	was := l.Finding.Vecs.Take(l.p.Dims)
	for _, at := range b.queue {
		x, sum := &b.list[at], b.sum(int(at), l.p.Dims)
		x.dirty = false
		copy(was, sum)
		if x.listed {
			b.relist(l, int(at), k)
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
func (p *Pass) measureCandidateDomain(sum []int64, x *boundedDomain, k *state.Kind, d *domains.Index) {
	d.AddLeft(sum, x.shelves, k.Accepts)
	if x.scope == nil {
		return
	}
	t := &p.st.Gangs
	add := func(r columnar.Row) {
		if k.AcceptsClass(p.Snap.View.Class[r]) && p.Promised.TakenBy(r) == ranks.None {
			columnar.SatAdd(sum, p.Vec(r))
		}
	}
	for i := range x.scope.VictimGroups {
		if f := &x.scope.VictimGroups[i]; k.AcceptsClass(f.Class) {
			columnar.SatAddScaled(sum, p.Vector(f.Class), p.countLeft(f.Rows))
		}
	}
	for _, r := range x.scope.Broken {
		if !p.Preempted.VictimOf.Has(uint32(r)) {
			add(r)
		}
	}
	for _, g := range x.scope.Gangs {
		if t.List[g].State != units.GangSound {
			continue
		}
		for _, r := range t.List[g].Members {
			// A machine that a plan of its own cluster counts on is included: it goes with its
			// gang.
			if v, ok := p.Snap.Supply.Domain(k.Matcher, r); ok && v == x.value && !p.Preempted.VictimOf.Has(uint32(r)) && k.AcceptsClass(p.Snap.View.Class[r]) {
				columnar.SatAdd(sum, p.Vec(r))
			}
		}
	}
	for _, r := range x.scope.Rest {
		add(r)
	}
}

// countLeft counts the machines that no plan has taken.
func (p *Pass) countLeft(rows []columnar.Row) int64 {
	if len(p.Preempted.Plans) == 0 {
		return int64(len(rows))
	}
	n := int64(0)
	for _, r := range rows {
		if !p.Preempted.VictimOf.Has(uint32(r)) && p.Promised.TakenBy(r) == ranks.None {
			n++
		}
	}
	return n
}

// scopeAt returns a pool's scope of a domain; it makes an empty one if the pool has none.
func (p *Pass) scopeAt(pool *victims.UnitPool, value uint32) *victims.UnitScope {
	scope := p.st.Gangs.ScopeOf(pool, value)
	if scope == nil {
		scope = p.st.Gangs.NewScope(pool, value)
	}
	return scope
}

// findInCells sets HasCandidates if the cells that a need would be planned for in hold anything
// to preempt.
func (l *Worker) findInCells(need int32, k *state.Kind, pool *victims.UnitPool, from, to int) {
	for i := to - 1; i >= from && !l.p.Lines[need].Is(state.HasCandidates); i-- {
		l.p.Candidates.Cut = l.p.CutFor(k, i)
		cells := l.p.Candidates.Cut.PoolIn(&l.p.Pass, pool)
		cells.DealIntoDomains(&l.Worker)
		l.findInScopes(need, k, cells)
	}
	l.p.Candidates.Cut = nil
}
