package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// preempt is phase 2: for each unsatisfied need in rank order it looks for
// machines of lower priority in other clusters that would cover the rest. It
// binds nothing: a victim drains, and the need acquires it in a later cycle.
func (p *pass) preempt() {
	p.reopen()
	for i := range p.needs {
		n := &p.needs[i]
		if n.satisfied || n.parked {
			continue
		}
		p.blockUpTo(i)
		if p.nothingToPreempt(i) {
			continue
		}
		switch {
		case n.profile.Same() != nil:
			p.preemptSame(i)
		case len(n.profile.HardSpread()) > 0:
			p.preemptSpread(i)
		default:
			p.preemptPlain(i)
		}
	}
}

// nothingToPreempt reports whether phase 2 can change nothing for a need: there
// is no victim for it, nothing drains for it, and no plan of this cycle has put
// machines back that phase 1 had not seen. Most needs that are short are so
// because supply is, and there are many of them then.
func (p *pass) nothingToPreempt(need int) bool {
	return len(p.victimPool(&p.needs[need]).list) == 0 && len(p.reserved.rows[int32(need)]) == 0 && len(p.withheldBy) == 0
}

// preemptPlain takes victims for whatever is missing; a part is of use too.
func (p *pass) preemptPlain(need int) {
	n := &p.needs[need]
	copy(p.missing, p.deficit(need))
	p.countInFlight(need, 0, p.missing)
	if n.awaiting = columnar.IsZero(p.missing); n.awaiting {
		return
	}
	missing := slices.Clone(p.missing)
	chosen, found := p.selectVictims(p.victimPool(n).list, need)
	n.found, n.awaiting = found, columnar.IsZero(p.missing)
	p.commit(p.giveBack(chosen, missing), need)
}

// countInFlight takes what drains for the need off what it misses, so that it
// is never preempted for twice, and notes it. With a domain only machines in
// there count. Needs of one identity use a machine up in rank order.
func (p *pass) countInFlight(need int, domain uint32, missing []int64) {
	n := &p.needs[need]
	for _, r := range p.reserved.rows[int32(need)] {
		if columnar.IsZero(missing) {
			return
		}
		if !p.arrives(r, need) || !columnar.Helps(p.vec(r), missing) {
			continue
		}
		if v, ok := p.s.Supply.Domain(n.matcher, r); !ok || domain != 0 && v != domain {
			continue
		}
		p.flying.Set(uint32(r))
		columnar.SatAdd(p.vector(p.vectors.inFlight, need), p.vec(r))
		columnar.SubClamp(missing, p.vec(r))
	}
}

// drainsFor reports whether a machine that is held for the need is on its way
// to it: draining, or about to because its preemption has been accepted.
func (p *pass) drainsFor(r columnar.Row, need int) bool {
	switch p.s.View.State[r] {
	case model.Draining:
	case model.Configured:
		if p.s.ClusterOf[p.s.View.Cluster[r]] == p.needs[need].cluster {
			return false
		}
	default:
		return false
	}
	return p.accepts(r, need)
}

// sameDomain is one domain as phase 2 sees it for one need.
type sameDomain struct {
	value     uint32
	available []int64 // its own, and what is free
	potential []int64 // with what drains for it and everything preemptable
}

// preemptSame looks for a domain that can be freed whole: the one of phase 1
// first, then those where most could be there. A part is of no use, so either
// all victims of a plan are taken or none.
func (p *pass) preemptSame(need int) {
	n := &p.needs[need]
	pool := p.victimPool(n)
	tried, first := p.preemptDomains(need, pool)
	for i := range tried {
		d := &tried[i]
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
	if first != nil {
		p.countInFlight(need, first.value, p.lacking(need, first))
	}
}

// lacking is what the need would lack in a domain before anything drains.
func (p *pass) lacking(need int, d *sameDomain) []int64 {
	v := slices.Clone(p.aggregate(need))
	columnar.SubClamp(v, d.available)
	return v
}

// subInFlight takes off what countInFlight would use, without using it.
func (p *pass) subInFlight(need int, domain uint32, missing []int64) {
	for _, r := range p.reserved.rows[int32(need)] {
		if columnar.IsZero(missing) {
			return
		}
		if v, ok := p.s.Supply.Domain(p.needs[need].matcher, r); ok && v == domain && p.arrives(r, need) && columnar.Helps(p.vec(r), missing) {
			columnar.SubClamp(missing, p.vec(r))
		}
	}
}

// arrives reports whether a machine drains for the need and is not counted on
// by another need of its identity.
func (p *pass) arrives(r columnar.Row, need int) bool {
	return p.drainsFor(r, need) && !p.flying.Has(uint32(r))
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

// preemptDomains returns the domains to try, best first, at most TopDomains,
// and the one of phase 1 if it is among them. It notes whether there is
// anything to preempt in any.
func (p *pass) preemptDomains(need int, pool *victimPool) (tried []sameDomain, first *sameDomain) {
	n := &p.needs[need]
	sums := p.sumAvailable(need)
	for value, list := range pool.domains(p, n.matcher) {
		if n.pinned && value != n.domain {
			continue
		}
		for i := range list {
			p.probes++
			if p.eligible(&list[i], need) {
				n.found = true
				columnar.SatAdd(sums.of(value, p.dims).potential, p.vec(list[i].row))
			}
		}
	}
	list := make([]sameDomain, 0, len(sums))
	for _, d := range sums {
		if n.pinned && d.value != n.domain {
			continue
		}
		columnar.SatAdd(d.potential, d.available)
		list = append(list, *d)
	}
	want := p.aggregate(need)
	slices.SortFunc(list, func(a, b sameDomain) int {
		if (a.value == n.domain) != (b.value == n.domain) {
			if a.value == n.domain {
				return -1
			}
			return 1
		}
		if c := compareScores(b.potential, a.potential, want, true); c != 0 {
			return c
		}
		return cmp.Compare(p.s.Supply.ValueString(a.value), p.s.Supply.ValueString(b.value))
	})
	if len(list) > 0 && list[0].value == n.domain {
		first = &list[0]
	}
	return list[:min(len(list), p.e.opts.TopDomains)], first
}

type domainSums map[uint32]*sameDomain

func (s domainSums) of(value uint32, dims int) *sameDomain {
	d := s[value]
	if d == nil {
		d = &sameDomain{value: value, available: make([]int64, dims), potential: make([]int64, dims)}
		s[value] = d
	}
	return d
}

// sumAvailable adds, by domain, what the need would have there without any
// preemption: its own machines and those of its cluster that serve nobody
// ranked higher nor is a victim already, and what is free. What drains for it
// is in the potential.
func (p *pass) sumAvailable(need int) domainSums {
	n := &p.needs[need]
	sums := domainSums{}
	add := func(r columnar.Row) {
		if v, ok := p.s.Supply.Domain(n.matcher, r); ok && p.accepts(r, need) {
			columnar.SatAdd(sums.of(v, p.dims).available, p.vec(r))
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
			columnar.SatAdd(sums.of(v, p.dims).potential, p.vec(r))
		}
	}
	return sums
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
