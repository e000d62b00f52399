package victims

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// A need of few machines finds what it takes in a few of thousands of gangs. So the gangs of a scope are read in the order of
// a lower bound of the keys of their units, as far as a choice goes.
//
// Gangs that have something above their minimum lie in a heap, which stays as it is while a need chooses: it is read from its root
// down. Their bounds only rise. One of which something was taken gets its new bound before the next need reads.
//
// The others are taken as a whole or not at all. Those of one band whose machines are of the same classes, as many of them in the scope, are one
// list, by key: for most needs they offer the same, and only the first of them matter.

// prospect is a gang with a lower bound of the keys of its units.
type prospect struct {
	band, score float64
	gang        int32
	lostAt      int32       // units.Gang.LostAt when the bound was formed
	class       units.Class // ClassElastic, or ClassWhole: it has nothing above its minimum any more
}

// WholeList is gangs of one band that are taken as a whole, with as many machines of each class and as many of these in the scope, by key.
type WholeList struct {
	band  float64
	gangs []wholeGang
	skip  int32 // all lists from it up to this one are gone
}

// wholeGang is a gang of a list; all from it to skip are gone.
type wholeGang struct{ gang, skip int32 }

// prospects is the gangs of a scope, and what of them the need at work has read.
type prospects struct {
	heap     []prospect
	wholes   []WholeList // by band
	least    prospect    // a bound of all, if measured
	measured bool
	listed   bool    // heap and wholes are filled
	stale    []int32 // in heap: prospects of which something was taken since
	// frontier is, of heap, a heap of those that were not read and whose parents were; wholeAt is how many of wholes were read.
	frontier []int32
	wholeAt  int
}

func (x *prospects) begin() {
	x.heap, x.wholes, x.stale, x.frontier = x.heap[:0], x.wholes[:0], x.stale[:0], x.frontier[:0]
	x.measured, x.listed = false, false
}

// ReadGangs begins to read the gangs of a scope for a need of a kind.
func (x *UnitScope) ReadGangs(l *Worker, k *state.Kind) {
	h, t := &x.prospects, &l.p.st.Gangs
	if !h.measured { // many scopes have only gangs that go behind everything that is chosen in them: these are not sorted
		h.measured = true
		for i, at := range x.Gangs {
			if p := prospectOf(l, at, k.Priority); i == 0 || t.compareProspects(&p, &h.least) < 0 {
				h.least = p
			}
		}
	}
	if h.listed {
		h.rewind(l, k)
	}
}

// rewind begins to read from the start.
func (x *prospects) rewind(l *Worker, k *state.Kind) {
	// From the end on: sifting moves only what is behind.
	slices.Sort(x.stale)
	for _, i := range slices.Backward(x.stale) {
		x.heap[i] = prospectOf(l, x.heap[i].gang, k.Priority)
		siftDown(x.heap, int(i), l.p.st.Gangs.compareProspects)
	}
	x.stale, x.frontier, x.wholeAt = x.stale[:0], x.frontier[:0], 0
	if len(x.heap) > 0 {
		x.frontier = append(x.frontier, 0)
	}
}

// wholeDraft is a gang that is taken as a whole, before it is put into a list.
type wholeDraft struct {
	prospect
	places uint64 // of the whole fleet: the number of its set of classes; else a hash of placeOf
	id     uint32 // the rank of the least id of its machines
}

// listGangs lays the gangs of a scope into the heap and into lists.
func (x *UnitScope) listGangs(l *Worker, k *state.Kind) {
	h, t, wholes := &x.prospects, &l.p.st.Gangs, l.Finding.wholes[:0]
	for _, at := range x.Gangs {
		g := &t.List[at]
		switch p := prospectOf(l, at, k.Priority); {
		case math.IsInf(p.band, 1): // it is gone
		case slices.ContainsFunc(g.Roles, func(role units.GangRole) bool { return role.Surplus }):
			h.heap = append(h.heap, p)
		default:
			w := wholeDraft{prospect: p, id: l.p.Snap.IDRank(g.Members[0])}
			if x.Value == 0 {
				w.places = uint64(t.classes.of(l, at))
			} else {
				w.places = hashOf(g, func(r columnar.Row) uint64 { return x.placeOf(l.p, r, k.Matcher) })
			}
			wholes = append(wholes, w)
		}
	}
	l.Finding.wholes = wholes
	slices.SortFunc(h.heap, func(a, b prospect) int { return t.compareProspects(&a, &b) })
	slices.SortFunc(wholes, func(a, b wholeDraft) int {
		return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.places, b.places), t.compareProspects(&a.prospect, &b.prospect), cmp.Compare(a.id, b.id))
	})
	block := alloc.MakeDirty[wholeGang](l.Arena, len(wholes))
	for i := range wholes {
		block[i] = wholeGang{gang: wholes[i].gang}
		if i > 0 && wholes[i].band == wholes[i-1].band && wholes[i].places == wholes[i-1].places && (x.Value == 0 || x.offerTheSame(l, k.Matcher, wholes[i].gang, wholes[i-1].gang)) {
			last := &h.wholes[len(h.wholes)-1]
			last.gangs = last.gangs[:len(last.gangs)+1]
		} else {
			h.wholes = append(h.wholes, WholeList{band: wholes[i].band, gangs: block[i : i+1]})
		}
	}
}

// placeOf is a machine's class, and whether it lies in the scope, which is a domain.
func (x *UnitScope) placeOf(p *Pass, r columnar.Row, matcher uint32) uint64 {
	place := uint64(p.Snap.View.Class[r]) << 1
	if value, ok := p.Cell(matcher, r); ok && value == x.Value {
		place++
	}
	return place
}

// offerTheSame reports whether two gangs have as many machines of each class, and as many of them in the scope, which is a domain.
func (x *UnitScope) offerTheSame(l *Worker, matcher uint32, a, b int32) bool {
	return l.Finding.areEqual(&l.p.st.Gangs, a, b, func(r columnar.Row) uint64 { return x.placeOf(l.p, r, matcher) })
}

// hashOf is a hash of a value of a gang's machines, in whatever order they are.
func hashOf(g *units.Gang, value func(columnar.Row) uint64) (sum uint64) {
	for _, r := range g.Members {
		hash := plan.Hash(plan.HashStart)
		hash.Add(value(r))
		sum += uint64(hash)
	}
	return sum
}

// areEqual reports whether the machines of two gangs have equal values, in whatever order.
func (x *Finding) areEqual(t *gangTable, a, b int32, value func(columnar.Row) uint64) bool {
	for i, gang := range []int32{a, b} {
		x.values[i] = x.values[i][:0]
		for _, r := range t.List[gang].Members {
			x.values[i] = append(x.values[i], value(r))
		}
		slices.Sort(x.values[i])
	}
	return slices.Equal(x.values[0], x.values[1])
}

// classSets numbers the sets of classes that gangs have machines of.
type classSets map[uint64]int32 // by hash: a gang that has it

// of returns the number of a gang's set, which is 1 + a gang that has it. Equal hashes are resolved by linear probing.
func (x classSets) of(l *Worker, gang int32) int32 {
	t := &l.p.st.Gangs
	g := &t.List[gang]
	if g.Classes != 0 {
		return g.Classes
	}
	class := func(r columnar.Row) uint64 { return uint64(l.p.Snap.View.Class[r]) }
	for hash := hashOf(g, class); ; hash++ {
		first, known := x[hash]
		if !known {
			first, x[hash] = gang, gang
		}
		if l.Finding.areEqual(t, first, gang, class) {
			g.Classes = 1 + first
			return g.Classes
		}
	}
}

// NextGang returns the gang or the list of gangs that comes next by the bound of its units, if that is below a limit (nil = any). The kind is the one
// that ReadGangs was called with. ok = false if there is none.
func (x *UnitScope) NextGang(l *Worker, k *state.Kind, limit *units.Key) (gang int32, list *WholeList, ok bool) {
	h, p, t := &x.prospects, l.p, &l.p.st.Gangs
	if !h.listed {
		if len(x.Gangs) == 0 {
			return 0, nil, false
		}
		if least := t.leastKey(&h.least); limit != nil && least.Compare(limit) >= 0 {
			return 0, nil, false
		}
		h.listed = true
		x.listGangs(l, k)
		h.rewind(l, k)
	}
	least := units.Key{Paid: true, Band: math.Inf(1)}
	if len(h.frontier) > 0 {
		least = t.leastKey(&h.heap[h.frontier[0]])
	}
	if h.wholeAt = h.nextList(p, h.wholeAt); h.wholeAt < len(h.wholes) {
		first := units.Key{Paid: true, Band: h.wholes[h.wholeAt].band, Class: units.ClassWhole, Roi: math.MinInt64}
		if first.Compare(&least) < 0 {
			if limit != nil && first.Compare(limit) >= 0 {
				return 0, nil, false
			}
			h.wholeAt++
			return 0, &h.wholes[h.wholeAt-1], true
		}
	}
	if math.IsInf(least.Band, 1) || limit != nil && least.Compare(limit) >= 0 {
		return 0, nil, false
	}
	return h.pop(t), nil, true
}

// nextList returns the index of the first list, from an index on, that has a gang of which a machine is left. It compresses the path as
// [WholeList.Next] does.
func (x *prospects) nextList(p *Pass, from int) int {
	at := from
	for at < len(x.wholes) {
		if _, _, ok := x.wholes[at].Next(p, 0); ok {
			break
		}
		at = max(at+1, int(x.wholes[at].skip))
	}
	if at > from {
		x.wholes[from].skip = int32(at)
	}
	return at
}

// pop reads the gang at the frontier that comes first.
func (x *prospects) pop(t *gangTable) int32 {
	at := x.frontier[0]
	compare := func(a, b *int32) int { return t.compareProspects(&x.heap[*a], &x.heap[*b]) }
	last := len(x.frontier) - 1
	x.frontier[0] = x.frontier[last]
	x.frontier = x.frontier[:last]
	siftDown(x.frontier, 0, compare)
	for child := 2*at + 1; child <= 2*at+2 && int(child) < len(x.heap); child++ {
		x.frontier = append(x.frontier, child)
		siftUp(x.frontier, compare)
	}
	next := &x.heap[at]
	if int(next.lostAt) != t.List[next.gang].LostAt {
		x.stale = append(x.stale, at)
	}
	return next.gang
}

// Next returns the first gang of a list, from an index on, of which a machine is left, and its index; false when there is none. It compresses the
// path over those of which none is, as union-find does.
func (x *WholeList) Next(p *Pass, from int) (gang int32, at int, ok bool) {
	at = from
	for at < len(x.gangs) && !hasMembers(p, &p.st.Gangs.List[x.gangs[at].gang]) {
		at = max(at+1, int(x.gangs[at].skip))
	}
	if at > from {
		x.gangs[from].skip = int32(at)
	}
	if at == len(x.gangs) {
		return 0, at, false
	}
	return x.gangs[at].gang, at, true
}

// hasMembers reports whether a gang has a machine that no plan has taken.
func hasMembers(p *Pass, g *units.Gang) bool {
	return slices.ContainsFunc(g.Members, func(r columnar.Row) bool { return !p.Preempted.VictimOf.Has(uint32(r)) })
}

// prospectOf forms the bound of a gang for needs of a priority. A gang with nothing above its minimum is taken as a whole or not at all; its score
// is the least of its members'. Once a machine that another can miss leaves, the rest may be without the member that bounded the score, so it
// counts with the best of its members. A gang without members has the band +∞.
func prospectOf(l *Worker, gang, priority int32) prospect {
	g := &l.p.st.Gangs.List[gang]
	best, least := math.Inf(-1), math.Inf(1)
	for _, r := range g.Members {
		if !l.p.Preempted.VictimOf.Has(uint32(r)) {
			score := l.p.Score(r, priority, l.p.st.Priority[r])
			best, least = max(best, score), min(least, score)
		}
	}
	x := prospect{band: math.Inf(1), gang: gang, lostAt: int32(g.LostAt), class: units.ClassWhole}
	switch {
	case math.IsInf(least, 1):
	case l.Finding.spares.inGang(l, g):
		x.class, x.band, x.score = units.ClassElastic, l.p.Band(best), -best
	default:
		x.band, x.score = l.p.Band(least), -least
	}
	return x
}

// spareSums is scratch: what a need has, what it needs at the least, and what it has without one machine.
type spareSums struct{ sum, least, rest []int64 }

// inGang reports whether a role of a gang has a machine without which its others cover its minimum. It is memoized until the gang loses one.
func (x *spareSums) inGang(l *Worker, g *units.Gang) bool {
	if g.SpareAt != g.LostAt+1 {
		g.SpareAt = g.LostAt + 1
		g.HasSpare = slices.ContainsFunc(g.Roles, func(role units.GangRole) bool { return role.Surplus && x.some(l, role.Need) })
	}
	return g.HasSpare
}

// some reports whether a need has a machine without which the others cover its minimum.
func (x *spareSums) some(l *Worker, need int32) bool {
	x.sum, x.least, x.rest = reuse.Resize(x.sum, l.p.Dims), reuse.Resize(x.least, l.p.Dims), reuse.Resize(x.rest, l.p.Dims)
	l.p.EachRow(need, func(src *state.Source, i int) { l.p.AddMinimum(x.least, src.Block, i) })
	n := &l.p.Lines[need]
	for n, r := l.p.Claims.Walk(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		if !l.p.Preempted.VictimOf.Has(uint32(r)) {
			columnar.SatAdd(x.sum, l.p.Vec(r))
		}
	}
	if slices.Contains(x.sum, math.MaxInt64) {
		return true // nothing can be subtracted from such a sum
	}
	for n, r := l.p.Claims.Walk(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		copy(x.rest, x.sum)
		columnar.SubClamp(x.rest, l.p.Vec(r))
		if !l.p.Preempted.VictimOf.Has(uint32(r)) && columnar.Covers(x.rest, x.least) {
			return true
		}
	}
	return false
}

// leastKey is a prospect's bound as a key.
func (t *gangTable) leastKey(x *prospect) units.Key {
	g := &t.List[x.gang]
	k := units.Key{Paid: true, Band: x.band, Class: x.class, Score: x.score, Cluster: g.Cluster, Group: g.Group}
	if x.class == units.ClassWhole {
		k.Roi = math.MinInt64 // it depends on what a need lacks
	}
	return k
}

// compareProspects orders gangs by their bounds, as [units.Key.Compare] does.
func (t *gangTable) compareProspects(a, b *prospect) int {
	if c := cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.class, b.class), cmp.Compare(a.score, b.score)); c != 0 {
		return c
	}
	g, o := &t.List[a.gang], &t.List[b.gang]
	return cmp.Or(cmp.Compare(g.Cluster, o.Cluster), cmp.Compare(g.Group, o.Group))
}

// siftDown moves the element at an index down to its place in a heap whose other elements are in theirs.
func siftDown[T any](heap []T, at int, compare func(a, b *T) int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(heap); child++ {
			if compare(&heap[child], &heap[least]) < 0 {
				least = child
			}
		}
		if least == at {
			return
		}
		heap[at], heap[least] = heap[least], heap[at]
		at = least
	}
}

// siftUp moves the last element up to its place in a heap.
func siftUp[T any](heap []T, compare func(a, b *T) int) {
	for at := len(heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if compare(&heap[at], &heap[parent]) >= 0 {
			return
		}
		heap[at], heap[parent] = heap[parent], heap[at]
		at = parent
	}
}
