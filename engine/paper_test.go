package engine_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

var (
	paperRung    = flag.String("paper-rung", "5k", "rung of which workers are counted")
	paperRegime  = flag.String("paper-regime", "cold", "its regime")
	paperAcquire = flag.String("paper-acquire", "cheapest", "its rule of acquisition")
	paperWorkers = flag.Int("paper-workers", 16, "how many workers are counted")
)

// paper runs the tasks of a crew one after the other and measures each. A worker that would be idle first takes the next
// chunk. What is left of the time of a cycle is one worker's.
type paper struct {
	all, longest time.Duration // over the tasks of a stage: of all workers, and of the one that takes longest
	load         []time.Duration
}

func (x *paper) Run(workers int, f func(worker int)) {
	x.task(workers, func() {
		for worker := range workers {
			x.on(worker, func() { f(worker) })
		}
	})
}

func (x *paper) Each(workers, n, chunk int, f func(worker, from, to int)) {
	x.task(workers, func() {
		for from := 0; from < n; from += chunk {
			worker := slices.Index(x.load, slices.Min(x.load))
			x.on(worker, func() { f(worker, from, min(from+chunk, n)) })
		}
	})
}

func (x *paper) on(worker int, f func()) {
	since := time.Now()
	f()
	x.load[worker] += time.Since(since)
}

func (x *paper) task(workers int, f func()) {
	x.load = make([]time.Duration, workers)
	f()
	for _, d := range x.load {
		x.all += d
	}
	x.longest += slices.Max(x.load)
}

// paperCycles is how many cycles are run; each stage's shortest times count.
const paperCycles = 7

// TestWorkersOnPaper: as many workers as no machine at hand has cores for decide what one does. How long each stage takes
// is measured with the workers one after the other.
func TestWorkersOnPaper(t *testing.T) {
	defer engine.SetChunkMax(engine.SetChunkMax(1 << 30))
	rung, err := workload.ByName(*paperRung)
	if err != nil {
		t.Fatal(err)
	}
	regime, err := workload.ParseRegime(*paperRegime)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := engine.ParseAcquireRule(*paperAcquire)
	if err != nil {
		t.Fatal(err)
	}
	in, err := measure.Load(workload.Build(rung, 1), regime)
	if err != nil {
		t.Fatal(err)
	}
	one, plan := onPaper(t, &in, 1, rule)
	many, same := onPaper(t, &in, *paperWorkers, rule)
	if plan != same {
		t.Errorf("the digest of one worker is %x, of %d workers %x", plan, *paperWorkers, same)
	}
	var sum [3]time.Duration
	t.Logf("%s %s %s, ms with 1 worker, and with %d: longest worker and what is not divided", rung.Name, *paperRegime, *paperAcquire, *paperWorkers)
	for stage := model.StageSnapshot; stage <= model.StagePhase3; stage++ {
		a, b := one[stage], many[stage]
		rest := b.whole - b.all
		sum[0], sum[1], sum[2] = sum[0]+a.whole, sum[1]+b.longest, sum[2]+rest
		t.Logf("%-10v %7.1f %7.1f %7.1f", stage, ms(a.whole), ms(b.longest), ms(rest))
	}
	t.Logf("%-10s %7.1f %7.1f %7.1f: %.1f times", "all", ms(sum[0]), ms(sum[1]), ms(sum[2]), float64(sum[0])/float64(sum[1]+sum[2]))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stageTime is what a stage takes: whole, and of that in tasks, of all workers and of the longest of each task.
type stageTime struct{ whole, all, longest time.Duration }

// onPaper decides from nothing with so many workers, and returns the shortest time of each stage.
func onPaper(t *testing.T, in *engine.Input, workers int, rule engine.AcquireRule) (map[model.Stage]stageTime, uint64) {
	t.Helper()
	opts := engine.DefaultOptions()
	opts.Full, opts.Workers, opts.Acquire = true, workers, rule
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var digest uint64
	best := map[model.Stage]stageTime{}
	for range paperCycles {
		x, stage, since := &paper{}, model.Stage(0), time.Time{}
		end := func() {
			now := time.Now()
			if got := (stageTime{now.Sub(since), x.all, x.longest}); best[stage].whole == 0 || got.whole < best[stage].whole {
				best[stage] = got
			}
			x.all, x.longest, since = 0, 0, time.Now()
		}
		in := *in
		in.Mark = func(next model.Stage, _ int) {
			if !since.IsZero() {
				end()
			}
			stage, since = next, time.Now()
		}
		e.OnPaper(x)
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		end()
		digest = plan.Digest()
	}
	return best, digest
}
