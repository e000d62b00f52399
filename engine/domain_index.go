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
	// touched is a log of the domains of which a machine was taken or put back.
	touched []uint32
	views   map[uint32]*domainView // by matcher
}

// domainShelves are the shelves of one domain that a matcher accepts.
type domainShelves struct {
	value   uint32
	shelves []uint32
}

// domainView is the domains with machines for a matcher. Racks are bought by
// the hundred and used alike: domains with as many machines left of each class
// have the same totals, so the first of them by value stands for all. A need
// then looks at kinds of domains, not at domains.
type domainView struct {
	list   []domainShelves   // by value as text
	place  map[uint32]uint32 // value → place in list
	kinds  []domainKind
	byKey  map[string]int32
	kindOf []int32 // by place; −1 = nothing left
	read   int     // how much of domainIndex.touched has been seen
	dirty  []bool  // by place: seen there, kind to be found anew
	queue  []uint32
	key    []byte
}

// domainKind is a heap of places, smallest first. A place whose kind has
// changed since stays until it comes up.
type domainKind struct{ places []uint32 }

func (d *domainIndex) take(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		sh := &d.shelves[at-1]
		sh.left--
		d.touched = append(d.touched, sh.value)
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

// catchUp finds the kinds of the domains touched since the last look.
func (v *domainView) catchUp(d *domainIndex) {
	for ; v.read < len(d.touched); v.read++ {
		if at, ok := v.place[d.touched[v.read]]; ok && !v.dirty[at] {
			v.dirty[at] = true
			v.queue = append(v.queue, at)
		}
	}
	for _, at := range v.queue {
		v.dirty[at] = false
		v.classify(d, at)
	}
	v.queue = v.queue[:0]
}

// classify puts a domain among those of its kind.
func (v *domainView) classify(d *domainIndex, at uint32) {
	v.key = v.key[:0]
	for _, i := range v.list[at].shelves {
		if sh := &d.shelves[i]; sh.left > 0 {
			v.key = binary.LittleEndian.AppendUint32(v.key, sh.class)
			v.key = binary.LittleEndian.AppendUint32(v.key, uint32(sh.left)<<8|uint32(sh.state))
		}
	}
	if len(v.key) == 0 {
		v.kindOf[at] = -1
		return
	}
	k, ok := v.byKey[string(v.key)]
	if !ok {
		k = int32(len(v.kinds))
		v.byKey[string(v.key)] = k
		v.kinds = append(v.kinds, domainKind{})
	}
	if v.kindOf[at] != k {
		v.kindOf[at] = k
		v.kinds[k].push(at)
	}
}

func (k *domainKind) push(at uint32) {
	k.places = append(k.places, at)
	h := k.places
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (k *domainKind) pop() {
	h := k.places
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		small := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < n && h[c] < h[small] {
				small = c
			}
		}
		if small == i {
			break
		}
		h[i], h[small] = h[small], h[i]
		i = small
	}
	k.places = h
}

// first returns the smallest place of a kind that is not to be skipped.
func (v *domainView) first(kind int, skip func(at uint32) bool) (uint32, bool) {
	k := &v.kinds[kind]
	var skipped []uint32
	defer func() {
		for _, at := range skipped {
			k.push(at)
		}
	}()
	for len(k.places) > 0 {
		at := k.places[0]
		switch {
		case v.kindOf[at] != int32(kind):
			k.pop()
		case skip(at):
			skipped = append(skipped, at)
			k.pop()
		default:
			return at, true
		}
	}
	return 0, false
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
	v := &domainView{list: d.listFor(p, matcher), place: map[uint32]uint32{}, byKey: map[string]int32{}, read: len(d.touched)}
	v.kindOf, v.dirty = make([]int32, len(v.list)), make([]bool, len(v.list))
	for at, ds := range v.list {
		v.place[ds.value] = uint32(at)
		v.kindOf[at] = -1
		v.classify(d, uint32(at))
	}
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
