package columnar

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/bitmap"
)

// Perm keeps a set of rows in an order: by id, by price, by what compare says.
// What compare looks at must not change while the row is in the order; a row
// whose key changes is removed before, or inserted anew after, the change.
//
//	order   [ 7 | 2 | 9 | 4 ]              row by rank
//	member  { 2, 4, 7, 9 }                 the same as a set
//
// With n rows in the order and k in the batch, an insertion makes
// O(k log k + k log n) comparisons and moves what lies behind the first new
// row; a removal makes no comparison, so the rows may be gone from the table
// already, and passes over the order once. An order that does not change costs
// nothing. A row costs four bytes and a bit; see Rank.
type Perm struct {
	compare func(a, b Row) int
	key     func(Row) string // nil unless ordered by string
	order   []Row
	member  bitmap.Dense
	rank    []uint32     // by row: rank + 1, 0 = not in the order; empty = not asked for since the last change
	batch   []Row        // scratch of Insert
	pending bitmap.Dense // scratch of Insert: the batch as a set; empty between calls
	at      []uint32     // scratch of Insert: where in order each of the batch goes
}

// NewPerm returns an empty order by compare, which returns a negative number
// when a comes before b. Rows that compare equal are ordered by number.
func NewPerm(compare func(a, b Row) int) *Perm {
	return &Perm{compare: func(a, b Row) int {
		if c := compare(a, b); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	}}
}

// NewStringPerm returns an empty order by the strings of rows, byte by byte,
// and by number where they are equal. Building it in bulk is several times
// faster than with NewPerm.
func NewStringPerm(key func(Row) string) *Perm {
	p := NewPerm(func(a, b Row) int { return cmp.Compare(key(a), key(b)) })
	p.key = key
	return p
}

// Build replaces the order by one of these rows.
func (p *Perm) Build(rows []Row) {
	p.Reset()
	p.Insert(rows)
}

// Insert adds the rows. A row that is in the order already is moved to where
// it belongs now; a row named twice is added once.
func (p *Perm) Insert(rows []Row) {
	batch := p.admit(rows)
	if len(batch) == 0 {
		return
	}
	if p.key != nil {
		SortByString(batch, p.key)
	} else {
		slices.SortFunc(batch, p.compare)
	}
	p.locate(batch)
	p.merge(batch)
	p.trimScratch()
}

// admit returns the rows without duplicates, all of them out of the order and
// pending.
func (p *Perm) admit(rows []Row) []Row {
	p.batch = p.batch[:0]
	moved := false
	for _, r := range rows {
		if r == None {
			panic("columnar: row 0 has no place in an order")
		}
		if int(r) > p.member.Top() {
			p.member.Grow(int(r))
			p.pending.Grow(int(r))
		}
		if p.pending.Has(uint32(r)) {
			continue
		}
		if p.member.Has(uint32(r)) {
			p.member.Clear(uint32(r))
			moved = true
		}
		p.pending.Set(uint32(r))
		p.batch = append(p.batch, r)
	}
	if moved {
		p.sweep()
	}
	for _, r := range p.batch {
		p.pending.Clear(uint32(r))
		p.member.Set(uint32(r))
	}
	return p.batch
}

// locate stores in p.at before which rank each row of the sorted batch goes.
// The search for one begins where the one before it went.
func (p *Perm) locate(batch []Row) {
	p.at = slices.Grow(p.at[:0], len(batch))[:len(batch)]
	from := 0
	for i, r := range batch {
		step := 1 // gallop: neighbours in the batch are often close in the order
		for from+step < len(p.order) && p.compare(p.order[from+step], r) < 0 {
			step *= 2
		}
		low, high := from, min(from+step, len(p.order))
		for low < high {
			middle := int(uint(low+high) / 2)
			if p.compare(p.order[middle], r) < 0 {
				low = middle + 1
			} else {
				high = middle
			}
		}
		p.at[i], from = uint32(low), low
	}
}

// merge moves the order apart from its end and puts the batch in.
func (p *Perm) merge(batch []Row) {
	end := len(p.order)
	p.order = slices.Grow(p.order, len(batch))[:end+len(batch)]
	for i := len(batch) - 1; i >= 0; i-- {
		at := int(p.at[i])
		copy(p.order[at+i+1:], p.order[at:end])
		p.order[at+i] = batch[i]
		end = at
	}
	p.rank = p.rank[:0]
}

// Remove takes the rows out; those that are not in the order are passed over.
func (p *Perm) Remove(rows []Row) {
	gone := false
	for _, r := range rows {
		if p.member.Has(uint32(r)) {
			p.member.Clear(uint32(r))
			gone = true
		}
	}
	if gone {
		p.sweep()
	}
}

// sweep takes out of the order what is not a member any more.
func (p *Perm) sweep() {
	words, to := p.member.Words(), 0
	for _, r := range p.order {
		p.order[to] = r // to never passes what is still to be read, so the loop needs no branch
		to += int(words[r>>6] >> (r & 63) & 1)
	}
	p.order = p.order[:to]
	p.rank = p.rank[:0]
}

// scratchMax is the batch, in rows, whose scratch is kept for the next one: a
// steady cycle allocates nothing, a bulk build leaves nothing behind.
const scratchMax = 1 << 14

func (p *Perm) trimScratch() {
	if cap(p.batch) > scratchMax {
		p.batch = nil
	}
	if cap(p.at) > scratchMax {
		p.at = nil
	}
}

// Rank returns the row's place in the order, from 0, and whether it is in it.
// The first call after a change costs O(n), and four more bytes a row from then
// on.
func (p *Perm) Rank(r Row) (int, bool) {
	if len(p.rank) == 0 && len(p.order) > 0 {
		p.number()
	}
	if int(r) >= len(p.rank) || p.rank[r] == 0 {
		return 0, false
	}
	return int(p.rank[r]) - 1, true
}

// number sets the ranks.
func (p *Perm) number() {
	n := p.member.Top() + 1
	p.rank = slices.Grow(p.rank, n)[:n]
	clear(p.rank)
	for i, r := range p.order {
		p.rank[r] = uint32(i) + 1
	}
}

// At returns the row of that rank.
func (p *Perm) At(rank int) Row { return p.order[rank] }

// Rows returns the rows in order, for reading only and until the next change.
func (p *Perm) Rows() []Row { return p.order }

// Len returns the number of rows in the order.
func (p *Perm) Len() int { return len(p.order) }

// Reset removes every row and keeps the memory.
func (p *Perm) Reset() {
	p.order = p.order[:0]
	p.member.Reset()
	p.rank = p.rank[:0]
}

// Bytes returns the memory held.
func (p *Perm) Bytes() int64 {
	return int64(cap(p.order)+cap(p.rank)+cap(p.batch)+cap(p.at))*4 + p.member.Bytes() + p.pending.Bytes()
}

// Check returns an error when the order is broken: for tests and for checks in
// production after something else went wrong. O(n).
func (p *Perm) Check() error {
	for i, r := range p.order {
		if i > 0 && p.compare(p.order[i-1], r) >= 0 {
			return fmt.Errorf("order of rows: rank %d (row %d) does not come after rank %d (row %d)", i, r, i-1, p.order[i-1])
		}
		if at, ok := p.Rank(r); !ok || at != i {
			return fmt.Errorf("order of rows: row %d stands at rank %d, but is said to be at %d", r, i, at)
		}
	}
	return nil
}
