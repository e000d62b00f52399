package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
)

// TestTiesAreSettledByAllWorkers: words that agree in what was dealt are sorted as
// one, wherever the stretches of workers meet.
func TestTiesAreSettledByAllWorkers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const from = 16
	for workers := 1; workers <= 5; workers++ {
		e := &Engine{arena: new(alloc.Accounts).NewArena(alloc.Pass), crew: newCrew(workers, nil)}
		p := &pass{e: e}
		for _, distinct := range []int{1, 2, 5, 40, 5000} {
			keys := make([]uint64, 1+rng.IntN(3000))
			words := make([]uint64, len(keys))
			for i := range words {
				keys[i] = rng.Uint64N(1 << 20)
				words[i] = rng.Uint64N(uint64(distinct))<<from | uint64(i)
			}
			slices.SortFunc(words, func(a, b uint64) int { return int(a>>from) - int(b>>from) })
			want := slices.Clone(words)
			key := func(rankSlot uint64) uint64 { return keys[rankSlot] }
			settleTies(want, from, 1<<from-1, key)
			ends := p.untiedEnds(words, from)
			if ends[0] != 0 || ends[workers] != len(words) || !slices.IsSorted(ends) {
				t.Fatalf("%d workers have stretches of %d words that end at %v", workers, len(words), ends)
			}
			e.crew.run(func(worker int) { settleTies(words[ends[worker]:ends[worker+1]], from, 1<<from-1, key) })
			if !slices.Equal(words, want) {
				t.Fatalf("%d workers, %d words of %d kinds: another order than one worker's", workers, len(words), distinct)
			}
		}
		e.crew.close()
	}
}
