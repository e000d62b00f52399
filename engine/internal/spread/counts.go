// Package spread counts a Need's machines by the values of keys that hard spread constrains, and groups
// machines by such values.
package spread

import (
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Scratch is the state of one need's spread when machines are counted one by one; see
// also spread_deal.go of the engine.
type Scratch struct {
	t    *supply.Table
	keys []int   // key columns of the constraints
	skew []int32 // maximal skew of each constraint
	// Counts is, by constraint and value, the number of the need's machines.
	Counts []map[uint32]int32
	Floor  []map[uint32]bool // by constraint: the values that count for the minimum
	Tuples []tuple
	byHash map[uint64]int // index of the tuple that was last made with a hash
	values []uint32       // of one machine
	least  []minimum      // by constraint; empty = stale
}

// minimum is the least count of a constraint, and how many of the values that count for it have it.
type minimum struct{ count, values int32 }

// tuple is a value of every constrained key.
type tuple struct {
	Values []uint32
	next   int // index of the next tuple with the same hash; −1 = none
}

// Start prepares the counts for constraints.
func (sc *Scratch) Start(t *supply.Table, constraints []model.Spread) {
	sc.t = t
	sc.keys, sc.skew = AppendKeys(sc.keys[:0], t, constraints), sc.skew[:0]
	for len(sc.Counts) < len(constraints) {
		sc.Counts = append(sc.Counts, map[uint32]int32{})
		sc.Floor = append(sc.Floor, map[uint32]bool{})
	}
	for i, s := range constraints {
		sc.skew = append(sc.skew, s.MaxSkew)
		clear(sc.Counts[i])
		clear(sc.Floor[i])
	}
	sc.ClearTuples()
	sc.forgetLeast()
}

// Keys returns the key columns of the constraints that Start was called with; valid until its next call, read-only.
func (sc *Scratch) Keys() []int { return sc.keys }

// AppendKeys appends the key columns of constraints, in their order.
func AppendKeys(keys []int, t *supply.Table, constraints []model.Spread) []int {
	for i := range constraints {
		keys = append(keys, t.Key(constraints[i].Key))
	}
	return keys
}

// HasAll reports whether a machine has a value of each of some keys.
func HasAll(t *supply.Table, r columnar.Row, keys []int) bool {
	for _, key := range keys {
		if t.Values(key)[r] == 0 {
			return false
		}
	}
	return true
}

// IsPlaced reports whether a machine has all constrained keys.
func (sc *Scratch) IsPlaced(r columnar.Row) bool { return HasAll(sc.t, r, sc.keys) }

// forgetLeast invalidates the minima.
func (sc *Scratch) forgetLeast() { sc.least = sc.least[:0] }

// findLeast computes the minima.
func (sc *Scratch) findLeast() {
	for i := range sc.keys {
		least := minimum{count: math.MaxInt32}
		for f := range sc.Floor[i] {
			switch n := sc.Counts[i][f]; {
			case n < least.count:
				least = minimum{n, 1}
			case n == least.count:
				least.values++
			}
		}
		sc.least = append(sc.least, least)
	}
}

// ClearTuples forgets all tuples.
func (sc *Scratch) ClearTuples() {
	sc.Tuples = sc.Tuples[:0]
	if sc.byHash == nil {
		sc.byHash = map[uint64]int{}
	}
	clear(sc.byHash)
}

// Count counts a machine in its domains; keys that it lacks are ignored.
func (sc *Scratch) Count(r columnar.Row) {
	for i, k := range sc.keys {
		v := sc.t.Values(k)[r]
		if v == 0 {
			continue
		}
		n := sc.Counts[i][v]
		sc.Counts[i][v] = n + 1
		if len(sc.least) == 0 || n != sc.least[i].count || !sc.Floor[i][v] {
			continue
		}
		if sc.least[i].values--; sc.least[i].values == 0 {
			sc.forgetLeast() // the minimum rises
		}
	}
}

// StaysEven reports whether the skew allows that a machine goes, and if so subtracts it from
// the counts. It is allowed if afterwards no value exceeds another, in which the need had a
// machine, by more than the skew; or if the difference does not grow.
func (sc *Scratch) StaysEven(r columnar.Row) bool {
	for i, key := range sc.keys {
		counts, v := sc.Counts[i], sc.t.Values(key)[r]
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
		if v := sc.t.Values(key)[r]; v != 0 {
			sc.Counts[i][v]--
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

// FloorAtTuples takes the minimum over the values that have candidates now.
func (sc *Scratch) FloorAtTuples() {
	sc.ClearFloor()
	for i := range sc.keys {
		for t := range sc.Tuples {
			sc.Floor[i][sc.Tuples[t].Values[i]] = true
		}
	}
}

// FloorAtOwn adds the values that the need has machines of.
func (sc *Scratch) FloorAtOwn() {
	sc.forgetLeast()
	for i := range sc.keys {
		for v, c := range sc.Counts[i] {
			if c > 0 {
				sc.Floor[i][v] = true
			}
		}
	}
}

// ClearFloor makes no value count for the minimum.
func (sc *Scratch) ClearFloor() {
	sc.forgetLeast()
	for i := range sc.keys {
		clear(sc.Floor[i])
	}
}

// FloorAt adds the values of a machine that has all constrained keys.
func (sc *Scratch) FloorAt(r columnar.Row) {
	sc.forgetLeast()
	for i, key := range sc.keys {
		sc.Floor[i][sc.t.Values(key)[r]] = true
	}
}

// AllowsAt reports whether the skew permits one more machine where this one is. A value that does not
// count for the minimum counts as if it did.
func (sc *Scratch) AllowsAt(r columnar.Row) bool {
	if len(sc.least) == 0 {
		sc.findLeast()
	}
	for i, key := range sc.keys {
		here := int64(sc.Counts[i][sc.t.Values(key)[r]])
		if here > min(int64(sc.least[i].count), here)+int64(sc.skew[i])-1 {
			return false
		}
	}
	return true
}

// Allows reports whether the skew permits one more machine in a tuple: with it no count exceeds
// the minimum by more than the skew.
func (sc *Scratch) Allows(values []uint32) bool {
	if len(sc.least) == 0 {
		sc.findLeast()
	}
	for i, v := range values {
		if int64(sc.Counts[i][v]) > int64(sc.least[i].count)+int64(sc.skew[i])-1 {
			return false
		}
	}
	return true
}

// valuesOf returns a machine's values of some keys, written to memory, and a hash of them;
// false when it lacks one.
func valuesOf(t *supply.Table, r columnar.Row, keys []int, memory []uint32) (values []uint32, hash uint64, has bool) {
	values = memory[:0]
	for _, key := range keys {
		v := t.Values(key)[r]
		if v == 0 {
			return values, 0, false
		}
		values = append(values, v)
		hash = (hash ^ uint64(v)) * exact.Mixer
	}
	return values, hash, true
}

// TupleOf returns the index of a machine's tuple, and adds it if there is none; −1 when the
// machine lacks a constrained key.
func (sc *Scratch) TupleOf(r columnar.Row) int {
	var hash uint64
	var has bool
	if sc.values, hash, has = valuesOf(sc.t, r, sc.keys, sc.values); !has {
		return -1
	}
	first, ok := sc.byHash[hash]
	if !ok {
		first = -1
	}
	for at := first; at >= 0; at = sc.Tuples[at].next {
		if slices.Equal(sc.Tuples[at].Values, sc.values) {
			return at
		}
	}
	at := len(sc.Tuples)
	sc.byHash[hash] = at
	if at < cap(sc.Tuples) {
		sc.Tuples = sc.Tuples[:at+1] // reuse the memory of an earlier tuple
	} else {
		sc.Tuples = append(sc.Tuples, tuple{})
	}
	t := &sc.Tuples[at]
	*t = tuple{Values: append(t.Values[:0], sc.values...), next: first}
	return at
}

// Compare orders values of the same keys by their texts.
func Compare(t *supply.Table, a, b []uint32) int {
	for i := range a {
		if c := strings.Compare(t.ValueString(a[i]), t.ValueString(b[i])); c != 0 {
			return c
		}
	}
	return 0
}

// Grouping is machines grouped by their values of some keys. Groups keep the input's order.
type Grouping struct {
	keys   []int
	Values []uint32 // by group, len(keys) values each
	Groups []RowGroup
	Rows   []columnar.Row
}

// RowGroup is a range of Grouping.Rows. Machines before At are taken.
type RowGroup struct {
	At, To int32
	next   int32 // 1 + the next group with the same hash
}

// ValuesOf returns the values of a group, one for each key.
func (x *Grouping) ValuesOf(i int32) []uint32 { return x.Values[int(i)*len(x.keys):][:len(x.keys)] }

// Grouper groups machines.
type Grouper struct {
	byHash map[uint64]int32 // 1 + the group that was last made with a hash
	Of     []int32          // by row of the input, its group
	values []uint32         // scratch
}

// Group groups machines by their values of some keys and leaves out those that lack one. It sets
// Of to each machine's group, −1 = left out. O(rows): a counting sort.
func (t *Grouper) Group(table *supply.Table, x *Grouping, rows []columnar.Row, keys []int) {
	if t.byHash == nil {
		t.byHash = map[uint64]int32{}
	}
	clear(t.byHash)
	x.keys, x.Values, x.Groups = append(x.keys[:0], keys...), x.Values[:0], x.Groups[:0]
	t.Of = t.Of[:0]
	placed := 0
	for _, r := range rows {
		at := t.rowGroupOf(table, x, r)
		if t.Of = append(t.Of, at); at >= 0 {
			x.Groups[at].To++
			placed++
		}
	}
	from := int32(0)
	for i := range x.Groups {
		g := &x.Groups[i]
		n := g.To
		g.At, g.To = from, from
		from += n
	}
	x.Rows = reuse.Grown(x.Rows, placed)
	for i, at := range t.Of {
		if at >= 0 {
			g := &x.Groups[at]
			x.Rows[g.To] = rows[i]
			g.To++
		}
	}
}

// rowGroupOf returns the group of a machine, and adds it if there is none; −1 when the machine
// lacks a key.
func (t *Grouper) rowGroupOf(table *supply.Table, x *Grouping, r columnar.Row) int32 {
	var hash uint64
	var has bool
	if t.values, hash, has = valuesOf(table, r, x.keys, t.values); !has {
		return -1
	}
	first := t.byHash[hash]
	for at := first; at != 0; at = x.Groups[at-1].next {
		if slices.Equal(x.ValuesOf(at-1), t.values) {
			return at - 1
		}
	}
	x.Values = append(x.Values, t.values...)
	x.Groups = append(x.Groups, RowGroup{next: first})
	t.byHash[hash] = int32(len(x.Groups))
	return int32(len(x.Groups) - 1)
}
