package exact

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Two dimensions are compared without rational numbers, and must agree with these.
func TestScoresAreComparedExactly(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	number := func() int64 {
		switch r.IntN(4) {
		case 0:
			return r.Int64N(4)
		case 1:
			return math.MaxInt64 - r.Int64N(3)
		case 2:
			return r.Int64N(1000)
		}
		return r.Int64()
	}
	ties := 0
	for range 100_000 {
		n := 1 + r.IntN(3)
		a, b, want := make([]int64, n), make([]int64, n), make([]int64, n)
		for i := range want {
			a[i], b[i], want[i] = number(), number(), number()
			if r.IntN(3) == 0 {
				b[i] = a[i] + r.Int64N(3) - 1
			}
			if r.IntN(20) == 0 {
				b[i] = -b[i]
			}
		}
		if n > 1 && want[0] > 0 && want[1] > 0 && want[1] < 1<<20 && want[0] < 1<<20 { // the one makes up for the other
			a[0], a[1], b[0], b[1] = want[0], 0, 0, want[1]
		}
		for _, capped := range []bool{false, true} {
			got, exact := compareExact(a, b, want, capped), compareRational(a, b, want, capped)
			if got != exact {
				t.Fatalf("%v and %v of %v, capped %v: %d, want %d", a, b, want, capped, got, exact)
			}
			if exact == 0 {
				ties++
			}
		}
	}
	if ties < 1000 {
		t.Errorf("only %d ties", ties)
	}
}
