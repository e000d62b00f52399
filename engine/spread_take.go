package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// acquireDealt is acquireSpread for needs whose classes do not determine the tuples, or that
// may use machines that are held for them or for lower ranks.
func (l *worker) acquireDealt(need int32, k *kind) {
	sc := &l.spread
	l.startSpread(k)
	for r := l.lines[need].head; r != columnar.None; r = l.held[r].next {
		sc.count(l.pass, r)
	}
	var lacked [2]uint64
	for stage := range l.free {
		if l.lacks == 0 {
			return
		}
		d := l.dealFor(need, k, stage)
		l.openDeal(d, need, k, stage)
		for l.lacks != 0 {
			r := l.nextDealt(d, k, stage)
			if r == columnar.None {
				break
			}
			l.acquired(r, need, stage)
			sc.count(l.pass, r)
			d.noteTaken(l.pass, r)
		}
		l.closeDeal(d)
		lacked[stage] = l.lacks
	}
	if l.lacks != 0 && l.anyDealt(need, k, lacked) {
		l.noteSkewed(need)
	}
}

// openDeal prepares a deal for a need: it resets the floors.
func (l *worker) openDeal(d *spreadDeal, need int32, k *kind, stage int) {
	l.listOwn(d, need, k, stage)
	for i := range d.floors {
		f := &d.floors[i]
		if f.noted == nil {
			f.noted = map[uint32]bool{}
		}
		clear(f.noted)
		f.also, f.least, f.known = f.also[:0], 0, false
		f.i, f.j, f.low = 0, 0, math.MaxInt32
	}
	for _, r := range l.dealt.own {
		d.noteTaken(l.pass, r)
	}
}

// listOwn lists the machines that are held for a need and have all constrained keys.
func (l *worker) listOwn(d *spreadDeal, need int32, k *kind, stage int) {
	own := l.dealt.own[:0]
	if stage == 0 {
		for _, r := range l.reserved.of(need) {
			placed := !slices.ContainsFunc(d.keys, func(key int) bool { return l.s.Supply.Values(key)[r] == 0 })
			if placed && l.freeReserved(r, k) {
				own = append(own, r)
			}
		}
	}
	l.dealt.own = own
}

// closeDeal pushes back the heads that the need has popped.
func (l *worker) closeDeal(d *spreadDeal) {
	for i := range d.strata {
		s := &d.strata[i]
		for _, h := range s.looked {
			s.heads = l.push(d, s.heads, h)
		}
		s.looked, s.near, s.barred = s.looked[:0], s.near[:0], s.barred[:0]
	}
}

// noteTaken makes a taken machine's values count for the minima, whether or not another
// candidate is left there. It also drops a witness whose count has grown.
func (d *spreadDeal) noteTaken(p *pass, r columnar.Row) {
	for i, key := range d.keys {
		f := &d.floors[i]
		v := p.s.Supply.Values(key)[r]
		if !f.noted[v] {
			f.noted[v] = true
			f.also = append(f.also, v)
		}
		f.known = f.known && v != f.witness
	}
}

// nextDealt returns the next machine to take: among the tuples that the skew allows the
// cheapest head, among equals that of the smaller values.
func (l *worker) nextDealt(d *spreadDeal, k *kind, stage int) columnar.Row {
	l.findLeast(d)
	best := -1
	for i := range d.strata {
		s := &d.strata[i]
		if len(s.heads)+len(s.near)+len(s.barred) == 0 || !l.allowsStratum(d, i) {
			continue
		}
		if l.nearest(d, s, k, stage) && (best < 0 || l.goesFirst(d, s.near[0], d.strata[best].near[0])) {
			best = i
		}
	}
	if best < 0 {
		return columnar.None
	}
	return d.tuples.rows[d.strata[best].near[0].at]
}

// nearest brings the head that the need would take from a stratum to the top of s.near; false
// when there is none.
func (l *worker) nearest(d *spreadDeal, s *stratum, k *kind, stage int) bool {
	for {
		near := l.settleNear(d, s, k, stage)
		if !l.settleHeads(d, s, k, stage) || near && l.goesFirst(d, s.near[0], s.heads[0]) {
			return near
		}
		h := s.heads[0]
		s.heads = l.pop(d, s.heads)
		s.looked = append(s.looked, h)
		s.near = l.push(d, s.near, h)
	}
}

// settleHeads updates the top of a stratum's heap, and drops tuples that have no machine left,
// until the top is the cheapest; false when the heap is empty.
func (l *worker) settleHeads(d *spreadDeal, s *stratum, k *kind, stage int) bool {
	cost := l.tupleCosts(k, stage)
	for len(s.heads) > 0 {
		l.probes++
		h := &s.heads[0]
		g := &d.tuples.groups[h.tuple]
		if !l.skipTaken(&d.tuples, g) {
			s.heads = l.pop(d, s.heads)
			continue
		}
		h.at = g.at
		if c := l.headCost(cost, d.tuples.rows[g.at]); c != h.cost {
			h.cost = c
			l.sink(d, s.heads, 0)
			continue
		}
		return true
	}
	return false
}

// settleNear is settleHeads for s.near: it also skips machines that do not help the need, and
// moves tuples that the skew forbids to s.barred.
func (l *worker) settleNear(d *spreadDeal, s *stratum, k *kind, stage int) bool {
	cost := l.tupleCosts(k, stage)
	for len(s.near) > 0 {
		l.probes++
		h := &s.near[0]
		if !l.allowsFinest(d, h.tuple) {
			s.barred = append(s.barred, *h)
			s.near = l.pop(d, s.near)
			continue
		}
		// What is missing only shrinks, so a machine that does not help now never will.
		to, was := d.tuples.groups[h.tuple].to, h.cost
		for h.at < to && (l.taken[d.tuples.rows[h.at]] || !l.helps(d.tuples.rows[h.at])) {
			h.at++
		}
		if h.at == to {
			s.near = l.pop(d, s.near)
			continue
		}
		if h.cost = l.headCost(cost, d.tuples.rows[h.at]); h.cost != was {
			l.sink(d, s.near, 0)
			continue
		}
		return true
	}
	return false
}

// skipTaken advances to a group's first free machine; false when it has none.
func (l *worker) skipTaken(x *grouping, g *rowGroup) bool {
	for g.at < g.to && l.taken[x.rows[g.at]] {
		g.at++
	}
	return g.at < g.to
}

// findLeast updates the minima. If that of the finest constraint has risen, the skew may permit
// barred tuples again.
func (l *worker) findLeast(d *spreadDeal) {
	for i := range d.floors {
		f := &d.floors[i]
		was := f.least
		if !f.known {
			l.findWitness(f, l.spread.counts[i])
		}
		if i != d.finest || f.least == was {
			continue
		}
		for j := range d.strata {
			s := &d.strata[j]
			for _, h := range s.barred {
				s.near = l.push(d, s.near, h)
			}
			s.barred = s.barred[:0]
		}
	}
}

// findWitness finds a value with the least count. Counts only grow, so it continues where it
// stopped, and starts over only when all values have more: amortized O(1) per machine of the
// need.
func (l *worker) findWitness(f *spreadFloor, counts map[uint32]int32) {
	for f.known = true; ; {
		for f.i < len(f.live) {
			g := f.live[f.i]
			if !l.skipTaken(f.by, &f.by.groups[g]) { // gone for good; f.also has what the need took
				last := len(f.live) - 1
				f.live[f.i], f.live = f.live[last], f.live[:last]
			} else if f.witness = f.by.values[g]; counts[f.witness] == f.least {
				return
			} else {
				f.low = min(f.low, counts[f.witness])
				f.i++
			}
		}
		for ; f.j < len(f.also); f.j++ {
			if f.witness = f.also[f.j]; counts[f.witness] == f.least {
				return
			}
			f.low = min(f.low, counts[f.witness])
		}
		f.least = f.low
		if f.i, f.j, f.low = 0, 0, math.MaxInt32; f.least == math.MaxInt32 {
			return // no candidate
		}
	}
}

// allowsStratum reports whether the skew permits one more machine in a stratum, judged by all
// constraints but the finest.
func (l *worker) allowsStratum(d *spreadDeal, at int) bool {
	values := d.groups.valuesOf(int32(at))
	for i := range d.floors {
		if i == d.finest {
			continue
		}
		if !l.allowsValue(d, i, values[0]) {
			return false
		}
		values = values[1:]
	}
	return true
}

// allowsFinest reports the same for a tuple, judged by the finest constraint.
func (l *worker) allowsFinest(d *spreadDeal, tuple int32) bool {
	return l.allowsValue(d, d.finest, d.tuples.valuesOf(tuple)[d.finest])
}

func (l *worker) allowsValue(d *spreadDeal, i int, v uint32) bool {
	return int64(l.spread.counts[i][v]) <= int64(d.floors[i].least)+int64(d.spread[i].MaxSkew)-1
}

// anyDealt reports whether a free machine was left that has a dimension that was missing after
// its stage. Only the skew can have forbidden it, since the need takes what is held for it
// regardless of the skew.
func (l *worker) anyDealt(need int32, k *kind, lacked [2]uint64) bool {
	for stage := range l.free {
		helps := func(r columnar.Row) bool {
			return !l.taken[r] && l.classMask[l.s.View.Class[r]]&lacked[stage] != 0
		}
		d := l.dealFor(need, k, stage)
		for i := range d.strata {
			for _, h := range d.strata[i].heads {
				g := d.tuples.groups[h.tuple]
				if slices.ContainsFunc(d.tuples.rows[g.at:g.to], helps) {
					return true
				}
			}
		}
	}
	return false
}

// goesFirst orders heads of tuples: by cost, then by the tuples' values.
func (l *worker) goesFirst(d *spreadDeal, a, b dealtHead) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	return l.compareValues(d.tuples.valuesOf(a.tuple), d.tuples.valuesOf(b.tuple)) < 0
}

// push adds a head to a binary heap.
func (l *worker) push(d *spreadDeal, heap []dealtHead, h dealtHead) []dealtHead {
	heap = append(heap, h)
	for at := len(heap) - 1; at > 0; {
		up := (at - 1) / 2
		if !l.goesFirst(d, heap[at], heap[up]) {
			break
		}
		heap[at], heap[up] = heap[up], heap[at]
		at = up
	}
	return heap
}

// pop removes the first head of a heap.
func (l *worker) pop(d *spreadDeal, heap []dealtHead) []dealtHead {
	last := len(heap) - 1
	heap[0] = heap[last]
	l.sink(d, heap[:last], 0)
	return heap[:last]
}

// sink moves an entry of a heap down to its place.
func (l *worker) sink(d *spreadDeal, heap []dealtHead, at int) {
	for {
		next := 2*at + 1
		if next >= len(heap) {
			return
		}
		if next+1 < len(heap) && l.goesFirst(d, heap[next+1], heap[next]) {
			next++
		}
		if !l.goesFirst(d, heap[next], heap[at]) {
			return
		}
		heap[at], heap[next] = heap[next], heap[at]
		at = next
	}
}
