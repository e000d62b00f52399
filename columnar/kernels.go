package columnar

import (
	"math"
	"math/bits"
)

// The arithmetic of resource vectors: values by dimension, in the dimension's
// natural unit (thousandths of a core, bytes, counts). Vectors may differ in
// length; a missing dimension is zero. Sums stop at the ends of int64 instead
// of wrapping around. The functions that store into dst want it to be as long
// as the other operand and panic when it is not.

// SatAdd adds a to dst.
func SatAdd(dst, a []int64) {
	dst = dst[:len(a)]
	for i, x := range a {
		dst[i] = satAdd(dst[i], x)
	}
}

// SatAddScaled adds n times a to dst.
func SatAddScaled(dst, a []int64, n int64) {
	dst = dst[:len(a)]
	for i, x := range a {
		dst[i] = satAdd(dst[i], satMul(x, n))
	}
}

// SubClamp takes a from dst, down to zero.
func SubClamp(dst, a []int64) {
	dst = dst[:len(a)]
	for i, x := range a {
		y := dst[i]
		d := y - x
		switch {
		case y <= x:
			d = 0
		case d < 0: // x is far below zero
			d = math.MaxInt64
		}
		dst[i] = d
	}
}

// Covers reports whether have is at least want in every dimension in which
// want is positive.
func Covers(have, want []int64) bool {
	n := min(len(have), len(want))
	for i, w := range want[:n] {
		if w > 0 && have[i] < w {
			return false
		}
	}
	for _, w := range want[n:] {
		if w > 0 {
			return false
		}
	}
	return true
}

// Helps reports whether have is positive in a dimension in which missing is.
func Helps(have, missing []int64) bool {
	n := min(len(have), len(missing))
	for i, m := range missing[:n] {
		if m > 0 && have[i] > 0 {
			return true
		}
	}
	return false
}

// IsZero reports whether every value is zero.
func IsZero(a []int64) bool {
	for _, x := range a {
		if x != 0 {
			return false
		}
	}
	return true
}

func satAdd(a, b int64) int64 {
	s := a + b
	if (a^s)&(b^s) < 0 { // both operands have the other sign
		return saturated(a < 0)
	}
	return s
}

func satMul(a, b int64) int64 {
	negative := (a < 0) != (b < 0)
	high, low := bits.Mul64(magnitude(a), magnitude(b))
	switch {
	case high == 0 && low <= math.MaxInt64:
		if negative {
			return -int64(low)
		}
		return int64(low)
	default:
		return saturated(negative)
	}
}

func magnitude(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func saturated(negative bool) int64 {
	if negative {
		return math.MinInt64
	}
	return math.MaxInt64
}
