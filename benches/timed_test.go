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
	alone(t)
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("SKIPPED: there is one CPU")
	}
	in := fleetOf(t, "500k-flat", workload.Cold)
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

// TestShrinkTakesAboutAsLongAsCold: where clusters have shrunk, what they leave is excess of
// thousands of victim groups. That each Need looked at all of them for each once took 60 times as
// long as a cold cycle; it takes about twice as long.
func TestShrinkTakesAboutAsLongAsCold(t *testing.T) {
	const worse = 6
	alone(t)
	best := map[workload.Regime]time.Duration{}
	for _, regime := range []workload.Regime{workload.Cold, workload.Shrink} {
		in := fleetOf(t, "500k-rows", regime)
		opts := engine.DefaultOptions()
		opts.Full = true
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			began := time.Now()
			if _, err := e.Cycle(in); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); best[regime] == 0 || took < best[regime] {
				best[regime] = took
			}
		}
		e.Close()
	}
	t.Logf("%v", best)
	if best[workload.Shrink] > worse*best[workload.Cold] {
		t.Errorf("%v with shrunk clusters, %v cold: more than %d times as long", best[workload.Shrink], best[workload.Cold], worse)
	}
}

// alone skips a test that compares times unless nothing else runs beside it.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv("TONNAGE_TIMED") == "" {
		t.Skip("SKIPPED: times are compared only with TONNAGE_TIMED=1, while nothing else runs")
	}
}

func fleetOf(t *testing.T, name string, regime workload.Regime) engine.Input {
	t.Helper()
	rung, err := workload.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), regime)
	if err != nil {
		t.Fatal(err)
	}
	return in
}
