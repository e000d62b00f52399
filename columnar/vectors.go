package columnar

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// VecID is the number of an interned vector; 0 is the zero vector.
type VecID uint32

// Vectors interns resource vectors: equal contents have equal numbers, given
// in the order of first occurrence from 1. A dimension that a vector does not
// have is zero, and trailing zeros do not count, so the number of a content
// does not depend on how many dimensions were known when it came.
//
//	stride 3     cpu  memory  gpu
//	vector 0   [   0       0    0 ]
//	vector 1   [ 4000   16Gi    0 ]
//	vector 2   [ 8000   32Gi    8 ]
//
// All vectors lie in one array, each as long as there were dimensions at the
// last Intern; a new dimension moves them to a wider one, which happens at
// most MaxDims times.
//
// Vectors are not removed one by one; Compact drops what is no longer used.
type Vectors struct {
	dims   *Dims
	stride int
	values []int64 // (count+1) × stride, the zero vector first
	count  int
	slots  slots
}

// NewVectors returns an empty store over the dimensions, which others may
// share.
func NewVectors(dims *Dims) *Vectors { return &Vectors{dims: dims} }

// Dims returns the dimensions that the vectors are over.
func (v *Vectors) Dims() *Dims { return v.dims }

// Intern returns the number of the vector with these values by dimension,
// which are copied. It panics when there are more values than dimensions.
func (v *Vectors) Intern(values []int64) VecID {
	for len(values) > 0 && values[len(values)-1] == 0 {
		values = values[:len(values)-1]
	}
	if len(values) == 0 {
		return 0
	}
	if len(values) > v.dims.Len() {
		panic(fmt.Sprintf("columnar: vector of %d values over %d dimensions", len(values), v.dims.Len()))
	}
	if v.stride < v.dims.Len() {
		v.widen(v.dims.Len())
	}
	tag := hashVector(values)
	if id := v.find(tag, values); id != 0 {
		return id
	}
	v.slots.reserve()
	v.count++
	from := len(v.values)
	v.values = slices.Grow(v.values, v.stride)[:from+v.stride]
	clear(v.values[from+copy(v.values[from:], values):])
	v.slots.insert(tag, uint32(v.count))
	return VecID(v.count)
}

// hashVector hashes values without trailing zeros.
func hashVector(values []int64) uint32 {
	return tagOf(xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*8)))
}

func (v *Vectors) find(tag uint32, values []int64) VecID {
	if len(v.slots.table) == 0 {
		return 0
	}
	for i := v.slots.home(tag); v.slots.table[i] != 0; i = v.slots.next(i) {
		slot := v.slots.table[i]
		if uint32(slot>>32) != tag {
			continue
		}
		have := v.At(VecID(slot))
		if slices.Equal(have[:len(values)], values) && IsZero(have[len(values):]) {
			return VecID(slot)
		}
	}
	return 0
}

// widen moves the vectors to a larger stride.
func (v *Vectors) widen(stride int) {
	wide := make([]int64, (v.count+1)*stride)
	for i := range v.count + 1 {
		copy(wide[i*stride:], v.At(VecID(i)))
	}
	v.values, v.stride = wide, stride
}

// At returns the values by dimension, for reading only. There are as many as
// dimensions were known at the last Intern; those that are missing are zero.
// The slice stays good, if short, when vectors and dimensions are added.
func (v *Vectors) At(id VecID) []int64 {
	from := int(id) * v.stride
	if from+v.stride > len(v.values) && id == 0 {
		return nil // nothing interned yet
	}
	return v.values[from : from+v.stride : from+v.stride]
}

// Len returns the number of vectors, the zero vector not counted.
func (v *Vectors) Len() int { return v.count }

// Compact forgets every vector that none of the lists names, numbers the
// others anew in the order in which the lists name them, and rewrites the
// lists. Numbers kept elsewhere lose their meaning. Its owner calls it when
// Len is far above the number of rows that use vectors: O(rows).
func (v *Vectors) Compact(lists ...[]VecID) {
	fresh := NewVectors(v.dims)
	moved := make([]VecID, v.count+1)
	for _, list := range lists {
		for i, id := range list {
			if id != 0 && moved[id] == 0 {
				moved[id] = fresh.Intern(v.At(id))
			}
			list[i] = moved[id]
		}
	}
	*v = *fresh
}

// Bytes returns the memory held.
func (v *Vectors) Bytes() int64 { return int64(cap(v.values))*8 + v.slots.bytes() }
