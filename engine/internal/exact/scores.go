// Package exact compares and adds amounts without rounding where a decision depends on it, so that every
// processor comes to the same answer.
package exact

import (
	"math"
	"math/big"
)

// ScoreSlack bounds the relative error of approximate scores.
const ScoreSlack = 1e-12

// CompareScores compares Σ have/want over the wanted dimensions of two vectors, each ratio capped at 1
// if capped. The result is exact: floating point decides only where the difference exceeds its error
// bound.
func CompareScores(a, b, want []int64, capped bool) int {
	var fa, fb float64
	equal := true
	for i, w := range want {
		if w <= 0 {
			continue
		}
		x, y := a[i], b[i]
		if capped {
			x, y = min(x, w), min(y, w)
		}
		if x != y {
			equal = false
		}
		fa += float64(x) / float64(w)
		fb += float64(y) / float64(w)
	}
	if equal {
		return 0
	}
	// Each term and each sum is off by a few units in the last place; there are at most 128 terms.
	if slack := (fa + fb) * ScoreSlack; math.Abs(fa-fb) > slack {
		if fa > fb {
			return 1
		}
		return -1
	}
	return compareExact(a, b, want, capped)
}

// compareExact is CompareScores in integers: 128 bits for up to two dimensions, else rationals of any
// size.
func compareExact(a, b, want []int64, capped bool) int {
	diffs, wants, n := [2]int64{}, [2]int64{1, 1}, 0
	for i, w := range want {
		if w <= 0 {
			continue
		}
		if n == len(wants) {
			return compareRational(a, b, want, capped)
		}
		x, y := a[i], b[i]
		if capped {
			x, y = min(x, w), min(y, w)
		}
		if x < 0 || y < 0 { // else the difference might overflow
			return compareRational(a, b, want, capped)
		}
		diffs[n], wants[n] = x-y, w
		n++
	}
	return compareProducts(diffs[0], wants[1], -diffs[1], wants[0])
}

// compareRational is compareExact for any number of dimensions and any sign.
func compareRational(a, b, want []int64, capped bool) int {
	diff, term := new(big.Rat), new(big.Rat)
	for i, w := range want {
		if w <= 0 {
			continue
		}
		x, y := a[i], b[i]
		if capped {
			x, y = min(x, w), min(y, w)
		}
		d := new(big.Int).Sub(big.NewInt(x), big.NewInt(y))
		diff.Add(diff, term.SetFrac(d, big.NewInt(w)))
	}
	return diff.Sign()
}

// TrueFirst orders what has a property before what has not.
func TrueFirst(a, b bool) int {
	if a == b {
		return 0
	}
	if a {
		return -1
	}
	return 1
}
