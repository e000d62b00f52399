package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/spread"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// If classes do not determine the keys of hard spread, there may be as many tuples as machines:
// every host is a value of its own. To deal all machines into tuples for each need, and to scan
// all tuples for each machine that it takes, would cost O(needs × machines). So the deal is
// shared by all needs that accept the same machines, and stays valid as long as machines are
// only taken. A need then looks at few tuples:
//
//	tuples   by all constrained keys; their heads are in one heap per stratum
//	strata   tuples that agree in all keys but the finest: the skew mostly forbids a whole
//	         stratum, or a tuple of which the need already has a machine
//	floors   by constraint: a witness, a value in which the need has as few machines as in any
//
// A head that a need pops to look at is pushed back when the need is done.

// dealtMax is how many machines the memoized deals of a worker may hold. Beyond it all are
// dropped but the one in use.
const dealtMax = 1 << 21

// spreadDeal is the free machines of a stage that suit some kinds, dealt into tuples.
type spreadDeal struct {
	classes []uint32 // of the kinds
	spread  []model.Spread
	next    int32 // 1 + index of the next deal with equal matcher, penalty and stage
	// epoch is worker.epoch when it was dealt; another value makes it stale.
	epoch uint64
	size  int // number of machines

	// keys are the constrained key columns.
	keys   []int
	coarse []int // keys without the finest
	tuples spread.Grouping
	floors []spreadFloor
	finest int // index of the constraint with the most values
	strata []stratum
	groups spread.Grouping // one machine of each tuple, grouped by stratum
}

// spreadDeals is the memoized deals of a worker.
type spreadDeals struct {
	list []*spreadDeal
	n    int // number of deals in use; those behind are spare memory
	size int // number of machines in all
	// first is, by matcher, penalty and stage, 1 + the index of the deal made last.
	first  map[free.Key]int32
	ofKind []int32 // by kind and stage: 1 + index in list; 0 = not looked up

	grouper spread.Grouper
	rows    []columnar.Row // scratch
	own     []columnar.Row // machines that are held for the need at work
}

// spreadFloor finds the minimum of counts over the values of a constraint that had a candidate
// when the stage began.
type spreadFloor struct {
	by   *spread.Grouping
	own  spread.Grouping // the machines by this key; unused if there is one constraint, where by is tuples
	live []int32         // its groups without those found to be all taken
	// also are values that count although their group may be empty: the need has taken machines
	// of them, or machines of them are held for it.
	also  []uint32
	noted map[uint32]bool

	least   int32 // lower bound of the counts
	known   bool  // witness is a value whose count equals least
	witness uint32
	i, j    int   // in live and in also: values before have a larger count
	low     int32 // the least count of these
}

// dealtHead is a tuple and the index of the machine that it would give next.
type dealtHead struct {
	cost  uint64 // see headCost
	tuple int32
	at    int32
}

// stratum is the tuples that agree in all keys but the finest.
type stratum struct {
	heads []dealtHead // a heap; an entry's cost is a lower bound of its tuple's head
	// For the need at work: looked are the tuples popped from heads. Of these, near is a heap
	// of what they would give the need, and barred those that the skew forbids.
	looked []dealtHead
	near   []dealtHead
	barred []dealtHead
}

// dealFor returns the deal of the machines that suit a need's kind in a stage, dealt anew if
// stale.
func (l *worker) dealFor(need int32, k *state.Kind, stage int) *spreadDeal {
	x := &l.acquiring.dealt
	if len(x.ofKind) == 0 {
		x.begin(len(l.p.kinds))
	}
	d := x.find(l.p.lines[need].Kind, k, stage)
	if d.epoch == l.p.stock.epoch {
		return d
	}
	free := l.freeInOrder(k, stage)
	if x.size += len(free) - d.size; x.size > dealtMax {
		x.begin(len(l.p.kinds))
		d, x.size = x.find(l.p.lines[need].Kind, k, stage), len(free)
	}
	d.epoch, d.size = l.p.stock.epoch, len(free)
	l.dealOut(d, free, k, stage)
	return d
}

// begin drops all deals.
func (x *spreadDeals) begin(kinds int) {
	if x.first == nil {
		x.first = map[free.Key]int32{}
	}
	clear(x.first)
	x.ofKind = reuse.Resize(x.ofKind, 2*kinds)
	x.n, x.size = 0, 0
}

// find returns the deal for a kind, and adds it if there is none.
func (x *spreadDeals) find(number uint32, k *state.Kind, stage int) *spreadDeal {
	known := &x.ofKind[2*int(number)+stage]
	if *known != 0 {
		return x.list[*known-1]
	}
	key := free.Key{Matcher: k.Matcher, Stage: stage}
	if stage == 1 {
		key.Penalty = k.Penalty
	}
	for at := x.first[key]; at != 0; at = x.list[at-1].next {
		if d := x.list[at-1]; slices.Equal(d.classes, k.Classes) && slices.Equal(d.spread, k.Spread) {
			*known = at
			return d
		}
	}
	if x.n == len(x.list) {
		x.list = append(x.list, &spreadDeal{})
	}
	d := x.list[x.n]
	d.classes, d.spread, d.next, d.epoch, d.size = k.Classes, k.Spread, x.first[key], 0, 0
	x.n++
	x.first[key], *known = int32(x.n), int32(x.n)
	return d
}

// dealOut deals free machines, given in the order of acquiring.
func (l *worker) dealOut(d *spreadDeal, free []keyedRow, k *state.Kind, stage int) {
	x := &l.acquiring.dealt
	x.rows, d.keys = x.rows[:0], d.keys[:0]
	for i := range d.spread {
		d.keys = append(d.keys, l.p.s.Supply.Key(d.spread[i].Key))
	}
	for i := range free {
		x.rows = append(x.rows, free[i].row)
	}
	x.grouper.Group(l.p.s.Supply, &d.tuples, x.rows, d.keys)
	d.floors = slices.Grow(d.floors[:0], len(d.keys))[:len(d.keys)]
	d.finest = 0
	for i := range d.floors {
		f := &d.floors[i]
		if f.by = &d.tuples; len(d.keys) > 1 {
			f.by = &f.own
			x.grouper.Group(l.p.s.Supply, f.by, d.tuples.Rows, d.keys[i:i+1]) // these have all keys
		}
		f.live = f.live[:0]
		for g := range f.by.Groups {
			f.live = append(f.live, int32(g))
		}
		if len(f.by.Groups) > len(d.floors[d.finest].by.Groups) {
			d.finest = i
		}
	}
	l.layStrata(d, k, stage)
}

// layStrata groups the tuples into strata, and builds the heaps of their heads.
func (l *worker) layStrata(d *spreadDeal, k *state.Kind, stage int) {
	x, cost := &l.acquiring.dealt, l.p.tupleCosts(k, stage)
	x.rows = x.rows[:0]
	for _, t := range d.tuples.Groups {
		x.rows = append(x.rows, d.tuples.Rows[t.At])
	}
	d.coarse = append(append(d.coarse[:0], d.keys[:d.finest]...), d.keys[d.finest+1:]...)
	x.grouper.Group(l.p.s.Supply, &d.groups, x.rows, d.coarse)
	d.strata = slices.Grow(d.strata[:0], len(d.groups.Groups))[:len(d.groups.Groups)]
	for i := range d.strata {
		s := &d.strata[i]
		s.heads, s.looked, s.near, s.barred = s.heads[:0], s.looked[:0], s.near[:0], s.barred[:0]
	}
	for t, at := range x.grouper.Of {
		s, first := &d.strata[at], d.tuples.Groups[t].At
		s.heads = append(s.heads, dealtHead{l.p.headCost(cost, d.tuples.Rows[first]), int32(t), first})
	}
	for i := range d.strata {
		h := d.strata[i].heads
		for at := len(h)/2 - 1; at >= 0; at-- {
			l.p.sink(d, h, at)
		}
	}
}

// keyedRow is a machine with its sort key.
type keyedRow struct {
	key uint64
	row columnar.Row
}

// freeInOrder returns the free machines of a stage that suit a kind, in the order in which it
// would acquire them. They are valid until the next call.
func (l *worker) freeInOrder(k *state.Kind, stage int) []keyedRow {
	all := l.acquiring.inOrder[:0]
	cost, pool := l.p.costs(k, stage), &l.p.stock.free[stage]
	for _, c := range k.Classes {
		for _, r := range pool.Rest(c) {
			l.figures.probes++
			if !l.p.taken[r] && !l.p.reserved.Lower.Has(r) {
				all = append(all, keyedRow{uint64(cost[c])<<32 | uint64(pool.Place[r]), r})
			}
		}
	}
	l.p.reserved.Lower.Each(k, stage, l.p.taken, func(r columnar.Row) { all = append(all, keyedRow{l.p.reserved.Lower.Key(r), r}) })
	slices.SortFunc(all, func(a, b keyedRow) int { return cmp.Compare(a.key, b.key) })
	l.acquiring.inOrder = all
	return all
}

// compareHeads orders heads of tuples: those held for the need first, those held for lower
// ranks last, then by price, then by the tuples' values.
func (p *pass) compareHeads(k *state.Kind, a, b columnar.Row, ownA, ownB bool, va, vb []uint32) int {
	if ownA != ownB {
		return exact.TrueFirst(ownA, ownB)
	}
	late := 0
	if !ownA {
		late = p.reserved.Lower.Compare(a, b)
	}
	return cmp.Or(late, p.comparePrice(k, a, b), spread.Compare(p.s.Supply, va, vb))
}

// acquireDealt is acquireSpread for needs whose classes do not determine the tuples, or that
// may use machines that are held for them or for lower ranks.
func (l *worker) acquireDealt(need int32, k *state.Kind) {
	sc := &l.acquiring.spread
	l.acquiring.spread.Start(l.p.s.Supply, k.Spread)
	for r := l.p.lines[need].Head; r != columnar.None; r = l.p.claims.Next(r) {
		sc.Count(r)
	}
	var lacked [2]uint64
	for stage := range l.p.stock.free {
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
			sc.Count(r)
			d.noteTaken(l.p, r)
		}
		l.p.closeDeal(d)
		lacked[stage] = l.lacks
	}
	if l.lacks != 0 && l.anyDealt(need, k, lacked) {
		l.p.noteSkewed(need)
	}
}

// openDeal prepares a deal for a need: it resets the floors.
func (l *worker) openDeal(d *spreadDeal, need int32, k *state.Kind, stage int) {
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
	for _, r := range l.acquiring.dealt.own {
		d.noteTaken(l.p, r)
	}
}

// listOwn lists the machines that are held for a need and have all constrained keys.
func (l *worker) listOwn(d *spreadDeal, need int32, k *state.Kind, stage int) {
	own := l.acquiring.dealt.own[:0]
	for _, r := range l.p.reserved.Of(need) {
		if spread.HasAll(l.p.s.Supply, r, d.keys) && l.p.freeReserved(r, k) && l.p.stageOf(r) == stage {
			own = append(own, r)
		}
	}
	l.acquiring.dealt.own = own
}

// closeDeal pushes back the heads that the need has popped.
func (fl *fleet) closeDeal(d *spreadDeal) {
	for i := range d.strata {
		s := &d.strata[i]
		for _, h := range s.looked {
			s.heads = fl.push(d, s.heads, h)
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
func (l *worker) nextDealt(d *spreadDeal, k *state.Kind, stage int) columnar.Row {
	l.findLeast(d)
	best := -1
	for i := range d.strata {
		s := &d.strata[i]
		if len(s.heads)+len(s.near)+len(s.barred) == 0 || !l.allowsStratum(d, i) {
			continue
		}
		if l.nearest(d, s, k, stage) && (best < 0 || l.p.goesFirst(d, s.near[0], d.strata[best].near[0])) {
			best = i
		}
	}
	if best < 0 {
		return columnar.None
	}
	return d.tuples.Rows[d.strata[best].near[0].at]
}

// nearest brings the head that the need would take from a stratum to the top of s.near; false
// when there is none.
func (l *worker) nearest(d *spreadDeal, s *stratum, k *state.Kind, stage int) bool {
	for {
		near := l.settleNear(d, s, k, stage)
		if !l.settleHeads(d, s, k, stage) || near && l.p.goesFirst(d, s.near[0], s.heads[0]) {
			return near
		}
		h := s.heads[0]
		s.heads = l.p.pop(d, s.heads)
		s.looked = append(s.looked, h)
		s.near = l.p.push(d, s.near, h)
	}
}

// settleHeads updates the top of a stratum's heap, and drops tuples that have no machine left,
// until the top is the cheapest; false when the heap is empty.
func (l *worker) settleHeads(d *spreadDeal, s *stratum, k *state.Kind, stage int) bool {
	cost := l.p.tupleCosts(k, stage)
	for len(s.heads) > 0 {
		l.figures.probes++
		h := &s.heads[0]
		g := &d.tuples.Groups[h.tuple]
		if !l.p.skipTaken(&d.tuples, g) {
			s.heads = l.p.pop(d, s.heads)
			continue
		}
		h.at = g.At
		if c := l.p.headCost(cost, d.tuples.Rows[g.At]); c != h.cost {
			h.cost = c
			l.p.sink(d, s.heads, 0)
			continue
		}
		return true
	}
	return false
}

// settleNear is settleHeads for s.near: it also skips machines that do not help the need, and
// moves tuples that the skew forbids to s.barred.
func (l *worker) settleNear(d *spreadDeal, s *stratum, k *state.Kind, stage int) bool {
	cost := l.p.tupleCosts(k, stage)
	for len(s.near) > 0 {
		l.figures.probes++
		h := &s.near[0]
		if !l.allowsFinest(d, h.tuple) {
			s.barred = append(s.barred, *h)
			s.near = l.p.pop(d, s.near)
			continue
		}
		// What is missing only shrinks, so a machine that does not help now never will.
		to, was := d.tuples.Groups[h.tuple].To, h.cost
		for h.at < to && (l.p.taken[d.tuples.Rows[h.at]] || !l.helps(d.tuples.Rows[h.at])) {
			h.at++
		}
		if h.at == to {
			s.near = l.p.pop(d, s.near)
			continue
		}
		if h.cost = l.p.headCost(cost, d.tuples.Rows[h.at]); h.cost != was {
			l.p.sink(d, s.near, 0)
			continue
		}
		return true
	}
	return false
}

// skipTaken advances to a group's first free machine; false when it has none.
func (mt *machineTable) skipTaken(x *spread.Grouping, g *spread.RowGroup) bool {
	for g.At < g.To && mt.taken[x.Rows[g.At]] {
		g.At++
	}
	return g.At < g.To
}

// findLeast updates the minima. If that of the finest constraint has risen, the skew may permit
// barred tuples again.
func (l *worker) findLeast(d *spreadDeal) {
	for i := range d.floors {
		f := &d.floors[i]
		was := f.least
		if !f.known {
			l.p.findWitness(f, l.acquiring.spread.Counts[i])
		}
		if i != d.finest || f.least == was {
			continue
		}
		for j := range d.strata {
			s := &d.strata[j]
			for _, h := range s.barred {
				s.near = l.p.push(d, s.near, h)
			}
			s.barred = s.barred[:0]
		}
	}
}

// findWitness finds a value with the least count. Counts only grow, so it continues where it
// stopped, and starts over only when all values have more: amortized O(1) per machine of the
// need.
func (mt *machineTable) findWitness(f *spreadFloor, counts map[uint32]int32) {
	for f.known = true; ; {
		for f.i < len(f.live) {
			g := f.live[f.i]
			if !mt.skipTaken(f.by, &f.by.Groups[g]) { // gone for good; f.also has what the need took
				last := len(f.live) - 1
				f.live[f.i], f.live = f.live[last], f.live[:last]
			} else if f.witness = f.by.Values[g]; counts[f.witness] == f.least {
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
	values := d.groups.ValuesOf(int32(at))
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
	return l.allowsValue(d, d.finest, d.tuples.ValuesOf(tuple)[d.finest])
}

func (l *worker) allowsValue(d *spreadDeal, i int, v uint32) bool {
	return int64(l.acquiring.spread.Counts[i][v]) <= int64(d.floors[i].least)+int64(d.spread[i].MaxSkew)-1
}

// anyDealt reports whether a free machine was left that has a dimension that was missing after
// its stage. Only the skew can have forbidden it, since the need takes what is held for it
// regardless of the skew.
func (l *worker) anyDealt(need int32, k *state.Kind, lacked [2]uint64) bool {
	for stage := range l.p.stock.free {
		helps := func(r columnar.Row) bool {
			return !l.p.taken[r] && l.p.classMask[l.p.s.View.Class[r]]&lacked[stage] != 0
		}
		d := l.dealFor(need, k, stage)
		for i := range d.strata {
			for _, h := range d.strata[i].heads {
				g := d.tuples.Groups[h.tuple]
				if slices.ContainsFunc(d.tuples.Rows[g.At:g.To], helps) {
					return true
				}
			}
		}
	}
	return false
}

// goesFirst orders heads of tuples: by cost, then by the tuples' values.
func (fl *fleet) goesFirst(d *spreadDeal, a, b dealtHead) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	return spread.Compare(fl.s.Supply, d.tuples.ValuesOf(a.tuple), d.tuples.ValuesOf(b.tuple)) < 0
}

// push adds a head to a binary heap.
func (fl *fleet) push(d *spreadDeal, heap []dealtHead, h dealtHead) []dealtHead {
	heap = append(heap, h)
	for at := len(heap) - 1; at > 0; {
		up := (at - 1) / 2
		if !fl.goesFirst(d, heap[at], heap[up]) {
			break
		}
		heap[at], heap[up] = heap[up], heap[at]
		at = up
	}
	return heap
}

// pop removes the first head of a heap.
func (fl *fleet) pop(d *spreadDeal, heap []dealtHead) []dealtHead {
	last := len(heap) - 1
	heap[0] = heap[last]
	fl.sink(d, heap[:last], 0)
	return heap[:last]
}

// sink moves an entry of a heap down to its place.
func (fl *fleet) sink(d *spreadDeal, heap []dealtHead, at int) {
	for {
		next := 2*at + 1
		if next >= len(heap) {
			return
		}
		if next+1 < len(heap) && fl.goesFirst(d, heap[next+1], heap[next]) {
			next++
		}
		if !fl.goesFirst(d, heap[next], heap[at]) {
			return
		}
		heap[at], heap[next] = heap[next], heap[at]
		at = next
	}
}
