package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Where classes do not settle the keys of hard spread, as for hosts, each of which
// is a value of its own, there are as many tuples as machines. Dealing machines
// into them for each need, and looking at all of them for each machine that it
// takes, would cost needs × machines. So what was dealt is kept for all needs that
// accept the same, while machines only go, and a need looks at few tuples:
//
//	tuples   by all constrained keys; heads of them in a heap for each stratum
//	strata   tuples that agree in all keys but the finest: as a rule what forbids
//	         a tuple is its stratum, or that the need has a machine of it already
//	floors   by constraint: a value in which the need has as few machines as in any
//
// What a need takes out of a heap to look at, it puts back when it is done.

// dealtMax is of how many machines, in all, it is kept how they are dealt.
const dealtMax = 1 << 21

// spreadDeal is the free machines of a stage that suit some kinds, dealt into tuples.
type spreadDeal struct {
	classes []uint32 // of the kinds
	spread  []model.Spread
	next    int32 // 1 + the place of the next one of the same matcher, penalty and stage
	epoch   uint64
	size    int // machines

	keys   []int
	coarse []int // but for the finest
	tuples grouping
	floors []spreadFloor
	finest int // of the constraints: the one with most values
	strata []stratum
	groups grouping // of machines, one for each tuple, by stratum
}

// spreadDeals are those of a worker.
type spreadDeals struct {
	list   []*spreadDeal
	n      int // those behind are memory
	size   int // machines in all
	first  map[ladderKey]int32
	ofKind []int32 // by kind and stage: 1 + place in list; 0 = not known

	byHash map[uint64]int32 // scratch: 1 + the group with a hash that was made last
	rows   []columnar.Row   // scratch
	of     []int32          // scratch
	values []uint32         // scratch
	own    []columnar.Row   // held for the need at work
}

// grouping is machines by their values of some keys, in the order they came in.
type grouping struct {
	keys   []int
	values []uint32 // of the groups, one after the other
	groups []rowGroup
	rows   []columnar.Row
}

// rowGroup is machines of a grouping: those before at are taken.
type rowGroup struct {
	at, to int32
	next   int32 // 1 + the next of the same hash
}

func (x *grouping) valuesOf(i int32) []uint32 { return x.values[int(i)*len(x.keys):][:len(x.keys)] }

// spreadFloor finds the minimum of counts over the values of a constraint that
// had a candidate when the stage began.
type spreadFloor struct {
	by   *grouping
	own  grouping // by, unless there is but one constraint
	live []int32  // its groups but for those that are all taken
	// also are values whose machines the need has taken, or that are held for it.
	also  []uint32
	noted map[uint32]bool

	least   int32 // no value has less
	known   bool  // witness has as much
	witness uint32
	i, j    int   // in live, and in also: those before have more
	low     int32 // the least that they have
}

// dealtHead is a tuple and the place of the machine that it would give next.
type dealtHead struct {
	cost  uint64 // see headCost
	tuple int32
	at    int32
}

// stratum is the tuples that agree in all but the finest key.
type stratum struct {
	heads []dealtHead // a heap; no tuple's head costs less than it says there
	// Of the need at work: tuples taken from heads; of these, what they would give
	// it, as a heap, and those that the skew forbids.
	looked []dealtHead
	near   []dealtHead
	barred []dealtHead
}

// dealFor returns how what suits a need's kind in a stage is dealt.
func (l *worker) dealFor(need int32, k *kind, stage int) *spreadDeal {
	x := &l.dealt
	if len(x.ofKind) == 0 {
		x.begin(len(l.kinds))
	}
	d := x.find(l.lines[need].kind, k, stage)
	if d.epoch == l.epoch {
		return d
	}
	free := l.freeInOrder(k, stage)
	if x.size += len(free) - d.size; x.size > dealtMax {
		x.begin(len(l.kinds))
		d, x.size = x.find(l.lines[need].kind, k, stage), len(free)
	}
	d.epoch, d.size = l.epoch, len(free)
	l.dealOut(d, free, k, stage)
	return d
}

// begin forgets what was dealt.
func (x *spreadDeals) begin(kinds int) {
	if x.first == nil {
		x.first, x.byHash = map[ladderKey]int32{}, map[uint64]int32{}
	}
	clear(x.first)
	x.ofKind = resize(x.ofKind, 2*kinds)
	x.n, x.size = 0, 0
}

// find returns the deal for a kind, making it if there is none.
func (x *spreadDeals) find(number uint32, k *kind, stage int) *spreadDeal {
	known := &x.ofKind[2*int(number)+stage]
	if *known != 0 {
		return x.list[*known-1]
	}
	key := ladderKey{matcher: k.matcher, stage: stage}
	if stage == 1 {
		key.penalty = k.penalty
	}
	for at := x.first[key]; at != 0; at = x.list[at-1].next {
		if d := x.list[at-1]; slices.Equal(d.classes, k.classes) && slices.Equal(d.spread, k.spread) {
			*known = at
			return d
		}
	}
	if x.n == len(x.list) {
		x.list = append(x.list, &spreadDeal{})
	}
	d := x.list[x.n]
	d.classes, d.spread, d.next, d.epoch, d.size = k.classes, k.spread, x.first[key], 0, 0
	x.n++
	x.first[key], *known = int32(x.n), int32(x.n)
	return d
}

// dealOut deals free machines, in the order of acquiring.
func (l *worker) dealOut(d *spreadDeal, free []keyedRow, k *kind, stage int) {
	x := &l.dealt
	x.rows, d.keys = x.rows[:0], d.keys[:0]
	for i := range d.spread {
		d.keys = append(d.keys, l.s.Supply.Key(d.spread[i].Key))
	}
	for i := range free {
		x.rows = append(x.rows, free[i].row)
	}
	l.groupRows(&d.tuples, x.rows, d.keys)
	d.floors = slices.Grow(d.floors[:0], len(d.keys))[:len(d.keys)]
	d.finest = 0
	for i := range d.floors {
		f := &d.floors[i]
		if f.by = &d.tuples; len(d.keys) > 1 {
			f.by = &f.own
			l.groupRows(f.by, d.tuples.rows, d.keys[i:i+1]) // which have all keys
		}
		f.live = f.live[:0]
		for g := range f.by.groups {
			f.live = append(f.live, int32(g))
		}
		if len(f.by.groups) > len(d.floors[d.finest].by.groups) {
			d.finest = i
		}
	}
	l.layStrata(d, k, stage)
}

// layStrata puts the tuples into strata, and their heads into heaps.
func (l *worker) layStrata(d *spreadDeal, k *kind, stage int) {
	x, cost := &l.dealt, l.tupleCosts(k, stage)
	x.rows = x.rows[:0]
	for _, t := range d.tuples.groups {
		x.rows = append(x.rows, d.tuples.rows[t.at])
	}
	d.coarse = append(append(d.coarse[:0], d.keys[:d.finest]...), d.keys[d.finest+1:]...)
	l.groupRows(&d.groups, x.rows, d.coarse)
	d.strata = slices.Grow(d.strata[:0], len(d.groups.groups))[:len(d.groups.groups)]
	for i := range d.strata {
		s := &d.strata[i]
		s.heads, s.looked, s.near, s.barred = s.heads[:0], s.looked[:0], s.near[:0], s.barred[:0]
	}
	for t, at := range x.of {
		s, first := &d.strata[at], d.tuples.groups[t].at
		s.heads = append(s.heads, dealtHead{l.headCost(cost, d.tuples.rows[first]), int32(t), first})
	}
	for i := range d.strata {
		h := d.strata[i].heads
		for at := len(h)/2 - 1; at >= 0; at-- {
			l.sink(d, h, at)
		}
	}
}

// groupRows deals machines by their values of some keys; those that lack one are left
// out. spreadDeals.of says where each has gone.
func (l *worker) groupRows(x *grouping, rows []columnar.Row, keys []int) {
	t := &l.dealt
	clear(t.byHash)
	x.keys, x.values, x.groups = append(x.keys[:0], keys...), x.values[:0], x.groups[:0]
	t.of = t.of[:0]
	placed := 0
	for _, r := range rows {
		at := l.rowGroupOf(x, r)
		if t.of = append(t.of, at); at >= 0 {
			x.groups[at].to++
			placed++
		}
	}
	from := int32(0)
	for i := range x.groups {
		g := &x.groups[i]
		n := g.to
		g.at, g.to = from, from
		from += n
	}
	x.rows = grown(x.rows, placed)
	for i, at := range t.of {
		if at >= 0 {
			g := &x.groups[at]
			x.rows[g.to] = rows[i]
			g.to++
		}
	}
}

// rowGroupOf returns the group of a machine, making it if there is none; −1 when the
// machine lacks a key.
func (l *worker) rowGroupOf(x *grouping, r columnar.Row) int32 {
	t := &l.dealt
	var hash uint64
	var has bool
	if t.values, hash, has = l.valuesOf(r, x.keys, t.values); !has {
		return -1
	}
	first := t.byHash[hash]
	for at := first; at != 0; at = x.groups[at-1].next {
		if slices.Equal(x.valuesOf(at-1), t.values) {
			return at - 1
		}
	}
	x.values = append(x.values, t.values...)
	x.groups = append(x.groups, rowGroup{next: first})
	t.byHash[hash] = int32(len(x.groups))
	return int32(len(x.groups) - 1)
}
