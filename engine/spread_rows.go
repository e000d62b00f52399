package engine

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
)

// spreadScratch is the state of one need's spread when machines are counted one by one; see
// also spread_dealt.go.
type spreadScratch struct {
	keys []int   // key columns of the constraints
	skew []int32 // maximal skew of each constraint
	// counts is, by constraint and value, the number of the need's machines.
	counts []map[uint32]int32
	floor  []map[uint32]bool // by constraint: the values that count for the minimum
	tuples []tuple
	byHash map[uint64]int // index of the tuple that was last made with a hash
	values []uint32       // of one machine
	least  []int32        // by constraint: the minimum; empty = stale
}

// tuple is a value of every constrained key.
type tuple struct {
	values []uint32
	next   int // index of the next tuple with the same hash; −1 = none
}

// startSpread initializes the scratch for a kind's constraints.
func (l *worker) startSpread(k *kind) {
	sc := &l.spread
	sc.keys, sc.skew = sc.keys[:0], sc.skew[:0]
	for len(sc.counts) < len(k.spread) {
		sc.counts = append(sc.counts, map[uint32]int32{})
		sc.floor = append(sc.floor, map[uint32]bool{})
	}
	for i, s := range k.spread {
		sc.keys = append(sc.keys, l.s.Supply.Key(s.Key))
		sc.skew = append(sc.skew, s.MaxSkew)
		clear(sc.counts[i])
		clear(sc.floor[i])
	}
	sc.clearTuples()
	sc.forgetLeast()
}

// forgetLeast invalidates the minima.
func (sc *spreadScratch) forgetLeast() { sc.least = sc.least[:0] }

// findLeast computes the minima.
func (sc *spreadScratch) findLeast() {
	for i := range sc.keys {
		least := int32(math.MaxInt32)
		for f := range sc.floor[i] {
			least = min(least, sc.counts[i][f])
		}
		sc.least = append(sc.least, least)
	}
}

func (sc *spreadScratch) clearTuples() {
	sc.tuples = sc.tuples[:0]
	if sc.byHash == nil {
		sc.byHash = map[uint64]int{}
	}
	clear(sc.byHash)
}

// count counts a machine in its domains; keys that it lacks are ignored.
func (sc *spreadScratch) count(p *pass, r columnar.Row) {
	sc.forgetLeast()
	for i, k := range sc.keys {
		if v := p.s.Supply.Values(k)[r]; v != 0 {
			sc.counts[i][v]++
		}
	}
}

// staysEven reports whether the skew allows that a machine goes, and if so subtracts it from
// the counts. It is allowed if afterwards no value exceeds another, in which the need had a
// machine, by more than the skew; or if the difference does not grow.
func (sc *spreadScratch) staysEven(p *pass, r columnar.Row) bool {
	for i, key := range sc.keys {
		counts, v := sc.counts[i], p.s.Supply.Values(key)[r]
		if v == 0 {
			continue
		}
		before := unevenness(counts)
		counts[v]--
		after := unevenness(counts)
		if counts[v]++; after > sc.skew[i] && after > before {
			return false
		}
	}
	for i, key := range sc.keys {
		if v := p.s.Supply.Values(key)[r]; v != 0 {
			sc.counts[i][v]--
		}
	}
	sc.forgetLeast()
	return true
}

// unevenness returns the difference between the largest and the smallest count.
func unevenness(counts map[uint32]int32) int32 {
	least, most := int32(math.MaxInt32), int32(0)
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	return most - least
}

// floorAtTuples takes the minimum over the values that have candidates now.
func (sc *spreadScratch) floorAtTuples() {
	sc.forgetLeast()
	for i := range sc.keys {
		clear(sc.floor[i])
		for t := range sc.tuples {
			sc.floor[i][sc.tuples[t].values[i]] = true
		}
	}
}

// allows reports whether the skew permits one more machine in a tuple: with it no count exceeds
// the minimum by more than the skew.
func (sc *spreadScratch) allows(values []uint32) bool {
	if len(sc.least) == 0 {
		sc.findLeast()
	}
	for i, v := range values {
		if int64(sc.counts[i][v]) > int64(sc.least[i])+int64(sc.skew[i])-1 {
			return false
		}
	}
	return true
}

// valuesOf returns a machine's values of some keys, written to memory, and a hash of them;
// false when it lacks one.
func (p *pass) valuesOf(r columnar.Row, keys []int, memory []uint32) (values []uint32, hash uint64, has bool) {
	values = memory[:0]
	for _, key := range keys {
		v := p.s.Supply.Values(key)[r]
		if v == 0 {
			return values, 0, false
		}
		values = append(values, v)
		hash = (hash ^ uint64(v)) * mixer
	}
	return values, hash, true
}

// tupleOf returns the index of a machine's tuple, and adds it if there is none; −1 when the
// machine lacks a constrained key.
func (sc *spreadScratch) tupleOf(p *pass, r columnar.Row) int {
	var hash uint64
	var has bool
	if sc.values, hash, has = p.valuesOf(r, sc.keys, sc.values); !has {
		return -1
	}
	first, ok := sc.byHash[hash]
	if !ok {
		first = -1
	}
	for at := first; at >= 0; at = sc.tuples[at].next {
		if slices.Equal(sc.tuples[at].values, sc.values) {
			return at
		}
	}
	at := len(sc.tuples)
	sc.byHash[hash] = at
	if at < cap(sc.tuples) {
		sc.tuples = sc.tuples[:at+1] // reuse the memory of an earlier tuple
	} else {
		sc.tuples = append(sc.tuples, tuple{})
	}
	t := &sc.tuples[at]
	*t = tuple{values: append(t.values[:0], sc.values...), next: first}
	return at
}

// keyedRow is a machine with its sort key.
type keyedRow struct {
	key uint64
	row columnar.Row
}

// freeInOrder returns the free machines of a stage that suit a kind, in the order in which it
// would acquire them. They are valid until the next call.
func (l *worker) freeInOrder(k *kind, stage int) []keyedRow {
	all := l.inOrder[:0]
	cost, pool := l.costs(k, stage), &l.free[stage]
	for _, c := range k.classes {
		for _, r := range pool.rest(c) {
			l.probes++
			if !l.taken[r] && !l.reserved.lower.has(r) {
				all = append(all, keyedRow{uint64(cost[c])<<32 | uint64(pool.place[r]), r})
			}
		}
	}
	if stage == 0 {
		l.eachLower(k, func(r columnar.Row) { all = append(all, keyedRow{l.reserved.lower.key(r), r}) })
	}
	slices.SortFunc(all, func(a, b keyedRow) int { return cmp.Compare(a.key, b.key) })
	l.inOrder = all
	return all
}

// compareHeads orders heads of tuples: those held for the need first, those held for lower
// ranks last, then by price, then by the tuples' values.
func (p *pass) compareHeads(k *kind, a, b columnar.Row, ownA, ownB bool, va, vb []uint32) int {
	if ownA != ownB {
		if ownA {
			return -1
		}
		return 1
	}
	late := 0
	if !ownA {
		late = p.compareLate(a, b)
	}
	return cmp.Or(late, p.comparePrice(k, a, b), p.compareValues(va, vb))
}

func (p *pass) compareValues(a, b []uint32) int {
	for i := range a {
		if c := strings.Compare(p.s.Supply.ValueString(a[i]), p.s.Supply.ValueString(b[i])); c != 0 {
			return c
		}
	}
	return 0
}
