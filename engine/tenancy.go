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

// Reclaim between tenants is a second turn, after all of phase 2, for the needs that priority
// has not helped. It takes units of at most the need's own priority, from tenants that have
// more than their share. A turn sees what every tenant has when it begins, including what the
// plans of earlier turns moved.

// noTenant is the giver of units that are debited to no tenant.
const noTenant int32 = -1

// tenancy is which tenant has what.
type tenancy struct {
	policy []Tenant
	// clusters are those of all tenants, also clusters that the snapshot does not know.
	clusters map[string]bool
	of       []int32  // by cluster: its tenant, or noTenant
	dims     int      // number of dimensions that a share names and some machine has
	share    []int64  // by tenant, dims values each; 0 = the share does not name the dimension
	vecs     []int64  // by class, dims values each: what a machine offers
	sums     []wide   // by tenant, dims values each: what the tenant has, exactly
	has      []int64  // the same, saturated
	above    []bool   // by tenant: it has more than its share in some dimension
	givers   int      // number of tenants that are above
	holder   []int32  // by row: 1 + the tenant that has the machine; 0 = none
	taker    int32    // the tenant whose turn it is
	full     []bool   // by class: one machine more would bring the taker above its share
	fullOf   fullness // what full was computed for
	// exhausted and exhaustedFound memoize the last turn whose taker could take no machine
	// more.
	exhausted      exhaustedTurn
	exhaustedFound status
	changes        int   // version counter of who has what
	dimsAt         []int // the dimensions' indices in the snapshot's
	// moved is a log of machines that another tenant may have by now.
	moved []columnar.Row
	// used and counted are, by need, what its plans count on: used are machines of units and
	// free ones, counted those in flight. countedBy is counted by machine.
	used, counted map[int32][]columnar.Row
	countedBy     map[columnar.Row]int32
	keepCounts    bool // the turn at work did not touch what is in flight
}

// fullness is what tenancy.full depends on: a taker, and tenancy.changes.
type fullness struct {
	taker   int32
	changes int
	known   bool
}

// findTenants prepares what the policy looks at; nil without a policy.
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

// holds reports whether a reservation belongs to a plan for a tenant.
func (t *tenancy) holds(res *model.Reservation) bool {
	return t != nil && res.Plan != 0 && t.clusters[res.Owner.Cluster]
}

// vec returns what a machine of a class offers in the dimensions of shares.
func (t *tenancy) vec(class uint32) []int64 { return t.vecs[int(class)*t.dims:][:t.dims:t.dims] }

// shareOf returns a tenant's share.
func (t *tenancy) shareOf(tenant int32) []int64 {
	return t.share[int(tenant)*t.dims:][:t.dims:t.dims]
}

// hasOf returns what a tenant has.
func (t *tenancy) hasOf(tenant int32) []int64 { return t.has[int(tenant)*t.dims:][:t.dims:t.dims] }

// gives reports whether units of a tenant may be taken in this turn.
func (t *tenancy) gives(tenant int32) bool {
	return tenant != noTenant && tenant != t.taker && t.above[tenant]
}

// measure adds up what every tenant has.
func (t *tenancy) measure(l *worker) {
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

// tenantOf returns the tenant that has a machine. A bound machine belongs to its cluster's
// tenant unless it is excess or a victim. Otherwise a machine belongs to the tenant whose need
// acquires it or counts on it.
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

// settle recomputes whether a tenant is above its share.
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

// begin opens a tenant's turn. It updates the sums by what earlier turns moved: incremental,
// one update per moved machine.
func (t *tenancy) begin(l *worker, taker int32) {
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

// isFull reports whether every class that serves a kind would bring the taker above its share.
// The answer by class is memoized; see fullness.
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

// within reports whether taking more keeps a tenant within its share, in the dimensions in
// which it takes something. 0 in share = no limit.
func within(has, share, takes []int64) bool {
	for d, v := range takes {
		if share[d] > 0 && v > 0 && satSum(has[d], v) > share[d] {
			return false
		}
	}
	return true
}

// reclaimBetweenTenants gives a second turn to the needs of tenants that are short and have no
// plan that covers them.
func (l *worker) reclaimBetweenTenants() {
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
			l.noteExhausted(need, k)
		}
	}
	l.reclaiming = false
	l.settleVictims()
	l.joinPlans()
}

// dropUnitPools drops the pools of phase 2: between tenants other units are available.
func (l *worker) dropUnitPools() {
	l.e.store.takeBackUnits()
	clear(l.unitPools)
	l.e.store.gangs.victims.forget()
	for _, x := range l.cuts {
		clear(x.pools)
	}
}

// nothingToReclaim reports whether the second turn of a need can find nothing new. Nothing was
// put back, and either no other tenant is above its share, or the taker may take nothing more
// and it is known that there are candidates, or a memoized turn found nothing. Exception: under
// hard spread fewer candidates may allow more, so such a need always has its turn.
func (l *worker) nothingToReclaim(need int32, k *kind) bool {
	t := l.tenancy
	if len(l.withheldBy)+len(l.reserved.voided) > 0 || len(k.spread) > 0 {
		return false
	}
	others := t.givers
	if t.above[t.taker] {
		others--
	}
	n := &l.lines[need]
	if v := l.exhaustedFor(need); v.plans > 0 && v == t.exhausted {
		n.status |= t.exhaustedFound
		return true
	}
	return others == 0 || n.is(hasCandidates) && t.isFull(k, len(l.s.Classes))
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
func (l *worker) exhaustedFor(need int32) exhaustedTurn {
	n := &l.lines[need]
	if n.is(isPinned) || l.reserved.had(need) || l.e.opts.Explain || l.searchEnded() {
		return exhaustedTurn{}
	}
	return exhaustedTurn{n.cluster, n.kind, l.tenancy.changes, len(l.plans) + 1}
}

// noteExhausted memoizes whether the turn at work found anything to preempt, if its taker may
// take no machine more.
func (l *worker) noteExhausted(need int32, k *kind) {
	t := l.tenancy
	if t.exhausted = (exhaustedTurn{}); t.isFull(k, len(l.s.Classes)) {
		t.exhausted, t.exhaustedFound = l.exhaustedFor(need), l.lines[need].status&hasCandidates
	}
}

// planAgain makes a second plan for a need. It counts anew what is in flight for the need, and
// keeps other needs from counting on what it counted on before.
func (l *worker) planAgain(need int32, k *kind) {
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

// joinPlans merges the two plans of each need into one, and sorts plans and victims by rank
// again.
func (l *worker) joinPlans() {
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

// noteMoved logs that another tenant may have a machine from now on.
func (p *pass) noteMoved(r columnar.Row) {
	if p.reclaiming {
		p.tenancy.moved = append(p.tenancy.moved, r)
	}
}

// noteCounted records that a need counts on a machine in flight.
func (p *pass) noteCounted(r columnar.Row, need int32) {
	if t := p.tenancy; t != nil {
		t.counted[need] = append(t.counted[need], r)
		t.countedBy[r] = need
		p.noteMoved(r)
	}
}

// noteUsed records what a need's plan counts on.
func (p *pass) noteUsed(rows []columnar.Row, need int32) {
	if t := p.tenancy; t != nil && len(rows) > 0 {
		t.used[need] = append(t.used[need], rows...)
	}
}

// subUsedBefore, in the second plan of a need, subtracts from what is missing what the first
// plan counts on, and returns that.
func (l *worker) subUsedBefore(need int32) []columnar.Row {
	if !l.reclaiming {
		return nil
	}
	used := l.tenancy.used[need]
	for _, r := range used {
		columnar.SubClamp(l.missing, l.vec(r))
	}
	return used
}

// wide is a 128-bit sum of amounts.
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

// value returns the sum, saturated at math.MaxInt64.
func (w *wide) value() int64 {
	if w.hi > 0 || w.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(w.lo)
}
