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
	credit  map[uint32]int // value → index of totals
	totals  []domainTotals
	vectors []int64
	zero    []int64
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
		switch p.s.View.State[r] {
		case model.Idle, model.Draining, model.Creating:
			if v, ok := p.s.Supply.Domain(p.needs[need].matcher, r); ok {
				counts[v]++
			}
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
func (p *pass) bestDomain(need int, acquiring bool) (domainTotals, bool) {
	sc := &p.scratch.domain
	sc.reset(p.dims)
	p.sumCreditable(need)
	if acquiring {
		p.sumFree(need)
	}
	want := p.aggregate(need)
	best := -1
	for i := range sc.totals {
		t := &sc.totals[i]
		p.probes++
		t.covers = columnar.Covers(t.total, want)
		if best < 0 || p.betterDomain(t, &sc.totals[best], want) {
			best = i
		}
	}
	if best < 0 {
		return domainTotals{}, false
	}
	return sc.totals[best], true
}

func (sc *domainScratch) reset(dims int) {
	if sc.credit == nil {
		sc.credit = map[uint32]int{}
		sc.zero = make([]int64, dims)
	}
	clear(sc.credit)
	sc.totals = sc.totals[:0]
	sc.vectors = sc.vectors[:0]
}

// at returns the totals of a domain that has creditable machines.
func (sc *domainScratch) at(value uint32, dims int) *domainTotals {
	i, ok := sc.credit[value]
	if !ok {
		i = len(sc.totals)
		sc.credit[value] = i
		v := sc.vector(3 * dims)
		sc.totals = append(sc.totals, domainTotals{
			value: value, total: v[:dims:dims], creditable: v[dims : 2*dims : 2*dims], own: v[2*dims:],
		})
	}
	return &sc.totals[i]
}

// vector returns n zeros. Earlier vectors stay where they are when the block
// is full: a new one is begun.
func (sc *domainScratch) vector(n int) []int64 {
	if len(sc.vectors)+n > cap(sc.vectors) {
		sc.vectors = make([]int64, 0, max(2*cap(sc.vectors), 64*n))
	}
	from := len(sc.vectors)
	sc.vectors = sc.vectors[:from+n]
	v := sc.vectors[from : from+n : from+n]
	clear(v)
	return v
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
	for r := p.firstOwn(need); r != columnar.None; r = p.own.next[r] {
		if p.s.View.State[r] == model.Creating && p.accepts(r, need) {
			add(r, true)
		}
	}
}

// sumFree adds what the need could acquire, by domain.
func (p *pass) sumFree(need int) {
	n := &p.needs[need]
	sc := &p.scratch.domain
	d := p.domainsFor(n.matcher)
	for _, ds := range d.of(p, n.matcher) {
		var t *domainTotals
		for _, i := range ds.shelves {
			sh := &d.shelves[i]
			p.probes++
			if sh.left == 0 || !p.suits(sh.class, need) {
				continue
			}
			if t == nil {
				t = sc.at(ds.value, p.dims)
			}
			t.count += int(sh.left)
			columnar.SatAddScaled(t.total, p.s.Vector(sh.class), int64(sh.left))
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
