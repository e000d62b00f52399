package ranks

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/workers"
)

// TestTiesAreSettledByAllWorkers: words that agree in what was dealt are sorted as
// one, wherever the stretches of workers meet.
func TestTiesAreSettledByAllWorkers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const from = 16
	for size := 1; size <= 5; size++ {
		s := &Sorter{Arena: new(alloc.Accounts).NewArena(alloc.Pass), Crew: workers.New(size, nil)}
		for _, distinct := range []int{1, 2, 5, 40, 5000} {
			keys := make([]uint64, 1+rng.IntN(3000))
			words := make([]uint64, len(keys))
			for i := range words {
				keys[i] = rng.Uint64N(1 << 20)
				words[i] = rng.Uint64N(uint64(distinct))<<from | uint64(i)
			}
			slices.SortFunc(words, func(a, b uint64) int { return int(a>>from) - int(b>>from) })
			want := slices.Clone(words)
			key := func(slot uint64) uint64 { return keys[slot] }
			settleTies(want, from, 1<<from-1, key)
			ends := s.untiedEnds(words, from)
			if ends[0] != 0 || ends[size] != len(words) || !slices.IsSorted(ends) {
				t.Fatalf("%d workers have stretches of %d words that end at %v", size, len(words), ends)
			}
			s.Crew.Run(func(worker int) { settleTies(words[ends[worker]:ends[worker+1]], from, 1<<from-1, key) })
			if !slices.Equal(words, want) {
				t.Fatalf("%d workers, %d words of %d kinds: another order than one worker's", size, len(words), distinct)
			}
		}
		s.Crew.Close()
	}
}
