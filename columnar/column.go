package columnar

import (
	"unsafe"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/internal/invariants"
)

// Column holds one value of T per row. T must hold no pointers. The zero value
// is a column of no rows; row 0 reads as the zero value of T. One owner
// changes it.
type Column[T any] struct {
	epoch  invariants.Epoch
	values []T // by row; empty, or values[0] is zero
}

// Grow makes the rows 1…n exist; new rows are zero. It never shrinks. It
// panics when T holds a pointer.
func (c *Column[T]) Grow(n int) {
	need := n + 1 - len(c.values)
	if need <= 0 && len(c.values) > 0 {
		return
	}
	if need > cap(c.values)-len(c.values) {
		alloc.MustPointerFree[T]()
		c.values = append(c.values, make([]T, need)...)
	} else {
		from := len(c.values)
		c.values = c.values[:n+1]
		clear(c.values[from:])
	}
	c.epoch.Advance()
}

// Len returns the number of rows, row 0 not counted.
func (c *Column[T]) Len() int { return max(len(c.values)-1, 0) }

// At returns the row's value. It panics when the row does not exist.
func (c *Column[T]) At(r Row) T { return c.values[r] }

// Set changes the row's value. It panics when the row is None or does not
// exist.
func (c *Column[T]) Set(r Row, v T) {
	if r == None {
		panic("columnar: Set of row 0, which stays zero")
	}
	c.values[r] = v
	c.epoch.Advance()
}

// Reset removes all rows and keeps the memory.
func (c *Column[T]) Reset() {
	c.values = c.values[:0]
	c.epoch.Advance()
}

// View returns the column for reading. It is good until the next Grow, Set or
// Reset.
func (c *Column[T]) View() View[T] { return View[T]{c.epoch.Stamp(), c.values} }

// Bytes returns the memory held.
func (c *Column[T]) Bytes() int64 {
	var zero T
	return int64(cap(c.values)) * int64(unsafe.Sizeof(zero))
}

// View is a column for reading: a small value, passed by value.
type View[T any] struct {
	stamp  invariants.Stamp
	values []T
}

// Len returns the number of rows, row 0 not counted.
func (v View[T]) Len() int { return max(len(v.values)-1, 0) }

// At returns the row's value. It panics when the row does not exist.
func (v View[T]) At(r Row) T {
	v.stamp.Check("view of a column")
	return v.values[r]
}

// Slice returns the values by row, element 0 being that of no row, for loops
// over many. It must not be modified.
func (v View[T]) Slice() []T {
	v.stamp.Check("view of a column")
	return v.values
}
