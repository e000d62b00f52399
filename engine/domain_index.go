package engine

import (
	"cmp"
	"encoding/binary"
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
	// touched is a log of the domains that were whole and are no longer, or
	// that got a machine back. A value may stand in it more than once.
	touched []uint32
	views   map[uint32]*domainView // by matcher
}

// domainShelves are the shelves of one domain that a matcher accepts.
type domainShelves struct {
	value   uint32
	shelves []uint32
}

// domainView is the domains with machines for a matcher. Racks are bought by
// the hundred: domains that are still whole and have the same shelves have the
// same totals, so one of each kind, the first by value, stands for all. Only
// those that have been touched are looked at one by one.
type domainView struct {
	list  []domainShelves // by value as text
	kinds []domainKind
	// partial are the places in list of touched domains with machines left.
	partial []uint32
	place   map[uint32]uint32 // value → place in list
	whole   []bool            // by place
	present []bool            // by place: is in partial
	read    int               // how much of domainIndex.touched has been seen
}

// domainKind is the domains that were alike at first; those before next are no
// longer whole.
type domainKind struct {
	places []uint32
	next   int
}

func (d *domainIndex) take(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		sh := &d.shelves[at-1]
		if int(sh.left) == len(sh.rows) {
			d.touched = append(d.touched, sh.value)
		}
		sh.left--
	}
}

// putBack undoes take.
func (d *domainIndex) putBack(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		sh := &d.shelves[at-1]
		sh.left++
		sh.at = 0
		d.touched = append(d.touched, sh.value)
	}
}

// catchUp moves what has been touched since the last look to partial, and
// forgets what is empty.
func (v *domainView) catchUp(d *domainIndex) {
	for ; v.read < len(d.touched); v.read++ {
		at, ok := v.place[d.touched[v.read]]
		if !ok {
			continue
		}
		v.whole[at] = false
		if !v.present[at] {
			v.present[at] = true
			v.partial = append(v.partial, at)
		}
	}
	v.partial = slices.DeleteFunc(v.partial, func(at uint32) bool {
		for _, i := range v.list[at].shelves {
			if d.shelves[i].left > 0 {
				return false
			}
		}
		v.present[at] = false
		return true
	})
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
	d := &domainIndex{shelfOf: alloc.Make[uint32](p.e.arena, p.s.Supply.RowMax()), views: map[uint32]*domainView{}}
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

// of returns the domains with machines for a matcher.
func (d *domainIndex) of(p *pass, matcher uint32) *domainView {
	if v := d.views[matcher]; v != nil {
		return v
	}
	v := &domainView{list: d.listFor(p, matcher), place: map[uint32]uint32{}}
	v.whole, v.present = make([]bool, len(v.list)), make([]bool, len(v.list))
	kinds := map[string]int{}
	var key []byte
	for at, ds := range v.list {
		v.place[ds.value] = uint32(at)
		v.whole[at] = true
		key = key[:0]
		for _, i := range ds.shelves {
			sh := &d.shelves[i]
			v.whole[at] = v.whole[at] && int(sh.left) == len(sh.rows)
			key = binary.LittleEndian.AppendUint32(key, sh.class)
			key = binary.LittleEndian.AppendUint32(key, uint32(len(sh.rows))<<8|uint32(sh.state))
		}
		if !v.whole[at] {
			v.present[at] = true
			v.partial = append(v.partial, uint32(at))
			continue
		}
		k, ok := kinds[string(key)]
		if !ok {
			k = len(v.kinds)
			kinds[string(key)] = k
			v.kinds = append(v.kinds, domainKind{})
		}
		v.kinds[k].places = append(v.kinds[k].places, uint32(at))
	}
	v.read = len(d.touched)
	d.views[matcher] = v
	return v
}

// listFor lists the domains with machines for a matcher, by value as text.
func (d *domainIndex) listFor(p *pass, matcher uint32) []domainShelves {
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
		// Shelves are made in the order of classes, so kinds compare as keys.
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
	return list
}

// domainSources makes the shelves of the need's domain the sources of its
// next walk.
func (p *pass) domainSources(need int, state model.State) {
	n := &p.needs[need]
	p.sources = p.sources[:0]
	d := p.domainsFor(n.matcher)
	v := d.of(p, n.matcher)
	at, ok := v.place[n.domain]
	if !ok {
		return
	}
	for _, i := range v.list[at].shelves {
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
