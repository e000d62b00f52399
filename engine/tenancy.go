package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Reclaim between tenants is a second turn, after all of phase 2, for the needs that priority
// has not helped. It takes units of at most the need's own priority, from tenants that have
// more than their share. A turn sees what every tenant has when it begins, including what the
// plans of earlier turns moved.

// reclaimTurns is what the turns of reclaim leave to each other.
type reclaimTurns struct {
	// exhausted and exhaustedFound memoize the last turn whose taker could take no machine
	// more.
	exhausted      exhaustedTurn
	exhaustedFound state.Status
	// moved is a log of machines that another tenant may have by now.
	moved []columnar.Row
	// used and counted are, by need, what its plans count on: used are machines of units and
	// free ones, counted those in flight. countedBy is counted by machine.
	used, counted map[int32][]columnar.Row
	countedBy     map[columnar.Row]int32
	keepCounts    bool // the turn at work did not touch what is in flight
}

// findTenants prepares what the policy looks at.
func (p *pass) findTenants() {
	if policy := p.e.opts.Tenancy.Tenants; len(policy) > 0 && p.e.opts.Victims == VictimsGang {
		p.tenants.shares = tenancy.New(p.e.arena, policy, p.s)
		p.tenants.between = reclaimTurns{used: map[int32][]columnar.Row{}, counted: map[int32][]columnar.Row{}, countedBy: map[columnar.Row]int32{}}
	}
}

// tenantOf returns the tenant that has a machine. A bound machine belongs to its cluster's
// tenant unless it is excess or a victim. Otherwise a machine belongs to the tenant whose need
// acquires it or counts on it.
func (p *pass) tenantOf(r columnar.Row) int32 {
	t := p.tenants.shares
	claimer, bound := p.claims.Of(r), p.s.View.State[r].Bound()
	if cluster := p.s.ClusterOf[p.s.View.Cluster[r]]; bound && cluster >= 0 && !p.preempted.victimOf.Has(uint32(r)) && (claimer != state.Unclaimed || !p.s.Demand.Reported(p.s.Supply.Cluster(r))) {
		return t.Of[cluster]
	}
	if taker := p.preempted.takenBy(r); taker != order.None {
		return t.Of[p.lines[taker].Cluster]
	}
	if need, counted := p.tenants.between.countedBy[r]; counted {
		return t.Of[p.lines[need].Cluster]
	}
	if claimer != state.Unclaimed && !bound {
		return t.Of[p.lines[claimer].Cluster]
	}
	return tenancy.None
}

// beginTurn opens a tenant's turn. It updates the sums by what earlier turns moved: incremental,
// one update per moved machine.
func (p *pass) beginTurn(taker int32) {
	p.tenants.shares.Taker = taker
	for _, r := range p.tenants.between.moved {
		p.tenants.shares.Move(r, p.tenantOf(r))
	}
	p.tenants.between.moved = p.tenants.between.moved[:0]
}

// reclaimBetweenTenants gives a second turn to the needs of tenants that are short and have no
// plan that covers them.
func (l *worker) reclaimBetweenTenants() {
	t := l.p.tenants.shares
	if t == nil {
		return
	}
	l.p.dropUnitPools()
	l.reopen()
	t.Measure(l.p.e.arena, l.p.tenantOf)
	l.p.tenants.reclaiming = true
	for rank, lacks := range l.p.lacking[:len(l.p.order)] {
		if !lacks {
			continue
		}
		need, k := l.p.order[rank], &l.p.kinds[l.p.kindAt[rank]]
		n := &l.p.lines[need]
		taker := t.Of[n.Cluster]
		switch {
		case n.Status&(state.IsSatisfied|state.IsParked|state.IsAwaiting) != 0 || !l.p.isShort(rank):
			continue
		case taker == tenancy.None:
			l.p.noteNoTurn(need, records.TurnNoTenant)
			continue
		case l.p.backsOff(need):
			l.p.noteNoTurn(need, records.TurnBacksOff)
			continue
		}
		l.p.beginTurn(taker)
		if l.p.e.opts.Explain || !l.p.nothingToReclaim(need, k) {
			l.blockUpTo(int32(rank))
			l.noteTurn(need, k)
			l.planAgain(need, k)
			l.p.noteExhausted(need, k)
		}
	}
	l.p.tenants.reclaiming = false
	l.p.preempted.settleVictims()
	l.p.joinPlans()
}

// dropUnitPools drops the pools of phase 2: between tenants other units are available.
func (p *pass) dropUnitPools() {
	p.e.store.takeBackUnits()
	clear(p.candidates.unitPools)
	p.e.store.gangs.victims.Forget()
	for _, x := range p.candidates.cuts {
		clear(x.pools)
	}
}

// nothingToReclaim reports whether the second turn of a need can find nothing new. Nothing was
// put back, and either no other tenant is above its share, or the taker may take nothing more
// and it is known that there are candidates, or a memoized turn found nothing. Exception: under
// hard spread fewer candidates may allow more, so such a need always has its turn.
func (p *pass) nothingToReclaim(need int32, k *state.Kind) bool {
	t := p.tenants.shares
	if len(p.preempted.withheldBy)+p.reserved.Voided() > 0 || len(k.Spread) > 0 {
		return false
	}
	n := &p.lines[need]
	if v := p.exhaustedFor(need); v.plans > 0 && v == p.tenants.between.exhausted {
		n.Status |= p.tenants.between.exhaustedFound
		return true
	}
	return !t.AnyGives() || n.Is(state.HasCandidates) && t.AllFull(k.Classes)
}

// exhaustedTurn identifies the state in which a turn found nothing because its taker could take
// no machine more. A need of the same kind and cluster finds the same as long as changes and
// plans are equal.
type exhaustedTurn struct {
	cluster        int32
	kind           uint32
	changes, plans int
}

// exhaustedFor returns the state for a need that chooses freely; the zero value for others.
func (p *pass) exhaustedFor(need int32) exhaustedTurn {
	n := &p.lines[need]
	if n.Is(state.IsPinned) || p.reserved.Had(need) || p.e.opts.Explain || p.searchEnded() {
		return exhaustedTurn{}
	}
	return exhaustedTurn{n.Cluster, n.Kind, p.tenants.shares.Changes, len(p.preempted.plans) + 1}
}

// noteExhausted memoizes whether the turn at work found anything to preempt, if its taker may
// take no machine more.
func (p *pass) noteExhausted(need int32, k *state.Kind) {
	t := &p.tenants.between
	if t.exhausted = (exhaustedTurn{}); p.tenants.shares.AllFull(k.Classes) {
		t.exhausted, t.exhaustedFound = p.exhaustedFor(need), p.lines[need].Status&state.HasCandidates
	}
}

// planAgain makes a second plan for a need. It counts anew what is in flight for the need, and
// keeps other needs from counting on what it counted on before.
func (l *worker) planAgain(need int32, k *state.Kind) {
	t, n := &l.p.tenants.between, &l.p.lines[need]
	counted, inFlight := t.counted[need], l.p.preempted.inFlight[need]
	for _, r := range counted {
		l.p.preempted.flying.Clear(uint32(r))
	}
	delete(l.p.preempted.inFlight, need)
	if t.counted[need] = nil; !n.Is(state.HasOwnPlan) {
		n.Status &^= state.HasPlan
	}
	t.keepCounts = false
	l.planFor(need, k)
	for _, r := range counted {
		l.p.preempted.flying.Set(uint32(r))
	}
	if t.keepCounts && len(counted) > 0 {
		t.counted[need], l.p.preempted.inFlight[need] = counted, inFlight
		n.Status |= state.HasPlan
	}
}

// joinPlans merges the two plans of each need into one, and sorts plans and victims by rank
// again.
func (p *pass) joinPlans() {
	slices.SortStableFunc(p.preempted.victims, func(a, b victim) int { return cmp.Compare(p.rankOf[a.need], p.rankOf[b.need]) })
	slices.SortStableFunc(p.preempted.plans, func(a, b gangPlan) int { return cmp.Compare(p.rankOf[a.need], p.rankOf[b.need]) })
	joined := p.preempted.plans[:0]
	for _, x := range p.preempted.plans {
		if n := len(joined); n > 0 && joined[n-1].need == x.need {
			joined[n-1].grace = max(joined[n-1].grace, x.grace)
			continue
		}
		joined = append(joined, x)
	}
	p.preempted.plans = joined
}

// noteMoved logs that another tenant may have a machine from now on.
func (x *tenants) noteMoved(r columnar.Row) {
	if x.reclaiming {
		x.between.moved = append(x.between.moved, r)
	}
}

// noteCounted records that a need counts on a machine in flight.
func (x *tenants) noteCounted(r columnar.Row, need int32) {
	if t := &x.between; x.shares != nil {
		t.counted[need] = append(t.counted[need], r)
		t.countedBy[r] = need
		x.noteMoved(r)
	}
}

// noteUsed records what a need's plan counts on.
func (x *tenants) noteUsed(rows []columnar.Row, need int32) {
	if t := &x.between; x.shares != nil && len(rows) > 0 {
		t.used[need] = append(t.used[need], rows...)
	}
}

// subUsedBefore, in the second plan of a need, subtracts from what is missing what the first
// plan counts on, and returns that.
func (l *worker) subUsedBefore(need int32) []columnar.Row {
	if !l.p.tenants.reclaiming {
		return nil
	}
	used := l.p.tenants.between.used[need]
	for _, r := range used {
		columnar.SubClamp(l.missing, l.p.vec(r))
	}
	return used
}

// tenantUnits is the units that are debited to one tenant, or to none: ranges in the
// selection's lists of victim groups, single units and whole gangs. From is where a range
// begins, At the read position, To the end. Within a tenant the order does not depend on what
// was chosen, except for the ROI.
type tenantUnits struct {
	giver                                         int32
	term                                          int64 // of the tenant, as keys have it
	victimGroupFrom, victimGroupAt, victimGroupTo int
	extraFrom, extraAt, extraTo                   int
	wholeFrom, wholeAt, wholeTo                   int
}

// giverOf returns the tenant that a machine would be debited to; tenancy.None outside of reclaim
// between tenants.
func (p *pass) giverOf(r columnar.Row) int32 {
	if !p.tenants.reclaiming {
		return tenancy.None
	}
	return p.tenants.shares.Of[p.s.ClusterOf[p.s.View.Cluster[r]]]
}

// mayTake reports whether needs of a priority may take a machine of priority level: a lower
// one, between tenants also an equal one.
func (x *tenants) mayTake(level, priority int32) bool {
	return level < priority || x.reclaiming && level == priority
}

// mayGive reports whether a cluster's machines may be taken in this turn.
func (x *tenants) mayGive(cluster int32) bool {
	return !x.reclaiming || x.shares.Gives(x.shares.Of[cluster])
}

// offered reports whether units of a victim group may be taken in this turn.
func (s *selection) offered(f *units.VictimGroup) bool {
	return !s.worker.p.tenants.reclaiming || f.Excess || s.worker.p.tenants.shares.Gives(f.Tenant)
}

// spares reports whether the excess of a victim group is only reserved: it drains already, or
// it is left to phase 3.
func (s *selection) spares(f *units.VictimGroup) bool {
	return f.Leaving || f.Level >= s.k.Priority || s.planFailed || s.worker.p.tenants.reclaiming && !s.worker.p.tenants.shares.Gives(f.Tenant)
}

// dealByTenant sorts the units by tenant, then by key, and finds each tenant's range.
func (s *selection) dealByTenant() {
	byGiver := func(a, b units.Unit) int { return cmp.Or(cmp.Compare(a.Giver, b.Giver), a.Key.Compare(&b.Key)) }
	slices.SortFunc(s.listing.extra, byGiver)
	s.sortWholes(byGiver)
	s.given.byTenant = s.given.byTenant[:0]
	victimGroups := s.scope.victimGroups
	for f, x, w := 0, 0, 0; f < len(victimGroups) || x < len(s.listing.extra) || w < len(s.listing.wholes); {
		giver := int32(math.MaxInt32)
		if f < len(victimGroups) {
			giver = victimGroups[f].Giver()
		}
		if x < len(s.listing.extra) {
			giver = min(giver, s.listing.extra[x].Giver)
		}
		if w < len(s.listing.wholes) {
			giver = min(giver, s.listing.wholes[w].Giver)
		}
		b := tenantUnits{giver: giver, victimGroupFrom: f, extraFrom: x, wholeFrom: w}
		for f < len(victimGroups) && victimGroups[f].Giver() == giver {
			f++
		}
		for x < len(s.listing.extra) && s.listing.extra[x].Giver == giver {
			x++
		}
		for w < len(s.listing.wholes) && s.listing.wholes[w].Giver == giver {
			w++
		}
		if b.victimGroupTo, b.extraTo, b.wholeTo = f, x, w; giver == tenancy.None || s.worker.p.tenants.shares.Gives(giver) {
			s.given.byTenant = append(s.given.byTenant, b)
		}
	}
}

// rewindTenants restarts the choice: an empty ledger, all ranges at their beginning.
func (s *selection) rewindTenants() {
	s.given.ledger.Open(s.worker.p.tenants.shares)
	for i := range s.given.byTenant {
		b := &s.given.byTenant[i]
		b.victimGroupAt, b.extraAt, b.wholeAt = b.victimGroupFrom, b.extraFrom, b.wholeFrom
	}
	s.findTerms()
}

// findTerms recomputes the tenants' terms from what the ledger holds.
func (s *selection) findTerms() {
	for i := range s.given.byTenant {
		s.given.byTenant[i].term = s.given.ledger.Term(s.given.byTenant[i].giver)
	}
}

// admitsClass reports whether the ledger admits a machine of a class.
func (s *selection) admitsClass(giver int32, class uint32) bool {
	v := s.worker.p.tenants.shares.Vec(class)
	return s.given.ledger.Admits(giver, v, v)
}

func (s *selection) admitsUnit(u *units.Unit) bool {
	if u.Row != columnar.None {
		return s.admitsClass(u.Giver, s.worker.p.s.View.Class[u.Row])
	}
	return s.given.ledger.Admits(u.Giver, u.Takes, u.Debits)
}

// addEntries sets what a whole gang would give the taker, and what it costs the giver.
func (s *selection) addEntries(u *units.Unit, g *units.Gang) {
	if !s.worker.p.tenants.reclaiming {
		return
	}
	u.Giver = s.worker.p.tenants.shares.Of[g.Cluster]
	u.Takes, u.Debits = s.worker.search.vecs.Take(s.worker.p.tenants.shares.Dims()), s.worker.search.vecs.Take(s.worker.p.tenants.shares.Dims())
	for _, r := range g.Members {
		if s.worker.p.preempted.victimOf.Has(uint32(r)) {
			continue
		}
		v := s.worker.p.tenants.shares.Vec(s.worker.p.s.View.Class[r])
		columnar.SatAdd(u.Debits, v)
		if s.isHere(r) {
			columnar.SatAdd(u.Takes, v)
		}
	}
}

// enter adds a unit to the ledger.
func (s *selection) enter(u *units.Unit) {
	takes, debits := s.entries(u)
	s.given.ledger.Enter(u.Giver, takes, debits)
}

// strike removes a unit from the ledger.
func (s *selection) strike(u *units.Unit) {
	takes, debits := s.entries(u)
	s.given.ledger.Strike(u.Giver, takes, debits)
}

// entries returns what a unit would give the taker, and what it costs the giver.
func (s *selection) entries(u *units.Unit) (takes, debits []int64) {
	if u.Row != columnar.None {
		v := s.worker.p.tenants.shares.Vec(s.worker.p.s.View.Class[u.Row])
		return v, v
	}
	return u.Takes, u.Debits
}

// balance recomputes the ledger from the chosen units.
func (s *selection) balance() {
	s.given.ledger.Open(s.worker.p.tenants.shares)
	for i := range s.picks.chosen {
		s.enter(&s.picks.chosen[i])
	}
	s.findTerms()
}

// openTenantUnits makes a tenant the one at work: nextSingle and nextOfTenant then read its
// ranges.
func (s *selection) openTenantUnits(b *tenantUnits) {
	s.reader.victimGroupAt, s.reader.victimGroupTo, s.reader.extraAt, s.reader.extraTo = b.victimGroupAt, b.victimGroupTo, b.extraAt, b.extraTo
	s.reader.bandAt, s.reader.wholeTo, s.given.term = b.wholeAt, b.wholeTo, b.term
}

// closeTenantUnits saves the read positions of the tenant at work.
func (s *selection) closeTenantUnits(b *tenantUnits) {
	b.victimGroupAt, b.extraAt, b.wholeAt = s.reader.victimGroupAt, s.reader.extraAt, s.reader.bandAt
}

// chooseByTenant is choose, limited to units that the ledger admits.
func (s *selection) chooseByTenant(gangs bool) bool {
	for s.lacks != 0 {
		u, whole, ok := s.nextOfTenants(gangs)
		switch {
		case !ok:
			return false
		case whole >= 0:
			s.takeWhole(whole)
			s.balance() // a whole gang replaces units of its members that were chosen
		default:
			s.take(&u)
			s.enter(&u)
			s.renewTerm(u.Giver)
		}
	}
	return true
}

// renewTerm recomputes a tenant's term after a debit.
func (s *selection) renewTerm(giver int32) {
	for i := range s.given.byTenant {
		if s.given.byTenant[i].giver == giver {
			s.given.byTenant[i].term = s.given.ledger.Term(giver)
		}
	}
}

// nextOfTenants returns the unit with the smallest key; whole is its index if it is a whole
// gang, else −1.
func (s *selection) nextOfTenants(gangs bool) (best units.Unit, whole int, ok bool) {
	whole = -1
	for i := range s.given.byTenant {
		b := &s.given.byTenant[i]
		if ok && (!best.Key.Paid || best.Key.Tenant < b.term) {
			continue
		}
		s.openTenantUnits(b)
		u, found := s.nextSingle(s.lacks)
		w := -1
		if !found && gangs { // within a tenant every single unit goes before whole gangs
			if w = s.nextOfTenant(); w >= 0 {
				u, found = s.listing.wholes[w], true
			}
		}
		s.closeTenantUnits(b)
		if found && (!ok || u.Key.Compare(&best.Key) < 0) {
			best, whole, ok = u, w, true
		}
	}
	return best, whole, ok
}

// nextOfTenant returns the index of the tenant's whole gang with the smallest key that has
// something of what is missing and is admitted, −1 = none.
func (s *selection) nextOfTenant() int {
	for s.reader.bandAt < s.reader.wholeTo {
		band, best, to := s.listing.wholes[s.reader.bandAt].Key.Band, -1, s.reader.bandAt
		for ; to < s.reader.wholeTo && s.listing.wholes[to].Key.Band == band; to++ {
			u := &s.listing.wholes[to]
			if positive(u.Local)&s.lacks == 0 || !s.admitsUnit(u) {
				continue
			}
			if best >= 0 && s.listing.wholes[best].Key.Roi == -exact.ThetaSteps {
				continue // the ROI cannot be better, and the keys of those behind are otherwise larger
			}
			u.Key.Roi, u.Key.Tenant = -exact.ROISteps(u.Local, u.Global, s.left), s.given.term
			s.worker.figures.probes++
			if best < 0 || u.Key.Roi < s.listing.wholes[best].Key.Roi {
				best = to
			}
		}
		if best >= 0 {
			return best
		}
		s.reader.bandAt = to
	}
	return -1
}

// wholesAdmitted is wholesBefore, limited to gangs that the ledger admits.
func (s *selection) wholesAdmitted(list []units.Unit, limit *units.Key, u *units.Unit, only []int64) []units.Unit {
	mask := positive(only)
	for i := range s.listing.wholes {
		v := s.listing.wholes[i]
		if v.Key.Band > limit.Band {
			break
		}
		if !s.admitsUnit(&v) || positive(s.listing.gangs.Shapes[v.Shape].Local)&mask == 0 {
			continue
		}
		v.Key.Tenant, v.Key.Roi = s.given.ledger.Term(v.Giver), s.roiOfAll(v.Shape, only)
		if v.Key.Compare(limit) < 0 && (v.Gang != u.Gang || u.Key.Class != units.ClassWhole) && !s.overlaps(&v) {
			list = append(list, v)
		}
	}
	return list
}

// anyOffered reports whether victim groups have anything to preempt, whatever the ledger
// admits.
func (s *selection) anyOffered() bool {
	for i := range s.scope.victimGroups {
		f := &s.scope.victimGroups[i]
		if !s.k.AcceptsClass(f.Class) || !s.offered(f) || f.Excess && s.spares(f) {
			continue
		}
		for _, r := range f.Rows {
			if s.isFreeOf(f.Alike, r) && s.isPlaced(r) {
				return true
			}
		}
	}
	return false
}

// mayEnter reports whether the ledger admits a unit; true outside of reclaim between tenants.
func (s *selection) mayEnter(u *units.Unit) bool {
	return !s.worker.p.tenants.reclaiming || s.admitsUnit(u)
}
