package columnar_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tonnage/tonnage/columnar"
)

// TestRowSet: it holds what a map of rows holds, whatever it has room for at first.
func TestRowSet(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, set := range []columnar.RowSet{nil, columnar.NewRowSet(0), columnar.NewRowSet(500)} {
		want := map[columnar.Row]bool{}
		for range 2000 {
			r := columnar.Row(rng.IntN(1000))
			if rng.IntN(3) == 0 {
				set.Remove(r)
				delete(want, r)
			} else {
				set.Add(r)
				want[r] = true
			}
		}
		for r := range columnar.Row(1100) {
			if set.Has(r) != want[r] {
				t.Fatalf("seed %d: row %d in the set: %v, want %v", seed, r, set.Has(r), want[r])
			}
		}
	}
}
