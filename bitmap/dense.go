package bitmap

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/alloc"
)

const wordBits = 64

// Dense is a set of row numbers, one bit per row. The zero value is the empty
// set over no rows; Grow it.
type Dense struct {
	words []uint64
	top   uint32 // the highest row that it can hold
}

// NewDense returns an empty set over the rows 0…top. Rows of tables begin at
// 1, so a table of n rows wants NewDense(n).
func NewDense(top int) *Dense {
	d := new(Dense)
	d.Grow(top)
	return d
}

// DenseIn is NewDense with the arena's memory: the set is good until the
// arena's Reset, and must not grow.
func DenseIn(a *alloc.Arena, top int) Dense {
	return Dense{words: alloc.Make[uint64](a, wordsFor(top)), top: uint32(top)}
}

func wordsFor(top int) int { return top/wordBits + 1 }

// Grow makes room for the rows up to top. It never shrinks.
func (d *Dense) Grow(top int) {
	if need := wordsFor(top); need > len(d.words) {
		d.words = append(d.words, make([]uint64, need-len(d.words))...)
	}
	d.top = max(d.top, uint32(top))
}

// Top returns the highest row that the set can hold.
func (d *Dense) Top() int { return int(d.top) }

// Set puts the row into the set. It panics when the row is above Top.
func (d *Dense) Set(row uint32) {
	if row > d.top {
		d.tooHigh(row) // apart, so that Set is inlined
	}
	d.words[row/wordBits] |= 1 << (row % wordBits)
}

//go:noinline
func (d *Dense) tooHigh(row uint32) {
	panic(fmt.Sprintf("bitmap: row %d is above %d, the set's highest", row, d.top))
}

// Clear takes the row out of the set.
func (d *Dense) Clear(row uint32) {
	if i := int(row / wordBits); i < len(d.words) {
		d.words[i] &^= 1 << (row % wordBits)
	}
}

// Has reports whether the row is in the set.
func (d *Dense) Has(row uint32) bool {
	i := int(row / wordBits)
	return i < len(d.words) && d.words[i]>>(row%wordBits)&1 != 0
}

// Reset takes every row out of the set.
func (d *Dense) Reset() { clear(d.words) }

// SetAll puts the rows from…to, both included, into the set.
func (d *Dense) SetAll(from, to uint32) {
	if from > to {
		return
	}
	d.Set(to) // the bound
	first, last := from/wordBits, to/wordBits
	head := ^uint64(0) << (from % wordBits)
	tail := ^uint64(0) >> (wordBits - 1 - to%wordBits)
	if first == last {
		d.words[first] |= head & tail
		return
	}
	d.words[first] |= head
	for i := first + 1; i < last; i++ {
		d.words[i] = ^uint64(0)
	}
	d.words[last] |= tail
}

// Assign makes d hold exactly the members of b. It panics when one is above
// Top.
func (d *Dense) Assign(b *roaring.Bitmap) {
	d.Reset()
	if b.IsEmpty() {
		return
	}
	if top := b.Maximum(); top > d.top {
		panic(fmt.Sprintf("bitmap: row %d is above %d, the set's highest", top, d.top))
	}
	b.WriteDenseTo(d.words) // overwrites where it does not merge: d must be empty
}

// Next returns the first member that is at least from.
func (d *Dense) Next(from uint32) (row uint32, ok bool) {
	i := int(from / wordBits)
	if i >= len(d.words) {
		return 0, false
	}
	w := d.words[i] &^ (1<<(from%wordBits) - 1)
	for w == 0 {
		if i++; i == len(d.words) {
			return 0, false
		}
		w = d.words[i]
	}
	return uint32(i*wordBits + bits.TrailingZeros64(w)), true
}

// NextClear returns the first row ≥ from, at most Top, that is not a member.
func (d *Dense) NextClear(from uint32) (row uint32, ok bool) {
	i := int(from / wordBits)
	if i >= len(d.words) {
		return 0, false
	}
	w := ^d.words[i] &^ (1<<(from%wordBits) - 1)
	for w == 0 {
		if i++; i == len(d.words) {
			return 0, false
		}
		w = ^d.words[i]
	}
	row = uint32(i*wordBits + bits.TrailingZeros64(w))
	return row, row <= d.top
}

// All yields the members in ascending order. Members behind the present one
// may be taken out meanwhile; whether a change to the 64 rows around it is
// seen is not specified.
func (d *Dense) All() iter.Seq[uint32] { return members(d.words) }

// members yields the numbers of the bits that are set, ascending.
func members(words []uint64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				if !yield(uint32(i*wordBits + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// Words returns the set's words, row r being bit r%64 of word r/64, for loops
// that can not afford a call per row. Bits above Top must stay zero.
func (d *Dense) Words() []uint64 { return d.words }

// Clone returns a copy.
func (d *Dense) Clone() Dense { return Dense{words: slices.Clone(d.words), top: d.top} }

// Bytes returns the set's memory.
func (d *Dense) Bytes() int64 { return int64(cap(d.words)) * 8 }
