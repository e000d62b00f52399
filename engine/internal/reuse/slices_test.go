package reuse

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMergeIsAStableSort: a list and more elements, both in order, become what a stable sort makes of one behind the other.
func TestMergeIsAStableSort(t *testing.T) {
	type element struct{ key, number int }
	byKey := func(a, b element) int { return cmp.Compare(a.key, b.key) }
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		both := make([]element, rng.IntN(40))
		for i := range both {
			both[i] = element{rng.IntN(6), i}
		}
		n := rng.IntN(len(both) + 1)
		list, more := slices.Clone(both[:n]), slices.Clone(both[n:])
		slices.SortStableFunc(list, byKey)
		slices.SortStableFunc(more, byKey)
		want := slices.Concat(list, more)
		slices.SortStableFunc(want, byKey)
		if got := Merge(list, more, byKey); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got %v, want %v", seed, got, want)
		}
	}
}
