package engine

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// sameDomain is one domain (or cell) as phase 2 sees it for one need.
type sameDomain struct {
	value uint32
	// tried: it was examined, or is no choice.
	tried     bool
	available []int64 // what the need has there, and what is free
	potential []int64 // available, plus what drains for the need and what is preemptable
}

// preemptSame looks for a domain that can be freed whole, with victims one by one: phase 1's
// domain first, then those with the largest potential, at most TopDomains. A partial cover is
// of no use, so either all victims of a plan are taken or none.
func (l *worker) preemptSame(need int32, k *state.Kind) {
	n := &l.p.lines[need]
	l.search.vecs.Empty()
	if l.hopeless(need, k) {
		return
	}
	l.sumDomainTotals(need, k)
	for range l.p.e.opts.TopDomains {
		d := l.nextCell(need)
		if d == nil {
			break
		}
		candidates := l.p.candidates.poolOf[k.Number].in(l.p, k.Matcher, d.value)
		lacking := l.lackingIn(need, d)
		copy(l.missing, lacking)
		l.p.subInFlight(need, k, d.value, l.missing)
		l.search.wanted = append(l.search.wanted[:0], l.missing...)
		missing := l.search.wanted
		l.lacks = positive(missing)
		chosen, _ := l.selectVictims(candidates, need, k)
		l.p.noteTried(need, d, len(candidates.list), l.lacks == 0, missing)
		if l.lacks != 0 {
			continue
		}
		n.Status |= state.IsAwaiting
		l.p.countInFlight(need, k, d.value, lacking)
		if d.value != n.Domain {
			l.withhold(need, d.value)
		}
		l.commit(l.p.giveBack(chosen, missing), need, k)
		return
	}
	if d := l.search.domainTotals.find(n.Domain); d != nil {
		l.p.countInFlight(need, k, d.value, l.lackingIn(need, d))
	}
}

// domainTotalsBound holds, for needs of one kind, an upper bound per domain: what is free plus
// what could be preempted, whichever cluster has it. What a need already has there is not part
// of it. most is the largest of the bounds, per dimension. It is valid until machines are put
// back.
type domainTotalsBound struct {
	domains []int64 // the bounds, vector after vector
	most    []int64
	at      map[uint32]int // by value: index in domains at which its vector begins
	// epoch is worker.epoch when the bounds were formed, 0 = not formed.
	epoch uint64
}

// covers reports whether the bound of some domain covers a vector.
func (x *domainTotalsBound) covers(want []int64) bool {
	if !columnar.Covers(x.most, want) {
		return false
	}
	n := len(x.most)
	for at := 0; at < len(x.domains); at += n {
		if columnar.Covers(x.domains[at:at+n], want) {
			return true
		}
	}
	return false
}

// hopeless reports whether the memoized bounds show that no domain can be freed whole. That is
// so for most gangs that are short.
func (l *worker) hopeless(need int32, k *state.Kind) bool {
	n := &l.p.lines[need]
	if l.p.e.opts.Explain || n.Is(state.IsPinned) || l.p.reserved.Has(need) {
		return false
	}
	if l.p.candidates.totalBounds[k.Number].epoch != l.p.stock.epoch {
		l.boundDomainTotals(k)
	}
	if l.p.candidates.totalBounds[k.Number].covers(l.p.aggregate(need)) || l.ownHelps(need, k) {
		return false
	}
	list := l.p.candidates.poolOf[k.Number].list[l.p.candidates.poolOf[k.Number].at:]
	for i := range list {
		l.figures.probes++
		if l.p.eligible(&list[i], need, k) && l.p.inAnyDomain(k.Matcher, list[i].row) {
			n.Status |= state.HasCandidates
			break
		}
	}
	return true
}

// ownHelps reports whether a domain could cover a need once what the need has there, which the
// bound leaves out, is added.
func (l *worker) ownHelps(need int32, k *state.Kind) bool {
	domainTotals := &l.search.domainTotals
	domainTotals.reset(l.p.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.p.s.Supply.Domain(k.Matcher, r); ok {
			columnar.SatAdd(domainTotals.of(v, l.p.dims).available, l.p.vec(r))
		}
	}
	l.eachOwn(need, k, func(r columnar.Row) {
		if l.p.s.View.State[r] != model.Configured || l.p.e.store.priority[r] >= k.Priority || l.p.reserved.Live(r) {
			add(r) // the others are candidates, so the bound counts them
		}
	})
	for r := l.p.lines[need].Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		add(r)
	}
	for i := range domainTotals.list {
		d := &domainTotals.list[i]
		if at, ok := l.p.candidates.totalBounds[k.Number].at[d.value]; ok {
			columnar.SatAdd(d.available, l.p.candidates.totalBounds[k.Number].domains[at:at+l.p.dims])
		}
		if columnar.Covers(d.available, l.p.aggregate(need)) {
			return true
		}
	}
	return false
}

// boundDomainTotals forms the bounds of a kind.
func (l *worker) boundDomainTotals(k *state.Kind) {
	domainTotals := &l.search.domainTotals
	domainTotals.reset(l.p.s.Supply.ValueIDMax())
	d := l.domainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			if sh := &d.Shelves[i]; sh.Left > 0 && k.AcceptsClass(sh.Class) {
				columnar.SatAddScaled(domainTotals.of(ds.Value, l.p.dims).potential, l.p.vector(sh.Class), int64(sh.Left))
			}
		}
	}
	for value, v := range l.p.candidates.poolOf[k.Number].domains(l.p, k.Matcher) {
		for i := range v.list {
			if r := v.list[i].row; k.AcceptsClass(l.p.s.View.Class[r]) && !l.p.isTaken(&v.list[i]) {
				columnar.SatAdd(domainTotals.of(value, l.p.dims).potential, l.p.vec(r))
			}
		}
	}
	l.keepBound(k)
}

// keepBound stores the sums in l.domainTotals as the bounds of a kind.
func (l *worker) keepBound(k *state.Kind) {
	domainTotals := &l.search.domainTotals
	l.p.candidates.totalBounds[k.Number].most, l.p.candidates.totalBounds[k.Number].epoch = reuse.Resize(l.p.candidates.totalBounds[k.Number].most, l.p.dims), l.p.stock.epoch
	l.p.candidates.totalBounds[k.Number].domains = l.p.candidates.totalBounds[k.Number].domains[:0]
	if l.p.candidates.totalBounds[k.Number].at == nil {
		l.p.candidates.totalBounds[k.Number].at = map[uint32]int{}
	}
	clear(l.p.candidates.totalBounds[k.Number].at)
	for i := range domainTotals.list {
		l.p.candidates.totalBounds[k.Number].at[domainTotals.list[i].value] = len(l.p.candidates.totalBounds[k.Number].domains)
		l.p.candidates.totalBounds[k.Number].domains = append(l.p.candidates.totalBounds[k.Number].domains, domainTotals.list[i].potential...)
		for dim, x := range domainTotals.list[i].potential {
			l.p.candidates.totalBounds[k.Number].most[dim] = max(l.p.candidates.totalBounds[k.Number].most[dim], x)
		}
	}
}

// nextCell returns the best domain that was not tried: phase 1's, then by the capped score of
// its potential, then by value as text. It returns nil when no further domain can cover the
// need. The first usually succeeds, so the domains are scanned and not sorted.
func (l *worker) nextCell(need int32) *sameDomain {
	n := &l.p.lines[need]
	want := l.p.aggregate(need)
	var best *sameDomain
	for i := range l.search.domainTotals.list {
		d := &l.search.domainTotals.list[i]
		switch {
		case d.tried:
		case d.value == n.Domain:
			d.tried = true
			return d
		case best == nil || l.p.betterCell(d, best, want):
			best = d
		}
	}
	// Domains that could cover have the largest possible score, so if the best does not, none
	// does.
	if best == nil || !l.p.e.opts.Explain && !columnar.Covers(best.potential, want) {
		return nil
	}
	best.tried = true
	return best
}

func (fl *fleet) betterCell(a, b *sameDomain, want []int64) bool {
	if c := exact.CompareScores(a.potential, b.potential, want, true); c != 0 {
		return c > 0
	}
	return domains.Less(fl.s.Supply, a.value, b.value)
}

// lackingIn returns what the need would lack in a domain before any victim.
func (l *worker) lackingIn(need int32, d *sameDomain) []int64 {
	v := l.copyOf(l.p.aggregate(need))
	columnar.SubClamp(v, d.available)
	return v
}

// withhold takes back what the need acquired in phase 1: its plan goes to another domain, where
// these machines are of no use.
func (l *worker) withhold(need int32, domain uint32) {
	n := &l.p.lines[need]
	for r := n.Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		l.withholdMachine(r, need)
	}
	l.p.claims.Filter(need, n)
	n.Domain, n.Status = domain, n.Status|state.IsWithheld
	l.p.preempted.withheld = append(l.p.preempted.withheld, need) // the domain it was credited in is forgotten
}

// withholdMachine takes back a machine that a need acquired.
func (l *worker) withholdMachine(r columnar.Row, need int32) {
	l.p.claims.Release(r)
	l.p.preempted.withheldBy[r] = need
	l.p.noteFreed(r)
	l.putBack(r)
	l.p.tenants.noteMoved(r)
}

// sumDomainTotals sums up what the need could have in each domain, and sets HasCandidates if
// any holds something to preempt. A pinned need has only its own domain.
func (l *worker) sumDomainTotals(need int32, k *state.Kind) {
	n := &l.p.lines[need]
	domainTotals := &l.search.domainTotals
	domainTotals.reset(l.p.s.Supply.ValueIDMax())
	l.sumAvailable(need, k)
	for value, list := range l.p.candidates.poolOf[k.Number].domains(l.p, k.Matcher) {
		if n.Is(state.IsPinned) && value != n.Domain {
			continue
		}
		for i := range list.list {
			l.figures.probes++
			if l.p.eligible(&list.list[i], need, k) {
				n.Status |= state.HasCandidates
				columnar.SatAdd(domainTotals.of(value, l.p.dims).potential, l.p.vec(list.list[i].row))
			}
		}
	}
	for i := range domainTotals.list {
		d := &domainTotals.list[i]
		columnar.SatAdd(d.potential, d.available)
		d.tried = n.Is(state.IsPinned) && d.value != n.Domain
	}
}

// domainTotalsTable holds the domains of the need at work.
type domainTotalsTable struct {
	list []sameDomain
	at   []int32 // by value: 1 + index in list
	reuse.VectorBlock
}

func (x *domainTotalsTable) reset(values int) {
	for i := range x.list {
		x.at[x.list[i].value] = 0
	}
	if len(x.at) < values {
		x.at = make([]int32, values)
	}
	x.list = x.list[:0]
	x.Empty()
}

// find returns a domain, nil when it has no entry. The pointer is valid until the next call of
// of.
func (x *domainTotalsTable) find(value uint32) *sameDomain {
	if value == 0 || x.at[value] == 0 {
		return nil
	}
	return &x.list[x.at[value]-1]
}

// of returns the entry of a domain, and adds it if there is none.
func (x *domainTotalsTable) of(value uint32, dims int) *sameDomain {
	if d := x.find(value); d != nil {
		return d
	}
	x.list = append(x.list, sameDomain{value: value, available: x.Take(dims), potential: x.Take(dims)})
	x.at[value] = int32(len(x.list))
	return &x.list[len(x.list)-1]
}

// sumAvailable adds up, by domain, what the need would have without preemption: its own, other
// machines of its cluster that serve no need ranked above it and are no victims, and what is
// free. What drains for it is added to the potential.
func (l *worker) sumAvailable(need int32, k *state.Kind) {
	n := &l.p.lines[need]
	domainTotals := &l.search.domainTotals
	add := func(r columnar.Row) {
		if v, ok := l.p.cell(k.Matcher, r); ok && k.AcceptsClass(l.p.s.View.Class[r]) {
			columnar.SatAdd(domainTotals.of(v, l.p.dims).available, l.p.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := n.Acquired; r != columnar.None; r = l.p.claims.Next(r) {
		add(r)
	}
	if l.p.candidates.cut != nil || l.p.reserved.Has(need) {
		l.eachFree(need, k, add)
	} else {
		l.addFreeTotals(k)
	}
	for _, r := range l.p.heldFor(need) {
		if v, ok := l.p.cell(k.Matcher, r); ok && l.p.arrives(r, need, k) {
			columnar.SatAdd(domainTotals.of(v, l.p.dims).potential, l.p.vec(r))
		}
	}
}

// eachOwn calls f for every machine bound to the need's cluster, or created for it, that suits
// it, serves no need ranked above it, and is neither a victim nor counted on by a plan. With
// victims by gangs, the recorded lowest priority of a class prunes most classes.
func (l *worker) eachOwn(need int32, k *state.Kind, f func(columnar.Row)) {
	c := int(l.p.lines[need].Cluster)
	rank := l.p.rankOf[need]
	mine := func(r columnar.Row) bool {
		h := l.p.claims.Of(r)
		return (h == state.Unclaimed || l.p.rankOf[h] >= rank) && !l.p.preempted.victimOf.Has(uint32(r)) && l.p.preempted.takenBy(r) == order.None
	}
	bound, cheapest := l.p.s.BoundOf(c), l.p.e.store.clusters[c].cheapest
	noted, configured := l.p.e.opts.Victims == VictimsGang, l.p.s.Configured(c)
	l.search.passed = reuse.Resize(l.search.passed, len(k.Accepts))
	for i, g := range l.p.s.GroupsOf(c) {
		if !k.AcceptsClass(g.Class) {
			continue
		}
		if noted && cheapest[i].priority > k.Priority {
			l.search.passed[g.Class>>6] |= 1 << (g.Class & 63)
			continue
		}
		for at := g.First + 1; at != 0; at = bound[at-1].Next {
			if r := bound[at-1].Row; mine(r) {
				f(r)
			}
		}
	}
	// The recorded priorities cover Configured machines only.
	for _, b := range bound[configured:l.p.s.CreatingFrom(c)] {
		if l.search.passed[b.Class>>6]>>(b.Class&63)&1 != 0 && mine(b.Row) {
			f(b.Row)
		}
	}
	for _, b := range bound[l.p.s.CreatingFrom(c):] {
		if l.p.isOwn(b.Row, need) && mine(b.Row) && k.AcceptsClass(b.Class) {
			f(b.Row)
		}
	}
}

// addFreeTotals adds what is free to the domains, shelf by shelf.
func (l *worker) addFreeTotals(k *state.Kind) {
	d := l.domainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			l.figures.probes++
			if sh := &d.Shelves[i]; sh.Left > 0 && k.AcceptsClass(sh.Class) {
				columnar.SatAddScaled(l.search.domainTotals.of(ds.Value, l.p.dims).available, l.p.vector(sh.Class), int64(sh.Left))
			}
		}
	}
}

// eachFree calls f for every machine that the need's matcher accepts, that no need claims, and
// that is not held for an owner ranked above the need.
func (l *worker) eachFree(need int32, k *state.Kind, f func(columnar.Row)) {
	d := l.domainsFor(k.Matcher)
	for _, ds := range d.Of(k.Matcher).List {
		for _, i := range ds.Shelves {
			for _, r := range d.Shelves[i].Rows {
				l.figures.probes++
				if l.isFreeFor(r, need) {
					f(r)
				}
			}
		}
	}
}
