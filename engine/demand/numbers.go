package demand

import (
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// names numbers strings over all clusters and counts the rows that hold each,
// so that demand which comes and goes does not leave its names behind. Number
// 0 is the empty string, which nobody has to hold.
type names struct {
	dict    columnar.Dict
	refs    []uint32 // by number
	idle    []uint32 // numbers that nobody held at some time, unsorted
	version uint64   // changes whenever a number gets a meaning
}

// put returns the number of a string. A new one is nobody's: whoever does not
// hold it before the next sweep loses it.
func (n *names) put(s []byte) uint32 {
	if len(s) == 0 {
		return 0
	}
	before := n.dict.Len()
	id := n.dict.IDBytes(s)
	if n.dict.Len() != before {
		for len(n.refs) <= int(id) {
			n.refs = append(n.refs, 0)
		}
		n.idle = append(n.idle, id)
		n.version++
	}
	return id
}

func (n *names) hold(id uint32) {
	if id != 0 {
		n.refs[id]++
	}
}

func (n *names) release(id uint32) {
	if id == 0 {
		return
	}
	if n.refs[id]--; n.refs[id] == 0 {
		n.idle = append(n.idle, id)
	}
}

// sweep forgets what nobody holds. Releases do not, so that a name which one
// row gives up and the next takes keeps its number.
func (n *names) sweep() {
	if len(n.idle) == 0 {
		return
	}
	slices.Sort(n.idle)
	for _, id := range slices.Compact(n.idle) {
		if n.refs[id] == 0 {
			n.dict.Remove(id)
		}
	}
	n.idle = n.idle[:0]
}

// top returns the highest number ever given out.
func (n *names) top() int { return int(n.dict.Top()) }

func (n *names) bytes() int64 { return n.dict.Bytes() + int64(cap(n.refs)+cap(n.idle))*4 }

// units numbers minimum units over all clusters: of hundreds of thousands of
// rows there are a few dozen. The number stands for the vector, of which it is
// a copy. Number 0 is the zero vector.
type units struct {
	names
	stride  int
	vectors []int64 // by number, stride values each
	key     []byte
}

// put returns the number of a vector, by the table's dimensions.
func (u *units) put(v []int64) uint32 {
	for len(v) > 0 && v[len(v)-1] == 0 {
		v = v[:len(v)-1]
	}
	u.widen(len(v))
	u.key = u.key[:0]
	for _, x := range v {
		u.key = binary.LittleEndian.AppendUint64(u.key, uint64(x))
	}
	before := u.version
	id := u.names.put(u.key)
	if u.version != before {
		if need := int(id+1) * u.stride; len(u.vectors) < need {
			u.vectors = slices.Grow(u.vectors, need-len(u.vectors))[:need]
		}
		at := u.at(id)
		clear(at[copy(at, v):])
	}
	return id
}

// at returns the vector of a number.
func (u *units) at(id uint32) []int64 {
	from, to := int(id)*u.stride, int(id+1)*u.stride
	return u.vectors[from:to:to]
}

// widen makes room for vectors of a length. O(units), once per dimension.
func (u *units) widen(stride int) {
	if stride <= u.stride {
		return
	}
	n := int(u.dict.Top()) + 1
	wide := make([]int64, n*stride)
	for id := range n {
		copy(wide[id*stride:], u.at(uint32(id)))
	}
	u.vectors, u.stride = wide, stride
}

// project returns the units over the dimensions that from names, in that
// order, and the new numbers by the old ones. No row may have a positive amount
// in another dimension.
func (u *units) project(from []int) (fresh units, number []uint32) {
	fresh.version = u.version + 1
	number = make([]uint32, u.dict.Top()+1)
	v := make([]int64, len(from))
	for id := uint32(1); id <= u.dict.Top(); id++ {
		if u.refs[id] == 0 {
			continue
		}
		for i, at := range from {
			v[i] = valueAt(u.at(id), at)
		}
		number[id] = fresh.put(v)
		fresh.refs[number[id]] = u.refs[id]
	}
	fresh.sweep()
	return fresh, number
}

// valueAt returns a dimension of a vector; those beyond its end are zero.
func valueAt(v []int64, dim int) int64 {
	if dim >= len(v) {
		return 0
	}
	return v[dim]
}

func (u *units) bytes() int64 { return u.names.bytes() + int64(cap(u.vectors))*8 }
