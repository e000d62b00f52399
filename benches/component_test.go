package benches

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// TestOneComponentIsNotSlowerWithTwo: machines of one type for which all Needs ask hang
// together, so that a second worker has no part of phase 1's acquiring to itself. The
// cycle must not take longer for that by more than a tenth. Both take their turns in one
// process, and their best cycles are compared; where an engine finds its memory decides over
// as much, so both are made anew several times.
func TestOneComponentIsNotSlowerWithTwo(t *testing.T) {
	const (
		rounds = 8
		worse  = 1.10
	)
	if os.Getenv("TONNAGE_TIMED") == "" {
		t.Skip("SKIPPED: times are compared only with TONNAGE_TIMED=1, while nothing else runs")
	}
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("SKIPPED: there is one CPU")
	}
	rung, err := workload.ByName("500k-flat")
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), workload.Cold)
	if err != nil {
		t.Fatal(err)
	}
	var best [2]time.Duration
	for round := range rounds {
		coldCycles(t, in, &best)
		if round > 0 && float64(best[1]) <= worse*float64(best[0]) {
			break
		}
	}
	ratio := float64(best[1]) / float64(best[0])
	t.Logf("one worker %v, two %v: %.2f times", best[0], best[1], ratio)
	if ratio > worse {
		t.Errorf("two workers take %.2f times as long as one, at most %.2f is right", ratio, worse)
	}
}

// coldCycles lets an engine of one worker and one of two take turns, and notes their
// best times.
func coldCycles(t *testing.T, in engine.Input, best *[2]time.Duration) {
	t.Helper()
	var engines [2]*engine.Engine
	for i := range engines {
		opts := engine.DefaultOptions()
		opts.Workers, opts.Full = i+1, true
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	var digests [2]uint64
	for range 12 { // the first makes room, and is never the best
		for i, e := range engines {
			began := time.Now()
			plan, err := e.Cycle(in)
			took := time.Since(began)
			if err != nil {
				t.Fatal(err)
			}
			if digests[i] = plan.Digest(); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
		if digests[0] != digests[1] {
			t.Fatalf("%016x by one worker, %016x by two", digests[0], digests[1])
		}
	}
}
