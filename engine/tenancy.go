package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Reclaim between tenants is a second turn, after all of phase 2, of the needs
// that priority has not helped: over units of at most their own priority, of
// tenants that have more than their share. A turn sees what everybody has when
// it begins; what the plans before it moved is counted then.

// noTenant is whom nothing is debited to.
const noTenant int32 = -1

// tenancy is who has what.
type tenancy struct {
	policy []Tenant
	// clusters are those of all tenants, also of which nothing is known.
	clusters map[string]bool
	of       []int32  // by cluster: the tenant, or noTenant
	dims     int      // that a share names and some machine has
	share    []int64  // tenant after tenant; 0 = the share does not name it
	vecs     []int64  // class after class: what a machine offers of these
	sums     []wide   // tenant after tenant: what they have
	has      []int64  // the same, as amounts
	above    []bool   // by tenant: it has more of a dimension than its share
	givers   int      // how many are above
	holder   []int32  // by row: 1 + the tenant that has the machine
	taker    int32    // whose turn it is
	full     []bool   // by class: one machine more would bring the taker above its share
	fullOf   fullness // what full was found for
	// What the last turn found whose taker was full.
	vain      vainTurn
	vainFound status
	changes   int   // how often what anybody has changed
	dimsAt    []int // which they are of the snapshot's
	// moved are machines that somebody else may have by now.
	moved []columnar.Row
	// used and counted are what the plans of a need count on: of units and free
	// machines, and in flight; countedBy is the latter by machine.
	used, counted map[int32][]columnar.Row
	countedBy     map[columnar.Row]int32
	keepCounts    bool // the turn at work left alone what is in flight
}

// fullness is a taker, and how often what anybody has had changed by then.
type fullness struct {
	taker   int32
	changes int
	known   bool
}

// findTenants prepares what the policy looks at; nil without one.
func (p *pass) findTenants() *tenancy {
	policy := p.e.opts.Tenancy.Tenants
	if len(policy) == 0 || p.e.opts.Victims != VictimsGang {
		return nil
	}
	t := &tenancy{
		policy: policy, clusters: map[string]bool{}, of: alloc.MakeDirty[int32](p.e.arena, len(p.s.Clusters)),
		used: map[int32][]columnar.Row{}, counted: map[int32][]columnar.Row{}, countedBy: map[columnar.Row]int32{},
	}
	for c := range t.of {
		t.of[c] = noTenant
	}
	named := map[string]bool{}
	for i := range policy {
		for _, id := range policy[i].Clusters {
			t.clusters[id] = true
			if c := p.clusterByName(id); c >= 0 {
				t.of[c] = int32(i)
			}
		}
		for _, a := range policy[i].Share {
			named[a.Name] = true
		}
	}
	var at []int
	for d, name := range p.s.Dims {
		if named[name] {
			at = append(at, d)
		}
	}
	t.dims, t.dimsAt = len(at), at
	t.share = alloc.Make[int64](p.e.arena, len(policy)*t.dims)
	for i := range policy {
		for d, from := range at {
			t.share[i*t.dims+d] = policy[i].Share.Get(p.s.Dims[from])
		}
	}
	t.vecs = alloc.MakeDirty[int64](p.e.arena, len(p.s.Classes)*t.dims)
	for c := range p.s.Classes {
		for d, from := range at {
			t.vecs[c*t.dims+d] = p.s.Vector(uint32(c))[from]
		}
	}
	return t
}

// holds reports whether a reservation is of a plan for a tenant.
func (t *tenancy) holds(res *model.Reservation) bool {
	return t != nil && res.Plan != 0 && t.clusters[res.Owner.Cluster]
}

// vec returns what a machine of a class offers in the dimensions of shares.
func (t *tenancy) vec(class uint32) []int64 { return t.vecs[int(class)*t.dims:][:t.dims:t.dims] }

// shareOf returns a tenant's share, hasOf what it has.
func (t *tenancy) shareOf(tenant int32) []int64 {
	return t.share[int(tenant)*t.dims:][:t.dims:t.dims]
}

func (t *tenancy) hasOf(tenant int32) []int64 { return t.has[int(tenant)*t.dims:][:t.dims:t.dims] }

// gives reports whether units of a tenant may be taken in this turn.
func (t *tenancy) gives(tenant int32) bool {
	return tenant != noTenant && tenant != t.taker && t.above[tenant]
}

// measure adds up what everybody has.
func (t *tenancy) measure(l *lane) {
	n := len(t.policy)
	t.sums = alloc.Make[wide](l.e.arena, n*t.dims)
	t.has, t.above = alloc.Make[int64](l.e.arena, n*t.dims), alloc.Make[bool](l.e.arena, n)
	t.full = alloc.MakeDirty[bool](l.e.arena, len(l.s.Classes))
	t.holder = alloc.Make[int32](l.e.arena, l.s.Supply.RowMax())
	for _, r := range l.s.Order {
		if tenant := l.tenantOf(r); tenant != noTenant {
			t.holder[r] = tenant + 1
			t.add(tenant, l.s.View.Class[r])
		}
	}
	for i := range t.policy {
		t.settle(int32(i))
	}
}

// tenantOf returns the tenant that has a machine: it is bound to one of its
// clusters, and neither excess nor a victim; or one of its needs acquires it,
// or counts on it.
func (p *pass) tenantOf(r columnar.Row) int32 {
	t := p.tenancy
	claimer, bound := p.held[r].need, p.s.View.State[r].Bound()
	if cluster := p.s.ClusterOf[p.s.View.Cluster[r]]; bound && cluster >= 0 && !p.victimOf.Has(uint32(r)) && (claimer != unheld || !p.s.Demand.Reported(p.s.Supply.Cluster(r))) {
		return t.of[cluster]
	}
	if taker := p.takenBy(r); taker != noNeed {
		return t.of[p.lines[taker].cluster]
	}
	if need, counted := t.countedBy[r]; counted {
		return t.of[p.lines[need].cluster]
	}
	if claimer != unheld && !bound {
		return t.of[p.lines[claimer].cluster]
	}
	return noTenant
}

func (t *tenancy) add(tenant int32, class uint32) {
	for d, v := range t.vec(class) {
		t.sums[int(tenant)*t.dims+d].add(v)
	}
}

func (t *tenancy) sub(tenant int32, class uint32) {
	for d, v := range t.vec(class) {
		t.sums[int(tenant)*t.dims+d].sub(v)
	}
}

// settle finds out whether a tenant is above its share.
func (t *tenancy) settle(tenant int32) {
	above := false
	has, share := t.hasOf(tenant), t.shareOf(tenant)
	for d := range has {
		has[d] = t.sums[int(tenant)*t.dims+d].value()
		above = above || share[d] > 0 && has[d] > share[d]
	}
	if above != t.above[tenant] {
		t.above[tenant] = above
		if t.givers--; above {
			t.givers += 2
		}
	}
}

// begin opens a tenant's turn with what the turns before it have moved.
func (t *tenancy) begin(l *lane, taker int32) {
	t.taker = taker
	for _, r := range t.moved {
		was, is := t.holder[r]-1, l.tenantOf(r)
		if was == is {
			continue
		}
		class := l.s.View.Class[r]
		t.holder[r] = is + 1
		t.changes++
		if was != noTenant {
			t.sub(was, class)
			t.settle(was)
		}
		if is != noTenant {
			t.add(is, class)
			t.settle(is)
		}
	}
	t.moved = t.moved[:0]
}

// isFull reports whether no machine that serves a kind would leave the taker
// within its share.
func (t *tenancy) isFull(k *kind, classes int) bool {
	if x := (fullness{t.taker, t.changes, true}); t.fullOf != x {
		t.fullOf = x
		has, share := t.hasOf(t.taker), t.shareOf(t.taker)
		for c := range classes {
			t.full[c] = !within(has, share, t.vec(uint32(c)))
		}
	}
	return !slices.ContainsFunc(k.classes, func(c uint32) bool { return !t.full[c] })
}

// within reports whether who has so much and takes some stays within a share,
// in the dimensions that it takes something of.
func within(has, share, takes []int64) bool {
	for d, v := range takes {
		if share[d] > 0 && v > 0 && satSum(has[d], v) > share[d] {
			return false
		}
	}
	return true
}

// reclaimBetweenTenants gives the needs of tenants that are short, and have no
// plan that covers them, a second turn.
func (l *lane) reclaimBetweenTenants() {
	t := l.tenancy
	if t == nil {
		return
	}
	l.dropUnitPools()
	l.reopen()
	t.measure(l)
	l.reclaiming = true
	for rank, lacks := range l.lacking[:len(l.order)] {
		if !lacks {
			continue
		}
		need, k := l.order[rank], &l.kinds[l.kindAt[rank]]
		n := &l.lines[need]
		taker := t.of[n.cluster]
		switch {
		case n.status&(isSatisfied|isParked|isAwaiting) != 0:
			continue
		case taker == noTenant:
			l.noteNoTurn(need, turnNoTenant)
			continue
		case l.backsOff(need):
			l.noteNoTurn(need, turnBacksOff)
			continue
		}
		t.begin(l, taker)
		if l.e.opts.Explain || !l.nothingToReclaim(need, k) {
			l.blockUpTo(int32(rank))
			l.noteTurn(need, k)
			l.planAgain(need, k)
			l.noteVain(need, k)
		}
	}
	l.reclaiming = false
	l.settleVictims()
	l.joinPlans()
}

// dropUnitPools lets go of the pools of phase 2: with tenants, other units are
// there.
func (l *lane) dropUnitPools() {
	l.e.store.takeBackUnits()
	clear(l.unitPools)
	l.e.store.gangs.victims.forget()
	for _, x := range l.cuts {
		clear(x.pools)
	}
}

// nothingToReclaim reports whether the second turn of a need would find what
// the first did: nobody but the taker is above its share, or the taker may take
// nothing more; and nothing was put back that it could have had. Under hard spread fewer
// candidates may allow more.
func (l *lane) nothingToReclaim(need int32, k *kind) bool {
	t := l.tenancy
	if len(l.withheldBy)+len(l.reserved.voided) > 0 || len(k.spread) > 0 {
		return false
	}
	others := t.givers
	if t.above[t.taker] {
		others--
	}
	n := &l.lines[need]
	if v := l.inVainFor(need); v.plans > 0 && v == t.vain {
		n.status |= t.vainFound
		return true
	}
	return others == 0 || n.is(hasCandidates) && t.isFull(k, len(l.s.Classes))
}

// vainTurn is a turn of a taker that may take no machine more, and what had happened by
// then: a need of the same kind and cluster finds what that one found.
type vainTurn struct {
	cluster        int32
	kind           uint32
	changes, plans int
}

// inVainFor returns the turn of a need that looks wherever its kind may; the zero value for
// others.
func (l *lane) inVainFor(need int32) vainTurn {
	n := &l.lines[need]
	if n.is(isPinned) || l.reserved.had(need) || l.e.opts.Explain || l.searchEnded() {
		return vainTurn{}
	}
	return vainTurn{n.cluster, n.kind, l.tenancy.changes, len(l.plans) + 1}
}

// noteVain keeps whether the turn at work has found anybody to preempt, if its taker may
// take no machine more.
func (l *lane) noteVain(need int32, k *kind) {
	t := l.tenancy
	if t.vain = (vainTurn{}); t.isFull(k, len(l.s.Classes)) {
		t.vain, t.vainFound = l.inVainFor(need), l.lines[need].status&hasCandidates
	}
}

// planAgain makes a second plan for a need. What is in flight for it is counted
// anew; nobody else may count on what it counted on before.
func (l *lane) planAgain(need int32, k *kind) {
	t, n := l.tenancy, &l.lines[need]
	counted, inFlight := t.counted[need], l.inFlight[need]
	for _, r := range counted {
		l.flying.Clear(uint32(r))
	}
	delete(l.inFlight, need)
	if t.counted[need] = nil; !n.is(hasOwnPlan) {
		n.status &^= hasPlan
	}
	t.keepCounts = false
	l.planFor(need, k)
	for _, r := range counted {
		l.flying.Set(uint32(r))
	}
	if t.keepCounts && len(counted) > 0 {
		t.counted[need], l.inFlight[need] = counted, inFlight
		n.status |= hasPlan
	}
}

// joinPlans makes one plan of the two of each need, and lists plans and victims
// by rank again.
func (l *lane) joinPlans() {
	slices.SortStableFunc(l.victims, func(a, b victim) int { return cmp.Compare(l.rankOf[a.need], l.rankOf[b.need]) })
	slices.SortStableFunc(l.plans, func(a, b plan) int { return cmp.Compare(l.rankOf[a.need], l.rankOf[b.need]) })
	joined := l.plans[:0]
	for _, x := range l.plans {
		if n := len(joined); n > 0 && joined[n-1].need == x.need {
			joined[n-1].grace = max(joined[n-1].grace, x.grace)
			continue
		}
		joined = append(joined, x)
	}
	l.plans = joined
}

// noteMoved notes that somebody else may have a machine from now on.
func (p *pass) noteMoved(r columnar.Row) {
	if p.reclaiming {
		p.tenancy.moved = append(p.tenancy.moved, r)
	}
}

// noteCounted notes that a need counts on a machine in flight.
func (p *pass) noteCounted(r columnar.Row, need int32) {
	if t := p.tenancy; t != nil {
		t.counted[need] = append(t.counted[need], r)
		t.countedBy[r] = need
		p.noteMoved(r)
	}
}

// noteUsed notes what a need's plan counts on.
func (p *pass) noteUsed(rows []columnar.Row, need int32) {
	if t := p.tenancy; t != nil && len(rows) > 0 {
		t.used[need] = append(t.used[need], rows...)
	}
}

// subUsedBefore takes off what is missing, in the second plan of a need, what
// the first counts on, and returns it.
func (l *lane) subUsedBefore(need int32) []columnar.Row {
	if !l.reclaiming {
		return nil
	}
	used := l.tenancy.used[need]
	for _, r := range used {
		columnar.SubClamp(l.missing, l.vec(r))
	}
	return used
}

// wide is a sum of amounts that does not overflow.
type wide struct{ hi, lo uint64 }

func (w *wide) add(v int64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, uint64(v), 0)
	w.hi += carry
}

func (w *wide) sub(v int64) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, uint64(v), 0)
	w.hi -= borrow
}

// value returns the sum, at most math.MaxInt64.
func (w *wide) value() int64 {
	if w.hi > 0 || w.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(w.lo)
}
