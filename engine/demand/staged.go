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

// vectorSet keeps the aggregates and minimum units of a roll-up once each, numbered
// in the order of their first use.
type vectorSet struct {
	vectors amounts
	slots   []uint32 // number + 1, 0 = free; a power of two, at most half full
	sorted  []Amount // scratch
}

const (
	vectorSlotsMin = 64
	// vectorProbesMax bounds the search for a vector. Somebody could choose
	// amounts that all fall on one slot; those beyond get a number of their own
	// each, and the table makes one of those that are equal.
	vectorProbesMax = 64
)

func (s *vectorSet) reset() {
	if len(s.slots) > vectorSlotsMin && len(s.vectors.end) < len(s.slots)/16 {
		s.slots = nil // not to be cleared again and again for the sake of few
	}
	s.vectors.reset()
	clear(s.slots)
}

// put returns the number of a vector of different dimensions.
func (s *vectorSet) put(v []Amount) uint32 {
	if len(s.vectors.end)*2 >= len(s.slots) {
		s.grow()
	}
	h, from := uint64(len(v)), uint32(0)
	for _, a := range v {
		if a.Dim < from {
			return s.put(s.inOrder(v))
		}
		h, from = mix(h, uint64(a.Dim), uint64(a.Value)), a.Dim
	}
	n := uint32(len(s.vectors.end))
	at := s.home(h)
	for probe := 0; s.slots[at] != 0; probe++ {
		if probe == vectorProbesMax {
			s.vectors.append(v)
			return n
		}
		if known := s.slots[at] - 1; s.equal(known, v) {
			return known
		}
		at = (at + 1) & (len(s.slots) - 1)
	}
	s.vectors.append(v)
	s.slots[at] = n + 1
	return n
}

// inOrder returns a copy of a vector in the order of its dimensions.
func (s *vectorSet) inOrder(v []Amount) []Amount {
	s.sorted = append(s.sorted[:0], v...)
	v = s.sorted
	for i := 1; i < len(v); i++ {
		for j := i; j > 0 && v[j].Dim < v[j-1].Dim; j-- {
			v[j], v[j-1] = v[j-1], v[j]
		}
	}
	return v
}

func (s *vectorSet) len() int { return len(s.vectors.end) }

func (s *vectorSet) home(h uint64) int { return int(h>>32) & (len(s.slots) - 1) }

// mix folds one amount into a hash. It spreads well enough for a table that
// compares what it finds.
func mix(h, dim, value uint64) uint64 {
	hi, lo := bits.Mul64(value^h^0x9e3779b97f4a7c15, (dim+1)*0xd6e8feb86659fd93)
	return hi ^ lo
}

func (s *vectorSet) equal(n uint32, v []Amount) bool {
	dim, value := s.vectors.at(int(n))
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

func (s *vectorSet) grow() {
	s.slots = make([]uint32, max(2*len(s.slots), vectorSlotsMin))
	for n := range s.vectors.end {
		dim, value := s.vectors.at(n)
		h := uint64(len(dim))
		for i := range dim {
			h = mix(h, uint64(dim[i]), uint64(value[i]))
		}
		at := s.home(h)
		for probe := 0; s.slots[at] != 0 && probe < vectorProbesMax; probe++ {
			at = (at + 1) & (len(s.slots) - 1)
		}
		if s.slots[at] == 0 {
			s.slots[at] = uint32(n) + 1
		}
	}
}

func (s *vectorSet) bytes() int64 { return s.vectors.bytes() + int64(cap(s.slots))*4 }

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
