package supply

import "github.com/tonnage/tonnage/columnar"

// stamp is what a machine is assigned to, as far as decisions compare it in their innermost loops.
type stamp struct {
	fingerprint uint64
	priority    int32
}

// stamps numbers the stamps that machines carry; machines have few different ones. Number 0 is no stamp.
type stamps struct {
	list    []stamp // by number
	refs    []uint32
	number  map[stamp]uint32
	numbers columnar.Rows
	last    uint32 // the number of the last look-up: neighbours in a listing are often alike
}

func newStamps() stamps {
	return stamps{list: make([]stamp, 1), refs: make([]uint32, 1), number: map[stamp]uint32{}}
}

// swap puts a stamp in the place of another.
func (x *stamps) swap(at *uint32, s stamp) {
	was := *at
	if x.list[was] == s {
		return
	}
	*at = x.hold(s)
	x.release(was)
}

// hold returns the number of a stamp and takes a reference to it.
func (x *stamps) hold(s stamp) uint32 {
	if s == (stamp{}) {
		return 0
	}
	if x.list[x.last] != s {
		n, known := x.number[s]
		if !known {
			n = x.add(s)
		}
		x.last = n
	}
	x.refs[x.last]++
	return x.last
}

func (x *stamps) add(s stamp) uint32 {
	n := uint32(x.numbers.Alloc())
	if int(n) == len(x.list) {
		x.list, x.refs = append(x.list, stamp{}), append(x.refs, 0)
	}
	x.list[n], x.number[s] = s, n
	return n
}

// release lets go of a reference. A number without one may be given to another stamp.
func (x *stamps) release(n uint32) {
	if n == 0 {
		return
	}
	if x.refs[n]--; x.refs[n] == 0 {
		delete(x.number, x.list[n])
		x.list[n] = stamp{}
		x.numbers.Free(columnar.Row(n))
	}
}

// bytes returns what the stamps take; the map is estimated.
func (x *stamps) bytes() int64 {
	const entry = 16 + 4
	return int64(cap(x.list))*16 + int64(cap(x.refs))*4 + x.numbers.Bytes() + int64(len(x.number))*2*entry
}
