package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
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
	tuples grouping
	floors []spreadFloor
	finest int // index of the constraint with the most values
	strata []stratum
	groups grouping // one machine of each tuple, grouped by stratum
}

// spreadDeals is the memoized deals of a worker.
type spreadDeals struct {
	list []*spreadDeal
	n    int // number of deals in use; those behind are spare memory
	size int // number of machines in all
	// first is, by matcher, penalty and stage, 1 + the index of the deal made last.
	first  map[ladderKey]int32
	ofKind []int32 // by kind and stage: 1 + index in list; 0 = not looked up

	byHash map[uint64]int32 // scratch: 1 + the group that was last made with a hash
	rows   []columnar.Row   // scratch
	of     []int32          // scratch: by row of the input, its group
	values []uint32         // scratch
	own    []columnar.Row   // machines that are held for the need at work
}

// grouping is machines grouped by their values of some keys. Groups keep the input's order.
type grouping struct {
	keys   []int
	values []uint32 // by group, len(keys) values each
	groups []rowGroup
	rows   []columnar.Row
}

// rowGroup is a range of grouping.rows. Machines before at are taken.
type rowGroup struct {
	at, to int32
	next   int32 // 1 + the next group with the same hash
}

func (x *grouping) valuesOf(i int32) []uint32 { return x.values[int(i)*len(x.keys):][:len(x.keys)] }

// spreadFloor finds the minimum of counts over the values of a constraint that had a candidate
// when the stage began.
type spreadFloor struct {
	by   *grouping
	own  grouping // the machines by this key; unused if there is one constraint, where by is tuples
	live []int32  // its groups without those found to be all taken
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

// begin drops all deals.
func (x *spreadDeals) begin(kinds int) {
	if x.first == nil {
		x.first, x.byHash = map[ladderKey]int32{}, map[uint64]int32{}
	}
	clear(x.first)
	x.ofKind = resize(x.ofKind, 2*kinds)
	x.n, x.size = 0, 0
}

// find returns the deal for a kind, and adds it if there is none.
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

// dealOut deals free machines, given in the order of acquiring.
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
			l.groupRows(f.by, d.tuples.rows, d.keys[i:i+1]) // these have all keys
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

// layStrata groups the tuples into strata, and builds the heaps of their heads.
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

// groupRows groups machines by their values of some keys and leaves out those that lack one. It
// sets spreadDeals.of to each machine's group, −1 = left out. O(rows): a counting sort.
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

// rowGroupOf returns the group of a machine, and adds it if there is none; −1 when the machine
// lacks a key.
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
