package bitmap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
)

func TestMembersAreNumbered(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	a := alloc.NewArena(alloc.Pass)
	var again Numbered
	for _, top := range []int{0, 1, 63, 64, 65, 1000} {
		for _, share := range []float64{0, 0.1, 0.5, 1} {
			d := NewDense(top)
			for row := range top + 1 {
				if rng.Float64() < share {
					d.Set(uint32(row))
				}
			}
			x, number := NumberedIn(a, d), uint32(0)
			if rng.IntN(2) == 0 {
				again.Assign(d)
				x = again
			}
			for row := range uint32(top + 1) {
				if got := x.Number(row); got != number {
					t.Fatalf("top %d: row %d has the number %d, want %d", top, row, got, number)
				}
				if x.Has(row) != d.Has(row) {
					t.Fatalf("top %d: row %d is in the one set, not in the other", top, row)
				}
				if d.Has(row) {
					number++
				}
			}
			if got := slices.Collect(x.All()); x.Len() != int(number) || !slices.Equal(got, slices.Collect(d.All())) {
				t.Fatalf("top %d: %d members, listed %v, want the %d of the set", top, x.Len(), got, number)
			}
			if x.Has(uint32(top + 64)) {
				t.Fatalf("top %d: a row beyond is in the set", top)
			}
			d.Reset()
			if number > 0 && x.Number(uint32(top)) < number-1 {
				t.Fatalf("top %d: the numbers changed with the set", top)
			}
		}
	}
}
