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
}

// wholeGang is a gang of a list; all from it to skip are gone.
type wholeGang struct{ gang, skip int32 }

// prospects is the gangs of a scope, and what of them the need at work has read.
type prospects struct {
	heap   []prospect
	wholes []WholeList // by band
	listed bool
	stale  []int32 // in heap: prospects of which something was taken since
	// frontier is, of heap, a heap of those that were not read and whose parents were; wholeAt is how many of wholes were read.
	frontier []int32
	wholeAt  int
}

func (x *prospects) begin() {
	x.heap, x.wholes, x.stale, x.frontier, x.listed = x.heap[:0], x.wholes[:0], x.stale[:0], x.frontier[:0], false
}

// ReadGangs begins to read the gangs of a scope for a need of a kind.
func (x *UnitScope) ReadGangs(l *Worker, k *state.Kind) {
	h, t := &x.prospects, &l.p.st.Gangs
	if !h.listed {
		h.listed = true
		x.listGangs(l, k)
	}
	// From the end on: sifting moves only what is behind.
	slices.Sort(h.stale)
	for _, i := range slices.Backward(h.stale) {
		h.heap[i] = prospectOf(l, h.heap[i].gang, k.Priority)
		siftDown(h.heap, int(i), t.compareProspects)
	}
	h.stale, h.frontier, h.wholeAt = h.stale[:0], h.frontier[:0], 0
	if len(h.heap) > 0 {
		h.frontier = append(h.frontier, 0)
	}
}

// wholeDraft is a gang that is taken as a whole, before it is put into a list.
type wholeDraft struct {
	prospect
	places uint64 // a hash of its machines' classes, and which of them lie in the scope
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
			for _, r := range g.Members {
				hash := plan.Hash(plan.HashStart)
				hash.Add(x.placeOf(l.p, r, k.Matcher))
				w.places += uint64(hash) // in whatever order
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
		if i > 0 && wholes[i].band == wholes[i-1].band && wholes[i].places == wholes[i-1].places && x.offerTheSame(l, k.Matcher, wholes[i].gang, wholes[i-1].gang) {
			last := &h.wholes[len(h.wholes)-1]
			last.gangs = last.gangs[:len(last.gangs)+1]
		} else {
			h.wholes = append(h.wholes, WholeList{wholes[i].band, block[i : i+1]})
		}
	}
}

// placeOf is a machine's class, and whether it lies in the scope.
func (x *UnitScope) placeOf(p *Pass, r columnar.Row, matcher uint32) uint64 {
	place := uint64(p.Snap.View.Class[r]) << 1
	if value, ok := p.Cell(matcher, r); ok && (x.Value == 0 || value == x.Value) {
		place++
	}
	return place
}

// offerTheSame reports whether two gangs have as many machines of each class, and as many of them in the scope.
func (x *UnitScope) offerTheSame(l *Worker, matcher uint32, a, b int32) bool {
	places := &l.Finding.places
	for i, gang := range []int32{a, b} {
		places[i] = places[i][:0]
		for _, r := range l.p.st.Gangs.List[gang].Members {
			places[i] = append(places[i], x.placeOf(l.p, r, matcher))
		}
		slices.Sort(places[i])
	}
	return slices.Equal(places[0], places[1])
}

// NextGang returns the gang or the list of gangs that comes next by the bound of its units, if that is below a limit (nil = any).
// ok = false if there is none.
func (x *UnitScope) NextGang(p *Pass, limit *units.Key) (gang int32, list *WholeList, ok bool) {
	h, t := &x.prospects, &p.st.Gangs
	least := units.Key{Paid: true, Band: math.Inf(1)}
	if len(h.frontier) > 0 {
		least = t.leastKey(&h.heap[h.frontier[0]])
	}
	if h.wholeAt < len(h.wholes) {
		k := units.Key{Paid: true, Band: h.wholes[h.wholeAt].band, Class: units.ClassWhole, Roi: math.MinInt64}
		if k.Compare(&least) < 0 {
			if limit != nil && k.Compare(limit) >= 0 {
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
	case slices.ContainsFunc(g.Roles, func(role units.GangRole) bool { return role.Surplus && l.Finding.spares.some(l, role.Need) }):
		x.class, x.band, x.score = units.ClassElastic, l.p.Band(best), -best
	default:
		x.band, x.score = l.p.Band(least), -least
	}
	return x
}

// spareSums is scratch: what a need has, what it needs at the least, and what it has without one machine.
type spareSums struct{ sum, least, rest []int64 }

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
