package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// shelf is the free machines of one class and state in one domain.
type shelf struct {
	value uint32 // of the key
	class uint32
	state model.State // Idle or Speculative
	rows  []columnar.Row
	left  int32  // not taken yet
	at    uint32 // the head up to here is taken for good
}

// domainIndex lists the free machines by value of one Same key. Counts are
// kept as machines are taken, so that a domain's total is a sum over the few
// shelves that it has, not over its machines.
type domainIndex struct {
	shelves []shelf
	shelfOf []uint32 // by row: 1 + index of its shelf, 0 = none
	// values is, by matcher, the domains that have free machines for it.
	values map[uint32][]domainShelves
}

// domainShelves are the shelves of one domain that a matcher accepts.
type domainShelves struct {
	value   uint32
	shelves []uint32
}

func (d *domainIndex) take(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		d.shelves[at-1].left--
	}
}

// putBack undoes take.
func (d *domainIndex) putBack(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		d.shelves[at-1].left++
		d.shelves[at-1].at = 0
	}
}

// domainsFor returns the index of a matcher's Same key, building it when it is
// first needed. What was taken by then is counted out.
func (p *pass) domainsFor(matcher uint32) *domainIndex {
	key := p.s.Supply.SameKey(matcher)
	for len(p.domains) <= key {
		p.domains = append(p.domains, nil)
	}
	if p.domains[key] == nil {
		p.domains[key] = p.buildDomains(key)
	}
	return p.domains[key]
}

func (p *pass) buildDomains(key int) *domainIndex {
	d := &domainIndex{shelfOf: alloc.Make[uint32](p.e.arena, p.s.Supply.RowMax()), values: map[uint32][]domainShelves{}}
	values := p.s.Supply.Values(key)
	at := map[[3]uint32]uint32{}
	each := func(f func(k [3]uint32, r columnar.Row)) {
		for c := range p.s.Classes {
			if !p.sameOn(key, uint32(c)) {
				continue
			}
			for _, r := range p.s.Idle.At(c) {
				f([3]uint32{values[r], uint32(c), uint32(model.Idle)}, r)
			}
			for _, r := range p.s.Speculative.At(c) {
				f([3]uint32{values[r], uint32(c), uint32(model.Speculative)}, r)
			}
		}
	}
	each(func(k [3]uint32, r columnar.Row) {
		if k[0] == 0 {
			return
		}
		i, ok := at[k]
		if !ok {
			d.shelves = append(d.shelves, shelf{value: k[0], class: k[1], state: model.State(k[2])})
			i = uint32(len(d.shelves))
			at[k] = i
		}
		d.shelfOf[r] = i
		d.shelves[i-1].left++
	})
	for i := range d.shelves {
		d.shelves[i].rows = alloc.MakeDirty[columnar.Row](p.e.arena, int(d.shelves[i].left))[:0]
	}
	each(func(_ [3]uint32, r columnar.Row) {
		if i := d.shelfOf[r]; i != 0 {
			sh := &d.shelves[i-1]
			sh.rows = append(sh.rows, r)
			if p.taken.Has(uint32(r)) {
				sh.left--
			}
		}
	})
	return d
}

// sameOn reports whether any matcher with a Same on this key accepts a class.
func (p *pass) sameOn(key int, class uint32) bool {
	return slices.ContainsFunc(p.s.Classes[class].Matchers, func(m uint32) bool {
		return p.s.Supply.SameKey(m) == key
	})
}

// of returns the domains with machines for a matcher, by value as text.
func (d *domainIndex) of(p *pass, matcher uint32) []domainShelves {
	if list, ok := d.values[matcher]; ok {
		return list
	}
	var fit []uint32
	for i := range d.shelves {
		sh := &d.shelves[i]
		if p.matches(sh.class, matcher) && p.inAnyDomain(matcher, sh.rows[0]) {
			fit = append(fit, uint32(i))
		}
	}
	slices.SortFunc(fit, func(a, b uint32) int {
		if va, vb := d.shelves[a].value, d.shelves[b].value; va != vb {
			return strings.Compare(p.s.Supply.ValueString(va), p.s.Supply.ValueString(vb))
		}
		return cmp.Compare(a, b)
	})
	var list []domainShelves
	for from := 0; from < len(fit); {
		to := from + 1
		for to < len(fit) && d.shelves[fit[to]].value == d.shelves[fit[from]].value {
			to++
		}
		list = append(list, domainShelves{value: d.shelves[fit[from]].value, shelves: fit[from:to]})
		from = to
	}
	d.values[matcher] = list
	return list
}

// domainSources makes the shelves of the need's domain the sources of its
// next walk.
func (p *pass) domainSources(need int, state model.State) {
	n := &p.needs[need]
	p.sources = p.sources[:0]
	d := p.domainsFor(n.matcher)
	list := d.of(p, n.matcher)
	at, ok := p.findDomain(list, n.domain)
	if !ok {
		return
	}
	for _, i := range list[at].shelves {
		sh := &d.shelves[i]
		if sh.state != state || sh.left == 0 || !p.suits(sh.class, need) {
			continue
		}
		src := source{rows: sh.rows, class: sh.class, vec: p.s.Vector(sh.class), order: orderIdle}
		if state == model.Speculative {
			src.order, src.rank = orderSpeculative, p.speculativeRank(n, sh.class)
		}
		src.follow(&sh.at)
		p.sources = append(p.sources, src)
	}
}

// findDomain finds a value in a list that is sorted by the values' text.
func (p *pass) findDomain(list []domainShelves, value uint32) (int, bool) {
	text := p.s.Supply.ValueString(value)
	return slices.BinarySearchFunc(list, text, func(d domainShelves, t string) int {
		return strings.Compare(p.s.Supply.ValueString(d.value), t)
	})
}
