package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// ledger is what the chosen units of a plan give the taker and take from their tenants. A unit
// is debited as a whole. Excess, and what another plan has broken off, is debited to no tenant.
type ledger struct {
	// takes is what the taker gets, by dimension of shares.
	takes  []wide
	debits []wide // by tenant, then by dimension of shares
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

// giverOf returns the tenant that a machine would be debited to; noTenant outside of reclaim
// between tenants.
func (p *pass) giverOf(r columnar.Row) int32 {
	if !p.reclaiming {
		return noTenant
	}
	return p.tenancy.of[p.s.ClusterOf[p.s.View.Cluster[r]]]
}

// mayTake reports whether needs of a priority may take a machine of priority level: a lower
// one, between tenants also an equal one.
func (p *pass) mayTake(level, priority int32) bool {
	return level < priority || p.reclaiming && level == priority
}

// mayGive reports whether a cluster's machines may be taken in this turn.
func (p *pass) mayGive(cluster int32) bool {
	return !p.reclaiming || p.tenancy.gives(p.tenancy.of[cluster])
}

// offered reports whether units of a victim group may be taken in this turn.
func (s *selection) offered(f *victimGroup) bool {
	return !s.reclaiming || f.excess || s.tenancy.gives(f.tenant)
}

// spares reports whether the excess of a victim group is only reserved: it drains already, or
// it is left to phase 3.
func (s *selection) spares(f *victimGroup) bool {
	return f.leaving || f.level >= s.k.priority || s.waits || s.reclaiming && !s.tenancy.gives(f.tenant)
}

// dealByTenant sorts the units by tenant, then by key, and finds each tenant's range.
func (s *selection) dealByTenant() {
	byGiver := func(a, b unit) int { return cmp.Or(cmp.Compare(a.giver, b.giver), a.key.compare(&b.key)) }
	slices.SortFunc(s.extra, byGiver)
	s.sortWholes(byGiver)
	s.unitsByTenant = s.unitsByTenant[:0]
	victimGroups := s.scope.victimGroups
	for f, x, w := 0, 0, 0; f < len(victimGroups) || x < len(s.extra) || w < len(s.wholes); {
		giver := int32(math.MaxInt32)
		if f < len(victimGroups) {
			giver = victimGroups[f].giver()
		}
		if x < len(s.extra) {
			giver = min(giver, s.extra[x].giver)
		}
		if w < len(s.wholes) {
			giver = min(giver, s.wholes[w].giver)
		}
		b := tenantUnits{giver: giver, victimGroupFrom: f, extraFrom: x, wholeFrom: w}
		for f < len(victimGroups) && victimGroups[f].giver() == giver {
			f++
		}
		for x < len(s.extra) && s.extra[x].giver == giver {
			x++
		}
		for w < len(s.wholes) && s.wholes[w].giver == giver {
			w++
		}
		if b.victimGroupTo, b.extraTo, b.wholeTo = f, x, w; giver == noTenant || s.tenancy.gives(giver) {
			s.unitsByTenant = append(s.unitsByTenant, b)
		}
	}
}

// rewindTenants restarts the choice: an empty ledger, all ranges at their beginning.
func (s *selection) rewindTenants() {
	n := len(s.tenancy.policy)
	s.ledger.takes, s.ledger.debits = resize(s.ledger.takes, s.tenancy.dims), resize(s.ledger.debits, n*s.tenancy.dims)
	for i := range s.unitsByTenant {
		b := &s.unitsByTenant[i]
		b.victimGroupAt, b.extraAt, b.wholeAt = b.victimGroupFrom, b.extraFrom, b.wholeFrom
	}
	s.findTerms()
}

// findTerms recomputes the tenants' terms from what the ledger holds.
func (s *selection) findTerms() {
	for i := range s.unitsByTenant {
		s.unitsByTenant[i].term = s.termOf(s.unitsByTenant[i].giver)
	}
}

// termOf returns minus the ratio of what a tenant has, less what is debited to it, to its
// share, in steps of θ. Of several dimensions the largest ratio counts.
func (s *selection) termOf(giver int32) int64 {
	if giver == noTenant {
		return 0
	}
	t := s.tenancy
	share, most := t.shareOf(giver), int64(0)
	for d, has := range t.hasOf(giver) {
		if share[d] > 0 {
			most = max(most, stepsOf(max(has-s.debited(giver, d), 0), share[d]))
		}
	}
	return -most
}

func (s *selection) debited(giver int32, d int) int64 {
	return s.ledger.debits[int(giver)*s.tenancy.dims+d].value()
}

// stepsOf returns ⌊has/share ÷ θ⌋, saturated at math.MaxInt64. share is positive.
func stepsOf(has, share int64) int64 {
	hi, lo := bits.Mul64(uint64(has), thetaSteps)
	if hi >= uint64(share) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(share))
	return int64(min(q, math.MaxInt64))
}

// admits reports whether, with one more unit in the ledger, the taker stays within its share
// and the giver keeps its own.
func (s *selection) admits(giver int32, takes, debits []int64) bool {
	t := s.tenancy
	has, share := t.hasOf(t.taker), t.shareOf(t.taker)
	for d, v := range takes {
		if share[d] == 0 {
			continue
		}
		if add := satSum(s.ledger.takes[d].value(), v); add > 0 && satSum(has[d], add) > share[d] {
			return false
		}
	}
	if giver == noTenant {
		return true
	}
	has, share = t.hasOf(giver), t.shareOf(giver)
	for d, v := range debits {
		if share[d] > 0 && v > 0 && has[d]-satSum(s.debited(giver, d), v) < share[d] {
			return false
		}
	}
	return true
}

// admitsClass is admits for a machine of a class.
func (s *selection) admitsClass(giver int32, class uint32) bool {
	v := s.tenancy.vec(class)
	return s.admits(giver, v, v)
}

func (s *selection) admitsUnit(u *unit) bool {
	if u.row != columnar.None {
		return s.admitsClass(u.giver, s.s.View.Class[u.row])
	}
	return s.admits(u.giver, u.takes, u.debits)
}

// addEntries sets what a whole gang would give the taker, and what it costs the giver.
func (s *selection) addEntries(u *unit, g *gang) {
	if !s.reclaiming {
		return
	}
	u.giver = s.tenancy.of[g.cluster]
	u.takes, u.debits = s.vecs.take(s.tenancy.dims), s.vecs.take(s.tenancy.dims)
	for _, r := range g.members {
		if s.victimOf.Has(uint32(r)) {
			continue
		}
		v := s.tenancy.vec(s.s.View.Class[r])
		columnar.SatAdd(u.debits, v)
		if s.isHere(r) {
			columnar.SatAdd(u.takes, v)
		}
	}
}

// enter adds a unit to the ledger.
func (s *selection) enter(u *unit) {
	t := s.tenancy
	takes, debits := s.entries(u)
	for d := range takes {
		s.ledger.takes[d].add(takes[d])
		if u.giver != noTenant {
			s.ledger.debits[int(u.giver)*t.dims+d].add(debits[d])
		}
	}
}

// strike removes a unit from the ledger.
func (s *selection) strike(u *unit) {
	t := s.tenancy
	takes, debits := s.entries(u)
	for d := range takes {
		s.ledger.takes[d].sub(takes[d])
		if u.giver != noTenant {
			s.ledger.debits[int(u.giver)*t.dims+d].sub(debits[d])
		}
	}
}

func (s *selection) entries(u *unit) (takes, debits []int64) {
	if u.row != columnar.None {
		v := s.tenancy.vec(s.s.View.Class[u.row])
		return v, v
	}
	return u.takes, u.debits
}

// balance recomputes the ledger from the chosen units.
func (s *selection) balance() {
	clear(s.ledger.takes)
	clear(s.ledger.debits)
	for i := range s.chosen {
		s.enter(&s.chosen[i])
	}
	s.findTerms()
}

// openTenantUnits makes a tenant the one at work: nextSingle and nextOfTenant then read its
// ranges.
func (s *selection) openTenantUnits(b *tenantUnits) {
	s.victimGroupAt, s.victimGroupTo, s.extraAt, s.extraTo = b.victimGroupAt, b.victimGroupTo, b.extraAt, b.extraTo
	s.bandAt, s.wholeTo, s.term = b.wholeAt, b.wholeTo, b.term
}

// closeTenantUnits saves the read positions of the tenant at work.
func (s *selection) closeTenantUnits(b *tenantUnits) {
	b.victimGroupAt, b.extraAt, b.wholeAt = s.victimGroupAt, s.extraAt, s.bandAt
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
			s.renewTerm(u.giver)
		}
	}
	return true
}

// renewTerm recomputes a tenant's term after a debit.
func (s *selection) renewTerm(giver int32) {
	for i := range s.unitsByTenant {
		if s.unitsByTenant[i].giver == giver {
			s.unitsByTenant[i].term = s.termOf(giver)
		}
	}
}

// nextOfTenants returns the unit with the smallest key; whole is its index if it is a whole
// gang, else −1.
func (s *selection) nextOfTenants(gangs bool) (best unit, whole int, ok bool) {
	whole = -1
	for i := range s.unitsByTenant {
		b := &s.unitsByTenant[i]
		if ok && (!best.key.paid || best.key.tenant < b.term) {
			continue
		}
		s.openTenantUnits(b)
		u, found := s.nextSingle(s.lacks)
		w := -1
		if !found && gangs { // within a tenant every single unit goes before whole gangs
			if w = s.nextOfTenant(); w >= 0 {
				u, found = s.wholes[w], true
			}
		}
		s.closeTenantUnits(b)
		if found && (!ok || u.key.compare(&best.key) < 0) {
			best, whole, ok = u, w, true
		}
	}
	return best, whole, ok
}

// nextOfTenant returns the index of the tenant's whole gang with the smallest key that has
// something of what is missing and is admitted, −1 = none.
func (s *selection) nextOfTenant() int {
	for s.bandAt < s.wholeTo {
		band, best, to := s.wholes[s.bandAt].key.band, -1, s.bandAt
		for ; to < s.wholeTo && s.wholes[to].key.band == band; to++ {
			u := &s.wholes[to]
			if positive(u.local)&s.lacks == 0 || !s.admitsUnit(u) {
				continue
			}
			if best >= 0 && s.wholes[best].key.roi == -thetaSteps {
				continue // the ROI cannot be better, and the keys of those behind are otherwise larger
			}
			u.key.roi, u.key.tenant = -roiSteps(u.local, u.global, s.left), s.term
			s.probes++
			if best < 0 || u.key.roi < s.wholes[best].key.roi {
				best = to
			}
		}
		if best >= 0 {
			return best
		}
		s.bandAt = to
	}
	return -1
}

// wholesAdmitted is wholesBefore, limited to gangs that the ledger admits.
func (s *selection) wholesAdmitted(list []unit, limit *unitKey, u *unit, only []int64) []unit {
	mask := positive(only)
	for i := range s.wholes {
		v := s.wholes[i]
		if v.key.band > limit.band {
			break
		}
		if !s.admitsUnit(&v) || positive(s.gangs.shapes[v.shape].local)&mask == 0 {
			continue
		}
		v.key.tenant, v.key.roi = s.termOf(v.giver), s.roiOfAll(v.shape, only)
		if v.key.compare(limit) < 0 && (v.gang != u.gang || u.key.class != classWhole) && !s.overlaps(&v) {
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
		if !s.k.acceptsClass(f.class) || !s.offered(f) || f.excess && s.spares(f) {
			continue
		}
		for _, r := range f.rows {
			if s.isFreeOf(f.alike, r) && s.isPlaced(r) {
				return true
			}
		}
	}
	return false
}

// mayEnter reports whether the ledger admits a unit; true outside of reclaim between tenants.
func (s *selection) mayEnter(u *unit) bool { return !s.reclaiming || s.admitsUnit(u) }
