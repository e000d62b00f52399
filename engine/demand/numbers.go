package demand

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// names numbers strings over all clusters. Number 0 is the empty string, which
// nobody has to hold.
type names struct {
	dict columnar.Dict
	holders
}

// put returns the number of a string. A new one is nobody's: whoever does not
// hold it before the next sweep loses it.
func (n *names) put(s []byte) uint32 {
	before := n.dict.Len()
	id := n.dict.IDBytes(s)
	if n.dict.Len() != before {
		n.began(id)
	}
	return id
}

func (n *names) sweep() { n.holders.sweep(n.dict.Remove) }

func (n *names) bytes() int64 { return n.dict.Bytes() + n.holders.bytes() }

// vectors numbers aggregates and minimum units over all clusters, by the table's
// dimensions: of hundreds of thousands of rows there are a few thousand. The
// number stands for the vector. Number 0 is the zero vector.
type vectors struct {
	dict columnar.Vectors
	holders
}

// put is names.put for a vector.
func (v *vectors) put(values []int64) uint32 {
	before := v.dict.Len()
	id := v.dict.ID(values)
	if v.dict.Len() != before {
		v.began(id)
	}
	return id
}

func (v *vectors) sweep() { v.holders.sweep(v.dict.Remove) }

// project returns the vectors over the dimensions that from names, in that
// order, and the new numbers by the old ones. No row may have a positive amount
// in another dimension.
func (v *vectors) project(from []int) (fresh vectors, number []uint32) {
	fresh.version = v.version + 1
	number = make([]uint32, v.dict.Top()+1)
	values := make([]int64, len(from))
	for id := uint32(1); id <= v.dict.Top(); id++ {
		if v.refs[id] == 0 {
			continue
		}
		for i, at := range from {
			values[i] = valueAt(v.dict.At(id), at)
		}
		number[id] = fresh.put(values)
		fresh.refs[number[id]] = v.refs[id]
	}
	fresh.sweep()
	return fresh, number
}

// used returns the set of the dimensions that rows name.
func (v *vectors) used() (dims uint64) {
	for id := uint32(1); id <= v.dict.Top(); id++ {
		if v.refs[id] == 0 {
			continue
		}
		for i, x := range v.dict.At(id) {
			if x > 0 {
				dims |= 1 << i
			}
		}
	}
	return dims
}

// valueAt returns a dimension of a vector; those beyond its end are zero.
func valueAt(v []int64, dim int) int64 {
	if dim >= len(v) {
		return 0
	}
	return v[dim]
}

func (v *vectors) bytes() int64 { return v.dict.Bytes() + v.holders.bytes() }

// holders counts the rows that hold each number, so that demand which comes and
// goes does not leave its names and vectors behind. Number 0 is held by nobody.
type holders struct {
	refs    []uint32 // by number
	idle    []uint32 // numbers that nobody held at some time, unsorted
	version uint64   // changes whenever a number gets a meaning
}

// began notes that a number has got a meaning.
func (h *holders) began(id uint32) {
	for len(h.refs) <= int(id) {
		h.refs = append(h.refs, 0)
	}
	h.idle = append(h.idle, id)
	h.version++
}

func (h *holders) hold(id uint32) {
	if id != 0 {
		h.refs[id]++
	}
}

func (h *holders) release(id uint32) {
	if id == 0 {
		return
	}
	if h.refs[id]--; h.refs[id] == 0 {
		h.idle = append(h.idle, id)
	}
}

// sweep removes what nobody holds. Releases do not, so that a name which one
// row gives up and the next takes keeps its number.
func (h *holders) sweep(remove func(id uint32)) {
	if len(h.idle) == 0 {
		return
	}
	slices.Sort(h.idle)
	for _, id := range slices.Compact(h.idle) {
		if h.refs[id] == 0 {
			remove(id)
		}
	}
	h.idle = h.idle[:0]
}

func (h *holders) bytes() int64 { return int64(cap(h.refs)+cap(h.idle)) * 4 }
