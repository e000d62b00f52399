package engine

import (
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// domainTotals is what a Same-Need could have in one domain.
type domainTotals struct {
	value      uint32
	count      int
	total      []int64
	creditable []int64
	own        []int64
	covers     bool
}

// domainScratch holds the totals of one need's domains while it chooses.
type domainScratch struct {
	credit map[uint32]int // value → index of totals: the domains with creditable machines
	totals []domainTotals
	vectorBlock
	zero []int64
	free [2][]int64 // totals of the best domain without credit, and of the one at hand
}

// chooseDomain picks the one domain that a Same-Need is credited and acquires
// in; false when no machine anywhere could serve it. A live reservation of its
// own has chosen already.
func (p *pass) chooseDomain(need int) bool {
	n := &p.needs[need]
	if value, ok := p.pinnedDomain(need); ok {
		n.domain, n.pinned = value, true
		return true
	}
	best, ok := p.bestDomain(need, !n.parked)
	if !ok {
		n.couldCover = n.parked && p.someDomainCovers(need)
		return false
	}
	n.domain = best.value
	n.couldCover = best.covers
	if n.parked && !best.covers {
		n.couldCover = p.someDomainCovers(need)
	}
	return true
}

func (p *pass) someDomainCovers(need int) bool {
	best, ok := p.bestDomain(need, true)
	return ok && best.covers
}

// pinnedDomain returns the domain in which most of what is held for the need
// lies; ties go to the smaller value.
func (p *pass) pinnedDomain(need int) (uint32, bool) {
	counts := map[uint32]int{}
	for _, r := range p.reserved.rows[int32(need)] {
		if p.s.View.State[r] == model.Configured && p.s.ClusterOf[p.s.View.Cluster[r]] == p.needs[need].cluster {
			continue // it has arrived
		}
		if v, ok := p.s.Supply.Domain(p.needs[need].matcher, r); ok {
			counts[v]++
		}
	}
	best, found := uint32(0), false
	for v, c := range counts {
		if !found || c > counts[best] || c == counts[best] && p.valueLess(v, best) {
			best, found = v, true
		}
	}
	return best, found
}

func (p *pass) valueLess(a, b uint32) bool {
	return strings.Compare(p.s.Supply.ValueString(a), p.s.Supply.ValueString(b)) < 0
}

// bestDomain compares all domains in which the need could be credited or, if
// asked for, acquire anything. The result is valid until the next call.
func (p *pass) bestDomain(need int, acquiring bool) (best domainTotals, found bool) {
	sc := &p.scratch.domain
	sc.reset(p.dims)
	p.sumCreditable(need)
	if acquiring {
		p.addFree(need)
	}
	want := p.aggregate(need)
	for i := range sc.totals {
		t := &sc.totals[i]
		p.probes++
		t.covers = columnar.Covers(t.total, want)
		if !found || p.betterDomain(t, &best, want) {
			best, found = *t, true
		}
	}
	// A domain with credit that covers beats every domain without credit.
	if !acquiring || found && best.covers {
		return best, found
	}
	free, exists := p.bestFree(need)
	if exists && (!found || p.betterDomain(&free, &best, want)) {
		return free, true
	}
	return best, found
}

// addFree adds what is free to the totals of the domains with credit.
func (p *pass) addFree(need int) {
	sc := &p.scratch.domain
	if len(sc.totals) == 0 {
		return
	}
	matcher := p.needs[need].matcher
	d := p.domainsFor(matcher)
	v := d.of(p, matcher)
	for i := range sc.totals {
		t := &sc.totals[i]
		if at, ok := v.place[t.value]; ok {
			t.count += p.sumShelves(need, d, v.list[at].shelves, t.total)
		}
	}
}

// bestFree returns the best of the domains where the need has nothing to be
// credited, looking at one of each kind.
func (p *pass) bestFree(need int) (best domainTotals, found bool) {
	sc := &p.scratch.domain
	want := p.aggregate(need)
	d := p.domainsFor(p.needs[need].matcher)
	v := d.of(p, p.needs[need].matcher)
	v.catchUp(d)
	credited := func(at uint32) bool { return sc.credited(v.list[at].value) }
	bestAt := uint32(0)
	for kind := range v.kinds {
		at, ok := v.first(kind, credited)
		if !ok {
			continue
		}
		ds := &v.list[at]
		t := domainTotals{value: ds.value, total: sc.free[1], creditable: sc.zero, own: sc.zero}
		clear(t.total)
		if t.count = p.sumShelves(need, d, ds.shelves, t.total); t.count == 0 {
			continue
		}
		t.covers = columnar.Covers(t.total, want)
		if !found || betterFree(&t, &best, at < bestAt, want) {
			best, bestAt, found = t, at, true
			sc.free[0], sc.free[1] = sc.free[1], sc.free[0]
		}
	}
	return best, found
}

// betterFree is betterDomain for domains without credit; smaller tells whose
// value is.
func betterFree(a, b *domainTotals, smaller bool, want []int64) bool {
	if a.covers != b.covers {
		return a.covers
	}
	c := compareScores(a.total, b.total, want, !a.covers)
	if a.covers {
		c = -c
	}
	if c == 0 {
		c = a.count - b.count
	}
	return c > 0 || c == 0 && smaller
}

// sumShelves adds what is left on the shelves to a total and returns how many
// machines that is.
func (p *pass) sumShelves(need int, d *domainIndex, shelves []uint32, total []int64) int {
	count := 0
	for _, i := range shelves {
		sh := &d.shelves[i]
		p.probes++
		if sh.left == 0 || !p.suitsClass(sh.class, need) {
			continue
		}
		count += int(sh.left)
		columnar.SatAddScaled(total, p.s.Vector(sh.class), int64(sh.left))
	}
	return count
}

func (sc *domainScratch) reset(dims int) {
	if sc.credit == nil {
		sc.credit = map[uint32]int{}
		sc.zero = make([]int64, dims)
		sc.free = [2][]int64{make([]int64, dims), make([]int64, dims)}
	}
	clear(sc.credit)
	sc.totals = sc.totals[:0]
	sc.empty()
}

// credited reports whether the need has creditable machines in a domain.
func (sc *domainScratch) credited(value uint32) bool {
	if len(sc.credit) == 0 {
		return false
	}
	_, ok := sc.credit[value]
	return ok
}

// at returns the totals of a domain that has creditable machines.
func (sc *domainScratch) at(value uint32, dims int) *domainTotals {
	i, ok := sc.credit[value]
	if !ok {
		i = len(sc.totals)
		sc.credit[value] = i
		v := sc.take(3 * dims)
		sc.totals = append(sc.totals, domainTotals{
			value: value, total: v[:dims:dims], creditable: v[dims : 2*dims : 2*dims], own: v[2*dims:],
		})
	}
	return &sc.totals[i]
}

// sumCreditable adds what the need could be credited, by domain.
func (p *pass) sumCreditable(need int) {
	n := &p.needs[need]
	sc := &p.scratch.domain
	add := func(r columnar.Row, own bool) {
		v, ok := p.s.Supply.Domain(n.matcher, r)
		if !ok || p.claimed.Has(uint32(r)) {
			return
		}
		t := sc.at(v, p.dims)
		t.count++
		columnar.SatAdd(t.total, p.vec(r))
		columnar.SatAdd(t.creditable, p.vec(r))
		if own {
			columnar.SatAdd(t.own, p.vec(r))
		}
	}
	for _, g := range p.s.GroupsOf(int(n.cluster)) {
		if !p.matches(g.Class, n.matcher) || !p.suits(g.Class, need) {
			continue
		}
		for _, r := range g.Rows {
			p.probes++
			add(r, p.isOwn(r, need))
		}
	}
	for r := p.firstOpenOwn(need); r != spent; r = p.own.next[r] {
		if p.s.View.State[r] == model.Creating && p.accepts(r, need) {
			add(r, true)
		}
	}
}

// betterDomain reports whether a goes before b: covering first; among covering
// ones more creditable, more own, less in all; among others more in all, more
// creditable, more own; then more machines, then the smaller value.
func (p *pass) betterDomain(a, b *domainTotals, want []int64) bool {
	if a.covers != b.covers {
		return a.covers
	}
	capped := func(x, y []int64) int { return compareScores(x, y, want, true) }
	var c int
	if a.covers {
		if c = capped(a.creditable, b.creditable); c == 0 {
			c = capped(a.own, b.own)
		}
		if c == 0 {
			c = -compareScores(a.total, b.total, want, false)
		}
	} else {
		if c = capped(a.total, b.total); c == 0 {
			c = capped(a.creditable, b.creditable)
		}
		if c == 0 {
			c = capped(a.own, b.own)
		}
	}
	if c == 0 {
		c = a.count - b.count
	}
	if c != 0 {
		return c > 0
	}
	return p.valueLess(a.value, b.value)
}
