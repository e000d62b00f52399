package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/model"
)

// candidateDomain is a domain (or cell) in which everything together covers a need.
type candidateDomain struct {
	value   uint32
	scope   *victims.UnitScope
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
func (l *Worker) planWhole(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	pool := l.UnitsFor(k)
	pool.DealIntoDomains(&l.Worker)
	if l.p.choosesFreely(need) {
		l.planFreely(need, k, pool)
		return
	}
	from, to := l.p.NarrowKeys(need, k)
	if l.planInCells(need, k, pool, from, to) || l.planIn(need, k, pool) {
		return
	}
	// If the plan is lost, what is in flight for it still counts in this cycle.
	d := l.Finding.DomainTotals.Find(n.Domain)
	if d != nil && !d.Tried {
		l.p.CountInFlight(need, k, d.Value, l.LackingIn(need, d))
	}
	if l.p.Tenants.Reclaiming {
		l.p.Tenants.Between.KeepCounts = d == nil || d.Tried || columnar.IsZero(d.Available) && columnar.IsZero(d.Potential)
	} else if !l.p.backsOff(need) && !l.p.SearchEnded() {
		l.VoidLost(need)
	}
}

// planInCells carries out the best plan for a cell. It tries the nested keys from the narrowest
// (to − 1) to the widest (from) and stops at the first that has a plan; false when none has.
func (l *Worker) planInCells(need int32, k *state.Kind, pool *victims.UnitPool, from, to int) bool {
	for i := to - 1; i >= from && !l.p.SearchEnded(); i-- {
		l.p.Candidates.Cut = l.p.CutFor(k, i)
		found := l.planIn(need, k, l.p.Candidates.Cut.PoolIn(&l.p.Pass, pool))
		l.p.Candidates.Cut = nil
		if found {
			return true
		}
	}
	return false
}

// planIn carries out the best plan for one of the pool's domains, or for one of its cells while
// Candidates.Cut is set; false when there is none.
func (l *Worker) planIn(need int32, k *state.Kind, pool *victims.UnitPool) bool {
	pool.DealIntoDomains(&l.Worker)
	l.p.Told.TriedFrom = len(l.p.Told.Tried)
	l.sumCandidateDomains(need, k, pool)
	if l.p.SearchEnded() {
		return false
	}
	return l.planAmong(need, k, l.listCandidateDomains(need, k, pool))
}

// planAmong carries out the best plan for one of the given domains; false when none has a plan.
func (l *Worker) planAmong(need int32, k *state.Kind, candidateDomains []candidateDomain) bool {
	n := &l.p.Lines[need]
	if len(candidateDomains) > l.p.Opts.TopDomains || l.p.Told.Explains(need) {
		candidateDomains = l.bestCandidateDomains(need, k, candidateDomains)
	}
	best := l.bestProposal(need, k, candidateDomains)
	if !best.found {
		return false
	}
	n.Status = n.Status&^state.IsUncoverable | state.IsAwaiting
	lacking := l.LackingIn(need, l.Finding.DomainTotals.Find(best.value))
	if domain := l.p.Candidates.DomainOf(best.value); domain != n.Domain {
		l.Withhold(need, domain)
	}
	if l.p.Candidates.Cut != nil {
		l.gatherIn(need, best.value)
	}
	l.p.CountInFlight(need, k, best.value, lacking)
	l.carryOut(need, k, &best)
	return true
}

// bestProposal makes a plan for each of the given domains and returns the cheapest. It is valid
// until the next call.
func (l *Worker) bestProposal(need int32, k *state.Kind, candidateDomains []candidateDomain) proposal {
	s := &l.sel
	s.memory.proposals = slices.Grow(s.memory.proposals[:0], len(candidateDomains))[:len(candidateDomains)]
	list, best := s.memory.proposals, -1
	for i := range candidateDomains {
		x := &list[i]
		x.propose(l, need, k, &candidateDomains[i])
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
func (p *Pass) cheaper(need int32, a, b *proposal) bool {
	if c := a.cost.Compare(&b.cost); c != 0 {
		return c < 0
	}
	return p.CompareCells(a.value, b.value, p.Lines[need].Domain) < 0
}

// sumCandidateDomains sums up what the need would have in each domain without preemption. A
// domain that holds only units gets an entry too.
func (l *Worker) sumCandidateDomains(need int32, k *state.Kind, pool *victims.UnitPool) {
	n, domainTotals := &l.p.Lines[need], &l.Finding.DomainTotals
	domainTotals.Reset(l.p.CellsMax())
	l.SumAvailable(need, k)
	for _, x := range pool.List {
		domainTotals.Of(x.Value, l.p.Dims)
	}
	if !n.Is(state.IsPinned) {
		return
	}
	if pin, pinned := l.p.PinnedDomain(need, k); pinned { // the plan that pinned it may have ended
		for i := range domainTotals.List {
			domainTotals.List[i].Tried = domainTotals.List[i].Value != pin // only the pin is a choice
		}
	}
}

// listCandidateDomains returns the domains in which everything together covers the need.
func (l *Worker) listCandidateDomains(need int32, k *state.Kind, pool *victims.UnitPool) []candidateDomain {
	n := &l.p.Lines[need]
	out := l.sel.memory.candidateDomains[:0]
	none, explains := l.NoneToTake(k), l.p.Told.Explains(need)
	var rejected []candidateDomain // for Explain
	for i := range l.Finding.DomainTotals.List {
		d := &l.Finding.DomainTotals.List[i]
		if d.Tried {
			continue
		}
		scope := l.p.scopeAt(pool, d.Value)
		missing := l.LackingIn(need, d)
		l.p.SubInFlight(need, k, d.Value, missing)
		if (none || n.Is(state.HasCandidates)) && !explains && !columnar.Covers(l.most(k, scope), missing) {
			continue
		}
		s := l.selectFor(need, k, scope, missing)
		if !n.Is(state.HasCandidates) && s.any() {
			n.Status |= state.HasCandidates
		}
		g := candidateDomain{value: d.Value, scope: scope, missing: missing}
		if covers, offered, some := s.couldCover(); covers {
			l.p.meet(need, offered)
			out = append(out, g)
		} else if explains && (some || l.p.hasPart(need, missing)) {
			rejected = keepFirst(rejected, g) // other domains are listed only if an earlier need could have taken something there
		}
	}
	for i := range rejected {
		x := &rejected[i]
		l.selectFor(need, k, x.scope, x.missing).noteCandidateDomain(x.value, x.missing, records.RejectedCapacity)
	}
	l.sel.memory.candidateDomains = out
	return out
}

// most returns an upper bound of what could be freed in a scope for needs of a kind. It is
// memoized until the scope turns stale.
func (l *Worker) most(k *state.Kind, x *victims.UnitScope) []int64 {
	if x.Most != nil && !x.Stale && x.MostFor == k {
		return x.Most
	}
	if x.MostFor, x.Stale = k, false; x.Most == nil {
		x.Most = alloc.MakeDirty[int64](l.Arena, l.p.Dims)
	}
	clear(x.Most)
	add := func(r columnar.Row) {
		if k.AcceptsClass(l.p.Snap.View.Class[r]) {
			columnar.SatAdd(x.Most, l.p.Vec(r))
		}
	}
	for i := range x.VictimGroups {
		if f := &x.VictimGroups[i]; k.AcceptsClass(f.Class) {
			columnar.SatAddScaled(x.Most, l.p.Vector(f.Class), int64(len(f.Rows)-f.At))
		}
	}
	for _, r := range x.Broken {
		if l.p.Promised.TakenBy(r) == ranks.None {
			add(r)
		}
	}
	for _, g := range x.Gangs {
		// A machine that a plan of its own cluster counts on is included: it goes with its
		// gang.
		for _, r := range l.p.st.Gangs.List[g].Members {
			if v, ok := l.p.Cell(k.Matcher, r); ok && (x.Value == 0 || v == x.Value) {
				add(r)
			}
		}
	}
	return x.Most
}

// eachMachine calls f once for every machine that the need could use, of any unit, with the
// priority at which it can be taken. The level of excess is math.MinInt64, below all
// priorities. Of machines in no gang it visits those of the alikes that are asked for; nil = all.
func (s *selection) eachMachine(asked func(*units.Alike) bool, f func(r columnar.Row, level int64)) {
	for i := range s.scope.VictimGroups {
		x := &s.scope.VictimGroups[i]
		if asked != nil && !asked(x.Alike) || !s.k.AcceptsClass(x.Class) || s.isBarred(x) || !s.offered(x) {
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
func (l *Worker) bestCandidateDomains(need int32, k *state.Kind, candidateDomains []candidateDomain) []candidateDomain {
	for i := range candidateDomains {
		l.selectFor(need, k, candidateDomains[i].scope, candidateDomains[i].missing).measure(&candidateDomains[i])
	}
	first, most := l.p.Lines[need].Domain, min(l.p.Opts.TopDomains, len(candidateDomains))
	byOrder := func(a, b candidateDomain) int { return l.p.compareCandidateDomains(&a, &b, first) }
	if l.p.Told.Explains(need) {
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
func (p *Pass) compareCandidateDomains(a, b *candidateDomain, first uint32) int {
	if c := cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.count, b.count)); c != 0 {
		return c
	}
	return p.CompareCells(a.value, b.value, first)
}

// measure finds the priority up to which machines must be freed in a domain, and how many.
func (s *selection) measure(g *candidateDomain) {
	list := s.memory.had[:0]
	s.eachMachine(nil, func(r columnar.Row, level int64) {
		list = append(list, boundUnit(s.worker, r, level))
	})
	s.memory.had = list
	slices.SortFunc(list, units.CompareBoundUnits)
	missing := s.worker.CopyForPlan(g.missing)
	g.level, g.count = math.MinInt64, 0
	for i := range list {
		if columnar.IsZero(missing) {
			return
		}
		columnar.SubClamp(missing, s.worker.p.Vector(list[i].Class))
		g.level = list[i].Level
		g.count++
	}
}

// propose chooses the units in a domain and does a dry run of phase 1 with them. It writes the
// result over an earlier proposal, whose memory it reuses.
func (x *proposal) propose(l *Worker, need int32, k *state.Kind, g *candidateDomain) {
	s := l.selectAgain(need, k, g.scope, g.missing)
	*x = proposal{value: g.value, missing: g.missing, units: x.units[:0], used: x.used[:0], reprieved: x.reprieved[:0]}
	if l.p.Told.Explains(need) {
		x.candidates = s.countMachines()
	}
	if !s.minimal() {
		if x.rejected = records.RejectedUnits; s.worker.p.Tenants.Reclaiming {
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
	missing := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	copy(missing, s.worker.p.Aggregate(s.need))
	for _, x := range rows {
		if columnar.IsZero(missing) {
			break
		}
		if !columnar.Helps(s.worker.p.Vec(x.row), missing) {
			continue
		}
		columnar.SubClamp(missing, s.worker.p.Vec(x.row))
		if s.worker.p.Claims.Of(x.row) != s.need && !x.awaited {
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
	value := s.scope.Value
	add := func(r columnar.Row) {
		if v, ok := s.worker.p.Cell(s.k.Matcher, r); ok && v == value && s.k.AcceptsClass(s.worker.p.Snap.View.Class[r]) {
			rows = append(rows, s.place(r))
		}
	}
	s.worker.EachOwn(s.need, s.k, add)
	for n, r := s.worker.p.Claims.WalkAcquired(&s.worker.p.Lines[s.need]); r != columnar.None; r = s.worker.p.Claims.Next(r, n) {
		had := len(rows)
		if add(r); len(rows) > had {
			rows[had] = walked{stage: walkAcquired, key: uint64(had), row: r}
		}
	}
	s.worker.eachFreeIn(s.need, s.k, value, add)
	missing := s.worker.LackingIn(s.need, s.worker.Finding.DomainTotals.Find(value))
	for r := range s.worker.p.OnTheirWay(s.need) {
		if v, ok := s.worker.p.Cell(s.k.Matcher, r); ok && v == value && s.worker.p.Arrives(r, s.need, s.k) && columnar.Helps(s.worker.p.Vec(r), missing) {
			columnar.SubClamp(missing, s.worker.p.Vec(r))
			rows = append(rows, walked{stage: walkReserved, key: s.worker.p.Snap.KeepKey(r), row: r, awaited: true})
		}
	}
	for _, r := range s.freed() {
		rows = append(rows, walked{stage: walkReserved, key: s.worker.p.Snap.KeepKey(r), row: r})
	}
	slices.SortFunc(rows, func(a, b walked) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.owner, a.owner), cmp.Compare(a.key, b.key))
	})
	s.memory.walk = rows
	return rows
}

// place returns the position in the dry run of a machine that the need has or could have.
func (s *selection) place(r columnar.Row) walked {
	x := walked{row: r, key: s.worker.p.Snap.KeepKey(r)}
	switch state := s.worker.p.Snap.View.State[r]; state {
	case model.Idle:
		free, held := walkIdle, walkHeldForLower
		if s.worker.p.StageOf(r) == 1 {
			free, held = walkSpeculative, walkLateHeldForLower
			x.key = s.offerKey(r)
		}
		switch x.stage = free; {
		case s.worker.p.Reserved.OwnedBy(r, s.need):
			x.stage, x.key = walkReserved, s.worker.p.Snap.KeepKey(r)
		case s.worker.p.Reserved.Lower.Has(r):
			x.stage, x.key = held, s.worker.p.Reserved.Lower.Key(r)
		}
	case model.Speculative:
		x.stage, x.key = walkSpeculative, s.offerKey(r)
	default:
		owner := s.worker.p.OwnerRank(r)
		switch {
		case s.worker.p.IsOwn(r, s.need):
			x.stage = walkOwn
		case owner > s.worker.p.RankOf[s.need]:
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
	return uint64(s.worker.p.Costs(s.k, 1)[s.worker.p.Snap.View.Class[r]])<<32 | uint64(s.worker.p.Snap.IDRank(r))
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

// eachFreeIn is what eachFree of package victims is for one domain.
func (l *Worker) eachFreeIn(need int32, k *state.Kind, value uint32, f func(columnar.Row)) {
	d := l.DomainsFor(k.Matcher)
	for _, i := range d.Of(k.Matcher).ShelvesOf(l.p.Candidates.DomainOf(value)) {
		for _, r := range d.Shelves[i].Rows {
			if l.IsFreeFor(r, need) {
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
	hint *victims.UnitScope // the scope in which a candidate was found last
	// for1 and for2 are clusters for which no candidate was found, −1 = none. A candidate is
	// one for every cluster but its own. So when needs of two clusters find none, no need does.
	for1, for2 int32  // the clusters, −1 = none
	since      uint64 // UnitsVersion when for1 and for2 were reset; another value makes them stale
}

// findCandidates sets HasCandidates on a need that chooses freely if a pool's domains hold
// anything to preempt for it.
func (l *Worker) findCandidates(need int32, k *state.Kind, pool *victims.UnitPool) {
	n, c := &l.p.Lines[need], l.p.ClusterOf(need)
	m := &l.p.boundsOf[k.Number].candidates
	if since := l.UnitsVersion(); m.since != since {
		m.since, m.for1, m.for2 = since, -1, -1
	}
	switch {
	case l.NoneToTake(k) || l.p.backsOff(need) || m.for2 >= 0 || m.for1 == c:
		return
	case m.hint != nil && l.selectFor(need, k, m.hint, l.p.Aggregate(need)).any():
		n.Status |= state.HasCandidates
		return
	}
	if m.hint = l.findInScopes(need, k, pool); m.hint != nil {
		return
	}
	if m.for1 < 0 {
		m.for1 = c
	} else {
		m.for2 = c
	}
}

// findInScopes returns the first of a pool's scopes with anything to preempt for the need, and
// sets HasCandidates; nil if there is none.
func (l *Worker) findInScopes(need int32, k *state.Kind, pool *victims.UnitPool) *victims.UnitScope {
	for _, x := range pool.List {
		if l.selectFor(need, k, x, l.p.Aggregate(need)).any() {
			l.p.Lines[need].Status |= state.HasCandidates
			return x
		}
	}
	return nil
}

// gatherIn withholds what a need acquired in phase 1 outside of the cell that its plan frees.
func (l *Worker) gatherIn(need int32, cell uint32) {
	n := &l.p.Lines[need]
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r, n) { // nothing was credited
		if l.p.Candidates.Cut.CellOf[r] != cell {
			n.Status |= state.IsWithheld
			l.WithholdMachine(r, need)
		}
	}
	l.p.Claims.Filter(need, n)
	if n.Is(state.IsWithheld) {
		l.p.Preempted.Withheld = append(l.p.Preempted.Withheld, need)
	}
}
