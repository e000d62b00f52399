package engine

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
)

// compareScores compares Σ have/want over the wanted dimensions of two vectors, each ratio capped at 1
// if capped. The result is exact: floating point decides only where the difference exceeds its error
// bound.
func compareScores(a, b, want []int64, capped bool) int {
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
	if slack := (fa + fb) * scoreSlack; math.Abs(fa-fb) > slack {
		if fa > fb {
			return 1
		}
		return -1
	}
	return compareExact(a, b, want, capped)
}

// compareExact is compareScores in integers: 128 bits for up to two dimensions, else rationals of any
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

// compareProducts compares a·b with c·d exactly; b and d are positive.
func compareProducts(a, b, c, d int64) int {
	if s := cmp.Compare(sign(a), sign(c)); s != 0 {
		return s
	}
	hiA, loA := bits.Mul64(magnitude(a), uint64(b))
	hiC, loC := bits.Mul64(magnitude(c), uint64(d))
	return sign(a) * cmp.Or(cmp.Compare(hiA, hiC), cmp.Compare(loA, loC))
}

func sign(x int64) int { return cmp.Compare(x, 0) }

// magnitude returns |x|.
func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
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
