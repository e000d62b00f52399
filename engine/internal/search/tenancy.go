package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/spread"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// Reclaim between tenants is a second turn, after all of phase 2, for the needs that priority
// has not helped. It takes units of at most the need's own priority, from tenants that have
// more than their share. A turn sees what every tenant has when it begins, including what the
// plans of earlier turns moved.

// beginTurn opens a tenant's turn. It updates the sums by what earlier turns moved: incremental,
// one update per moved machine.
func (p *Pass) beginTurn(taker int32) {
	p.Tenants.Shares.Taker = taker
	for _, r := range p.Tenants.Between.Moved {
		p.Tenants.Shares.Move(r, p.TenantOf(r))
	}
	p.Tenants.Between.Moved = p.Tenants.Between.Moved[:0]
}

// ReclaimBetweenTenants gives a second turn to the needs of tenants that are short and have no
// plan that covers them.
func (l *Worker) ReclaimBetweenTenants() {
	t := l.p.Tenants.Shares
	if t == nil {
		return
	}
	l.p.dropUnitPools()
	l.PutBackBlocked()
	t.Measure(l.p.Arena, l.p.TenantOf)
	l.p.Tenants.Reclaiming = true
	for rank, lacks := range l.p.Lacking[:len(l.p.Order)] {
		if !lacks {
			continue
		}
		need, k := l.p.Order[rank], &l.p.Kinds[l.p.KindAt[rank]]
		n := &l.p.Lines[need]
		taker := t.Of[l.p.ClusterOf(need)]
		switch {
		case n.Status&(state.IsSatisfied|state.IsParked|state.IsAwaiting) != 0 || !l.p.IsShort(rank):
			continue
		case taker == tenancy.None:
			l.p.noteNoTurn(need, records.TurnNoTenant)
			continue
		case l.p.backsOff(need):
			l.p.noteNoTurn(need, records.TurnBacksOff)
			continue
		}
		l.p.beginTurn(taker)
		if !l.p.Told.Explains(need) && l.p.nothingToReclaim(need, k) {
			if found := l.p.Tenants.Between.ExhaustedFound; found != 0 && l.p.isMemoized(need) {
				l.Visit(need)
				n.Status |= found
			}
			continue
		}
		if l.BlockUpTo(int32(rank)); !nothingObtainable(l, need, k) {
			l.noteTurn(need, k)
			l.planAgain(need, k)
			l.p.noteExhausted(need, k)
		}
	}
	l.p.Tenants.Reclaiming = false
	l.p.Preempted.SettleVictims()
	l.p.joinPlans()
}

// dropUnitPools drops the pools of phase 2: between tenants other units are available.
func (p *Pass) dropUnitPools() {
	p.st.TakeBackUnits()
	clear(p.Candidates.UnitPools)
	p.st.Gangs.Victims.Forget()
	for _, x := range p.Candidates.Cuts {
		clear(x.Pools)
	}
}

// nothingToReclaim reports whether the second turn of a need can find nothing new. Where machines were put back, or
// drain and were spared, that is known only of a taker that may take nothing more, for a need that they do not concern. Elsewhere no
// other tenant is above its share, or the taker may take nothing more and it is known that there are candidates, or a memoized turn
// found nothing. Under hard spread fewer candidates may allow more: there nothingObtainable alone can tell.
func (p *Pass) nothingToReclaim(need int32, k *state.Kind) bool {
	t := p.Tenants.Shares
	if len(k.Spread) > 0 {
		return false
	}
	full := p.Lines[need].Is(state.HasCandidates) && t.AllFull(k.Classes)
	if len(p.Preempted.WithheldBy)+p.Reserved.Voided()+len(p.Preempted.SparedRows) > 0 {
		return full && p.choosesAnew(need) && !p.AnyFree(k)
	}
	return full || p.isMemoized(need) || !t.AnyGives()
}

// choosesAnew reports whether the second turn of a need looks at nothing but what all needs may have: nothing is held for it, it is not
// pinned, and neither Explain nor a spent search budget changes what the turn does.
func (p *Pass) choosesAnew(need int32) bool {
	return !p.Lines[need].Is(state.IsPinned) && !p.Reserved.Had(need) && !p.Told.Explains(need) && !p.SearchEnded()
}

// nothingObtainable reports whether it is known that the second turn of a need finds nothing; if so, it notes whether there are candidates.
// Where something is held for the need, or free for it, the turn has to look at that. A need with Same has its turn, since the search
// budget counts the domains that its turn looks at.
func nothingObtainable(l *Worker, need int32, k *state.Kind) bool {
	if k.Same || l.p.Told.Explains(need) || l.p.Reserved.Had(need) || l.p.AnyFree(k) {
		return false
	}
	some, known := victims.KnowsCandidates(&l.Worker, k, func(r columnar.Row) bool {
		return spread.HasAll(l.p.Snap.Supply, r, spread.AppendKeys(nil, l.p.Snap.Supply, k.Spread))
	})
	if some = some || l.p.Lines[need].Is(state.HasCandidates); !some {
		return known
	}
	if l.Resume(need); victims.ObtainableFor(&l.Worker, k)&l.Lacks != 0 {
		return false
	}
	l.Visit(need)
	l.p.Lines[need].Status |= state.HasCandidates
	return true
}

// isMemoized reports whether the second turn of a need is known to find nothing: the last one of a need like it did, and
// nothing has changed since.
func (p *Pass) isMemoized(need int32) bool {
	v := p.exhaustedFor(need)
	return v.Plans > 0 && v == p.Tenants.Between.Exhausted
}

// exhaustedFor returns the state for a need that chooses freely; the zero value for others.
func (p *Pass) exhaustedFor(need int32) victims.ExhaustedTurn {
	if !p.choosesAnew(need) {
		return victims.ExhaustedTurn{}
	}
	return victims.ExhaustedTurn{Cluster: p.ClusterOf(need), Kind: p.Lines[need].Kind, Changes: p.Tenants.Shares.Changes, Plans: len(p.Preempted.Plans) + 1}
}

// noteExhausted memoizes whether the turn at work found anything to preempt, if its taker may
// take no machine more.
func (p *Pass) noteExhausted(need int32, k *state.Kind) {
	t := &p.Tenants.Between
	if t.Exhausted = (victims.ExhaustedTurn{}); p.Tenants.Shares.AllFull(k.Classes) {
		t.Exhausted, t.ExhaustedFound = p.exhaustedFor(need), p.Lines[need].Status&state.HasCandidates
	}
}

// planAgain makes a second plan for a need. It counts anew what is in flight for the need, and
// keeps other needs from counting on what it counted on before.
func (l *Worker) planAgain(need int32, k *state.Kind) {
	t, n := &l.p.Tenants.Between, &l.p.Lines[need]
	counted, inFlight := t.Counted[need], l.p.Preempted.InFlight[need]
	for _, r := range counted {
		l.p.Promised.Flying.Clear(uint32(r))
	}
	delete(l.p.Preempted.InFlight, need)
	if t.Counted[need] = nil; !n.Is(state.HasOwnPlan) {
		n.Status &^= state.HasPlan
	}
	t.KeepCounts = false
	l.PlanFor(need, k)
	for _, r := range counted {
		l.p.Promised.Flying.Set(uint32(r))
	}
	if t.KeepCounts && len(counted) > 0 {
		t.Counted[need], l.p.Preempted.InFlight[need] = counted, inFlight
		n.Status |= state.HasPlan
	}
}

// joinPlans merges the two plans of each need into one, and sorts plans and victims by rank
// again.
func (p *Pass) joinPlans() {
	slices.SortStableFunc(p.Preempted.Victims, func(a, b victims.Victim) int { return cmp.Compare(p.RankOf[a.Need], p.RankOf[b.Need]) })
	slices.SortStableFunc(p.Preempted.Plans, func(a, b victims.GangPlan) int { return cmp.Compare(p.RankOf[a.Need], p.RankOf[b.Need]) })
	joined := p.Preempted.Plans[:0]
	for _, x := range p.Preempted.Plans {
		if n := len(joined); n > 0 && joined[n-1].Need == x.Need {
			joined[n-1].Grace = max(joined[n-1].Grace, x.Grace)
			continue
		}
		joined = append(joined, x)
	}
	p.Preempted.Plans = joined
}

// subUsedBefore, in the second plan of a need, subtracts from what is missing what the first
// plan counts on, and returns that.
func (l *Worker) subUsedBefore(need int32) []columnar.Row {
	if !l.p.Tenants.Reclaiming {
		return nil
	}
	used := l.p.Tenants.Between.Used[need]
	for _, r := range used {
		columnar.SubClamp(l.Missing, l.p.Vec(r))
	}
	return used
}

// offered reports whether units of a victim group may be taken in this turn.
func (s *selection) offered(f *units.VictimGroup) bool {
	return !s.worker.p.Tenants.Reclaiming || f.Excess || s.worker.p.Tenants.Shares.Gives(f.Tenant)
}

// spares reports whether the excess of a victim group is only reserved: it drains already, or
// it is left to phase 3.
func (s *selection) spares(f *units.VictimGroup) bool {
	return f.Leaving || f.Level >= s.k.Priority || s.planFailed || s.worker.p.Tenants.Reclaiming && !s.worker.p.Tenants.Shares.Gives(f.Tenant)
}

// dealByTenant sorts the units by tenant, then by key, and finds each tenant's range.
func (s *selection) dealByTenant() {
	byGiver := func(a, b units.Unit) int { return cmp.Or(cmp.Compare(a.Giver, b.Giver), a.Key.Compare(&b.Key)) }
	slices.SortFunc(s.listing.extra, byGiver)
	s.sortWholes(byGiver)
	s.given.byTenant = s.given.byTenant[:0]
	victimGroups := s.scope.VictimGroups
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
		if b.victimGroupTo, b.extraTo, b.wholeTo = f, x, w; giver == tenancy.None || s.worker.p.Tenants.Shares.Gives(giver) {
			s.given.byTenant = append(s.given.byTenant, b)
		}
	}
}

// rewindTenants restarts the choice: an empty ledger, all ranges at their beginning.
func (s *selection) rewindTenants() {
	s.given.ledger.Open(s.worker.p.Tenants.Shares)
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
	s.worker.Figures.Probes++
	v := s.worker.p.Tenants.Shares.Vec(class)
	return s.given.ledger.Admits(giver, v, v)
}

func (s *selection) admitsUnit(u *units.Unit) bool {
	if u.Row != columnar.None {
		return s.admitsClass(u.Giver, s.worker.p.Snap.View.Class[u.Row])
	}
	return s.given.ledger.Admits(u.Giver, u.Takes, u.Debits)
}

// addEntries sets what a whole gang would give the taker, and what it costs the giver.
func (s *selection) addEntries(u *units.Unit, g *units.Gang) {
	if !s.worker.p.Tenants.Reclaiming {
		return
	}
	u.Giver = s.worker.p.Tenants.Shares.Of[g.Cluster]
	u.Takes, u.Debits = s.worker.Finding.Vecs.Take(s.worker.p.Tenants.Shares.Dims()), s.worker.Finding.Vecs.Take(s.worker.p.Tenants.Shares.Dims())
	for _, r := range g.Members {
		if s.worker.p.Preempted.VictimOf.Has(uint32(r)) {
			continue
		}
		v := s.worker.p.Tenants.Shares.Vec(s.worker.p.Snap.View.Class[r])
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
		v := s.worker.p.Tenants.Shares.Vec(s.worker.p.Snap.View.Class[u.Row])
		return v, v
	}
	return u.Takes, u.Debits
}

// balance recomputes the ledger from the chosen units.
func (s *selection) balance() {
	s.given.ledger.Open(s.worker.p.Tenants.Shares)
	for i := range s.picks.chosen {
		s.enter(&s.picks.chosen[i])
	}
	s.findTerms()
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
			if cycle.PositiveDims(u.Local)&s.lacks == 0 || !s.admitsUnit(u) {
				continue
			}
			if best >= 0 && s.listing.wholes[best].Key.Roi == -exact.ThetaSteps {
				continue // the ROI cannot be better, and the keys of those behind are otherwise larger
			}
			u.Key.Roi, u.Key.Tenant = -exact.ROISteps(u.Local, u.Global, s.left), s.given.term
			s.worker.Figures.Probes++
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
	mask := cycle.PositiveDims(only)
	for i := range s.listing.wholes {
		v := s.listing.wholes[i]
		if v.Key.Band > limit.Band {
			break
		}
		if !s.admitsUnit(&v) || cycle.PositiveDims(s.listing.gangs.Shapes[v.Shape].Local)&mask == 0 {
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
	for i := range s.scope.VictimGroups {
		f := &s.scope.VictimGroups[i]
		s.worker.Figures.Probes++
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
	return !s.worker.p.Tenants.Reclaiming || s.admitsUnit(u)
}
