package victims

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// A need of few machines finds what it takes in a few of thousands of gangs. So the gangs of the whole fleet are listed by a lower bound
// of the keys of their units, as far as a choice goes. They lie in a heap, which stays as it is while a need chooses: it is read
// from its root down. Bounds only rise. A gang of which something was taken gets its new bound before the next need reads.

// prospect is a gang with a lower bound of the keys of its units.
type prospect struct {
	band, score float64
	gang        int32
	lostAt      int32       // units.Gang.LostAt when the bound was formed
	class       units.Class // ClassElastic, or ClassWhole: it has nothing above its minimum
}

// prospects is the gangs of a scope as a heap, and the part of it that the need at work has read.
type prospects struct {
	heap     []prospect
	listed   bool
	stale    []int32 // in heap: prospects of which something was taken since
	frontier []int32 // in heap: a heap of those that were not read and whose parents were
}

func (x *prospects) begin() {
	x.heap, x.stale, x.frontier, x.listed = x.heap[:0], x.stale[:0], x.frontier[:0], false
}

// ReadGangs begins to read the gangs of a scope for needs of a priority.
func (x *UnitScope) ReadGangs(l *Worker, priority int32) {
	h := &x.prospects
	if !h.listed {
		h.listed = true
		for _, at := range x.Gangs {
			h.heap = append(h.heap, prospectOf(l, at, priority))
		}
		slices.SortFunc(h.heap, func(a, b prospect) int { return l.p.st.Gangs.compareProspects(&a, &b) })
	}
	// From the end on: sifting moves only what is behind.
	slices.Sort(h.stale)
	for _, i := range slices.Backward(h.stale) {
		h.heap[i] = prospectOf(l, h.heap[i].gang, priority)
		siftDown(h.heap, int(i), l.p.st.Gangs.compareProspects)
	}
	h.stale, h.frontier = h.stale[:0], h.frontier[:0]
	if len(h.heap) > 0 {
		h.frontier = append(h.frontier, 0)
	}
}

// NextGang returns the next gang, by the bound of its units, if that is below a limit (nil = any); false if there is none.
func (x *UnitScope) NextGang(p *Pass, limit *units.Key) (gang int32, ok bool) {
	h := &x.prospects
	if len(h.frontier) == 0 {
		return 0, false
	}
	at := h.frontier[0]
	next := &h.heap[at]
	if least := p.st.Gangs.leastKey(next); math.IsInf(next.band, 1) || limit != nil && least.Compare(limit) >= 0 {
		return 0, false
	}
	compare := func(a, b *int32) int { return p.st.Gangs.compareProspects(&h.heap[*a], &h.heap[*b]) }
	last := len(h.frontier) - 1
	h.frontier[0] = h.frontier[last]
	h.frontier = h.frontier[:last]
	siftDown(h.frontier, 0, compare)
	for child := 2*at + 1; child <= 2*at+2 && int(child) < len(h.heap); child++ {
		h.frontier = append(h.frontier, child)
		siftUp(h.frontier, compare)
	}
	if int(next.lostAt) != p.st.Gangs.List[next.gang].LostAt {
		h.stale = append(h.stale, at)
	}
	return next.gang, true
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
