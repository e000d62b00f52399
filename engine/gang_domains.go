package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// ground is a domain in which everything together covers a need.
type ground struct {
	value   uint32
	scope   *unitScope
	missing []int64 // before any victim
	// The least priority up to which machines must be freed, and how many of
	// them, lowest first.
	level int64
	count int
}

// planWhole compares the plans of the domains in which everything together
// covers the need, of at most TopDomains, and carries out the best. Nothing is
// preempted for a part. Where keys are nested it looks into the narrowest domains
// first. Once the search has ended it looks at none.
func (l *lane) planWhole(need int32, k *kind) {
	n := &l.lines[need]
	pool := l.unitsFor(k)
	l.inDomains(pool)
	if l.choosesFreely(need) {
		l.planFreely(need, k, pool)
		return
	}
	from, to := l.narrowKeys(need, k)
	if l.planInCells(need, k, pool, from, to) || l.planIn(need, k, pool) {
		return
	}
	// What is in flight for a plan that is lost is counted for its cycle.
	d := l.sites.find(n.domain)
	if d != nil && !d.tried {
		l.countInFlight(need, k, d.value, l.lackingIn(need, d))
	}
	if l.reclaiming {
		l.tenancy.keepCounts = d == nil || d.tried || columnar.IsZero(d.available) && columnar.IsZero(d.potential)
	} else if !l.backsOff(need) && !l.searchEnded() {
		l.voidLost(need)
	}
}

// planInCells carries out the best plan for a cell of the narrowest of some keys
// that has one; false when none has.
func (l *lane) planInCells(need int32, k *kind, pool *unitPool, from, to int) bool {
	for i := to - 1; i >= from && !l.searchEnded(); i-- {
		l.cut = l.cutFor(k, i)
		found := l.planIn(need, k, l.poolIn(l.cut, pool))
		l.cut = nil
		if found {
			return true
		}
	}
	return false
}

// planIn carries out the best plan for one of the pool's domains, or for a cell
// where they are cut; false when there is none.
func (l *lane) planIn(need int32, k *kind, pool *unitPool) bool {
	l.inDomains(pool)
	l.triedFrom = len(l.tried)
	l.sumGrounds(need, k, pool)
	if l.searchEnded() {
		return false
	}
	return l.planAmong(need, k, l.listGrounds(need, k, pool))
}

// planAmong carries out the best plan for one of some domains; false when there
// is none.
func (l *lane) planAmong(need int32, k *kind, grounds []ground) bool {
	n := &l.lines[need]
	if len(grounds) > l.e.opts.TopDomains {
		grounds = l.bestGrounds(need, k, grounds)
	}
	best := l.bestProposal(need, k, grounds)
	if !best.found {
		return false
	}
	n.status = n.status&^isUncoverable | isAwaiting
	lacking := l.lackingIn(need, l.sites.find(best.value))
	if domain := l.domainOf(best.value); domain != n.domain {
		l.withhold(need, domain)
	}
	if l.cut != nil {
		l.gatherIn(need, best.value)
	}
	l.countInFlight(need, k, best.value, lacking)
	l.carryOut(need, k, &best)
	return true
}

// bestProposal returns the cheapest plan of those for some domains, good until
// the next call.
func (l *lane) bestProposal(need int32, k *kind, grounds []ground) proposal {
	s := &l.sel
	s.proposals = slices.Grow(s.proposals[:0], len(grounds))[:len(grounds)]
	list, best := s.proposals, -1
	for i := range grounds {
		x := &list[i]
		l.propose(x, need, k, &grounds[i])
		if x.found && (best < 0 || l.cheaper(need, x, &list[best])) {
			best = i
		}
	}
	l.noteProposals(need, list, best)
	if best < 0 {
		return proposal{}
	}
	return list[best]
}

// cheaper compares plans for two domains: by what they destroy, then phase 1's
// domain, then the value.
func (l *lane) cheaper(need int32, a, b *proposal) bool {
	if c := a.cost.compare(&b.cost); c != 0 {
		return c < 0
	}
	return l.compareSites(a.value, b.value, l.lines[need].domain) < 0
}

// sumGrounds forms what the need would have in each domain without preemption;
// a domain without anything of that has an entry too where there are units.
func (l *lane) sumGrounds(need int32, k *kind, pool *unitPool) {
	n, sites := &l.lines[need], &l.sites
	sites.reset(l.sitesMax())
	l.sumAvailable(need, k)
	for _, x := range pool.list {
		sites.of(x.value, l.dims)
	}
	if !n.is(isPinned) {
		return
	}
	if pin, pinned := l.pinnedDomain(need, k); pinned { // its plan may have ended
		for i := range sites.list {
			sites.list[i].tried = sites.list[i].value != pin // it is no choice
		}
	}
}

// listGrounds returns the domains in which everything together covers the need.
func (l *lane) listGrounds(need int32, k *kind, pool *unitPool) []ground {
	n := &l.lines[need]
	out := l.sel.grounds[:0]
	none := l.noneToTake(k)
	for i := range l.sites.list {
		d := &l.sites.list[i]
		if d.tried {
			continue
		}
		scope := l.scopeAt(pool, d.value)
		missing := l.lackingIn(need, d)
		l.subInFlight(need, k, d.value, missing)
		if (none || n.is(hasCandidates)) && !l.e.opts.Explain && !columnar.Covers(l.most(k, scope), missing) {
			continue
		}
		s := l.selectFor(need, k, scope, missing)
		if !n.is(hasCandidates) && s.any() {
			n.status |= hasCandidates
		}
		if covers, offered := s.couldCover(); covers {
			l.meet(need, offered)
			out = append(out, ground{value: d.value, scope: scope, missing: missing})
		} else {
			s.noteGround(d.value, missing, rejectedCapacity)
		}
	}
	l.sel.grounds = out
	return out
}

// most returns the most that could be freed in a scope for needs of a kind.
func (l *lane) most(k *kind, x *unitScope) []int64 {
	if x.most != nil && !x.stale && x.mostFor == k {
		return x.most
	}
	if x.mostFor, x.stale = k, false; x.most == nil {
		x.most = alloc.MakeDirty[int64](l.arena, l.dims)
	}
	clear(x.most)
	add := func(r columnar.Row) {
		if k.acceptsClass(l.s.View.Class[r]) {
			columnar.SatAdd(x.most, l.vec(r))
		}
	}
	for i := range x.flavours {
		if f := &x.flavours[i]; k.acceptsClass(f.class) {
			columnar.SatAddScaled(x.most, l.vector(f.class), int64(len(f.rows)-f.at))
		}
	}
	for _, r := range x.broken {
		if l.takenBy(r) == noNeed {
			add(r)
		}
	}
	for _, g := range x.gangs {
		// Also one that its own cluster's plan counts on: with its gang it goes.
		for _, r := range l.e.store.gangs.list[g].members {
			if v, ok := l.site(k.matcher, r); ok && (x.value == 0 || v == x.value) {
				add(r)
			}
		}
	}
	return x.most
}

// eachMachine calls f for the machines that the need could use of any unit, each
// once, and the priority at which it can be had; excess has none, and is below all.
func (s *selection) eachMachine(f func(r columnar.Row, level int64)) {
	for i := range s.scope.flavours {
		x := &s.scope.flavours[i]
		if !s.k.acceptsClass(x.class) || s.isBarred(x) || !s.offered(x) {
			continue
		}
		level := int64(x.level)
		if x.excess {
			level = math.MinInt64
		}
		for _, r := range x.rows[x.at:] {
			if s.isFree(r) && s.isPlaced(r) {
				f(r, level)
			}
		}
	}
	s.eachOfGangs(f)
}

// eachOfGangs is eachMachine for those of gangs.
func (s *selection) eachOfGangs(f func(r columnar.Row, level int64)) {
	s.sortGangs()
	for i := range s.sunk {
		if u := &s.sunk[i]; s.mayHaveSunk(u) {
			s.mark(u.row)
			f(u.row, int64(u.level))
		}
	}
	for i := range s.extra {
		u := &s.extra[i]
		s.mark(u.row)
		f(u.row, int64(u.level))
	}
	for i := range s.wholes {
		s.members(&s.wholes[i], func(r columnar.Row) {
			if !s.inPlan.Has(uint32(r)) && s.isHere(r) {
				f(r, int64(s.wholes[i].level))
			}
		})
	}
	s.unmark()
}

// bestGrounds orders domains by how low and how few the machines are that have
// to be freed, phase 1's first among equals, and returns the best.
func (l *lane) bestGrounds(need int32, k *kind, grounds []ground) []ground {
	for i := range grounds {
		l.selectFor(need, k, grounds[i].scope, grounds[i].missing).measure(&grounds[i])
	}
	first, most := l.lines[need].domain, l.e.opts.TopDomains
	byOrder := func(a, b ground) int { return l.compareGrounds(&a, &b, first) }
	if l.e.opts.Explain {
		slices.SortFunc(grounds, byOrder)
		for i := range grounds[most:] {
			g := &grounds[most+i]
			l.selectFor(need, k, g.scope, g.missing).noteGround(g.value, g.missing, rejectedTopDomains)
		}
		return grounds[:most]
	}
	// The best are few, and grounds may be thousands: they are not sorted for these.
	best := grounds[:most]
	worst := l.worstGround(best, first)
	for i := range grounds[most:] {
		if g := &grounds[most+i]; l.compareGrounds(g, &best[worst], first) < 0 {
			best[worst] = *g
			worst = l.worstGround(best, first)
		}
	}
	slices.SortFunc(best, byOrder)
	return best
}

// compareGrounds orders domains by how low and how few the machines are that
// have to be freed, then a need's first domain, then by value.
func (l *lane) compareGrounds(a, b *ground, first uint32) int {
	if c := cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.count, b.count)); c != 0 {
		return c
	}
	return l.compareSites(a.value, b.value, first)
}

// measure finds out up to which priority machines must be freed, and how many.
func (s *selection) measure(g *ground) {
	list := s.had[:0]
	s.eachMachine(func(r columnar.Row, level int64) {
		list = append(list, groundUnit{level: level, id: s.s.IDRank[r], class: s.s.View.Class[r]})
	})
	s.had = list
	slices.SortFunc(list, compareGroundUnits)
	missing := s.copyOf(g.missing)
	g.level, g.count = math.MinInt64, 0
	for i := range list {
		if columnar.IsZero(missing) {
			return
		}
		columnar.SubClamp(missing, s.vector(list[i].class))
		g.level = list[i].level
		g.count++
	}
}

// propose chooses the units of a domain and plays phase 1 with them; what comes
// of it is written to the memory of an earlier proposal.
func (l *lane) propose(x *proposal, need int32, k *kind, g *ground) {
	s := l.selectAgain(need, k, g.scope, g.missing)
	*x = proposal{value: g.value, missing: g.missing, units: x.units[:0], used: x.used[:0], reprieved: x.reprieved[:0]}
	if l.e.opts.Explain {
		x.candidates = s.countMachines()
	}
	if !s.minimal() {
		if x.rejected = rejectedUnits; s.reclaiming {
			x.rejected = rejectedLedger
		}
		return
	}
	var covered bool
	if x.used, covered = s.dryRun(x.used); !covered {
		x.rejected = rejectedDryRun
		return
	}
	x.units, x.reprieved = append(x.units, s.chosen...), append(x.reprieved, s.reprieved...)
	x.cost, x.found = s.costOf(), true
}

// dryRun is phase 1's walk for the need in the domain, with what is in flight
// and what is freed as Idle and reserved for it. It appends what the need takes
// beyond its own, and reports whether that covers it.
func (s *selection) dryRun(used []columnar.Row) (all []columnar.Row, covered bool) {
	rows := s.walkOrder()
	missing := s.vecs.take(s.dims)
	copy(missing, s.aggregate(s.need))
	for _, x := range rows {
		if columnar.IsZero(missing) {
			break
		}
		if !columnar.Helps(s.vec(x.row), missing) {
			continue
		}
		columnar.SubClamp(missing, s.vec(x.row))
		if s.held[x.row].need != s.need && !x.awaited {
			used = append(used, x.row)
		}
	}
	return used, columnar.IsZero(missing)
}

// walked is a machine in the order of a dry run.
type walked struct {
	stage   int
	owner   int32 // of walkOfLower: its rank
	key     uint64
	row     columnar.Row
	awaited bool
}

// The stages of a dry run.
const (
	walkOwn     = iota // creditable and stamped for the need
	walkUnowned        // creditable, and no need ranked below has it by its stamp
	walkReserved
	walkOfLower // creditable, of needs ranked below, the lowest first
	walkIdle
	walkHeldForLower
	walkSpeculative
)

// walkOrder lists what the need would have in the domain, as phase 1 would walk
// over it.
func (s *selection) walkOrder() []walked {
	rows := s.walk[:0]
	value := s.scope.value
	add := func(r columnar.Row) {
		if v, ok := s.site(s.k.matcher, r); ok && v == value && s.k.acceptsClass(s.s.View.Class[r]) {
			rows = append(rows, s.place(r))
		}
	}
	s.eachOwn(s.need, s.k, add)
	for r := s.lines[s.need].acquired; r != columnar.None; r = s.held[r].next {
		add(r)
	}
	s.eachFreeIn(s.need, s.k, value, add)
	missing := s.lackingIn(s.need, s.sites.find(value))
	for _, r := range s.heldFor(s.need) {
		if v, ok := s.site(s.k.matcher, r); ok && v == value && s.arrives(r, s.need, s.k) && columnar.Helps(s.vec(r), missing) {
			columnar.SubClamp(missing, s.vec(r))
			rows = append(rows, walked{stage: walkReserved, key: s.s.KeepKey(r), row: r, awaited: true})
		}
	}
	for _, r := range s.freed() {
		rows = append(rows, walked{stage: walkReserved, key: s.s.KeepKey(r), row: r})
	}
	slices.SortFunc(rows, func(a, b walked) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.owner, a.owner), cmp.Compare(a.key, b.key))
	})
	s.walk = rows
	return rows
}

// place says where a machine that the need has, or could have, stands in the
// walk.
func (s *selection) place(r columnar.Row) walked {
	x := walked{row: r, key: s.s.KeepKey(r)}
	switch state := s.s.View.State[r]; state {
	case model.Idle:
		switch x.stage = walkIdle; {
		case s.reserved.ownedBy(r, s.need):
			x.stage = walkReserved
		case s.reserved.lower.has(r):
			x.stage, x.key = walkHeldForLower, s.reserved.lower.key(r)
		}
	case model.Speculative:
		class := s.s.View.Class[r]
		x.stage, x.key = walkSpeculative, uint64(s.costs(s.k, 1)[class])<<32|uint64(s.s.IDRank[r])
	default:
		owner := s.ownerRank(r)
		switch {
		case s.isOwn(r, s.need):
			x.stage = walkOwn
		case owner > s.rankOf[s.need]:
			x.stage, x.owner = walkOfLower, owner
		default:
			x.stage = walkUnowned
		}
		x.key |= creditStage(state) << 62
	}
	return x
}

// creditStage is the place of a state in the walk over what is credited.
func creditStage(s model.State) uint64 {
	switch s {
	case model.Configured:
		return 0
	case model.Configuring:
		return 1
	}
	return 2
}

// eachFreeIn is eachFree in one domain.
func (l *lane) eachFreeIn(need int32, k *kind, value uint32, f func(columnar.Row)) {
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	at, ok := v.place[l.domainOf(value)]
	if !ok {
		return
	}
	for _, i := range v.list[at].shelves {
		for _, r := range d.shelves[i].rows {
			if l.isFreeFor(r, need) {
				f(r)
			}
		}
	}
}
