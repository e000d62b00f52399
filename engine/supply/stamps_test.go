package supply

import (
	"math/rand/v2"
	"testing"
)

// TestStampsAreCounted: each row has the stamp that it was given last, and a number whose last row is gone is used again.
func TestStampsAreCounted(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	x := newStamps()
	rows, want := make([]uint32, 50), make([]stamp, 50)
	for range 20_000 {
		r, s := rng.IntN(len(rows)), stamp{rng.Uint64N(40), int32(rng.IntN(3) - 1)}
		x.swap(&rows[r], s)
		want[r] = s
		distinct := map[stamp]bool{}
		for i := range rows {
			if x.list[rows[i]] != want[i] {
				t.Fatalf("row %d has the stamp %v, was given %v", i, x.list[rows[i]], want[i])
			}
			if want[i] != (stamp{}) {
				distinct[want[i]] = true
			}
		}
		if len(x.number) != len(distinct) || x.numbers.Len() != len(distinct) {
			t.Fatalf("%d stamps and %d numbers, %d are in use", len(x.number), x.numbers.Len(), len(distinct))
		}
	}
	if len(x.list) > 1+len(rows)+1 {
		t.Errorf("%d numbers for %d rows", len(x.list), len(rows))
	}
}
