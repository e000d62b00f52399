package buying

import (
	"flag"
	"testing"

	"github.com/tonnage/tonnage/engine"
)

var (
	packedLoops = flag.Int("packed-loops", 6, "random worlds with pods to run through a closed loop")
	packedFrom  = flag.Uint64("packed-from", 1, "seed of the first")
	packedGangs = flag.Bool("packed-groups", false, "with groups of pods, which do not all come to rest yet")
)

// loopSums adds up what worlds did by one rule.
type loopSums struct{ worlds, acts, undone, back, twice, restless, pending int }

func (s *loopSums) take(r *LoopResult) {
	s.worlds++
	if r.Rested < len(Stages) {
		s.restless++
	}
	for stage := range Stages {
		s.acts += r.Acts[stage]
		s.undone += r.Undone[stage]
		s.back += r.Back[stage]
		s.twice += r.Twice[stage]
		s.pending += r.Pending[stage]
	}
}

// TestLoopsWithPacking: worlds in which operators pack pods come to rest in each stage of a closed loop, nothing is given back twice, and
// with fit they undo no more than with cheapest.
func TestLoopsWithPacking(t *testing.T) {
	rules := []engine.AcquireRule{engine.AcquireCheapest, engine.AcquireFit}
	sums := map[engine.AcquireRule]*loopSums{}
	for _, rule := range rules {
		sums[rule] = &loopSums{}
	}
	for i := range *packedLoops {
		seed := *packedFrom + uint64(i)
		for _, rule := range rules {
			r, err := Loop(t.Context(), seed, rule, *packedGangs)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("seed %d, %v: %+v", seed, rule, *r)
			sums[rule].take(r)
		}
	}
	for _, rule := range rules {
		s := sums[rule]
		t.Logf("%v: %+v", rule, *s)
		if s.restless > 0 || s.twice > 0 || s.acts == 0 {
			t.Errorf("by %v %d of %d worlds do not rest, and machines were given back %d times after some had been bought for that", rule, s.restless, s.worlds, s.twice)
		}
	}
	if fit, cheapest := sums[engine.AcquireFit].undone, sums[engine.AcquireCheapest].undone; fit > cheapest {
		t.Errorf("by fit %d actions are undone, by cheapest %d", fit, cheapest)
	}
}
