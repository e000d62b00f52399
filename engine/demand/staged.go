package demand

import (
	"math/bits"
	"slices"
)

// amounts holds vectors as lists of their positive amounts, one after the
// other: a roll-up in which one row names 64 dimensions is not 64 times as
// large for it.
type amounts struct {
	end   []uint32 // vector i ends here
	dim   []uint8
	value []int64
}

func (a *amounts) reset() { a.end, a.dim, a.value = a.end[:0], a.dim[:0], a.value[:0] }

func (a *amounts) append(v []Amount) {
	for _, x := range v {
		a.dim, a.value = append(a.dim, uint8(x.Dim)), append(a.value, x.Value)
	}
	a.end = append(a.end, uint32(len(a.dim)))
}

// at returns the positive amounts of vector i.
func (a *amounts) at(i int) (dim []uint8, value []int64) {
	from := uint32(0)
	if i > 0 {
		from = a.end[i-1]
	}
	return a.dim[from:a.end[i]], a.value[from:a.end[i]]
}

func (a *amounts) bytes() int64 {
	return int64(cap(a.end))*4 + int64(cap(a.dim)) + int64(cap(a.value))*8
}

// unitSet keeps the minimum units of a roll-up once each, numbered in the order
// of their first use.
type unitSet struct {
	vectors amounts
	slots   []uint32 // number + 1, 0 = free; a power of two, at most half full
	sorted  []Amount // scratch
}

const (
	unitSlotsMin = 64
	// unitProbesMax bounds the search for a vector. Somebody could choose
	// amounts that all fall on one slot; those beyond get a number of their own
	// each, and the table makes one of those that are equal.
	unitProbesMax = 64
)

func (u *unitSet) reset() {
	if len(u.slots) > unitSlotsMin && len(u.vectors.end) < len(u.slots)/16 {
		u.slots = nil // not to be cleared again and again for the sake of few
	}
	u.vectors.reset()
	clear(u.slots)
}

// put returns the number of a vector of different dimensions.
func (u *unitSet) put(v []Amount) uint32 {
	if len(u.vectors.end)*2 >= len(u.slots) {
		u.grow()
	}
	u.sorted = append(u.sorted[:0], v...)
	s := u.sorted
	for i := 1; i < len(s); i++ {
		for j := i; j > 0 && s[j].Dim < s[j-1].Dim; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	h := uint64(len(s))
	for _, a := range s {
		h = mix(h, uint64(a.Dim), uint64(a.Value))
	}
	n := uint32(len(u.vectors.end))
	at := u.home(h)
	for probe := 0; u.slots[at] != 0; probe++ {
		if probe == unitProbesMax {
			u.vectors.append(s)
			return n
		}
		if known := u.slots[at] - 1; u.equal(known, s) {
			return known
		}
		at = (at + 1) & (len(u.slots) - 1)
	}
	u.vectors.append(s)
	u.slots[at] = n + 1
	return n
}

func (u *unitSet) home(h uint64) int { return int(h>>32) & (len(u.slots) - 1) }

// mix folds one amount into a hash. It spreads well enough for a table that
// compares what it finds.
func mix(h, dim, value uint64) uint64 {
	hi, lo := bits.Mul64(value^h^0x9e3779b97f4a7c15, (dim+1)*0xd6e8feb86659fd93)
	return hi ^ lo
}

func (u *unitSet) equal(n uint32, v []Amount) bool {
	dim, value := u.vectors.at(int(n))
	if len(dim) != len(v) {
		return false
	}
	for i, a := range v {
		if uint32(dim[i]) != a.Dim || value[i] != a.Value {
			return false
		}
	}
	return true
}

func (u *unitSet) grow() {
	u.slots = make([]uint32, max(2*len(u.slots), unitSlotsMin))
	for n := range u.vectors.end {
		dim, value := u.vectors.at(n)
		h := uint64(len(dim))
		for i := range dim {
			h = mix(h, uint64(dim[i]), uint64(value[i]))
		}
		at := u.home(h)
		for probe := 0; u.slots[at] != 0 && probe < unitProbesMax; probe++ {
			at = (at + 1) & (len(u.slots) - 1)
		}
		if u.slots[at] == 0 {
			u.slots[at] = uint32(n) + 1
		}
	}
}

func (u *unitSet) bytes() int64 { return u.vectors.bytes() + int64(cap(u.slots))*4 }

// resized returns a column with n rows: those there were, and zero ones. It
// takes new memory when there is too little, or much more than is needed.
func resized[T any](col []T, n int) []T {
	had := min(len(col), n)
	if cap(col) < n || cap(col) > 2*n+blockSlackRows {
		fresh := make([]T, n, n+n/blockSlackShare)
		copy(fresh, col[:had])
		return fresh
	}
	col = slices.Grow(col[:had], n-had)[:n]
	clear(col[had:])
	return col
}

// A block that gets new memory leaves room for a share of its rows, so that a
// demand which creeps up does not get new memory with each roll-up; and it
// gives memory back when less than half is in use, beyond a few rows.
const (
	blockSlackRows  = 64
	blockSlackShare = 32
)
