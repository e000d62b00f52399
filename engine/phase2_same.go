package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// sameDomain is one domain as phase 2 sees it for one need.
type sameDomain struct {
	value     uint32
	tried     bool
	available []int64 // its own, and what is free
	potential []int64 // with what drains for it and everything preemptable
}

// preemptSame looks for a domain that can be freed whole: the one of phase 1
// first, then those where most could be there, at most TopDomains. A part is
// of no use, so either all victims of a plan are taken or none.
func (p *pass) preemptSame(need int) {
	n := &p.needs[need]
	pool := p.victimPool(n)
	p.sumSites(need, pool)
	for range p.e.opts.TopDomains {
		d := p.nextSite(need)
		if d == nil {
			break
		}
		candidates := pool.in(p, n.matcher, d.value)
		lacking := p.lacking(need, d)
		copy(p.missing, lacking)
		p.subInFlight(need, d.value, p.missing)
		missing := slices.Clone(p.missing)
		chosen, _ := p.selectVictims(candidates, need)
		p.noteTried(need, d, len(candidates), columnar.IsZero(p.missing), missing)
		if !columnar.IsZero(p.missing) {
			continue
		}
		n.awaiting = true
		p.countInFlight(need, d.value, lacking)
		if d.value != n.domain {
			p.withhold(need, d.value)
		}
		p.commit(p.giveBack(chosen, missing), need)
		return
	}
	if d := p.scratch.sites.find(n.domain); d != nil {
		p.countInFlight(need, d.value, p.lacking(need, d))
	}
}

// nextSite returns the best domain that has not been tried, nil when no other
// can be freed whole: the one of phase 1, then by the capped score of what
// could be there, then by value. Most often the first will do, so they are
// not sorted.
func (p *pass) nextSite(need int) *sameDomain {
	n := &p.needs[need]
	want := p.aggregate(need)
	var best *sameDomain
	for i := range p.scratch.sites.list {
		d := &p.scratch.sites.list[i]
		switch {
		case d.tried:
		case d.value == n.domain:
			d.tried = true
			return d
		case best == nil || p.betterSite(d, best, want):
			best = d
		}
	}
	// Those that could cover have the largest score there is.
	if best == nil || !p.e.opts.Explain && !columnar.Covers(best.potential, want) {
		return nil
	}
	best.tried = true
	return best
}

func (p *pass) betterSite(a, b *sameDomain, want []int64) bool {
	if c := compareScores(a.potential, b.potential, want, true); c != 0 {
		return c > 0
	}
	return p.valueLess(a.value, b.value)
}

// lacking is what the need would lack in a domain before anything drains.
func (p *pass) lacking(need int, d *sameDomain) []int64 {
	v := slices.Clone(p.aggregate(need))
	columnar.SubClamp(v, d.available)
	return v
}

// withhold takes back what the need acquired in phase 1: its plan goes to
// another domain, and what it would gather here would be of no use.
func (p *pass) withhold(need int, domain uint32) {
	n := &p.needs[need]
	for _, r := range p.claims[n.acquireFrom:n.claimTo] {
		p.claimed.Clear(uint32(r))
		p.holder[r] = unheld
		p.withheldBy[r] = int32(need)
		p.putBack(r)
	}
	p.rewind()
	n.claimTo, n.bootstrap, n.provision = n.acquireFrom, 0, 0
	n.domain, n.withheld = domain, true
	deficit := p.deficit(need)
	copy(deficit, p.aggregate(need))
	for _, r := range p.claims[n.claimFrom:n.claimTo] {
		columnar.SubClamp(deficit, p.vec(r))
	}
}

// sumSites forms what the need could have in each domain, and notes whether
// there is anything to preempt in any. A need that is pinned has only its own.
func (p *pass) sumSites(need int, pool *victimPool) {
	n := &p.needs[need]
	sites := &p.scratch.sites
	sites.reset(p.s.Supply.ValueIDMax())
	p.sumAvailable(need)
	for value, list := range pool.domains(p, n.matcher) {
		if n.pinned && value != n.domain {
			continue
		}
		for i := range list {
			p.probes++
			if p.eligible(&list[i], need) {
				n.found = true
				columnar.SatAdd(sites.of(value, p.dims).potential, p.vec(list[i].row))
			}
		}
	}
	for i := range sites.list {
		d := &sites.list[i]
		columnar.SatAdd(d.potential, d.available)
		d.tried = n.pinned && d.value != n.domain
	}
}

// siteScratch holds the domains of the need at work.
type siteScratch struct {
	list []sameDomain
	at   []int32 // by value: 1 + place in list
	vectorBlock
}

func (x *siteScratch) reset(values int) {
	for i := range x.list {
		x.at[x.list[i].value] = 0
	}
	if len(x.at) < values {
		x.at = make([]int32, values)
	}
	x.list = x.list[:0]
	x.empty()
}

// find returns a domain, nil when there is nothing in it. Valid until the next
// call of of.
func (x *siteScratch) find(value uint32) *sameDomain {
	if value == 0 || x.at[value] == 0 {
		return nil
	}
	return &x.list[x.at[value]-1]
}

// of returns a domain, making it if there is none.
func (x *siteScratch) of(value uint32, dims int) *sameDomain {
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

// take returns n zeros. Vectors lent before stay where they are when the block
// is full: a new one is begun.
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

// sumAvailable adds, by domain, what the need would have there without any
// preemption: its own machines and those of its cluster that serve nobody
// ranked higher nor is a victim already, and what is free. What drains for it
// is in the potential.
func (p *pass) sumAvailable(need int) {
	n := &p.needs[need]
	sites := &p.scratch.sites
	add := func(r columnar.Row) {
		if v, ok := p.s.Supply.Domain(n.matcher, r); ok && p.accepts(r, need) {
			columnar.SatAdd(sites.of(v, p.dims).available, p.vec(r))
		}
	}
	mine := func(r columnar.Row) bool {
		return (p.holder[r] == unheld || p.holder[r] >= int32(need)) && !p.victimOf.Has(uint32(r))
	}
	for _, g := range p.s.GroupsOf(int(n.cluster)) {
		for _, r := range g.Rows {
			if mine(r) {
				add(r)
			}
		}
	}
	for r := p.firstOwn(need); r != spent; r = p.own.next[r] {
		if p.s.View.State[r] == model.Creating && mine(r) {
			add(r)
		}
	}
	for _, r := range p.claims[n.acquireFrom:n.claimTo] {
		add(r)
	}
	p.eachFree(need, add)
	for _, r := range p.reserved.rows[int32(need)] {
		if v, ok := p.s.Supply.Domain(n.matcher, r); ok && p.arrives(r, need) {
			columnar.SatAdd(sites.of(v, p.dims).potential, p.vec(r))
		}
	}
}

// eachFree calls f for every machine that the need's matcher accepts, that
// nobody claims and that is not held for anybody ranked above the need.
func (p *pass) eachFree(need int, f func(columnar.Row)) {
	d := p.domainsFor(p.needs[need].matcher)
	for _, ds := range d.of(p, p.needs[need].matcher).list {
		for _, i := range ds.shelves {
			for _, r := range d.shelves[i].rows {
				p.probes++
				if !p.claimed.Has(uint32(r)) && (!p.taken.Has(uint32(r)) || p.reserved.ownedBy(r, need)) {
					f(r)
				}
			}
		}
	}
}
