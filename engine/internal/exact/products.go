package exact

import (
	"cmp"
	"math/bits"
)

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

// Mixer is the odd multiplier of hashes: 2⁶⁴ divided by the golden ratio (Knuth, The Art of Computer
// Programming 3, 6.4).
const Mixer = 0x9e3779b97f4a7c15
