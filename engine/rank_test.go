package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRadixRankEqualsComparing: dealing gives the order that comparing gives,
// with and without folds that have moved.
func TestRadixRankEqualsComparing(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n := 5000 + rng.IntN(3000)
		keys := make([]rankKey, n)
		for i := range keys {
			keys[i] = rankKey{
				worth: rng.Uint64N(8)<<rng.UintN(40) | rng.Uint64N(3), arrival: uint64(rng.Int64N(5)<<rng.UintN(60)) ^ 1<<63,
				first: int32(i), need: int32(i),
			}
		}
		if seed%2 == 1 {
			for range 50 {
				i, j := rng.IntN(n), rng.IntN(n)
				keys[i].first, keys[j].first = keys[j].first, keys[i].first
			}
		}
		want := slices.Clone(keys)
		slices.SortFunc(want, compareRank)
		if got := radixRank(keys, make([]rankKey, n)); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d keys dealt in another order than compared", seed, n)
		}
	}
}
