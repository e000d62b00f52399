package columnar

// slots is an open-addressing table from hash to a value that leads to the key,
// with linear probing. A slot holds the upper half of the hash (its tag) above
// the value; 0 is a free slot, so values are not 0. Its users compare the keys.
type slots struct {
	table []uint64 // length 0 or a power of two
	shift uint8    // a tag's home is tag >> shift
	count int
}

const slotsMin = 16

// tagOf returns the part of the hash that the table works with.
func tagOf(hash uint64) uint32 { return uint32(hash >> 32) }

// home returns where the search for a tag begins. The table must not be empty.
func (s *slots) home(tag uint32) int { return int(tag >> s.shift) }

// next returns the slot after i.
func (s *slots) next(i int) int { return (i + 1) & (len(s.table) - 1) }

// reserve makes room for one more entry: the table is three quarters full at
// most.
func (s *slots) reserve() {
	if (s.count+1)*4 <= len(s.table)*3 {
		return
	}
	old := s.table
	size := max(2*len(old), slotsMin)
	s.table = make([]uint64, size)
	s.shift = 32
	for n := size; n > 1; n >>= 1 {
		s.shift--
	}
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
	mask := len(s.table) - 1
	for i := s.next(hole); s.table[i] != 0; i = s.next(i) {
		// The entry at i may fill the hole unless its home lies after the hole.
		if home := s.home(uint32(s.table[i] >> 32)); (i-home)&mask >= (i-hole)&mask {
			s.table[hole] = s.table[i]
			hole = i
		}
	}
	s.table[hole] = 0
	s.count--
}

// reset takes every entry out and keeps the table.
func (s *slots) reset() {
	clear(s.table)
	s.count = 0
}

func (s *slots) bytes() int64 { return int64(cap(s.table)) * 8 }
