package columnar

import (
	"fmt"

	"github.com/tonnage/tonnage/bitmap"
)

// Row is the number of a row in a table. Rows are dense, start at 1 and are
// reused after a removal; 0 is no row.
type Row uint32

// None is the row that does not exist.
const None Row = 0

// MaxRow is the highest row that a table has.
const MaxRow Row = 1<<31 - 1

// Rows gives out row numbers: always the smallest that is free. So the table
// stays dense, and the numbers depend on which rows were given back, not on
// the order in which that happened. The zero value is ready.
//
// Alloc and Free take constant time amortized; a row in reserve costs a bit.
type Rows struct {
	used bitmap.Dense
	live int
	top  Row // highest row ever given out
	low  Row // every row below it is in use
}

// Alloc returns a row that is not in use. It panics beyond MaxRow.
func (r *Rows) Alloc() Row {
	row := r.top + 1
	if r.live < int(r.top) {
		free, ok := r.used.NextClear(uint32(max(r.low, 1)))
		if !ok {
			panic("columnar: rows are miscounted") // live < top says one is free
		}
		row = Row(free)
	} else {
		r.extend(row)
	}
	r.used.Set(uint32(row))
	r.live++
	r.low = row + 1
	return row
}

// extend makes row the highest.
func (r *Rows) extend(row Row) {
	if row > MaxRow {
		panic(fmt.Sprintf("columnar: more than %d rows", MaxRow))
	}
	r.top = row
	r.used.Grow(int(row))
}

// Free gives the row back. It panics when the row is not in use.
func (r *Rows) Free(row Row) {
	if !r.Live(row) {
		panic(fmt.Sprintf("columnar: row %d given back, but it is not in use", row))
	}
	r.used.Clear(uint32(row))
	r.live--
	r.low = min(r.low, row)
}

// Live reports whether the row is in use.
func (r *Rows) Live(row Row) bool { return r.used.Has(uint32(row)) }

// Next returns the first row in use that is at least from; None when there is
// none. Walking with it visits the rows in use in ascending order.
func (r *Rows) Next(from Row) Row {
	row, ok := r.used.Next(uint32(from))
	if !ok {
		return None
	}
	return Row(row)
}

// Len returns the number of rows in use.
func (r *Rows) Len() int { return r.live }

// Top returns the highest row ever given out: columns grow to it.
func (r *Rows) Top() Row { return r.top }

// Reset gives every row back; the next one is 1 again.
func (r *Rows) Reset() {
	r.used.Reset()
	r.live, r.top, r.low = 0, 0, 0
}

// Bytes returns the memory held.
func (r *Rows) Bytes() int64 { return r.used.Bytes() }

// clone returns a copy.
func (r *Rows) clone() Rows {
	out := *r
	out.used = r.used.Clone()
	return out
}
