package acquire

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
	// epoch is Stock.Epoch when it was dealt; another value makes it stale.
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
func (l *Worker) dealFor(need int32, k *state.Kind, stage int) *spreadDeal {
	x := &l.Acquiring.dealt
	if len(x.ofKind) == 0 {
		x.begin(len(l.p.Kinds))
	}
	d := x.find(l.p.Lines[need].Kind, k, stage)
	if d.epoch == l.p.Stock.Epoch {
		return d
	}
	free := l.FreeInOrder(k, stage)
	if x.size += len(free) - d.size; x.size > dealtMax {
		x.begin(len(l.p.Kinds))
		d, x.size = x.find(l.p.Lines[need].Kind, k, stage), len(free)
	}
	d.epoch, d.size = l.p.Stock.Epoch, len(free)
	d.dealOut(l, free, k, stage)
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
func (d *spreadDeal) dealOut(l *Worker, free []keyedRow, k *state.Kind, stage int) {
	x := &l.Acquiring.dealt
	x.rows, d.keys = x.rows[:0], spread.AppendKeys(d.keys[:0], l.p.Snap.Supply, d.spread)
	for i := range free {
		x.rows = append(x.rows, free[i].Row)
	}
	x.grouper.Group(l.p.Snap.Supply, &d.tuples, x.rows, d.keys)
	d.floors = slices.Grow(d.floors[:0], len(d.keys))[:len(d.keys)]
	d.finest = 0
	for i := range d.floors {
		f := &d.floors[i]
		if f.by = &d.tuples; len(d.keys) > 1 {
			f.by = &f.own
			x.grouper.Group(l.p.Snap.Supply, f.by, d.tuples.Rows, d.keys[i:i+1]) // these have all keys
		}
		f.live = f.live[:0]
		for g := range f.by.Groups {
			f.live = append(f.live, int32(g))
		}
		if len(f.by.Groups) > len(d.floors[d.finest].by.Groups) {
			d.finest = i
		}
	}
	d.layStrata(l, k, stage)
}

// layStrata groups the tuples into strata, and builds the heaps of their heads.
func (d *spreadDeal) layStrata(l *Worker, k *state.Kind, stage int) {
	x, cost := &l.Acquiring.dealt, l.p.tupleCosts(k, stage)
	x.rows = x.rows[:0]
	for _, t := range d.tuples.Groups {
		x.rows = append(x.rows, d.tuples.Rows[t.At])
	}
	d.coarse = append(append(d.coarse[:0], d.keys[:d.finest]...), d.keys[d.finest+1:]...)
	x.grouper.Group(l.p.Snap.Supply, &d.groups, x.rows, d.coarse)
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
			d.sink(l.p, h, at)
		}
	}
}

// keyedRow is a machine with its sort key.
type keyedRow struct {
	key uint64
	Row columnar.Row
}

// FreeInOrder returns the free machines of a stage that suit a kind, in the order in which it
// would acquire them. They are valid until the next call.
func (l *Worker) FreeInOrder(k *state.Kind, stage int) []keyedRow {
	all := l.Acquiring.inOrder[:0]
	cost, pool := l.p.Costs(k, stage), &l.p.Stock.Free[stage]
	for _, c := range k.Classes {
		for _, r := range pool.Rest(c) {
			l.Figures.Probes++
			if !l.p.Taken[r] && !l.p.Reserved.Lower.Has(r) {
				all = append(all, keyedRow{uint64(cost[c])<<32 | uint64(pool.Place.Of(r)), r})
			}
		}
	}
	l.p.Reserved.Lower.Each(k, stage, l.p.Taken, func(r columnar.Row) { all = append(all, keyedRow{l.p.Reserved.Lower.Key(r), r}) })
	slices.SortFunc(all, func(a, b keyedRow) int { return cmp.Compare(a.key, b.key) })
	l.Acquiring.inOrder = all
	return all
}

// CompareHeads orders heads of tuples: those held for the need first, those held for lower
// ranks last, then by price, then by the tuples' values.
func (p *Pass) CompareHeads(k *state.Kind, a, b columnar.Row, ownA, ownB bool, va, vb []uint32) int {
	if ownA != ownB {
		return exact.TrueFirst(ownA, ownB)
	}
	late := 0
	if !ownA {
		late = p.Reserved.Lower.Compare(a, b)
	}
	return cmp.Or(late, p.comparePrice(k, a, b), spread.Compare(p.Snap.Supply, va, vb))
}

// acquireDealt is acquireSpread for needs whose classes do not determine the tuples.
func (l *Worker) acquireDealt(need int32, k *state.Kind) {
	sc := &l.Acquiring.Spread
	l.Acquiring.Spread.Start(l.p.Snap.Supply, k.Spread)
	for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		sc.Count(r)
	}
	var lacked [2]uint64
	for stage := range l.p.Stock.Free {
		if l.Lacks == 0 {
			return
		}
		d := l.dealFor(need, k, stage)
		d.openDeal(l, need, k, stage)
		for l.Lacks != 0 {
			r := d.nextDealt(l, k, stage)
			if r == columnar.None {
				break
			}
			l.ClaimFree(r, need, stage)
			sc.Count(r)
			d.noteTaken(l.p, r)
		}
		d.closeDeal(l.p)
		lacked[stage] = l.Lacks
	}
	if l.Lacks != 0 && l.anyDealt(need, k, lacked) {
		l.p.noteSkewed(need)
	}
}

// openDeal prepares a deal for a need: it resets the floors.
func (d *spreadDeal) openDeal(l *Worker, need int32, k *state.Kind, stage int) {
	d.listOwn(l, need, k, stage)
	for i := range d.floors {
		f := &d.floors[i]
		if f.noted == nil {
			f.noted = map[uint32]bool{}
		}
		clear(f.noted)
		f.also, f.least, f.known = f.also[:0], 0, false
		f.i, f.j, f.low = 0, 0, math.MaxInt32
	}
	for _, r := range l.Acquiring.dealt.own {
		d.noteTaken(l.p, r)
	}
}

// listOwn lists the machines that are held for a need and have all constrained keys.
func (d *spreadDeal) listOwn(l *Worker, need int32, k *state.Kind, stage int) {
	own := l.Acquiring.dealt.own[:0]
	for _, r := range l.p.Reserved.Of(need) {
		if spread.HasAll(l.p.Snap.Supply, r, d.keys) && l.p.FreeReserved(r, k) && l.p.StageOf(r) == stage {
			own = append(own, r)
		}
	}
	l.Acquiring.dealt.own = own
}

// closeDeal pushes back the heads that the need has popped.
func (d *spreadDeal) closeDeal(p *Pass) {
	for i := range d.strata {
		s := &d.strata[i]
		for _, h := range s.looked {
			s.heads = d.push(p, s.heads, h)
		}
		s.looked, s.near, s.barred = s.looked[:0], s.near[:0], s.barred[:0]
	}
}

// noteTaken makes a taken machine's values count for the minima, whether or not another
// candidate is left there. It also drops a witness whose count has grown.
func (d *spreadDeal) noteTaken(p *Pass, r columnar.Row) {
	for i, key := range d.keys {
		f := &d.floors[i]
		v := p.Snap.Supply.Values(key)[r]
		if !f.noted[v] {
			f.noted[v] = true
			f.also = append(f.also, v)
		}
		f.known = f.known && v != f.witness
	}
}

// nextDealt returns the next machine to take: among the tuples that the skew allows the
// cheapest head, among equals that of the smaller values.
func (d *spreadDeal) nextDealt(l *Worker, k *state.Kind, stage int) columnar.Row {
	d.findLeast(l)
	best := -1
	for i := range d.strata {
		s := &d.strata[i]
		if len(s.heads)+len(s.near)+len(s.barred) == 0 || !d.allowsStratum(l, i) {
			continue
		}
		if d.nearest(l, s, k, stage) && (best < 0 || d.goesFirst(l.p, s.near[0], d.strata[best].near[0])) {
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
func (d *spreadDeal) nearest(l *Worker, s *stratum, k *state.Kind, stage int) bool {
	for {
		near := d.settleNear(l, s, k, stage)
		if !d.settleHeads(l, s, k, stage) || near && d.goesFirst(l.p, s.near[0], s.heads[0]) {
			return near
		}
		h := s.heads[0]
		s.heads = d.pop(l.p, s.heads)
		s.looked = append(s.looked, h)
		s.near = d.push(l.p, s.near, h)
	}
}

// settleHeads updates the top of a stratum's heap, and drops tuples that have no machine left,
// until the top is the cheapest; false when the heap is empty.
func (d *spreadDeal) settleHeads(l *Worker, s *stratum, k *state.Kind, stage int) bool {
	cost := l.p.tupleCosts(k, stage)
	for len(s.heads) > 0 {
		l.Figures.Probes++
		h := &s.heads[0]
		g := &d.tuples.Groups[h.tuple]
		if !l.p.skipTaken(&d.tuples, g) {
			s.heads = d.pop(l.p, s.heads)
			continue
		}
		h.at = g.At
		if c := l.p.headCost(cost, d.tuples.Rows[g.At]); c != h.cost {
			h.cost = c
			d.sink(l.p, s.heads, 0)
			continue
		}
		return true
	}
	return false
}

// settleNear is settleHeads for s.near: it also skips machines that do not help the need, and
// moves tuples that the skew forbids to s.barred.
func (d *spreadDeal) settleNear(l *Worker, s *stratum, k *state.Kind, stage int) bool {
	cost := l.p.tupleCosts(k, stage)
	for len(s.near) > 0 {
		l.Figures.Probes++
		h := &s.near[0]
		if !d.allowsFinest(l, h.tuple) {
			s.barred = append(s.barred, *h)
			s.near = d.pop(l.p, s.near)
			continue
		}
		// What is missing only shrinks, so a machine that does not help now never will.
		to, was := d.tuples.Groups[h.tuple].To, h.cost
		for h.at < to && (l.p.Taken[d.tuples.Rows[h.at]] || !l.Helps(d.tuples.Rows[h.at])) {
			h.at++
		}
		if h.at == to {
			s.near = d.pop(l.p, s.near)
			continue
		}
		if h.cost = l.p.headCost(cost, d.tuples.Rows[h.at]); h.cost != was {
			d.sink(l.p, s.near, 0)
			continue
		}
		return true
	}
	return false
}

// skipTaken advances to a group's first free machine; false when it has none.
func (p *Pass) skipTaken(x *spread.Grouping, g *spread.RowGroup) bool {
	for g.At < g.To && p.Taken[x.Rows[g.At]] {
		g.At++
	}
	return g.At < g.To
}

// findLeast updates the minima. If that of the finest constraint has risen, the skew may permit
// barred tuples again.
func (d *spreadDeal) findLeast(l *Worker) {
	for i := range d.floors {
		f := &d.floors[i]
		was := f.least
		if !f.known {
			f.findWitness(l.p, l.Acquiring.Spread.Counts[i])
		}
		if i != d.finest || f.least == was {
			continue
		}
		for j := range d.strata {
			s := &d.strata[j]
			for _, h := range s.barred {
				s.near = d.push(l.p, s.near, h)
			}
			s.barred = s.barred[:0]
		}
	}
}

// findWitness finds a value with the least count. Counts only grow, so it continues where it
// stopped, and starts over only when all values have more: amortized O(1) per machine of the
// need.
func (f *spreadFloor) findWitness(p *Pass, counts map[uint32]int32) {
	for f.known = true; ; {
		for f.i < len(f.live) {
			g := f.live[f.i]
			if !p.skipTaken(f.by, &f.by.Groups[g]) { // gone for good; f.also has what the need took
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
func (d *spreadDeal) allowsStratum(l *Worker, at int) bool {
	values := d.groups.ValuesOf(int32(at))
	for i := range d.floors {
		if i == d.finest {
			continue
		}
		if !d.allowsValue(l, i, values[0]) {
			return false
		}
		values = values[1:]
	}
	return true
}

// allowsFinest reports the same for a tuple, judged by the finest constraint.
func (d *spreadDeal) allowsFinest(l *Worker, tuple int32) bool {
	return d.allowsValue(l, d.finest, d.tuples.ValuesOf(tuple)[d.finest])
}

func (d *spreadDeal) allowsValue(l *Worker, i int, v uint32) bool {
	return int64(l.Acquiring.Spread.Counts[i][v]) <= int64(d.floors[i].least)+int64(d.spread[i].MaxSkew)-1
}

// anyDealt reports whether a free machine was left that has a dimension that was missing after
// its stage. Only the skew can have forbidden it, since the need takes what is held for it
// regardless of the skew.
func (l *Worker) anyDealt(need int32, k *state.Kind, lacked [2]uint64) bool {
	for stage := range l.p.Stock.Free {
		helps := func(r columnar.Row) bool {
			return !l.p.Taken[r] && l.p.ClassMask[l.p.Snap.View.Class[r]]&lacked[stage] != 0
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
func (d *spreadDeal) goesFirst(p *Pass, a, b dealtHead) bool {
	if a.cost != b.cost {
		return a.cost < b.cost
	}
	return spread.Compare(p.Snap.Supply, d.tuples.ValuesOf(a.tuple), d.tuples.ValuesOf(b.tuple)) < 0
}

// push adds a head to a binary heap.
func (d *spreadDeal) push(p *Pass, heap []dealtHead, h dealtHead) []dealtHead {
	heap = append(heap, h)
	for at := len(heap) - 1; at > 0; {
		up := (at - 1) / 2
		if !d.goesFirst(p, heap[at], heap[up]) {
			break
		}
		heap[at], heap[up] = heap[up], heap[at]
		at = up
	}
	return heap
}

// pop removes the first head of a heap.
func (d *spreadDeal) pop(p *Pass, heap []dealtHead) []dealtHead {
	last := len(heap) - 1
	heap[0] = heap[last]
	d.sink(p, heap[:last], 0)
	return heap[:last]
}

// sink moves an entry of a heap down to its place.
func (d *spreadDeal) sink(p *Pass, heap []dealtHead, at int) {
	for {
		next := 2*at + 1
		if next >= len(heap) {
			return
		}
		if next+1 < len(heap) && d.goesFirst(p, heap[next+1], heap[next]) {
			next++
		}
		if !d.goesFirst(p, heap[next], heap[at]) {
			return
		}
		heap[at], heap[next] = heap[next], heap[at]
		at = next
	}
}
