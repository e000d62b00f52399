package buying

import (
	"flag"
	"testing"

	"github.com/tonnage/tonnage/engine"
)

var (
	packedLoops = flag.Int("packed-loops", 6, "random worlds with pods to run through a closed loop")
	packedFrom  = flag.Uint64("packed-from", 1, "seed of the first")
)

// TestLoopsWithPacking: worlds in which operators pack pods come to rest in each stage of a closed loop, nothing is given back twice, and with fit they undo no more than
// with cheapest.
func TestLoopsWithPacking(t *testing.T) {
	var undone, back, twice, restless, pending, acts [2]int
	for i := range *packedLoops {
		seed := *packedFrom + uint64(i)
		for k, rule := range []engine.AcquireRule{engine.AcquireCheapest, engine.AcquireFit} {
			r, err := Loop(t.Context(), seed, rule)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("seed %d, %v: %+v", seed, rule, *r)
			if r.Rested < len(Stages) {
				restless[k]++
			}
			for stage := range Stages {
				undone[k] += r.Undone[stage]
				back[k] += r.Back[stage]
				twice[k] += r.Twice[stage]
				acts[k] += r.Acts[stage]
				pending[k] += r.Pending[stage]
			}
		}
	}
	t.Logf("%d worlds by cheapest, by fit: actions %v, undone %v, bought after giving back %v, given back after that %v, worlds that do not rest %v, pods pending at the ends of stages %v", *packedLoops, acts, undone, back, twice, restless, pending)
	if acts[0] == 0 || acts[1] == 0 {
		t.Error("nothing was done")
	}
	if restless != [2]int{} || twice != [2]int{} || undone[1] > undone[0] {
		t.Error("a world does not rest, gives back twice, or undoes more by fit than by cheapest")
	}
}
