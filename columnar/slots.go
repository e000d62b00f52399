package columnar

// slots is an open-addressing table from hash to a value that leads to the key,
// with linear probing. A slot holds the upper half of the hash (its tag) above
// the value; 0 is a free slot, so values are not 0. Its users compare the keys.
//
// A tag's home is its share of the table, as if the tag were a fraction of one:
// so a table may have any length, the entries lie in the order of their tags,
// and a longer table is written from front to back.
type slots struct {
	table []uint64
	count int
}

const (
	slotsMin = 16
	// slotsDouble is up to how many slots a table doubles. A larger one grows by
	// an eighth: it is seven to eight tenths full, where a doubling one would be
	// four tenths at worst.
	slotsDouble = 1 << 12
)

// tagOf returns the part of the hash that the table works with.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home returns where the search for a tag begins. The table must not be empty.
func (s *slots) home(tag uint32) int { return int(uint64(tag) * uint64(len(s.table)) >> 32) }

// next returns the slot after i.
func (s *slots) next(i int) int {
	if i++; i < len(s.table) {
		return i
	}
	return 0
}

// reserve makes room for one more entry: the table is four fifths full at most.
func (s *slots) reserve() {
	if (s.count+1)*5 <= len(s.table)*4 {
		return
	}
	if len(s.table) < slotsDouble {
		s.resize(max(2*len(s.table), slotsMin))
	} else {
		s.resize(len(s.table) + len(s.table)/8)
	}
}

// reserveAll makes room for n entries in all.
func (s *slots) reserveAll(n int) {
	if size := n + n/4 + 1; size > len(s.table) {
		s.resize(max(size, slotsMin))
	}
}

// resize moves the entries to a table of so many slots.
func (s *slots) resize(size int) {
	old := s.table
	s.table = make([]uint64, size)
	for _, slot := range old {
		if slot != 0 {
			s.place(slot)
		}
	}
}

// insert enters a value that is not in the table. The caller has reserved.
func (s *slots) insert(tag, value uint32) {
	s.place(uint64(tag)<<32 | uint64(value))
	s.count++
}

func (s *slots) place(slot uint64) {
	i := s.home(uint32(slot >> 32))
	for s.table[i] != 0 {
		i = s.next(i)
	}
	s.table[i] = slot
}

// remove takes the entry out and moves those behind it up, so that no search
// ends early and no marks are left.
func (s *slots) remove(tag, value uint32) {
	want := uint64(tag)<<32 | uint64(value)
	hole := s.home(tag)
	for s.table[hole] != want {
		if s.table[hole] == 0 {
			panic("columnar: removal of an entry that is not there")
		}
		hole = s.next(hole)
	}
	for i := s.next(hole); s.table[i] != 0; i = s.next(i) {
		// The entry at i may fill the hole unless its home lies after the hole.
		if s.distance(s.home(uint32(s.table[i]>>32)), i) >= s.distance(hole, i) {
			s.table[hole] = s.table[i]
			hole = i
		}
	}
	s.table[hole] = 0
	s.count--
}

// distance returns how many steps of next lead from one slot to another.
func (s *slots) distance(from, to int) int {
	if to >= from {
		return to - from
	}
	return to - from + len(s.table)
}

func (s *slots) bytes() int64 { return int64(cap(s.table)) * 8 }
