// Package reuse keeps memory from cycle to cycle: slices that grow, things that are lent and taken
// back, vectors out of one block, and positions that are reset at once.
package reuse

import (
	"slices"
	"sort"
)

// Block lends out slices until it is emptied.
type Block[T any] struct{ values []T }

// Empty takes back all slices: their memory is lent again.
func (b *Block[T]) Empty() { b.values = b.values[:0] }

// blockMin is the least number of elements that a block is made for.
const blockMin = 512

// Take returns n elements, which have whatever their last user left. A full block is replaced by a larger one; slices that were lent before
// stay valid.
func (b *Block[T]) Take(n int) []T {
	if len(b.values)+n > cap(b.values) {
		b.values = make([]T, 0, max(2*cap(b.values), n, blockMin))
	}
	from := len(b.values)
	b.values = b.values[:from+n]
	return b.values[from : from+n : from+n]
}

// VectorBlock lends out zeroed vectors until it is emptied.
type VectorBlock struct{ Block[int64] }

// Take returns n zeros, as Block.Take.
func (b *VectorBlock) Take(n int) []int64 {
	v := b.Block.Take(n)
	clear(v)
	return v
}

// Grown returns a slice of n elements, in the memory of s if it suffices. Elements keep what was in
// that memory.
func Grown[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// Resize is Grown with zeroed elements.
func Resize[T any](s []T, n int) []T {
	s = Grown(s, n)
	clear(s)
	return s
}

// Append is append, with room for so many elements at the least: short lists that each of thousands of clusters has are allocated once, not again and
// again while they grow.
func Append[T any](s []T, room int, v ...T) []T {
	if n := len(s) + len(v); n > cap(s) {
		s = slices.Grow(s, max(room, n, 2*cap(s))-len(s))
	}
	return append(s, v...)
}

// Merge inserts elements into a list, both in order; of equal ones those of the list come first. It writes behind the end of the list, where there is
// room. O(elements to insert × log of the distance between two), and the list is moved once.
func Merge[T any](list, more []T, compare func(a, b T) int) []T {
	at := len(list)
	list = append(list, more...)
	for n := len(more); n > 0; n-- {
		last := more[n-1]
		step := 1 // those behind list[at-step] come after last
		for step <= at && compare(list[at-step], last) > 0 {
			step *= 2
		}
		from := max(0, at-step)
		from += sort.Search(at-step/2-from, func(i int) bool { return compare(list[from+i], last) > 0 })
		copy(list[from+n:], list[from:at])
		list[from+n-1], at = last, from
	}
	return list
}
