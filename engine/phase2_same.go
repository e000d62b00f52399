package engine

import (
	"github.com/tonnage/tonnage/columnar"
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
func (l *worker) preemptSame(need int32, k *kind) {
	n := &l.lines[need]
	l.vecs.empty()
	if l.hopeless(need, k) {
		return
	}
	l.sumDomainTotals(need, k)
	for range l.e.opts.TopDomains {
		d := l.nextCell(need)
		if d == nil {
			break
		}
		candidates := k.victims.in(l.pass, k.matcher, d.value)
		lacking := l.lackingIn(need, d)
		copy(l.missing, lacking)
		l.subInFlight(need, k, d.value, l.missing)
		l.wanted = append(l.wanted[:0], l.missing...)
		missing := l.wanted
		l.lacks = positive(missing)
		chosen, _ := l.selectVictims(candidates, need, k)
		l.noteTried(need, d, len(candidates.list), l.lacks == 0, missing)
		if l.lacks != 0 {
			continue
		}
		n.status |= isAwaiting
		l.countInFlight(need, k, d.value, lacking)
		if d.value != n.domain {
			l.withhold(need, d.value)
		}
		l.commit(l.giveBack(chosen, missing), need, k)
		return
	}
	if d := l.domainTotals.find(n.domain); d != nil {
		l.countInFlight(need, k, d.value, l.lackingIn(need, d))
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
func (l *worker) hopeless(need int32, k *kind) bool {
	n := &l.lines[need]
	if l.e.opts.Explain || n.is(isPinned) || l.reserved.has(need) {
		return false
	}
	if k.domainTotals.epoch != l.epoch {
		l.boundDomainTotals(k)
	}
	if k.domainTotals.covers(l.aggregate(need)) || l.ownHelps(need, k) {
		return false
	}
	list := k.victims.list[k.victims.at:]
	for i := range list {
		l.probes++
		if l.eligible(&list[i], need, k) && l.inAnyDomain(k.matcher, list[i].row) {
			n.status |= hasCandidates
			break
		}
	}
	return true
}

// ownHelps reports whether a domain could cover a need once what the need has there, which the
// bound leaves out, is added.
func (l *worker) ownHelps(need int32, k *kind) bool {
	domainTotals := &l.domainTotals
	domainTotals.reset(l.s.Supply.ValueIDMax())
	add := func(r columnar.Row) {
		if v, ok := l.s.Supply.Domain(k.matcher, r); ok {
			columnar.SatAdd(domainTotals.of(v, l.dims).available, l.vec(r))
		}
	}
	l.eachOwn(need, k, func(r columnar.Row) {
		if l.s.View.State[r] != model.Configured || l.e.store.priority[r] >= k.priority || l.reserved.live(r) {
			add(r) // the others are candidates, so the bound counts them
		}
	})
	for r := l.lines[need].acquired; r != columnar.None; r = l.held[r].next {
		add(r)
	}
	for i := range domainTotals.list {
		d := &domainTotals.list[i]
		if at, ok := k.domainTotals.at[d.value]; ok {
			columnar.SatAdd(d.available, k.domainTotals.domains[at:at+l.dims])
		}
		if columnar.Covers(d.available, l.aggregate(need)) {
			return true
		}
	}
	return false
}

// boundDomainTotals forms the bounds of a kind.
func (l *worker) boundDomainTotals(k *kind) {
	domainTotals := &l.domainTotals
	domainTotals.reset(l.s.Supply.ValueIDMax())
	d := l.domainsFor(k.matcher)
	for _, ds := range d.of(l.pass, k.matcher).list {
		for _, i := range ds.shelves {
			if sh := &d.shelves[i]; sh.left > 0 && k.acceptsClass(sh.class) {
				columnar.SatAddScaled(domainTotals.of(ds.value, l.dims).potential, l.vector(sh.class), int64(sh.left))
			}
		}
	}
	for value, v := range k.victims.domains(l.pass, k.matcher) {
		for i := range v.list {
			if r := v.list[i].row; k.acceptsClass(l.s.View.Class[r]) && !l.victimOf.Has(uint32(r)) {
				columnar.SatAdd(domainTotals.of(value, l.dims).potential, l.vec(r))
			}
		}
	}
	l.keepBound(k)
}

// keepBound stores the sums in l.domainTotals as the bounds of a kind.
func (l *worker) keepBound(k *kind) {
	domainTotals := &l.domainTotals
	k.domainTotals.most, k.domainTotals.epoch = resize(k.domainTotals.most, l.dims), l.epoch
	k.domainTotals.domains = k.domainTotals.domains[:0]
	if k.domainTotals.at == nil {
		k.domainTotals.at = map[uint32]int{}
	}
	clear(k.domainTotals.at)
	for i := range domainTotals.list {
		k.domainTotals.at[domainTotals.list[i].value] = len(k.domainTotals.domains)
		k.domainTotals.domains = append(k.domainTotals.domains, domainTotals.list[i].potential...)
		for dim, x := range domainTotals.list[i].potential {
			k.domainTotals.most[dim] = max(k.domainTotals.most[dim], x)
		}
	}
}

// nextCell returns the best domain that was not tried: phase 1's, then by the capped score of
// its potential, then by value as text. It returns nil when no further domain can cover the
// need. The first usually succeeds, so the domains are scanned and not sorted.
func (l *worker) nextCell(need int32) *sameDomain {
	n := &l.lines[need]
	want := l.aggregate(need)
	var best *sameDomain
	for i := range l.domainTotals.list {
		d := &l.domainTotals.list[i]
		switch {
		case d.tried:
		case d.value == n.domain:
			d.tried = true
			return d
		case best == nil || l.betterCell(d, best, want):
			best = d
		}
	}
	// Domains that could cover have the largest possible score, so if the best does not, none
	// does.
	if best == nil || !l.e.opts.Explain && !columnar.Covers(best.potential, want) {
		return nil
	}
	best.tried = true
	return best
}

func (l *worker) betterCell(a, b *sameDomain, want []int64) bool {
	if c := compareScores(a.potential, b.potential, want, true); c != 0 {
		return c > 0
	}
	return l.valueLess(a.value, b.value)
}

// lackingIn returns what the need would lack in a domain before any victim.
func (l *worker) lackingIn(need int32, d *sameDomain) []int64 {
	v := l.copyOf(l.aggregate(need))
	columnar.SubClamp(v, d.available)
	return v
}

// withhold takes back what the need acquired in phase 1: its plan goes to another domain, where
// these machines are of no use.
func (l *worker) withhold(need int32, domain uint32) {
	n := &l.lines[need]
	credited := columnar.None // the last one
	for r := n.head; r != n.acquired; r = l.held[r].next {
		credited = r
	}
	for r := n.acquired; r != columnar.None; r = l.held[r].next {
		l.withholdMachine(r, need)
	}
	if credited == columnar.None {
		n.head = columnar.None
	} else {
		l.held[credited].next = columnar.None
	}
	n.tail, n.acquired, n.domain = credited, columnar.None, domain
	n.status |= isWithheld
	l.withheld = append(l.withheld, need) // the domain it was credited in is forgotten
}

// withholdMachine takes back a machine that a need acquired.
func (l *worker) withholdMachine(r columnar.Row, need int32) {
	l.held[r].need = unheld
	l.withheldBy[r] = need
	l.noteFreed(r)
	l.putBack(r)
	l.noteMoved(r)
}

// sumDomainTotals sums up what the need could have in each domain, and sets hasCandidates if
// any holds something to preempt. A pinned need has only its own domain.
func (l *worker) sumDomainTotals(need int32, k *kind) {
	n := &l.lines[need]
	domainTotals := &l.domainTotals
	domainTotals.reset(l.s.Supply.ValueIDMax())
	l.sumAvailable(need, k)
	for value, list := range k.victims.domains(l.pass, k.matcher) {
		if n.is(isPinned) && value != n.domain {
			continue
		}
		for i := range list.list {
			l.probes++
			if l.eligible(&list.list[i], need, k) {
				n.status |= hasCandidates
				columnar.SatAdd(domainTotals.of(value, l.dims).potential, l.vec(list.list[i].row))
			}
		}
	}
	for i := range domainTotals.list {
		d := &domainTotals.list[i]
		columnar.SatAdd(d.potential, d.available)
		d.tried = n.is(isPinned) && d.value != n.domain
	}
}

// domainTotalsTable holds the domains of the need at work.
type domainTotalsTable struct {
	list []sameDomain
	at   []int32 // by value: 1 + index in list
	vectorBlock
}

func (x *domainTotalsTable) reset(values int) {
	for i := range x.list {
		x.at[x.list[i].value] = 0
	}
	if len(x.at) < values {
		x.at = make([]int32, values)
	}
	x.list = x.list[:0]
	x.empty()
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
	x.list = append(x.list, sameDomain{value: value, available: x.take(dims), potential: x.take(dims)})
	x.at[value] = int32(len(x.list))
	return &x.list[len(x.list)-1]
}

// vectorBlock lends out zeroed vectors until it is emptied.
type vectorBlock struct{ values []int64 }

func (b *vectorBlock) empty() { b.values = b.values[:0] }

// take returns n zeros. A full block is replaced by a larger one; vectors that were lent before
// stay valid.
func (b *vectorBlock) take(n int) []int64 {
	if len(b.values)+n > cap(b.values) {
		b.values = make([]int64, 0, max(2*cap(b.values), 64*n))
	}
	from := len(b.values)
	b.values = b.values[:from+n]
	v := b.values[from : from+n : from+n]
	clear(v)
	return v
}

// sumAvailable adds up, by domain, what the need would have without preemption: its own, other
// machines of its cluster that serve no need ranked above it and are no victims, and what is
// free. What drains for it is added to the potential.
func (l *worker) sumAvailable(need int32, k *kind) {
	n := &l.lines[need]
	domainTotals := &l.domainTotals
	add := func(r columnar.Row) {
		if v, ok := l.cell(k.matcher, r); ok && k.acceptsClass(l.s.View.Class[r]) {
			columnar.SatAdd(domainTotals.of(v, l.dims).available, l.vec(r))
		}
	}
	l.eachOwn(need, k, add)
	for r := n.acquired; r != columnar.None; r = l.held[r].next {
		add(r)
	}
	if l.cut != nil || l.reserved.has(need) {
		l.eachFree(need, k, add)
	} else {
		l.addFreeTotals(k)
	}
	for _, r := range l.heldFor(need) {
		if v, ok := l.cell(k.matcher, r); ok && l.arrives(r, need, k) {
			columnar.SatAdd(domainTotals.of(v, l.dims).potential, l.vec(r))
		}
	}
}

// eachOwn calls f for every machine bound to the need's cluster, or created for it, that suits
// it, serves no need ranked above it, and is neither a victim nor counted on by a plan. With
// victims by gangs, the recorded lowest priority of a class prunes most classes.
func (l *worker) eachOwn(need int32, k *kind, f func(columnar.Row)) {
	c := int(l.lines[need].cluster)
	rank := l.rankOf[need]
	mine := func(r columnar.Row) bool {
		h := l.held[r].need
		return (h == unheld || l.rankOf[h] >= rank) && !l.victimOf.Has(uint32(r)) && l.takenBy(r) == noNeed
	}
	bound, cheapest := l.s.BoundOf(c), l.e.store.clusters[c].cheapest
	noted, configured := l.e.opts.Victims == VictimsGang, l.s.Configured(c)
	l.passed = resize(l.passed, len(k.accepts))
	for i, g := range l.s.GroupsOf(c) {
		if !k.acceptsClass(g.Class) {
			continue
		}
		if noted && cheapest[i].priority > k.priority {
			l.passed[g.Class>>6] |= 1 << (g.Class & 63)
			continue
		}
		for at := g.First + 1; at != 0; at = bound[at-1].Next {
			if r := bound[at-1].Row; mine(r) {
				f(r)
			}
		}
	}
	// The recorded priorities cover Configured machines only.
	for _, b := range bound[configured:l.s.CreatingFrom(c)] {
		if l.passed[b.Class>>6]>>(b.Class&63)&1 != 0 && mine(b.Row) {
			f(b.Row)
		}
	}
	for _, b := range bound[l.s.CreatingFrom(c):] {
		if l.isOwn(b.Row, need) && mine(b.Row) && k.acceptsClass(b.Class) {
			f(b.Row)
		}
	}
}

// addFreeTotals adds what is free to the domains, shelf by shelf.
func (l *worker) addFreeTotals(k *kind) {
	d := l.domainsFor(k.matcher)
	for _, ds := range d.of(l.pass, k.matcher).list {
		for _, i := range ds.shelves {
			l.probes++
			if sh := &d.shelves[i]; sh.left > 0 && k.acceptsClass(sh.class) {
				columnar.SatAddScaled(l.domainTotals.of(ds.value, l.dims).available, l.vector(sh.class), int64(sh.left))
			}
		}
	}
}

// eachFree calls f for every machine that the need's matcher accepts, that no need claims, and
// that is not held for an owner ranked above the need.
func (l *worker) eachFree(need int32, k *kind, f func(columnar.Row)) {
	d := l.domainsFor(k.matcher)
	for _, ds := range d.of(l.pass, k.matcher).list {
		for _, i := range ds.shelves {
			for _, r := range d.shelves[i].rows {
				l.probes++
				if l.isFreeFor(r, need) {
					f(r)
				}
			}
		}
	}
}
