package bitmap

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/alloc"
)

// Numbered is a set of rows that changes as a whole at most. It numbers its members 0, 1, 2 … in ascending order, so that columns of
// them need no room for the rows that are not in the set. It takes a bit and a half per row.
type Numbered struct {
	words  []uint64
	before []uint32 // by word: how many members lie in the words before it
}

// NumberedIn returns the present members of a set, in the arena's memory. O(rows / 64).
func NumberedIn(a *alloc.Arena, d *Dense) Numbered {
	x := Numbered{words: alloc.MakeDirty[uint64](a, len(d.words)), before: alloc.MakeDirty[uint32](a, len(d.words))}
	x.count(d)
	return x
}

// Assign makes the present members of a set the members. O(rows / 64).
func (x *Numbered) Assign(d *Dense) {
	n := len(d.words)
	x.words, x.before = slices.Grow(x.words[:0], n)[:n], slices.Grow(x.before[:0], n)[:n]
	x.count(d)
}

func (x *Numbered) count(d *Dense) {
	copy(x.words, d.words)
	sum := uint32(0)
	for i, w := range x.words {
		x.before[i] = sum
		sum += uint32(bits.OnesCount64(w))
	}
}

// Has reports whether a row is in the set.
func (x *Numbered) Has(row uint32) bool {
	i := int(row / wordBits)
	return i < len(x.words) && x.words[i]>>(row%wordBits)&1 != 0
}

// Number returns the number of a member. For a row that is not in the set it is that of the next member. O(1).
func (x *Numbered) Number(row uint32) uint32 {
	i := row / wordBits
	return x.before[i] + uint32(bits.OnesCount64(x.words[i]&(1<<(row%wordBits)-1)))
}

// Len returns the number of members. O(1).
func (x *Numbered) Len() int {
	n := len(x.words)
	if n == 0 {
		return 0
	}
	return int(x.before[n-1]) + bits.OnesCount64(x.words[n-1])
}

// All yields the members in ascending order.
func (x *Numbered) All() iter.Seq[uint32] { return members(x.words) }
