package buying

import (
	"flag"
	"testing"

	"github.com/tonnage/tonnage/engine"
)

var (
	packedLoops = flag.Int("packed-loops", 6, "random worlds with pods to run through a closed loop, with and without groups each")
	packedFrom  = flag.Uint64("packed-from", 1, "seed of the first")
)

// loopSums adds up what worlds did by one rule.
type loopSums struct{ worlds, acts, undone, back, twice, restless, pending, stranded int }

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
		s.stranded += r.Stranded[stage]
	}
}

// TestLoopsWithPacking: worlds in which operators pack pods come to rest in each stage of a closed loop, and with fit they undo no more
// than with cheapest. Without groups nothing is given back twice. With them it is now and then: the scheduler places a pod of a group that has
// lost a machine in another domain than the machines that come for it.
func TestLoopsWithPacking(t *testing.T) {
	for name, groups := range map[string]bool{"plain": false, "groups": true} {
		t.Run(name, func(t *testing.T) { loopsWithPacking(t, groups) })
	}
}

func loopsWithPacking(t *testing.T, groups bool) {
	rules := []engine.AcquireRule{engine.AcquireCheapest, engine.AcquireFit}
	sums := map[engine.AcquireRule]*loopSums{}
	for _, rule := range rules {
		sums[rule] = &loopSums{}
	}
	for i := range *packedLoops {
		seed := *packedFrom + uint64(i)
		for _, rule := range rules {
			r, err := Loop(t.Context(), seed, rule, groups)
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
		if s.restless > 0 || !groups && s.twice > 0 || s.acts == 0 {
			t.Errorf("by %v %d of %d worlds do not rest, and machines were given back %d times after some had been bought for that", rule, s.restless, s.worlds, s.twice)
		}
	}
	if fit, cheapest := sums[engine.AcquireFit].undone, sums[engine.AcquireCheapest].undone; fit > cheapest {
		t.Errorf("by fit %d actions are undone, by cheapest %d", fit, cheapest)
	}
}
