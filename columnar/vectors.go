package columnar

import (
	"slices"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/internal/invariants"
)

// Vectors numbers resource vectors as Dict numbers strings: the first is 1, equal
// contents have equal numbers, and the number of a vector that was removed is
// given to a later one, the smallest first. 0 is the zero vector, which is not
// stored. A dimension that a vector does not have is zero: trailing zeros do not
// count, so the number of a content does not depend on how many dimensions were
// known when it came. The zero value is ready. One owner changes it; in between,
// any number may read.
//
//	number 1  ┐   ┌ 4000 │ 16Gi │ 8000 │ 32Gi │ 8 │ 300 │ 384Mi ┐
//	number 2  ┤ → │ ─ 1 ──────── │ ─ 2 ──────────────│ ─ 3 ─────── │
//	number 3  ┘   └ each as long as its last value that is not zero ┘
//
// So a vector that names the last of 64 dimensions does not make the others
// longer. One costs its values, eight bytes for its place and ten to twenty-one
// for its slot.
type Vectors struct {
	slots   slots // to numbers
	places  []place
	values  []int64
	stored  int // of the values, those of vectors in use
	numbers Rows
}

// place is where the values of a number are.
type place struct{ from, n uint32 }

// VectorValuesMax is the most values that the vectors in use may have together.
const VectorValuesMax = 1 << 30

// ID returns the number of the vector with these values by dimension, a new one
// when it is not known. The values are copied. It panics when the values of all
// vectors pass VectorValuesMax.
func (v *Vectors) ID(values []int64) uint32 {
	for len(values) > 0 && values[len(values)-1] == 0 {
		values = values[:len(values)-1]
	}
	if len(values) == 0 {
		return 0
	}
	tag := hashVector(values)
	if id := v.find(tag, values); id != 0 {
		return id
	}
	if v.stored+len(values) > VectorValuesMax {
		panic("columnar: too many values in vectors")
	}
	v.slots.reserve()
	id := uint32(v.numbers.Alloc())
	for len(v.places) <= int(id) {
		v.places = append(v.places, place{})
	}
	v.places[id] = place{uint32(len(v.values)), uint32(len(values))}
	v.values = append(v.values, values...)
	v.stored += len(values)
	v.slots.insert(tag, id)
	return id
}

// hashVector hashes values without trailing zeros.
func hashVector(values []int64) uint32 {
	return tagOf(xxhash.Sum64(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*8)))
}

func (v *Vectors) find(tag uint32, values []int64) uint32 {
	if len(v.slots.table) == 0 {
		return 0
	}
	for i := v.slots.home(tag); v.slots.table[i] != 0; i = v.slots.next(i) {
		slot := v.slots.table[i]
		if uint32(slot>>32) == tag && slices.Equal(v.At(uint32(slot)), values) {
			return uint32(slot)
		}
	}
	return 0
}

// At returns the values of a number in use up to the last that is not zero, for
// reading only. They are good until the next change.
func (v *Vectors) At(id uint32) []int64 {
	if id == 0 {
		return nil
	}
	if invariants.Enabled && !v.numbers.Live(Row(id)) {
		panic("invariants: vector of a number that was removed")
	}
	p := v.places[id]
	return v.values[p.from : p.from+p.n : p.from+p.n]
}

// Remove forgets the vector of a number in use. The values are written anew once
// more than half of them are of removed vectors: amortized, O(values of the
// vector).
func (v *Vectors) Remove(id uint32) {
	values := v.At(id)
	v.numbers.Free(Row(id)) // refuses 0 and numbers not in use
	v.slots.remove(hashVector(values), id)
	v.stored -= len(values)
	if len(v.values) > 2*v.stored+vectorSlack {
		v.compact()
	}
}

// vectorSlack is how many values of removed vectors are kept at least.
const vectorSlack = 1 << 10

// compact copies the values in use, in order of their numbers, and drops the
// rest.
func (v *Vectors) compact() {
	fresh := make([]int64, 0, v.stored+v.stored/8)
	for r := v.numbers.Next(1); r != None; r = v.numbers.Next(r + 1) {
		p := &v.places[r]
		values := v.values[p.from:][:p.n]
		p.from = uint32(len(fresh))
		fresh = append(fresh, values...)
	}
	v.values = fresh
}

// Len returns the number of vectors, the zero vector not counted.
func (v *Vectors) Len() int { return v.numbers.Len() }

// Top returns the highest number ever given out: columns by number grow to it.
func (v *Vectors) Top() uint32 { return uint32(v.numbers.Top()) }

// Values returns how many values the vectors in use have together.
func (v *Vectors) Values() int { return v.stored }

// Bytes returns the memory held.
func (v *Vectors) Bytes() int64 {
	return int64(cap(v.values)+cap(v.places))*8 + v.slots.bytes() + v.numbers.Bytes()
}

// Frozen returns the vectors as they are now. Only At may be called on what it returns; that goes on while v changes. O(values).
func (v *Vectors) Frozen() Vectors {
	return Vectors{places: slices.Clone(v.places), values: slices.Clone(v.values), numbers: v.numbers.clone()}
}
