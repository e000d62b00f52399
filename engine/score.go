package engine

import (
	"math"
	"math/big"
)

// compareScores compares Σ have/want over the dimensions that are wanted, each
// ratio capped at 1 if asked for, exactly: floating point decides only when it
// is certain to be right.
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
	// Each term and each sum is off by at most a few units in the last place;
	// there are at most 128 terms.
	if slack := (fa + fb) * scoreSlack; math.Abs(fa-fb) > slack {
		if fa > fb {
			return 1
		}
		return -1
	}
	return compareExact(a, b, want, capped)
}

// compareExact is compareScores in rational numbers.
func compareExact(a, b, want []int64, capped bool) int {
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
