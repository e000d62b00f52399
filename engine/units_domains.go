package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// candidateDomain is a domain (or cell) in which everything together covers a need.
type candidateDomain struct {
	value   uint32
	scope   *unitScope
	missing []int64 // what the need lacks there before any victim
	// level is the highest priority at which a machine must be freed if the lowest are freed
	// first; count is how many that takes. They order candidate domains cheaply.
	level int64
	count int
}

// planWhole makes plans for at most TopDomains of the domains in which everything together
// covers the need, and carries out the cheapest. It is all or nothing: no machine is preempted
// for a part. With nested keys it tries the narrowest domains first. Once the search has ended
// it tries none.
func (l *worker) planWhole(need int32, k *state.Kind) {
	n := &l.p.lines[need]
	pool := l.unitsFor(k)
	l.inDomains(pool)
	if l.p.choosesFreely(need) {
		l.planFreely(need, k, pool)
		return
	}
	from, to := l.p.narrowKeys(need, k)
	if l.planInCells(need, k, pool, from, to) || l.planIn(need, k, pool) {
		return
	}
	// If the plan is lost, what is in flight for it still counts in this cycle.
	d := l.search.domainTotals.find(n.Domain)
	if d != nil && !d.tried {
		l.p.countInFlight(need, k, d.value, l.lackingIn(need, d))
	}
	if l.p.tenants.reclaiming {
		l.p.tenants.between.keepCounts = d == nil || d.tried || columnar.IsZero(d.available) && columnar.IsZero(d.potential)
	} else if !l.p.backsOff(need) && !l.p.searchEnded() {
		l.voidLost(need)
	}
}

// planInCells carries out the best plan for a cell. It tries the nested keys from the narrowest
// (to − 1) to the widest (from) and stops at the first that has a plan; false when none has.
func (l *worker) planInCells(need int32, k *state.Kind, pool *unitPool, from, to int) bool {
	for i := to - 1; i >= from && !l.p.searchEnded(); i-- {
		l.p.candidates.cut = l.p.cutFor(k, i)
		found := l.planIn(need, k, l.p.poolIn(l.p.candidates.cut, pool))
		l.p.candidates.cut = nil
		if found {
			return true
		}
	}
	return false
}

// planIn carries out the best plan for one of the pool's domains, or for one of its cells while
// l.cut is set; false when there is none.
func (l *worker) planIn(need int32, k *state.Kind, pool *unitPool) bool {
	l.inDomains(pool)
	l.p.told.triedFrom = len(l.p.told.tried)
	l.sumCandidateDomains(need, k, pool)
	if l.p.searchEnded() {
		return false
	}
	return l.planAmong(need, k, l.listCandidateDomains(need, k, pool))
}

// planAmong carries out the best plan for one of the given domains; false when none has a plan.
func (l *worker) planAmong(need int32, k *state.Kind, candidateDomains []candidateDomain) bool {
	n := &l.p.lines[need]
	if len(candidateDomains) > l.p.e.opts.TopDomains {
		candidateDomains = l.bestCandidateDomains(need, k, candidateDomains)
	}
	best := l.bestProposal(need, k, candidateDomains)
	if !best.found {
		return false
	}
	n.Status = n.Status&^state.IsUncoverable | state.IsAwaiting
	lacking := l.lackingIn(need, l.search.domainTotals.find(best.value))
	if domain := l.p.candidates.domainOf(best.value); domain != n.Domain {
		l.withhold(need, domain)
	}
	if l.p.candidates.cut != nil {
		l.gatherIn(need, best.value)
	}
	l.p.countInFlight(need, k, best.value, lacking)
	l.carryOut(need, k, &best)
	return true
}

// bestProposal makes a plan for each of the given domains and returns the cheapest. It is valid
// until the next call.
func (l *worker) bestProposal(need int32, k *state.Kind, candidateDomains []candidateDomain) proposal {
	s := &l.search.sel
	s.memory.proposals = slices.Grow(s.memory.proposals[:0], len(candidateDomains))[:len(candidateDomains)]
	list, best := s.memory.proposals, -1
	for i := range candidateDomains {
		x := &list[i]
		l.propose(x, need, k, &candidateDomains[i])
		if x.found && (best < 0 || l.p.cheaper(need, x, &list[best])) {
			best = i
		}
	}
	l.noteProposals(need, list, best)
	if best < 0 {
		return proposal{}
	}
	return list[best]
}

// cheaper compares the plans for two domains: by what they destroy, then phase 1's domain
// first, then by the domain's value as text.
func (p *pass) cheaper(need int32, a, b *proposal) bool {
	if c := a.cost.Compare(&b.cost); c != 0 {
		return c < 0
	}
	return p.compareCells(a.value, b.value, p.lines[need].Domain) < 0
}

// sumCandidateDomains sums up what the need would have in each domain without preemption. A
// domain that holds only units gets an entry too.
func (l *worker) sumCandidateDomains(need int32, k *state.Kind, pool *unitPool) {
	n, domainTotals := &l.p.lines[need], &l.search.domainTotals
	domainTotals.reset(l.p.cellsMax())
	l.sumAvailable(need, k)
	for _, x := range pool.list {
		domainTotals.of(x.value, l.p.dims)
	}
	if !n.Is(state.IsPinned) {
		return
	}
	if pin, pinned := l.p.pinnedDomain(need, k); pinned { // the plan that pinned it may have ended
		for i := range domainTotals.list {
			domainTotals.list[i].tried = domainTotals.list[i].value != pin // only the pin is a choice
		}
	}
}

// listCandidateDomains returns the domains in which everything together covers the need.
func (l *worker) listCandidateDomains(need int32, k *state.Kind, pool *unitPool) []candidateDomain {
	n := &l.p.lines[need]
	out := l.search.sel.memory.candidateDomains[:0]
	none := l.noneToTake(k)
	for i := range l.search.domainTotals.list {
		d := &l.search.domainTotals.list[i]
		if d.tried {
			continue
		}
		scope := l.p.scopeAt(pool, d.value)
		missing := l.lackingIn(need, d)
		l.p.subInFlight(need, k, d.value, missing)
		if (none || n.Is(state.HasCandidates)) && !l.p.e.opts.Explain && !columnar.Covers(l.most(k, scope), missing) {
			continue
		}
		s := l.selectFor(need, k, scope, missing)
		if !n.Is(state.HasCandidates) && s.any() {
			n.Status |= state.HasCandidates
		}
		if covers, offered := s.couldCover(); covers {
			l.p.meet(need, offered)
			out = append(out, candidateDomain{value: d.value, scope: scope, missing: missing})
		} else {
			s.noteCandidateDomain(d.value, missing, records.RejectedCapacity)
		}
	}
	l.search.sel.memory.candidateDomains = out
	return out
}

// most returns an upper bound of what could be freed in a scope for needs of a kind. It is
// memoized until the scope turns stale.
func (l *worker) most(k *state.Kind, x *unitScope) []int64 {
	if x.most != nil && !x.stale && x.mostFor == k {
		return x.most
	}
	if x.mostFor, x.stale = k, false; x.most == nil {
		x.most = alloc.MakeDirty[int64](l.arena, l.p.dims)
	}
	clear(x.most)
	add := func(r columnar.Row) {
		if k.AcceptsClass(l.p.s.View.Class[r]) {
			columnar.SatAdd(x.most, l.p.vec(r))
		}
	}
	for i := range x.victimGroups {
		if f := &x.victimGroups[i]; k.AcceptsClass(f.Class) {
			columnar.SatAddScaled(x.most, l.p.vector(f.Class), int64(len(f.Rows)-f.At))
		}
	}
	for _, r := range x.broken {
		if l.p.preempted.takenBy(r) == order.None {
			add(r)
		}
	}
	for _, g := range x.gangs {
		// A machine that a plan of its own cluster counts on is included: it goes with its
		// gang.
		for _, r := range l.p.e.store.gangs.list[g].Members {
			if v, ok := l.p.cell(k.Matcher, r); ok && (x.value == 0 || v == x.value) {
				add(r)
			}
		}
	}
	return x.most
}

// eachMachine calls f once for every machine that the need could use, of any unit, with the
// priority at which it can be taken. The level of excess is math.MinInt64, below all
// priorities.
func (s *selection) eachMachine(f func(r columnar.Row, level int64)) {
	for i := range s.scope.victimGroups {
		x := &s.scope.victimGroups[i]
		if !s.k.AcceptsClass(x.Class) || s.isBarred(x) || !s.offered(x) {
			continue
		}
		level := int64(x.Level)
		if x.Excess {
			level = math.MinInt64
		}
		for _, r := range x.Rows[x.At:] {
			if s.isFreeOf(x.Alike, r) && s.isPlaced(r) {
				f(r, level)
			}
		}
	}
	s.eachOfGangs(f)
}

// eachOfGangs is eachMachine for the machines of gangs.
func (s *selection) eachOfGangs(f func(r columnar.Row, level int64)) {
	s.sortGangs()
	for i := range s.listing.sunk {
		if u := &s.listing.sunk[i]; s.mayHaveSunk(u) {
			s.mark(u.Row)
			f(u.Row, int64(u.Level))
		}
	}
	for i := range s.listing.extra {
		u := &s.listing.extra[i]
		s.mark(u.Row)
		f(u.Row, int64(u.Level))
	}
	for i := range s.listing.wholes {
		s.members(&s.listing.wholes[i], func(r columnar.Row) {
			if !s.picks.inPlan.Has(uint32(r)) && s.isHere(r) {
				f(r, int64(s.listing.wholes[i].Level))
			}
		})
	}
	s.unmark()
}

// bestCandidateDomains returns the TopDomains best domains by how low the priority and how few
// the machines are that must be freed; among equals phase 1's domain comes first.
func (l *worker) bestCandidateDomains(need int32, k *state.Kind, candidateDomains []candidateDomain) []candidateDomain {
	for i := range candidateDomains {
		l.selectFor(need, k, candidateDomains[i].scope, candidateDomains[i].missing).measure(&candidateDomains[i])
	}
	first, most := l.p.lines[need].Domain, l.p.e.opts.TopDomains
	byOrder := func(a, b candidateDomain) int { return l.p.compareCandidateDomains(&a, &b, first) }
	if l.p.e.opts.Explain {
		slices.SortFunc(candidateDomains, byOrder)
		for i := range candidateDomains[most:] {
			g := &candidateDomains[most+i]
			l.selectFor(need, k, g.scope, g.missing).noteCandidateDomain(g.value, g.missing, records.RejectedTopDomains)
		}
		return candidateDomains[:most]
	}
	// Select the best first and sort only these: candidate domains may be thousands, the best
	// are few.
	best := candidateDomains[:most]
	worst := l.p.worstCandidateDomain(best, first)
	for i := range candidateDomains[most:] {
		if g := &candidateDomains[most+i]; l.p.compareCandidateDomains(g, &best[worst], first) < 0 {
			best[worst] = *g
			worst = l.p.worstCandidateDomain(best, first)
		}
	}
	slices.SortFunc(best, byOrder)
	return best
}

// compareCandidateDomains orders domains by the priority up to which machines must be freed,
// then by their number, then the need's first domain, then by the domain's value as text.
func (p *pass) compareCandidateDomains(a, b *candidateDomain, first uint32) int {
	if c := cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.count, b.count)); c != 0 {
		return c
	}
	return p.compareCells(a.value, b.value, first)
}

// measure finds the priority up to which machines must be freed in a domain, and how many.
func (s *selection) measure(g *candidateDomain) {
	list := s.memory.had[:0]
	s.eachMachine(func(r columnar.Row, level int64) {
		list = append(list, units.BoundUnit{Level: level, ID: s.worker.p.s.IDRank[r], Class: s.worker.p.s.View.Class[r]})
	})
	s.memory.had = list
	slices.SortFunc(list, units.CompareBoundUnits)
	missing := s.worker.copyOf(g.missing)
	g.level, g.count = math.MinInt64, 0
	for i := range list {
		if columnar.IsZero(missing) {
			return
		}
		columnar.SubClamp(missing, s.worker.p.vector(list[i].Class))
		g.level = list[i].Level
		g.count++
	}
}

// propose chooses the units in a domain and does a dry run of phase 1 with them. It writes the
// result over an earlier proposal, whose memory it reuses.
func (l *worker) propose(x *proposal, need int32, k *state.Kind, g *candidateDomain) {
	s := l.selectAgain(need, k, g.scope, g.missing)
	*x = proposal{value: g.value, missing: g.missing, units: x.units[:0], used: x.used[:0], reprieved: x.reprieved[:0]}
	if l.p.e.opts.Explain {
		x.candidates = s.countMachines()
	}
	if !s.minimal() {
		if x.rejected = records.RejectedUnits; s.worker.p.tenants.reclaiming {
			x.rejected = records.RejectedLedger
		}
		return
	}
	var covered bool
	if x.used, covered = s.dryRun(x.used); !covered {
		x.rejected = records.RejectedDryRun
		return
	}
	x.units, x.reprieved = append(x.units, s.picks.chosen...), append(x.reprieved, s.picks.reprieved...)
	x.cost, x.found = s.costOf(), true
}

// dryRun is phase 1's own walk for the need in the domain, with the machines in flight and
// those that the plan frees taken as Idle and reserved for it. What the need acquires in this cycle
// comes before them: it is bound when they are free. It appends to used what the need
// takes beyond its own, and reports whether everything together covers the need.
func (s *selection) dryRun(used []columnar.Row) (all []columnar.Row, covered bool) {
	rows := s.walkOrder()
	missing := s.worker.search.vecs.Take(s.worker.p.dims)
	copy(missing, s.worker.p.aggregate(s.need))
	for _, x := range rows {
		if columnar.IsZero(missing) {
			break
		}
		if !columnar.Helps(s.worker.p.vec(x.row), missing) {
			continue
		}
		columnar.SubClamp(missing, s.worker.p.vec(x.row))
		if s.worker.p.claims.Of(x.row) != s.need && !x.awaited {
			used = append(used, x.row)
		}
	}
	return used, columnar.IsZero(missing)
}

// walked is a machine with its place in the order of a dry run.
type walked struct {
	stage int
	owner int32 // stage walkOfLower: the rank of the need that owns it
	key   uint64
	row   columnar.Row
	// awaited: it drains for the need already, so a plan need not take it.
	awaited bool
}

// The stages of a dry run, in the order in which phase 1 takes machines.
const (
	walkOwn     = iota // creditable and stamped for the need
	walkUnowned        // creditable, and its stamp names no need of lower rank
	// acquired in this cycle, as phase 1 picked them
	walkAcquired
	// reserved for the need: Idle, in flight, or freed by the plan
	walkReserved
	walkOfLower // creditable and stamped for a need of lower rank, the lowest rank first
	// walkIdle is Idle and free; walkHeldForLower is Idle and reserved for a lower rank;
	// walkSpeculative is a slot of quota, or late-bound and free; walkLateHeldForLower is late-bound
	// and reserved for a lower rank.
	walkIdle
	walkHeldForLower
	walkSpeculative
	walkLateHeldForLower
)

// walkOrder lists what the need would have in the domain, in the order of phase 1.
func (s *selection) walkOrder() []walked {
	rows := s.memory.walk[:0]
	value := s.scope.value
	add := func(r columnar.Row) {
		if v, ok := s.worker.p.cell(s.k.Matcher, r); ok && v == value && s.k.AcceptsClass(s.worker.p.s.View.Class[r]) {
			rows = append(rows, s.place(r))
		}
	}
	s.worker.eachOwn(s.need, s.k, add)
	for r := s.worker.p.lines[s.need].Acquired; r != columnar.None; r = s.worker.p.claims.Next(r) {
		had := len(rows)
		if add(r); len(rows) > had {
			rows[had] = walked{stage: walkAcquired, key: uint64(had), row: r}
		}
	}
	s.worker.eachFreeIn(s.need, s.k, value, add)
	missing := s.worker.lackingIn(s.need, s.worker.search.domainTotals.find(value))
	for r := range s.worker.p.onTheirWay(s.need) {
		if v, ok := s.worker.p.cell(s.k.Matcher, r); ok && v == value && s.worker.p.arrives(r, s.need, s.k) && columnar.Helps(s.worker.p.vec(r), missing) {
			columnar.SubClamp(missing, s.worker.p.vec(r))
			rows = append(rows, walked{stage: walkReserved, key: s.worker.p.s.KeepKey(r), row: r, awaited: true})
		}
	}
	for _, r := range s.freed() {
		rows = append(rows, walked{stage: walkReserved, key: s.worker.p.s.KeepKey(r), row: r})
	}
	slices.SortFunc(rows, func(a, b walked) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.owner, a.owner), cmp.Compare(a.key, b.key))
	})
	s.memory.walk = rows
	return rows
}

// place returns the position in the dry run of a machine that the need has or could have.
func (s *selection) place(r columnar.Row) walked {
	x := walked{row: r, key: s.worker.p.s.KeepKey(r)}
	switch state := s.worker.p.s.View.State[r]; state {
	case model.Idle:
		free, held := walkIdle, walkHeldForLower
		if s.worker.p.stageOf(r) == 1 {
			free, held = walkSpeculative, walkLateHeldForLower
			x.key = s.offerKey(r)
		}
		switch x.stage = free; {
		case s.worker.p.reserved.OwnedBy(r, s.need):
			x.stage, x.key = walkReserved, s.worker.p.s.KeepKey(r)
		case s.worker.p.reserved.Lower.Has(r):
			x.stage, x.key = held, s.worker.p.reserved.Lower.Key(r)
		}
	case model.Speculative:
		x.stage, x.key = walkSpeculative, s.offerKey(r)
	default:
		owner := s.worker.p.ownerRank(r)
		switch {
		case s.worker.p.isOwn(r, s.need):
			x.stage = walkOwn
		case owner > s.worker.p.rankOf[s.need]:
			x.stage, x.owner = walkOfLower, owner
		default:
			x.stage = walkUnowned
		}
		x.key |= creditStage(state) << 62
	}
	return x
}

// offerKey is the key of a machine among those that are acquired by effective cost.
func (s *selection) offerKey(r columnar.Row) uint64 {
	return uint64(s.worker.p.costs(s.k, 1)[s.worker.p.s.View.Class[r]])<<32 | uint64(s.worker.p.s.IDRank[r])
}

// creditStage is the position of a state in the order of credit.
func creditStage(s model.State) uint64 {
	switch s {
	case model.Configured:
		return 0
	case model.Configuring:
		return 1
	}
	return 2
}

// eachFreeIn is eachFree for one domain.
func (l *worker) eachFreeIn(need int32, k *state.Kind, value uint32, f func(columnar.Row)) {
	d := l.domainsFor(k.Matcher)
	for _, i := range d.Of(k.Matcher).ShelvesOf(l.p.candidates.domainOf(value)) {
		for _, r := range d.Shelves[i].Rows {
			if l.isFreeFor(r, need) {
				f(r)
			}
		}
	}
}

// Phase 2 reports for each need that stays short whether it had any candidate to preempt. For
// gangs the question is frequent, so the answer is memoized per kind.

// candidateMemo remembers for needs of a kind one scope with a candidate, or that there is
// none.
type candidateMemo struct {
	hint *unitScope // the scope in which a candidate was found last
	// for1 and for2 are clusters for which no candidate was found, −1 = none. A candidate is
	// one for every cluster but its own. So when needs of two clusters find none, no need does.
	for1, for2 int32  // the clusters, −1 = none
	since      uint64 // mayHaveMore when for1 and for2 were reset; another value makes them stale
}

// findCandidates sets HasCandidates on a need that chooses freely if a pool's domains hold
// anything to preempt for it.
func (l *worker) findCandidates(need int32, k *state.Kind, pool *unitPool) {
	n := &l.p.lines[need]
	m := &l.p.candidates.boundsOf[k.Number].candidates
	if since := l.mayHaveMore(); m.since != since {
		m.since, m.for1, m.for2 = since, -1, -1
	}
	switch {
	case l.noneToTake(k) || l.p.backsOff(need) || m.for2 >= 0 || m.for1 == n.Cluster:
		return
	case m.hint != nil && l.selectFor(need, k, m.hint, l.p.aggregate(need)).any():
		n.Status |= state.HasCandidates
		return
	}
	if m.hint = l.findInScopes(need, k, pool); m.hint != nil {
		return
	}
	if m.for1 < 0 {
		m.for1 = n.Cluster
	} else {
		m.for2 = n.Cluster
	}
}

// findInScopes returns the first of a pool's scopes with anything to preempt for the need, and
// sets HasCandidates; nil if there is none.
func (l *worker) findInScopes(need int32, k *state.Kind, pool *unitPool) *unitScope {
	for _, x := range pool.list {
		if l.selectFor(need, k, x, l.p.aggregate(need)).any() {
			l.p.lines[need].Status |= state.HasCandidates
			return x
		}
	}
	return nil
}
