package supply

// Stamp is what a machine is assigned to, as far as decisions compare it in their innermost loops.
type Stamp struct {
	Fingerprint uint64
	Priority    int32
}

// stamps numbers the stamps that machines carry; machines have few different ones. Number 0 is no stamp.
type stamps struct {
	list   []Stamp // by number
	refs   []uint32
	number map[Stamp]uint32
	unused []uint32
	last   uint32 // the number of the last look-up: neighbours in a listing are often alike
}

func newStamps() stamps {
	return stamps{list: make([]Stamp, 1), refs: make([]uint32, 1), number: map[Stamp]uint32{}}
}

// swap puts a stamp in the place of another.
func (x *stamps) swap(at *uint32, s Stamp) {
	was := *at
	if x.list[was] == s {
		return
	}
	*at = x.hold(s)
	x.release(was)
}

// hold returns the number of a stamp and takes a reference to it.
func (x *stamps) hold(s Stamp) uint32 {
	if s == (Stamp{}) {
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

func (x *stamps) add(s Stamp) uint32 {
	n := uint32(len(x.list))
	if last := len(x.unused) - 1; last >= 0 {
		n, x.unused = x.unused[last], x.unused[:last]
		x.list[n] = s
	} else {
		x.list, x.refs = append(x.list, s), append(x.refs, 0)
	}
	x.number[s] = n
	return n
}

// release lets go of a reference. A number without one may be given to another stamp.
func (x *stamps) release(n uint32) {
	if n == 0 {
		return
	}
	if x.refs[n]--; x.refs[n] == 0 {
		delete(x.number, x.list[n])
		x.list[n] = Stamp{}
		x.unused = append(x.unused, n)
	}
}

// bytes returns what the stamps take; the map is estimated.
func (x *stamps) bytes() int64 {
	const entry = 16 + 4
	return int64(cap(x.list))*16 + int64(cap(x.refs)+cap(x.unused))*4 + int64(len(x.number))*2*entry
}
