package exact

import (
	"math"
	"math/bits"
)

// SatSum adds two numbers that are not negative; it saturates at math.MaxInt64.
func SatSum(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return math.MaxInt64
}

// Wide is a 128-bit sum of amounts.
type Wide struct{ hi, lo uint64 }

// Add adds an amount; the sum stays below 2¹²⁷.
func (w *Wide) Add(v int64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, uint64(v), 0)
	w.hi += carry
}

// Sub subtracts an amount that is part of the sum.
func (w *Wide) Sub(v int64) {
	var borrow uint64
	w.lo, borrow = bits.Sub64(w.lo, uint64(v), 0)
	w.hi -= borrow
}

// Value returns the sum, saturated at math.MaxInt64.
func (w *Wide) Value() int64 {
	if w.hi > 0 || w.lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(w.lo)
}
