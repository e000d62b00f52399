package victims

import (
	"math/rand/v2"
	"testing"
)

// The search for marks skips eight unmarked needs at a time. It must not skip a marked one.
func TestNextTurn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		x := Turns{Marks: make([]uint8, r.IntN(70))}
		var want []int
		for i := range x.Marks {
			if r.IntN(9) == 0 {
				x.Marks[i] = uint8(1 + r.IntN(3))
				want = append(want, i)
			}
		}
		for at := x.Next(0); at < len(x.Marks); at = x.Next(at + 1) {
			if len(want) == 0 || at != want[0] {
				t.Fatalf("turn at %d, want %v; marks %v", at, want, x.Marks)
			}
			want = want[1:]
		}
		if len(want) > 0 {
			t.Fatalf("no turn at %v; marks %v", want, x.Marks)
		}
	}
}
