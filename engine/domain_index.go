package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// shelf lists the free machines of one class and state in one domain.
type shelf struct {
	value uint32 // of the key
	class uint32
	state model.State // Idle or Speculative
	rows  []columnar.Row
	left  int32  // how many are not taken, held ones included
	at    uint32 // index of the first that may be available: those before it are taken or held
}

// domainIndex indexes the free machines by value of one Same key. Counts are updated incrementally as
// machines are taken, so a domain's total is a sum over its few shelves, not over its machines.
type domainIndex struct {
	shelves []shelf
	shelfOf []uint32 // by row: 1 + index of its shelf, 0 = none
	place   []uint32 // by value: its place in the order of texts
	// touched is an append-only log of the domains of which a machine was taken or put back. Views keep
	// a cursor into it.
	touched []uint32
	views   map[uint32]*domainView // by matcher
	// generation counts the builds of the index. stale says that it was built in another cycle.
	generation uint64
	stale      bool
	arena      *alloc.Arena // of the cycle: kinds of domains are allocated there
}

// domainShelves are the shelves of one domain that a matcher accepts.
type domainShelves struct {
	value   uint32
	shelves []uint32
}

// domainView lists the domains that have machines for a matcher. Racks are bought by the hundred and
// used alike: domains with equal numbers of machines left of each class and state have equal totals,
// and form one kind of domains. The first domain of a kind, by value, stands for all of it. So a Need
// rates kinds of domains, which are few, not domains.
type domainView struct {
	list   []domainShelves   // sorted by value as text
	place  map[uint32]uint32 // value → place in list
	kinds  []domainKind
	byKey  map[uint64]int32 // by a hash of the key; see find
	live   []int32          // kinds that may have domains
	kindOf []int32          // by place: the kind; −1 = nothing left
	read   int              // cursor into domainIndex.touched
	dirty  []bool           // by place: it is in queue
	// queue are places whose kind must be recomputed.
	queue []uint32
	key   []byte
	skip  []uint32 // scratch
	fit   []uint32 // the shelves that list slices
	built uint64   // generation of the index when the view was built
}

// domainKind is a kind of domains: a min-heap of places. Deletion is lazy: a place whose kind has
// changed stays in the heap until it comes to the top.
type domainKind struct {
	// key is, for each class and state with machines left: class, then count and state, in 8 bytes.
	key    []byte
	places []uint32
	total  []int64 // what is left in each of its domains
	count  int     // machines left in each of its domains
}

// take counts a taken machine off its shelf.
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

// rewind makes the search of a shelf find a machine again that is no longer held.
func (d *domainIndex) rewind(r columnar.Row) {
	if at := d.shelfOf[r]; at != 0 {
		d.shelves[at-1].at = 0
	}
}

// catchUp reclassifies the domains that were touched since the last call.
func (v *domainView) catchUp(p *pass, d *domainIndex) {
	for ; v.read < len(d.touched); v.read++ {
		if at, ok := v.place[d.touched[v.read]]; ok && !v.dirty[at] {
			v.dirty[at] = true
			v.queue = append(v.queue, at)
		}
	}
	for _, at := range v.queue {
		v.dirty[at] = false
		v.classify(p, d, at)
	}
	v.queue = v.queue[:0]
}

// classify computes the kind of the domain in a place, and adds the place to that kind.
func (v *domainView) classify(p *pass, d *domainIndex, at uint32) {
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
	k := v.find(p, d, at)
	if v.kindOf[at] != k {
		v.kindOf[at] = k
		v.kinds[k].push(d.arena, at)
		if len(v.kinds[k].places) == 1 {
			v.live = append(v.live, k)
		}
	}
}

// find returns the kind with key v.key, adding it for the domain in place at if it is new. Hash
// collisions probe linearly.
func (v *domainView) find(p *pass, d *domainIndex, at uint32) int32 {
	h := digest(14695981039346656037)
	for i := 0; i < len(v.key); i += 8 {
		h.add(binary.LittleEndian.Uint64(v.key[i:]))
	}
	for ; ; h++ {
		k, ok := v.byKey[uint64(h)]
		if !ok {
			k = int32(len(v.kinds))
			v.byKey[uint64(h)] = k
			v.addKind(p, d, at)
			return k
		}
		if bytes.Equal(v.kinds[k].key, v.key) {
			return k
		}
	}
}

// addKind adds the kind of a domain, whose key is v.key.
func (v *domainView) addKind(p *pass, d *domainIndex, at uint32) {
	v.kinds = append(v.kinds, domainKind{key: alloc.MakeDirty[byte](d.arena, len(v.key)), total: alloc.Make[int64](d.arena, p.dims)})
	k := &v.kinds[len(v.kinds)-1]
	copy(k.key, v.key)
	for _, i := range v.list[at].shelves {
		if sh := &d.shelves[i]; sh.left > 0 {
			k.count += int(sh.left)
			columnar.SatAddScaled(k.total, p.vector(sh.class), int64(sh.left))
		}
	}
}

func (k *domainKind) push(a *alloc.Arena, at uint32) {
	k.places = alloc.Append(a, k.places, at)
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

// first returns the smallest place of a kind for which skip is false.
func (v *domainView) first(d *domainIndex, kind int, skip func(at uint32) bool) (uint32, bool) {
	k := &v.kinds[kind]
	for len(k.places) > 0 && v.kindOf[k.places[0]] != int32(kind) {
		k.pop()
	}
	if len(k.places) == 0 {
		return 0, false
	}
	if at := k.places[0]; !skip(at) {
		return at, true
	}
	v.skip = v.skip[:0]
	defer func() {
		for _, at := range v.skip {
			k.push(d.arena, at)
		}
	}()
	for len(k.places) > 0 {
		at := k.places[0]
		switch {
		case v.kindOf[at] != int32(kind):
			k.pop()
		case skip(at):
			v.skip = append(v.skip, at)
			k.pop()
		default:
			return at, true
		}
	}
	return 0, false
}

// domainsFor returns the index of a matcher's Same key, built when it is first needed in a cycle.
// Machines that are taken by then are not counted.
func (l *worker) domainsFor(matcher uint32) *domainIndex {
	key := l.s.Supply.SameKey(matcher)
	for len(l.domains) <= key {
		l.domains = append(l.domains, nil)
	}
	d := l.domains[key]
	if d == nil {
		d = &domainIndex{views: map[uint32]*domainView{}, stale: true}
		l.domains[key] = d
	}
	if d.stale {
		l.build(d, key)
	}
	return d
}

// build fills an index for this cycle, with the classes of the worker's share. O(free machines with the
// key).
func (l *worker) build(d *domainIndex, key int) {
	p := l.pass
	d.generation++
	d.stale, d.arena = false, l.arena
	d.shelfOf = alloc.Make[uint32](l.arena, p.s.Supply.RowMax())
	d.shelves, d.touched = d.shelves[:0], d.touched[:0]
	values := p.s.Supply.Values(key)
	shelfAt := alloc.Make[uint32](l.arena, p.s.Supply.ValueIDMax()) // by value, for the class and state at hand
	for c := range p.s.Classes {
		if !l.has(uint32(c)) || !p.sameOn(key, uint32(c)) {
			continue
		}
		for stage := range p.free {
			rows := p.free[stage].lists.At(c)
			first := len(d.shelves)
			for _, r := range rows {
				if v := values[r]; v != 0 {
					d.count(r, v, uint32(c), stateOf[stage], shelfAt)
				}
			}
			for i := first; i < len(d.shelves); i++ {
				sh := &d.shelves[i]
				sh.rows = alloc.MakeDirty[columnar.Row](l.arena, int(sh.left))[:0]
				shelfAt[sh.value] = 0
			}
			for _, r := range rows {
				if i := d.shelfOf[r]; i != 0 {
					d.shelves[i-1].put(r, p.taken[r])
				}
			}
		}
	}
	d.place = l.placeValues(d.shelves)
}

// count counts a machine on the shelf of its value, adding the shelf if it is new.
func (d *domainIndex) count(r columnar.Row, value, class uint32, state model.State, shelfAt []uint32) {
	i := shelfAt[value]
	if i == 0 {
		d.shelves = append(d.shelves, shelf{value: value, class: class, state: state})
		i = uint32(len(d.shelves))
		shelfAt[value] = i
	}
	d.shelfOf[r] = i
	d.shelves[i-1].left++
}

// put appends a machine that was counted. A taken one is counted off again.
func (sh *shelf) put(r columnar.Row, taken bool) {
	sh.rows = append(sh.rows, r)
	if taken {
		sh.left--
	}
}

// placeValues returns the place, in the order of texts, of each value that shelves have.
func (l *worker) placeValues(shelves []shelf) []uint32 {
	values := alloc.MakeDirty[columnar.Row](l.arena, len(shelves))
	for i := range shelves {
		values[i] = columnar.Row(shelves[i].value)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	l.byText.Sort(values, func(v columnar.Row) string { return l.s.Supply.ValueString(uint32(v)) })
	place := alloc.Make[uint32](l.arena, l.s.Supply.ValueIDMax())
	for i, v := range values {
		place[v] = uint32(i)
	}
	return place
}

// sameOn reports whether some matcher with Same on this key accepts a class.
func (p *pass) sameOn(key int, class uint32) bool {
	return slices.ContainsFunc(p.s.Classes[class].Matchers, func(m uint32) bool {
		return p.s.Supply.SameKey(m) == key
	})
}

// of returns the view of a matcher, built when it is first needed in a generation.
func (d *domainIndex) of(p *pass, matcher uint32) *domainView {
	v := d.views[matcher]
	if v == nil {
		v = &domainView{place: map[uint32]uint32{}, byKey: map[uint64]int32{}}
		d.views[matcher] = v
	}
	if v.built == d.generation {
		return v
	}
	v.built, v.read = d.generation, len(d.touched)
	clear(v.place)
	clear(v.byKey)
	v.kinds, v.live, v.queue = v.kinds[:0], v.live[:0], v.queue[:0]
	v.listFor(p, d, matcher)
	v.kindOf, v.dirty = resize(v.kindOf, len(v.list)), resize(v.dirty, len(v.list))
	for at, ds := range v.list {
		v.place[ds.value] = uint32(at)
		v.kindOf[at] = -1
		v.classify(p, d, uint32(at))
	}
	return v
}

// listFor fills list and fit: the domains with machines for a matcher, sorted by value as text.
func (v *domainView) listFor(p *pass, d *domainIndex, matcher uint32) {
	fit := v.fit[:0]
	for i := range d.shelves {
		sh := &d.shelves[i]
		if p.matches(sh.class, matcher) && p.inAnyDomain(matcher, sh.rows[0]) {
			fit = append(fit, uint32(i))
		}
	}
	slices.SortFunc(fit, func(a, b uint32) int {
		// Then by shelf, which is by class and state: equal kinds of domains get equal keys.
		return cmp.Or(cmp.Compare(d.place[d.shelves[a].value], d.place[d.shelves[b].value]), cmp.Compare(a, b))
	})
	list := v.list[:0]
	for from := 0; from < len(fit); {
		to := from + 1
		for to < len(fit) && d.shelves[fit[to]].value == d.shelves[fit[from]].value {
			to++
		}
		list = append(list, domainShelves{value: d.shelves[fit[from]].value, shelves: fit[from:to]})
		from = to
	}
	v.fit, v.list = fit, list
}

// acquireInDomain claims free machines of a stage in the Need's domain, cheapest first.
func (l *worker) acquireInDomain(need int32, k *kind, stage int) {
	d := l.domainsFor(k.matcher)
	v := d.of(l.pass, k.matcher)
	at, ok := v.place[l.lines[need].domain]
	if !ok {
		return
	}
	for l.lacks != 0 {
		r := l.nextOnShelves(d, v.list[at].shelves, k, stage)
		if r == columnar.None {
			return
		}
		l.acquired(r, need, stage)
	}
}

// nextOnShelves returns the cheapest available machine of a stage, on shelves, that helps the Need at
// work; None if there is none.
func (l *worker) nextOnShelves(d *domainIndex, shelves []uint32, k *kind, stage int) columnar.Row {
	cost := l.costs(k, stage)
	best, bestKey := columnar.None, ^uint64(0)
	for _, i := range shelves {
		sh := &d.shelves[i]
		if sh.state != stateOf[stage] || sh.left == 0 || l.classMask[sh.class]&l.lacks == 0 || !k.acceptsClass(sh.class) {
			continue
		}
		for int(sh.at) < len(sh.rows) && (l.taken[sh.rows[sh.at]] || l.reserved.lower.has(sh.rows[sh.at])) {
			sh.at++
		}
		if int(sh.at) == len(sh.rows) {
			continue // all that is left is held for others
		}
		l.probes++
		r := sh.rows[sh.at]
		if key := uint64(cost[sh.class])<<32 | uint64(l.free[stage].place[r]); key < bestKey {
			best, bestKey = r, key
		}
	}
	return best
}
