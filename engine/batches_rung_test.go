package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

var (
	rungName   = flag.String("rung", "5k", "rung whose fleet changes in batches")
	rungCycles = flag.Int("rung-cycles", 0, "cycles of that fleet; 0 = as many as are always run")
	rungFrom   = flag.Int64("rung-from", 1, "the seed of its first stretch of cycles")
)

// rungStretch is for how many cycles one fleet is used. The next one is built from the next seed.
const rungStretch = 250

// rungTells is how long the test is silent at most, but for one cycle.
const rungTells = 10 * time.Second

// TestIncrementalCyclesOfRungs: in the fleet of a rung, which changes in batches of 1 to 8,000, the plan of a cycle that builds on the
// one before is that of a cycle from nothing. So are what 200 rows lack and why, and the explanations of three rows and three actions,
// drawn at random in each cycle.
func TestIncrementalCyclesOfRungs(t *testing.T) {
	cycles := *rungCycles
	switch {
	case cycles > 0:
	case testing.Short():
		cycles = 10
	default:
		cycles = 60
	}
	rung, err := workload.ByName(*rungName)
	if err != nil {
		t.Fatal(err)
	}
	done, builtOn, told := 0, 0, time.Now()
	for seed := *rungFrom; done < cycles; seed++ {
		runRung(t, rung, seed, min(rungStretch, cycles-done), func(builds bool) {
			if done++; builds {
				builtOn++
			}
			if time.Since(told) > rungTells {
				told = time.Now()
				t.Logf("seed %d: %d of %d cycles are equal to cycles from nothing, %d built on the one before", seed, done, cycles, builtOn)
			}
		})
	}
	t.Logf("%s, from seed %d: %d cycles, %d built on the one before", rung.Name, *rungFrom, cycles, builtOn)
	if builtOn < cycles/2 {
		t.Errorf("of %d cycles %d built on the one before: too few to try that", cycles, builtOn)
	}
}

// TestStretchesThatOnceDiffered: stretches of cycles of 5k in which a cycle once differed from one from nothing.
func TestStretchesThatOnceDiffered(t *testing.T) {
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	for _, once := range []struct {
		seed   int64
		cycles int
	}{
		{6, 56}, // a row forgot that it had left machines to another one when it acquired something
	} {
		runRung(t, rung, once.seed, once.cycles, func(bool) {})
	}
}

// runRung runs a stretch of cycles, and says after each whether it built on the one before.
func runRung(t *testing.T, rung workload.Rung, seed int64, cycles int, ran func(builds bool)) {
	t.Helper()
	x := newRungScript(t, rung, seed)
	defer x.stop()
	var last *engine.Plan
	for cycle := range cycles {
		x.batch(t, last)
		var plans [2]*engine.Plan
		for i, e := range x.running {
			var err error
			if plans[i], err = e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now, DrainSeconds: x.drains, BackingOff: x.backing}); err != nil {
				t.Fatal(err)
			}
		}
		last = plans[1]
		if fault := x.differ(plans); fault != "" {
			t.Fatalf("cycle %d (repeat with -rung=%s -rung-cycles=%d -rung-from=%d): %s", cycle, rung.Name, rungStretch, seed, fault)
		}
		ran(!last.Stats.Full)
	}
}

// differ says where the plan that builds on nothing and the other differ: in actions and claims, in what some rows lack and why,
// or in the explanations of some rows and actions.
func (x *script) differ(plans [2]*engine.Plan) string {
	if a, b := plans[0].Digest(), plans[1].Digest(); a != b {
		return fmt.Sprintf("digests %x from nothing, and %x", a, b)
	}
	for range min(200, plans[0].Len()) {
		i := x.rng.IntN(plans[0].Len())
		if a, b := plans[0].Need(i), plans[1].Need(i); !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("row %d: from nothing %+v, and %+v", i, a, b)
		}
	}
	for range min(3, plans[0].Len()) {
		i := x.rng.IntN(plans[0].Len())
		if a, b := x.running[0].ExplainNeed(i), x.running[1].ExplainNeed(i); !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("explanation of row %d: from nothing %+v, and %+v", i, a, b)
		}
	}
	for range min(3, len(plans[0].Actions)) {
		i := x.rng.IntN(len(plans[0].Actions))
		if a, b := x.running[0].ExplainAction(i), x.running[1].ExplainAction(i); !reflect.DeepEqual(a, b) {
			return fmt.Sprintf("explanation of action %d: from nothing %+v, and %+v", i, a, b)
		}
	}
	return ""
}

// newRungScript begins with the fleet of a rung, in one of its regimes, and two engines: one that builds on nothing, and one
// that builds on the cycle before.
func newRungScript(t testing.TB, rung workload.Rung, seed int64) *script {
	t.Helper()
	regime := []workload.Regime{workload.Steady, workload.Contended, workload.Steady, workload.Cold}[seed%4]
	in, err := measure.Load(workload.Build(rung, uint64(seed)), regime)
	if err != nil {
		t.Fatal(err)
	}
	x := &script{
		rng: rand.New(rand.NewPCG(uint64(seed), 19)), clusters: map[string]bool{}, now: in.Now, supply: in.Supply, demand: in.Demand,
		backing: map[model.Owner]bool{}, drains: map[string]float64{},
	}
	// What rows and machines change to is drawn from these.
	var donor fleet.World
	for _, c := range in.Demand.Clusters() {
		x.clusters[c] = true
	}
	names := slices.Sorted(maps.Keys(x.clusters))
	for len(donor.Needs) < 2000 {
		rows := in.Demand.Rows(names[x.rng.IntN(len(names))])
		donor.Needs = append(donor.Needs, rows[x.rng.IntN(len(rows))])
	}
	for range 2000 {
		donor.Machines = append(donor.Machines, in.Supply.Get(x.someMachine()))
	}
	x.donors = []fleet.World{donor}
	for i := range 2 {
		opts := engine.DefaultOptions()
		opts.Full, opts.CheckCycles, opts.Workers = i == 0, 1<<20, 1+i*int(seed%2)
		if seed%3 == 0 {
			opts.Acquire = engine.AcquireFit
		}
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		x.running = append(x.running, e)
	}
	return x
}
