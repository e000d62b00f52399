package reference

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// proposal is a plan for one Need in one domain, before it is carried out.
type proposal struct {
	value   string // of the Same key
	narrow  string // of a narrower key; else empty
	units   []*unit
	awaited []*model.Machine // in flight for the Need
	// used is what the dry run takes of free machines and of victims.
	used []*model.Machine
}

// planFor makes a Need's plan: whole, or for a Need that is not all-or-nothing in
// part. by is how units are found and ordered.
func (p *pass) planFor(n *need, by policy) {
	switch {
	case n.Profile.Same() != nil:
		p.planWhole(n, by)
	case len(n.hardSpread()) > 0:
		p.planSpread(n, by)
	default:
		p.planPlain(n, by)
	}
}

// policy is what differs between preemption and reclaim between tenants.
type policy struct {
	eligible func(cluster string, priority int32) bool
	ledger   func(chosen []*unit, u *unit) (int64, bool)
	within   func(m *model.Machine) bool // beside ledger: the machine alone leaves the taker within its share
}

// byPriority is preemption: strictly lower priority.
func (p *pass) byPriority(n *need) policy {
	waits := p.backsOff(n)
	return policy{eligible: func(_ string, priority int32) bool { return !waits && priority < n.Profile.Priority() }}
}

// backsOff: a plan of the Need has failed, and it waits before it preempts
// again.
func (p *pass) backsOff(n *need) bool {
	return slices.ContainsFunc(n.rows, func(i int) bool { return p.in.BackingOff[p.in.Needs[i].Owner()] })
}

func (p *pass) selection(n *need, by policy, missing model.Resources, scope func(*model.Machine) bool) *selection {
	return &selection{p: p, units: p.unitsFor(n, scope, by.eligible), missing: missing, ledger: by.ledger}
}

// planPlain: what is in flight, what has turned free, then victims until
// nothing is missing. A part helps; no gang is broken for one.
func (p *pass) planPlain(n *need, by policy) {
	arriving, missing := walk(p.inFlightFor(n), n.deficit)
	missing = missing.Sub(sum(n.used))
	free, missing := walk(slices.Concat(p.idleCandidates(n), p.speculativeCandidates(n)), missing)
	s := p.selection(n, by, missing, everywhere)
	n.hadCandidates = n.hadCandidates || anyToPreempt(s.units)
	chosen, ok := s.minimal()
	if !ok {
		chosen = s.part()
	}
	freed := locals(chosen)
	slices.SortFunc(freed, keepOrder)
	used, left := walk(freed, missing)
	n.covered = left.IsZero() && len(arriving)+len(free)+len(used)+len(n.used) > 0
	p.carryOut(n, proposal{units: chosen, awaited: arriving, used: append(free, used...)})
}

func everywhere(*model.Machine) bool { return true }

func anyToPreempt(units []*unit) bool {
	return slices.ContainsFunc(units, func(u *unit) bool { return !u.noPreempt })
}

// planSpread plays on what phase 1 would do once the victims are free, as
// victimsUnderSkew does, unit by unit. Nothing is given back: taking one out
// could make the others impossible.
func (p *pass) planSpread(n *need, by policy) {
	arriving, missing := walk(p.inFlightFor(n), n.deficit)
	missing = missing.Sub(sum(n.used))
	n.inFlight = arriving
	placed := func(m *model.Machine) bool { _, ok := newSkew(n).place(m); return ok }
	s := p.selection(n, by, missing, placed)
	n.hadCandidates = n.hadCandidates || anyToPreempt(s.units)
	floor := locals(s.units)
	chosen, used, left := p.unitsUnderSkew(n, s, floor)
	if !left.IsZero() {
		s.units = dropUnits(s.units, func(u *unit) bool { return u.class == classWhole })
		chosen, used, left = p.unitsUnderSkew(n, s, floor)
	}
	n.covered = left.IsZero() && len(arriving)+len(used)+len(n.used) > 0
	p.carryOut(n, proposal{units: chosen, awaited: arriving, used: used})
}

// unitsUnderSkew walks over units and free machines. The floor is laid by the
// domains of all that could be taken, also where it is a gang that is not.
func (p *pass) unitsUnderSkew(n *need, s *selection, floor []*model.Machine) (chosen []*unit, used []*model.Machine, left model.Resources) {
	k := newSkew(n)
	for _, m := range slices.Concat(n.claims(), n.inFlight, n.used) {
		k.count(m)
	}
	idle, speculative := p.idleCandidates(n), p.speculativeCandidates(n)
	k.begin(slices.Concat(idle, speculative, floor))
	k.includeCounted()
	left = s.missing
	take := func(m *model.Machine) {
		k.count(m)
		used, left = append(used, m), left.Sub(m.EffectiveAllocatable())
		idle, speculative = without(idle, m), without(speculative, m)
	}
	for !left.IsZero() {
		m := p.nextSpread(n, k, idle, left)
		if m == nil {
			m = p.nextSpread(n, k, speculative, left)
		}
		if m != nil {
			take(m)
			continue
		}
		allowed := *s
		allowed.units = dropUnits(s.units, func(u *unit) bool {
			return slices.Contains(chosen, u) || !slices.ContainsFunc(u.local, func(m *model.Machine) bool {
				return !slices.Contains(used, m) && useful(m, left) && k.allows(m)
			})
		})
		u := allowed.next(chosen, left)
		if u == nil {
			break
		}
		if u.class == classWhole {
			chosen = dropUnits(chosen, func(o *unit) bool { return o.gang == u.gang })
		}
		chosen = append(chosen, u)
		for _, m := range u.local {
			if !slices.Contains(used, m) && useful(m, left) && k.allows(m) {
				take(m)
			}
		}
	}
	return chosen, used, left
}

// planWhole compares the plans of the domains in which everything together
// covers the Need, of at most TopDomains, and carries out the best. Nothing is
// preempted for a part. Where keys are nested it looks into the narrowest
// domains first. Once the search has ended it looks at none.
func (p *pass) planWhole(n *need, by policy) {
	same := n.Profile.Same().Key
	ended := false
	for _, key := range p.nested(n) {
		if ended = p.searchEnded(); ended {
			break // this Need makes no plan in this cycle
		}
		best, candidates := p.bestOf(n, by, key)
		n.hadCandidates = n.hadCandidates || candidates
		if best != nil {
			n.covered, n.couldCover = true, true
			p.moveTo(n, best.value)
			p.gatherIn(n, key, best.narrow)
			p.carryOut(n, *best)
			return
		}
	}
	totalsByDomain := p.totalsByValue(n, same, nil)
	if by.ledger == nil && !p.backsOff(n) && !ended {
		p.voidLost(n)
	}
	if s := totalsByDomain[n.domain]; s != nil {
		awaited, _ := s.lacks(n)
		p.awaits(n, awaited)
	}
}

// nested are the keys whose values may hold the Need, the narrowest first: its
// own last, and before it those inside of it, for a Need that begins anew.
func (p *pass) nested(n *need) []string {
	same := n.Profile.Same().Key
	keys := []string{same}
	if _, pinned := p.pinnedDomain(n); pinned || len(n.credited) > 0 {
		return keys
	}
	if at := slices.Index(p.in.Options.Nested, same); at >= 0 {
		keys = slices.Clone(p.in.Options.Nested[at:])
		slices.Reverse(keys)
	}
	return keys
}

// bestOf returns the best plan over the values of a key, and whether there is
// anybody to preempt.
func (p *pass) bestOf(n *need, by policy, key string) (best *proposal, candidates bool) {
	var candidateDomains []*candidateDomain
	// Which machine of a gang can be spared depends on the domain that is looked
	// at: all domains with somebody else's machines are.
	others := filter(p.machines, func(m *model.Machine) bool {
		return (m.State == model.Configured && m.Cluster != n.Cluster || p.drainsForLess(n, m) || p.acquiredForLess(n, m)) && usable(n, m)
	})
	for _, s := range p.totalsByValue(n, key, others) {
		g := p.candidateDomain(n, by, s, key)
		candidates = candidates || anyToPreempt(g.units)
		if g.covers {
			candidateDomains = append(candidateDomains, g)
		}
	}
	for _, g := range candidateDomains {
		p.meet(g, by)
	}
	slices.SortFunc(candidateDomains, func(a, b *candidateDomain) int { return a.compare(b, n.domain) })
	for i, g := range candidateDomains {
		if i == p.in.Options.TopDomains {
			break
		}
		if x, ok := p.propose(n, g); ok && (best == nil || p.cheaper(n, x, *best)) {
			best = &x
		}
	}
	return best, candidates
}

// gatherIn withholds what phase 1 acquired outside of a narrower domain.
func (p *pass) gatherIn(n *need, key, narrow string) {
	if narrow == "" {
		return
	}
	for _, m := range slices.Concat(n.idle, n.speculative) {
		if valueOf(m, key) != narrow {
			delete(p.claimedBy, m)
			p.withheld[m] = true
		}
	}
	inside := func(m *model.Machine) bool { return valueOf(m, key) == narrow }
	n.idle, n.speculative = filter(n.idle, inside), filter(n.speculative, inside)
	n.deficit = n.Aggregate.Sub(sum(n.claims()))
}

// candidateDomain is a domain with what can be freed there.
type candidateDomain struct {
	*domainTotals
	selection
	awaited []*model.Machine
	covers  bool // free, own, in flight and freed machines cover the Need
	// The least priority up to which machines must be freed, and how many of
	// them, lowest first.
	level int64
	count int
}

func (p *pass) candidateDomain(n *need, by policy, s *domainTotals, key string) *candidateDomain {
	same := n.Profile.Same().Key
	here := func(m *model.Machine) bool {
		return valueOf(m, same) == s.value && (key == same || valueOf(m, key) == s.narrow)
	}
	g := &candidateDomain{domainTotals: s, level: math.MinInt64}
	var missing model.Resources
	g.awaited, missing = s.lacks(n)
	g.selection = *p.selection(n, by, missing, here)
	levels := map[*model.Machine]int64{}
	for _, u := range g.units {
		for _, m := range u.local {
			level := int64(u.level)
			if u.class == classExcess {
				level = math.MinInt64
			}
			if known, ok := levels[m]; !ok || level < known {
				levels[m] = level
			}
		}
	}
	for _, m := range slices.SortedFunc(maps.Keys(levels), func(a, b *model.Machine) int {
		return cmp.Or(cmp.Compare(levels[a], levels[b]), cmp.Compare(a.ID, b.ID))
	}) {
		if missing.IsZero() {
			break
		}
		missing = missing.Sub(m.EffectiveAllocatable())
		g.level = levels[m]
		g.count++
	}
	g.covers = missing.IsZero()
	return g
}

// meet counts a domain that covers a Need, and the machines that are offered there. In the
// second turn of tenants these are machines of other tenants of which each alone would leave
// the taker within its share; without any the domain is no pair.
func (p *pass) meet(g *candidateDomain, by policy) {
	machines := map[*model.Machine]bool{}
	for _, u := range g.units {
		for _, m := range u.local {
			if by.ledger == nil || debited(u) && by.within(m) {
				machines[m] = true
			}
		}
	}
	if by.ledger != nil && len(machines) == 0 {
		return
	}
	p.pairs++
	p.offered += len(machines)
}

// searchEnded: so much has been met in this cycle that Same-Needs make no more plans.
func (p *pass) searchEnded() bool {
	return p.pairs >= p.in.Options.SearchPairs || p.offered >= p.in.Options.SearchUnits
}

// compare is the order in which domains are tried: lowest level, fewest
// machines, phase 1's, value.
func (g *candidateDomain) compare(o *candidateDomain, first string) int {
	if c := cmp.Or(cmp.Compare(g.level, o.level), cmp.Compare(g.count, o.count)); c != 0 {
		return c
	}
	if (g.value == first) != (o.value == first) {
		if g.value == first {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(g.value, o.value), cmp.Compare(g.narrow, o.narrow))
}

// propose chooses the units of a domain and plays phase 1 with them.
func (p *pass) propose(n *need, g *candidateDomain) (proposal, bool) {
	chosen, ok := g.minimal()
	if !ok {
		return proposal{}, false
	}
	x := proposal{value: g.value, narrow: g.narrow, units: chosen, awaited: g.awaited}
	var left model.Resources
	x.used, left = p.dryRun(n, g, locals(chosen))
	return x, left.IsZero()
}

// dryRun is phase 1's walk for the Need in the domain, with what is in flight
// and what is freed as Idle and reserved for it. What the Need acquires in this cycle comes
// before that: it is bound when that is free. It returns what the Need takes
// beyond its own, and what is then missing.
func (p *pass) dryRun(n *need, g *candidateDomain, freed []*model.Machine) (used []*model.Machine, left model.Resources) {
	reserved := slices.Concat(g.awaited, freed)
	acquired := filter(slices.Concat(n.idle, n.speculative), func(m *model.Machine) bool { return slices.Contains(g.available, m) })
	var credit, idle, speculative []*model.Machine
	for _, m := range g.available {
		switch {
		case slices.Contains(acquired, m):
		case m.State == model.Idle && p.reservedFor(n, m):
			reserved = append(reserved, m)
		case m.State == model.Idle && !isBought(m):
			idle = append(idle, m)
		case m.State == model.Idle || m.State == model.Speculative:
			speculative = append(speculative, m)
		default:
			credit = append(credit, m)
		}
	}
	slices.SortFunc(credit, p.creditOrder(n))
	slices.SortFunc(reserved, keepOrder)
	slices.SortFunc(idle, func(a, b *model.Machine) int {
		return cmp.Or(cmp.Compare(p.lateness(n, a), p.lateness(n, b)), keepOrder(a, b))
	})
	slices.SortFunc(speculative, speculativeOrder(n.Profile.Interruption()))
	p.sortByLateness(n, speculative)
	lower := func(m *model.Machine) bool { return p.creditGroup(n, m) == creditLower }
	first := filter(credit, func(m *model.Machine) bool { return !lower(m) })
	took, left := walk(slices.Concat(first, acquired, reserved, filter(credit, lower), idle, speculative), n.Aggregate)
	return filter(took, func(m *model.Machine) bool { return p.claimedBy[m] != n && !slices.Contains(g.awaited, m) }), left
}

// cheaper is the comparison of domains.
func (p *pass) cheaper(n *need, a, b proposal) bool {
	x, y := p.costOf(n, a), p.costOf(n, b)
	if x.paid != y.paid {
		return y.paid
	}
	if c := cmp.Or(cmp.Compare(x.band, y.band), cmp.Compare(x.gangs, y.gangs), cmp.Compare(x.machines, y.machines),
		cmp.Compare(x.destroyed, y.destroyed), cmp.Compare(x.grace, y.grace)); c != 0 {
		return c < 0
	}
	if (a.value == n.domain) != (b.value == n.domain) {
		return a.value == n.domain
	}
	return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.narrow, b.narrow)) < 0
}

// price is what a plan destroys. Excess, and what another plan of this cycle
// has freed, cost nobody anything.
type price struct {
	paid      bool
	band      float64 // of the worst unit
	gangs     int     // broken
	machines  int     // drained
	destroyed int64   // Σ global/aggregate, in steps of θ
	grace     int     // the longest, in seconds
}

func (p *pass) costOf(n *need, x proposal) price {
	c := price{band: math.Inf(-1), grace: p.longestGrace(n, x.units)}
	var destroyed []*model.Machine
	for _, u := range x.units {
		if u.class == classExcess {
			continue
		}
		c.paid = true
		c.band = max(c.band, p.band(u.score))
		if u.class == classWhole {
			c.gangs++
		}
		if !u.remainder {
			destroyed = append(destroyed, u.members...)
		}
	}
	c.machines = len(destroyed)
	c.destroyed = costSteps(sum(destroyed), n.Aggregate)
	return c
}

func (p *pass) longestGrace(n *need, units []*unit) int {
	longest := 0
	for _, u := range units {
		for _, m := range u.members {
			if u.noPreempt {
				longest = graceSecondsMax
			} else {
				longest = max(longest, graceSeconds(p.gap(n, m)))
			}
		}
	}
	return longest
}

// carryOut takes the units, and reserves what the Need uses of them and of what
// is free. The rest of a broken gang is there for the plans of others, and stays bound
// when none uses it.
func (p *pass) carryOut(n *need, x proposal) {
	p.awaits(n, x.awaited)
	for _, u := range x.units {
		for _, m := range u.members {
			if u.noPreempt {
				continue
			}
			if breaker := p.victimOf[m]; breaker != nil {
				breaker.victims = without(breaker.victims, m)
			}
			n.victims = append(n.victims, m)
			p.victimOf[m] = n
			p.remainder[m] = !slices.Contains(x.used, m)
		}
	}
	n.used = append(n.used, x.used...)
	for _, m := range x.used {
		n.countsOnDrain = n.countsOnDrain || m.State == model.Draining
		p.takenBy[m] = n
		if !p.givenUp(m) {
			p.voidFor(n, m)
		}
		p.takeAcquired(n, m)
		if m.State == model.Idle || leaving(n, m) {
			n.reserved = append(n.reserved, m)
		}
	}
	for _, m := range x.awaited {
		if _, void := p.voided[m]; void && !slices.Contains(n.reserved, m) {
			n.reserved = append(n.reserved, m)
		}
	}
	slices.SortFunc(n.reserved, func(a, b *model.Machine) int { return cmp.Compare(a.ID, b.ID) })
	n.longestGrace = max(n.longestGrace, p.longestGrace(n, x.units))
}
