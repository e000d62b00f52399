package supply

import (
	"math/bits"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
)

const (
	// changesMin is the fewest changes of rows that are remembered.
	changesMin = 1 << 10
	// changesPerRow: at least one change is remembered for so many rows. What
	// touches a larger part of the fleet is cheaper to look at as a whole.
	changesPerRow = 8
)

// changes remembers which rows the latest changes were of: number v, counted
// from 1, stands at ring[v % len(ring)].
type changes struct {
	ring   []columnar.Row // a power of two
	now    uint64         // the number of the latest change
	from   uint64         // what came before number from+1 is not known
	rows   []columnar.Row // scratch of the answer
	marked bitmap.Dense   // scratch: the rows of the answer; empty between calls
}

// note remembers a change of a row.
func (c *changes) note(r columnar.Row) {
	c.now++
	c.ring[c.now&uint64(len(c.ring)-1)] = r
}

// forget makes every answer about what has been incomplete.
func (c *changes) forget() {
	c.now++
	c.from = c.now
}

// grow gives the ring the size for so many rows.
func (c *changes) grow(rows int) {
	size := 1 << bits.Len(uint(max(changesMin, rows/changesPerRow)-1))
	if size <= len(c.ring) {
		return
	}
	ring := make([]columnar.Row, size)
	for v := c.oldest() + 1; v <= c.now; v++ {
		ring[v&uint64(size-1)] = c.ring[v&uint64(len(c.ring)-1)]
	}
	c.from = c.oldest()
	c.ring = ring
}

// oldest is the number after which every change is known.
func (c *changes) oldest() uint64 {
	if n := uint64(len(c.ring)); c.now > n {
		return max(c.from, c.now-n)
	}
	return c.from
}

// since returns the rows of the changes after a number, each once, in the order
// of their first change after it.
func (c *changes) since(v uint64) (rows []columnar.Row, complete bool) {
	c.rows = c.rows[:0]
	if v < c.oldest() || v > c.now {
		return nil, false
	}
	for v++; v <= c.now; v++ {
		r := c.ring[v&uint64(len(c.ring)-1)]
		c.marked.Grow(int(r))
		if !c.marked.Has(uint32(r)) {
			c.marked.Set(uint32(r))
			c.rows = append(c.rows, r)
		}
	}
	for _, r := range c.rows {
		c.marked.Clear(uint32(r))
	}
	return c.rows, true
}

func (c *changes) bytes() int64 {
	return int64(cap(c.ring)+cap(c.rows))*4 + c.marked.Bytes()
}

// Version changes whenever a machine does, and with the numbering of what
// machines have in common; it never goes back.
func (t *Table) Version() uint64 { return t.changes.now }

// Changes returns the rows whose record may have changed after a version that
// Version or Changes has returned, each once, in no order that means anything,
// and the version as it is now. The rows are valid until the next call of
// Changes and must not be modified. O(changes), without allocation in a steady
// state.
//
// A row is named when a machine was put into it or removed from it, and when
// its state, cluster, stamps, idle time, reservation, price, probability, host
// or error was set, also to what it was before. A row that is named may be
// empty by now, or hold another machine. With the record, all that is derived
// from it may be another: class, values of keys, membership in the sets of
// matchers.
//
// complete is false, and nothing is returned, when not every change is known:
// there were too many (the latest eighth as many as there are rows are always
// known, and never fewer than a thousand), or the numbering changed in the
// meantime (see Numbering) and what the caller has derived means nothing any
// more, even of rows that did not change. The caller then looks at everything
// anew, and so it does the first time: no version is known to be complete
// before one was asked for.
func (t *Table) Changes(since uint64) (rows []columnar.Row, now uint64, complete bool) {
	rows, complete = t.changes.since(since)
	return rows, t.changes.now, complete
}

// Numbering counts the changes of what numbers mean, by what they number. Two
// equal values, at two times, say that nothing of this happened in between.
type Numbering struct {
	// Classes were formed anew: every machine may have another one. That some
	// classes came and others went with their machines does not count; see
	// ClassBorn.
	Classes uint64
	// Matchers were admitted or dropped.
	Matchers uint64
	// Keys got a column or lost it.
	Keys uint64
	// Dims changed, and with them the length or order of vectors.
	Dims uint64
}

// Numbering returns the table's. Each of its changes makes Changes incomplete.
func (t *Table) Numbering() Numbering { return t.numbering }

// renumbered notes a change of one of the counts of t.numbering.
func (t *Table) renumbered(count *uint64) {
	*count++
	t.changes.forget()
}

// ClassBorn returns the version at which a class number got its present
// meaning: what was derived from the number before that is of another class. A
// class changes in nothing while it lives but its Count and, with the numbering
// of matchers, what Matchers accept it.
func (t *Table) ClassBorn(class uint32) uint64 { return t.classes.list[class].born }

// NameSequence returns a number that changes whenever a name gets a number or
// loses it. The rows that carry either name are among Changes.
func (t *Table) NameSequence() uint64 { return t.names.sequence }

// ValueSequence returns a number that changes whenever an attribute's value
// gets a number or loses it. The rows that have either value are among
// Changes, unless it was the numbering that changed.
func (t *Table) ValueSequence() uint64 { return t.values.sequence }
