package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

var (
	batchSeeds = flag.Int64("batch-seeds", 0, "fleets of each size that change in batches; 0 = those that are always run")
	batchFrom  = flag.Int64("batch-from", 1, "the seed of the first of them")
)

// batchMost is how many changes come between two cycles at most.
const batchMost = 8_000

// TestIncrementalCyclesEqualFullOnes: in fleets of thousands of machines, for which the reference is
// too slow, a cycle that builds on the one before gives the answer of one that builds on nothing,
// whether one thing has changed since or thousands have.
func TestIncrementalCyclesEqualFullOnes(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	// Small fleets have more cycles, in which rarer things come together.
	for _, size := range []struct {
		worlds, cycles int
		seeds          []int64
	}{{10, 25, []int64{1, 2}}, {3, 60, []int64{1, 2, 3, 4, 5}}} {
		if testing.Short() {
			size.seeds = size.seeds[len(size.seeds)-1:]
		}
		if *batchSeeds > 0 {
			size.seeds = size.seeds[:0]
			for seed := range *batchSeeds {
				size.seeds = append(size.seeds, *batchFrom+seed)
			}
		}
		for _, seed := range size.seeds {
			t.Run(fmt.Sprintf("worlds=%d/seed=%d", size.worlds, seed), func(t *testing.T) { runBatches(t, seed, size.worlds, size.cycles) })
		}
	}
}

func runBatches(t *testing.T, seed int64, worlds, cycles int) {
	x := newBatches(t, seed, int64(worlds))
	defer x.stop()
	builtOn := 0
	var last *engine.Plan
	for cycle := range cycles {
		x.batch(t, last)
		var digests []uint64
		for _, e := range x.running {
			plan, err := e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now, DrainSeconds: x.drains, BackingOff: x.backing})
			if err != nil {
				t.Fatal(err)
			}
			if last = plan; !plan.Stats.Full {
				builtOn++
			}
			digests = append(digests, plan.Digest())
		}
		if len(slices.Compact(digests)) > 1 {
			t.Fatalf("cycle %d (repeat with -batch-seeds=1 -batch-from=%d): digests %x of the engine that builds on nothing and of the others", cycle, seed, digests)
		}
	}
	if builtOn < cycles/4 {
		t.Errorf("of %d cycles of two engines %d built on the one before: too few to try that", cycles, builtOn)
	}
}

// newBatches joins worlds to a fleet, and starts an engine that builds on nothing and two that build on
// the cycle before.
func newBatches(t *testing.T, seed, worlds int64) *script {
	x := &script{
		rng: rand.New(rand.NewPCG(uint64(seed), 17)), clusters: map[string]bool{}, options: reference.DefaultOptions(),
		backing: map[model.Owner]bool{}, drains: map[string]float64{},
	}
	x.options.Victims = reference.VictimsGang
	if seed%4 == 0 {
		x.options.Victims = reference.VictimsMachine
	}
	if seed%2 == 0 {
		x.options.Acquire = reference.AcquireFit
	}
	var all fleet.World
	all.Reported = map[string]bool{}
	for i := range worlds {
		w := fleet.Random(seed*worlds+i, fleet.Medium)
		named := func(name string) string {
			if name == "" {
				return ""
			}
			return fmt.Sprintf("%s-%d", name, i/2) // two worlds share their clusters
		}
		for _, m := range w.Machines {
			m.ID, m.Cluster = fmt.Sprintf("%s-%d", m.ID, i), named(m.Cluster)
			m.Reservation.Owner.Cluster = named(m.Reservation.Owner.Cluster)
			all.Machines = append(all.Machines, m)
		}
		for _, n := range w.Needs {
			n.Cluster = named(n.Cluster)
			all.Needs = append(all.Needs, n)
		}
		for c, yes := range w.Reported {
			all.Reported[named(c)] = yes
		}
		all.Now = w.Now
	}
	x.donors, x.now = []fleet.World{all}, all.Now
	in := inputOf(all)
	maps.Copy(x.clusters, all.Reported)
	for i := range all.Needs {
		x.clusters[all.Needs[i].Cluster] = true
	}
	var err error
	if x.supply, x.demand, _, err = twin.Tables(in); err != nil {
		t.Fatal(err)
	}
	for i, workers := range []int{1, 1, 3} {
		opts := twin.Options(x.options)
		opts.Workers, opts.Full, opts.CheckCycles = workers, i == 0, 1<<20
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		x.running = append(x.running, e)
	}
	return x
}

// batch carries a part of the last plan out, and changes between one thing and batchMost, small numbers
// as often as large ones. Clusters neither come nor go, and in seven of eight batches neither do
// classes of machines and rows: cycles build on one another.
func (x *script) batch(t *testing.T, last *engine.Plan) {
	t.Helper()
	x.notes = x.notes[:0]
	x.tick()
	if last != nil && x.rng.IntN(3) > 0 {
		x.carryOut(last)
	}
	count := min(batchMost, 1<<x.rng.IntN(14))
	wild := x.rng.IntN(8) == 0
	// With more than an eighth of the machines a snapshot begins anew.
	machines := min(count, x.supply.Len()/16)
	for range x.rng.IntN(machines + 1) {
		switch n := x.rng.IntN(12); {
		case n < 6:
			x.advance()
		case n < 8:
			x.editReservation()
		case n < 9 || !wild:
			x.restamp()
		case n < 10:
			x.editMachine()
		case n < 11:
			x.changeInPlace()
		default:
			x.loseMachine()
		}
	}
	for left := count - machines; left > 0; {
		left -= x.editSome(t, left)
		if wild {
			x.editRows(t)
		}
	}
}

// restamp gives a machine the stamp of some row.
func (x *script) restamp() {
	if r := x.someMachine(); r != columnar.None {
		x.supply.Stamp(r, stampOf(x.someRow()))
	}
}

// editSome changes some rows of a cluster, not more than most, and returns how many.
func (x *script) editSome(t *testing.T, most int) int {
	t.Helper()
	c := x.cluster()
	rows := x.demand.Rows(c)
	if len(rows) == 0 {
		return 1
	}
	count := 1 + x.rng.IntN(min(most, 2*len(rows)))
	for range count {
		n, from := &rows[x.rng.IntN(len(rows))], &x.donors[0].Needs[x.rng.IntN(len(x.donors[0].Needs))]
		switch x.rng.IntN(8) {
		case 0:
			n.Profile, n.MinUnit, n.Aggregate, n.MinAggregate = from.Profile, from.MinUnit, from.Aggregate, from.MinAggregate
		case 1:
			n.Group = from.Group
		case 2:
			n.MinUnit = from.MinUnit
		case 3:
			n.Arrival = x.now - x.rng.Int64N(100)*1e9
		default:
			n.Aggregate = from.Aggregate
		}
		limitMinimum(n)
	}
	if err := x.demand.Replace(c, rows); err != nil {
		t.Fatal(err)
	}
	return count
}
