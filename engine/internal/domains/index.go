// Package domains indexes free machines by the values of Same keys, and compares what a Need could have
// in each domain.
package domains

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// shelf lists the free machines of one class and state in one domain.
type shelf struct {
	value uint32 // of the key
	Class uint32
	Stage int // 0 for Idle, 1 for Speculative
	Rows  []columnar.Row
	Left  int32  // how many are not taken, held ones included
	At    uint32 // index of the first that may be available: those before it are taken or held
}

// Index indexes the free machines by value of one Same key. Counts are updated incrementally as
// machines are taken, so a domain's total is a sum over its few shelves, not over its machines.
type Index struct {
	Shelves []shelf
	rows    bitmap.Numbered // the machines that have a shelf
	shelfOf []uint32        // by their numbers: the shelf
	place   []uint32        // by value: its place in the order of texts
	// Touched is an append-only log of the domains of which a machine was taken or put back. Views keep
	// a cursor into it.
	Touched []uint32
	views   map[uint32]*View // by matcher
	// generation counts the builds of the index. Stale says that it was built in another cycle.
	generation uint64
	Stale      bool
	arena      *alloc.Arena // of the cycle: kinds of domains are allocated there
	free       []freeList   // scratch of Build
	s          *snapshot.Snapshot
	dims       int // dimensions that the demand names
}

// freeList is the free machines of a class and state.
type freeList struct {
	class uint32
	stage int
	rows  []columnar.Row
}

// Domain has the shelves of one domain that a matcher accepts.
type Domain struct {
	Value   uint32
	Shelves []uint32
}

// View lists the domains that have machines for a matcher. Racks are bought by the hundred and
// used alike: domains with equal numbers of machines left of each class and state have equal totals,
// and form one kind of domains. The first domain of a kind, by value, stands for all of it. So a Need
// rates kinds of domains, which are few, not domains.
type View struct {
	List   []Domain          // sorted by value as text
	place  map[uint32]uint32 // value → place in list
	kinds  []kind
	byKey  map[uint64]int32 // by a hash of the key; see find
	live   []int32          // kinds that may have domains
	kindOf []int32          // by place: the kind; −1 = nothing left
	read   int              // cursor into Index.Touched
	dirty  []bool           // by place: it is in queue
	// queue are places whose kind must be recomputed.
	queue []uint32
	key   []byte
	skip  []uint32 // scratch
	fit   []uint32 // the shelves that list slices
	built uint64   // generation of the index when the view was built
}

// kind is a kind of domains: a min-heap of places. Deletion is lazy: a place whose kind has
// changed stays in the heap until it comes to the top.
type kind struct {
	// key is, for each class and state with machines left: class, then count and state, in 8 bytes.
	key    []byte
	places []uint32
	total  []int64 // what is left in each of its domains
	count  int     // machines left in each of its domains
}

// shelf returns the shelf of a machine; nil when it has none.
func (d *Index) shelf(r columnar.Row) *shelf {
	if !d.rows.Has(uint32(r)) {
		return nil
	}
	return &d.Shelves[d.shelfOf[d.rows.Number(uint32(r))]]
}

// take counts a taken machine off its shelf.
func (d *Index) take(r columnar.Row) {
	if sh := d.shelf(r); sh != nil {
		sh.Left--
		d.Touched = append(d.Touched, sh.value)
	}
}

// putBack undoes take.
func (d *Index) putBack(r columnar.Row) {
	if sh := d.shelf(r); sh != nil {
		sh.Left++
		sh.At = 0
		d.Touched = append(d.Touched, sh.value)
	}
}

// Indexes are the indexes of a worker, by Same key; each is built when it is first needed in a cycle.
type Indexes []*Index

// At returns the index of a Same key. It may be stale.
func (x *Indexes) At(key int) *Index {
	for len(*x) <= key {
		*x = append(*x, &Index{views: map[uint32]*View{}, Stale: true})
	}
	return (*x)[key]
}

// Forget makes all indexes stale.
func (x Indexes) Forget() {
	for _, d := range x {
		d.Stale = true
	}
}

// Take tells the indexes that a free machine is taken.
func (x Indexes) Take(r columnar.Row) {
	for _, d := range x {
		if !d.Stale {
			d.take(r)
		}
	}
}

// PutBack undoes take.
func (x Indexes) PutBack(r columnar.Row) {
	for _, d := range x {
		if !d.Stale {
			d.putBack(r)
		}
	}
}

// Rewind makes the indexes find a machine again that is no longer held.
func (x Indexes) Rewind(r columnar.Row) {
	for _, d := range x {
		if d.Stale {
			continue
		}
		if sh := d.shelf(r); sh != nil {
			sh.At = 0
		}
	}
}

// ShelvesOf returns the shelves of a domain; nil when it has none.
func (v *View) ShelvesOf(value uint32) []uint32 {
	if at, ok := v.place[value]; ok {
		return v.List[at].Shelves
	}
	return nil
}

// catchUp reclassifies the domains that were touched since the last call.
func (v *View) catchUp(d *Index) {
	for ; v.read < len(d.Touched); v.read++ {
		if at, ok := v.place[d.Touched[v.read]]; ok && !v.dirty[at] {
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

// classify computes the kind of the domain in a place, and adds the place to that kind.
func (v *View) classify(d *Index, at uint32) {
	v.key = v.key[:0]
	for _, i := range v.List[at].Shelves {
		if sh := &d.Shelves[i]; sh.Left > 0 {
			v.key = binary.LittleEndian.AppendUint32(v.key, sh.Class)
			v.key = binary.LittleEndian.AppendUint32(v.key, uint32(sh.Left)<<8|uint32(sh.Stage))
		}
	}
	if len(v.key) == 0 {
		v.kindOf[at] = -1
		return
	}
	k := v.find(d, at)
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
func (v *View) find(d *Index, at uint32) int32 {
	h := plan.Hash(plan.HashStart)
	for i := 0; i < len(v.key); i += 8 {
		h.Add(binary.LittleEndian.Uint64(v.key[i:]))
	}
	for ; ; h++ {
		k, ok := v.byKey[uint64(h)]
		if !ok {
			k = int32(len(v.kinds))
			v.byKey[uint64(h)] = k
			v.addKind(d, at)
			return k
		}
		if bytes.Equal(v.kinds[k].key, v.key) {
			return k
		}
	}
}

// addKind adds the kind of a domain, whose key is v.key.
func (v *View) addKind(d *Index, at uint32) {
	v.kinds = append(v.kinds, kind{key: alloc.MakeDirty[byte](d.arena, len(v.key)), total: alloc.Make[int64](d.arena, d.dims)})
	k := &v.kinds[len(v.kinds)-1]
	copy(k.key, v.key)
	for _, i := range v.List[at].Shelves {
		if sh := &d.Shelves[i]; sh.Left > 0 {
			k.count += int(sh.Left)
			columnar.SatAddScaled(k.total, d.s.Vector(sh.Class)[:d.dims], int64(sh.Left))
		}
	}
}

func (k *kind) push(a *alloc.Arena, at uint32) {
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

func (k *kind) pop() {
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
func (v *View) first(d *Index, kind int, skip func(at uint32) bool) (uint32, bool) {
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

// Build fills an index of a key for this cycle, with the classes that share says. O(free machines with
// the key).
func (d *Index) Build(s *snapshot.Snapshot, a *alloc.Arena, dims, key int, taken []bool, share func(class uint32) bool, byText *columnar.StringSorter) {
	d.generation++
	d.Stale, d.arena, d.s, d.dims = false, a, s, dims
	d.Shelves, d.Touched = d.Shelves[:0], d.Touched[:0]
	values := s.Supply.Values(key)
	shelfAt := alloc.Make[uint32](a, s.Supply.ValueIDMax()) // by value, for the class and state at hand
	sameOn := func(m uint32) bool { return s.Supply.SameKey(m) == key }
	d.free = d.free[:0]
	for c := range s.Classes {
		if share(uint32(c)) && slices.ContainsFunc(s.Classes[c].Matchers, sameOn) {
			d.free = append(d.free, freeList{uint32(c), 0, s.Idle.At(c)}, freeList{uint32(c), 1, s.Speculative.At(c)})
		}
	}
	all, count := bitmap.DenseIn(a, s.Supply.RowMax()), 0
	for i := range d.free {
		for _, r := range d.free[i].rows {
			if values[r] != 0 {
				all.Set(uint32(r))
				count++
			}
		}
	}
	d.rows, d.shelfOf = bitmap.NumberedIn(a, &all), alloc.MakeDirty[uint32](a, count)
	for i := range d.free {
		d.shelve(&d.free[i], values, shelfAt, taken)
	}
	d.placeValues(byText)
}

// shelve puts the free machines of a class and state on shelves, one for each value. shelfAt is zeros, by value, before and after.
func (d *Index) shelve(of *freeList, values, shelfAt []uint32, taken []bool) {
	if len(of.rows) == 0 {
		return
	}
	first, shelves := len(d.Shelves), d.Shelves
	for _, r := range of.rows {
		v := values[r]
		if v == 0 {
			continue
		}
		i := shelfAt[v]
		if i == 0 {
			shelves = append(shelves, shelf{value: v, Class: of.class, Stage: of.stage})
			i = uint32(len(shelves))
			shelfAt[v] = i
		}
		d.shelfOf[d.rows.Number(uint32(r))] = i - 1
		shelves[i-1].Left++
	}
	d.Shelves = shelves
	for i := range shelves[first:] {
		sh := &shelves[first+i]
		sh.Rows = alloc.MakeDirty[columnar.Row](d.arena, int(sh.Left))[:0]
	}
	for _, r := range of.rows {
		if v := values[r]; v != 0 {
			shelves[shelfAt[v]-1].put(r, taken[r])
		}
	}
	for i := range shelves[first:] {
		shelfAt[shelves[first+i].value] = 0
	}
}

// put appends a machine that was counted. A taken one is counted off again.
func (sh *shelf) put(r columnar.Row, taken bool) {
	sh.Rows = append(sh.Rows, r)
	if taken {
		sh.Left--
	}
}

// placeValues finds the place, in the order of texts, of each value that shelves have.
func (d *Index) placeValues(byText *columnar.StringSorter) {
	values := alloc.MakeDirty[columnar.Row](d.arena, len(d.Shelves))
	for i := range d.Shelves {
		values[i] = columnar.Row(d.Shelves[i].value)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	byText.Sort(values, func(v columnar.Row) string { return d.s.Supply.ValueString(uint32(v)) })
	d.place = alloc.Make[uint32](d.arena, d.s.Supply.ValueIDMax())
	for i, v := range values {
		d.place[v] = uint32(i)
	}
}

// Of returns the view of a matcher, built when it is first needed in a generation.
func (d *Index) Of(matcher uint32) *View {
	v := d.views[matcher]
	if v == nil {
		v = &View{place: map[uint32]uint32{}, byKey: map[uint64]int32{}}
		d.views[matcher] = v
	}
	if v.built == d.generation {
		return v
	}
	v.built, v.read = d.generation, len(d.Touched)
	clear(v.place)
	clear(v.byKey)
	v.kinds, v.live, v.queue = v.kinds[:0], v.live[:0], v.queue[:0]
	v.listFor(d, matcher)
	v.kindOf, v.dirty = reuse.Resize(v.kindOf, len(v.List)), reuse.Resize(v.dirty, len(v.List))
	for at, ds := range v.List {
		v.place[ds.Value] = uint32(at)
		v.kindOf[at] = -1
		v.classify(d, uint32(at))
	}
	return v
}

// listFor fills list and fit: the domains with machines for a matcher, sorted by value as text.
func (v *View) listFor(d *Index, matcher uint32) {
	fit := v.fit[:0]
	for i := range d.Shelves {
		sh := &d.Shelves[i]
		if _, in := d.s.Supply.Domain(matcher, sh.Rows[0]); in && d.s.Classes[sh.Class].Matches(matcher) {
			fit = append(fit, uint32(i))
		}
	}
	slices.SortFunc(fit, func(a, b uint32) int {
		// Then by shelf, which is by class and state: equal kinds of domains get equal keys.
		return cmp.Or(cmp.Compare(d.place[d.Shelves[a].value], d.place[d.Shelves[b].value]), cmp.Compare(a, b))
	})
	list := v.List[:0]
	for from := 0; from < len(fit); {
		to := from + 1
		for to < len(fit) && d.Shelves[fit[to]].value == d.Shelves[fit[from]].value {
			to++
		}
		list = append(list, Domain{Value: d.Shelves[fit[from]].value, Shelves: fit[from:to]})
		from = to
	}
	v.fit, v.List = fit, list
}

// AddLeft adds to a sum what is left on shelves of accepted classes, and returns how many machines these
// are.
func (d *Index) AddLeft(sum []int64, shelves []uint32, accepts []uint64) int {
	count := 0
	for _, i := range shelves {
		if sh := &d.Shelves[i]; sh.Left > 0 && accepts[sh.Class>>6]>>(sh.Class&63)&1 == 1 {
			count += int(sh.Left)
			columnar.SatAddScaled(sum, d.s.Vector(sh.Class)[:d.dims], int64(sh.Left))
		}
	}
	return count
}
