package benches

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/callgrind"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// Pinned work is what instructions are counted of and what base and head are
// compared on: small, in one goroutine, and the same in every run. Its name
// says what it works on; work that comes to mean something else takes another
// name, since figures of one name are compared over time.

// pinned is one piece of it.
type pinned struct {
	name string
	// build makes the work: prepare, which may be nil, runs before each work
	// and is not part of it.
	build func(tb testing.TB) (prepare, work func())
	// counted says that the work itself tells what of it is counted, for work that
	// cannot be called by itself. Such work is not timed.
	counted bool
}

var pinnedWork = []pinned{
	{name: "kernel=filter-equal/rows=65536", build: buildFilterEqual},
	{name: "kernel=and-not/bits=65536", build: buildAndNot},
	{name: "kernel=vectors/dims=6", build: buildVectors},
	{name: "kernel=sort-strings/rows=4096", build: buildSortStrings},
	{name: "kernel=put/rung=tiny", build: buildPut},
	{name: "kernel=lookup/rung=tiny", build: buildLookup},
	{name: "kernel=replace/rung=tiny", build: buildReplace},
	{name: "kernel=cycle/rung=tiny/regime=cold", build: buildCycle("tiny", workload.Cold)},
	{name: "kernel=cycle/rung=tiny/regime=steady", build: buildCycle("tiny", workload.Steady)},
	{name: "kernel=cycle/rung=tiny/regime=contended", build: buildCycle("tiny", workload.Contended)},
	{name: "kernel=stage/of=rank/rung=5k/regime=cold", build: buildStage("5k", workload.Cold, model.StageRank), counted: true},
}

const (
	// pinnedWarmups are the rounds before anything counts: memory is there then.
	pinnedWarmups = 3
	// pinnedRounds are the rounds that TestPinnedWork counts.
	pinnedRounds = 20
	// plantEnv makes pinned work slower by so many percent, a multiple of 5, which
	// the gates must find when they are tried.
	plantEnv = "TONNAGE_GATES_PLANT"
)

func buildFilterEqual(tb testing.TB) (prepare, work func()) {
	column := make([]uint8, 65536)
	for i := range column {
		column[i] = uint8(i % 7)
	}
	dst := make([]uint64, len(column)/64)
	return nil, func() {
		for v := range uint8(8) {
			bitmap.FilterEqual(dst, column, v)
		}
		if dst[0] != 0 {
			tb.Fatalf("nothing is 7, got %x", dst[0])
		}
	}
}

func buildAndNot(tb testing.TB) (prepare, work func()) {
	a, b, dst := make([]uint64, 1024), make([]uint64, 1024), make([]uint64, 1024)
	for i := range a {
		a[i], b[i] = 0xff00, 0x0ff0
	}
	return nil, func() {
		for range 128 {
			bitmap.AndNot(dst, a, b)
		}
		if dst[1023] != 0xf000 {
			tb.Fatalf("got %x, want f000", dst[1023])
		}
	}
}

func buildVectors(tb testing.TB) (prepare, work func()) {
	const dims, machines = 6, 8192
	have := make([]int64, dims*machines)
	for i := range have {
		have[i] = int64(i%7+1) << 10
	}
	var total, missing [dims]int64
	return nil, func() {
		clear(total[:])
		for d := range missing {
			missing[d] = 1 << 20
		}
		helped := 0
		for at := 0; at < len(have); at += dims {
			m := have[at : at+dims]
			columnar.SatAdd(total[:], m)
			if columnar.Helps(m, missing[:]) {
				columnar.SubClamp(missing[:], m)
				helped++
			}
		}
		if !columnar.Covers(total[:], missing[:]) || helped == 0 {
			tb.Fatalf("%v does not cover %v", total, missing)
		}
	}
}

func buildSortStrings(tb testing.TB) (prepare, work func()) {
	const n = 4096
	names := make([]string, n+1)
	rows := make([]columnar.Row, n)
	for i := range rows {
		names[i+1] = fmt.Sprintf("machine-%08x", uint32(i+1)*2654435761)
		rows[i] = columnar.Row(i + 1)
	}
	key := func(r columnar.Row) string { return names[r] }
	unsorted := slices.Clone(rows)
	return func() { copy(rows, unsorted) }, func() {
		columnar.SortByString(rows, key)
		if key(rows[0]) > key(rows[n-1]) {
			tb.Fatal("not in order")
		}
	}
}

func buildPut(tb testing.TB) (prepare, work func()) {
	in := steadyTables(tb, workload.Build(mustRung(tb, "tiny"), seed))
	var records []model.Machine
	for r := range in.Supply.All() {
		records = append(records, in.Supply.Get(r))
	}
	return nil, func() {
		for i := range records {
			if err := in.Supply.Put(&records[i]); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func buildLookup(tb testing.TB) (prepare, work func()) {
	in := steadyTables(tb, workload.Build(mustRung(tb, "tiny"), seed))
	var ids []string
	for r := range in.Supply.All() {
		ids = append(ids, in.Supply.ID(r))
	}
	return nil, func() {
		for range 4 {
			for _, id := range ids {
				if _, ok := in.Supply.Lookup(id); !ok {
					tb.Fatalf("%s is gone", id)
				}
			}
		}
	}
}

func buildReplace(tb testing.TB) (prepare, work func()) {
	fleet := workload.Build(mustRung(tb, "tiny"), seed)
	in := steadyTables(tb, fleet)
	rollups := make([][]model.Need, len(fleet.Clusters()))
	for i := range rollups {
		rollups[i] = fleet.Needs(workload.Steady, i)
	}
	return nil, func() {
		for i, c := range fleet.Clusters() {
			if err := in.Demand.Replace(c, rollups[i]); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// buildCycle is a whole cycle with one worker.
func buildCycle(rung string, regime workload.Regime) func(testing.TB) (prepare, work func()) {
	return buildMarkedCycle(rung, regime, nil)
}

// buildStage is a cycle of which one stage is counted.
func buildStage(rung string, regime workload.Regime, stage model.Stage) func(testing.TB) (prepare, work func()) {
	return buildMarkedCycle(rung, regime, func(begins model.Stage, _ int) { counter.set(begins == stage) })
}

func buildMarkedCycle(rung string, regime workload.Regime, mark func(model.Stage, int)) func(testing.TB) (prepare, work func()) {
	return func(tb testing.TB) (prepare, work func()) {
		d, err := measure.NewDriver(tb.Context(), measure.Config{Rung: mustRung(tb, rung), Regime: regime, Cycles: 1, Workers: 1, Seed: seed})
		if err != nil {
			tb.Fatal(err)
		}
		var in engine.Input
		var plan *engine.Plan
		prepare = func() {
			if plan != nil {
				err = d.Done(plan)
			}
			if err == nil {
				in, err = d.Next()
			}
			if err != nil {
				tb.Fatal(err)
			}
			in.Mark = mark
		}
		return prepare, func() {
			if plan, err = d.Engine().Cycle(in); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// rounds is pinned work that is ready to be measured.
type rounds struct{ prepare, work func() }

// do runs one round; within surrounds the work alone.
func (r *rounds) do(within func(work func())) {
	if r.prepare != nil {
		r.prepare()
	}
	within(r.work)
}

// ready builds the work and warms it up.
func (p *pinned) ready(tb testing.TB) *rounds {
	r := &rounds{}
	r.prepare, r.work = p.build(tb)
	for range pinnedWarmups {
		r.do(func(work func()) { work() })
	}
	return r
}

var pinnedName = flag.String("pinned", "", "the pinned work whose instructions TestPinnedWork lets callgrind count; list prints the names")

// instructions switches callgrind, when it is the time to.
type instructions struct{ armed, on bool }

var counter instructions

// set counts from now on, or no longer.
func (c *instructions) set(on bool) {
	if c.armed && c.on != on {
		c.on = on
		callgrind.Toggle()
	}
}

// count does the work and counts it, or what of it the work says.
func (c *instructions) count(p *pinned, work func()) {
	c.armed = true
	c.set(!p.counted)
	work()
	c.set(false)
	c.armed = false
}

// pinnedHeap is what no pinned work comes to need of the heap, in bytes.
const pinnedHeap = 512 << 20

// growHeap lets the heap grow at once by what is needed later: else it grows now and
// then while instructions are counted, and whether it does hangs on a few objects
// that the runtime has made before.
func growHeap() {
	runtime.KeepAlive(make([]byte, pinnedHeap))
	runtime.GC()
}

// The words behind a name in the list of pinned work. Who counts looks for
// listCounted, which says that the work switches callgrind.
const (
	listTimed   = "timed"
	listCounted = "counted"
)

// TestPinnedWork does one piece of work and lets callgrind count it; without
// -pinned it sees that all of them work.
func TestPinnedWork(t *testing.T) {
	if *pinnedName == "list" {
		for _, p := range pinnedWork {
			if p.counted {
				fmt.Println("pinned", p.name, listCounted)
			} else {
				fmt.Println("pinned", p.name, listCounted, listTimed)
			}
		}
		return
	}
	// Callgrind switches one thread: the goroutine must not come to another.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	counts := pinnedRounds + pinnedRounds*planted(t)/100
	if *pinnedName != "" {
		growHeap()
	} else {
		counts = 1
	}
	known := false
	for _, p := range pinnedWork {
		if *pinnedName != "" && p.name != *pinnedName {
			continue
		}
		known = true
		r := p.ready(t)
		for range counts {
			r.do(func(work func()) { counter.count(&p, work) })
		}
	}
	if !known {
		t.Fatalf("there is no pinned work named %q", *pinnedName)
	}
}

const (
	// sliceTime is the processor time of one measurement, and sliceRounds how
	// many rounds it has at least: long enough for the clock of the processor's
	// time, and short beside what others on the machine do.
	sliceTime   = 4 * time.Millisecond
	sliceRounds = 3
)

// TestPinnedServe measures on demand: for each line with a name it does that
// work for a while and answers with the processor time of one round in
// nanoseconds, the median of all. Who compares two trees lets one process of
// each run side by side and asks them in turn.
func TestPinnedServe(t *testing.T) {
	if *pinnedName != "serve" {
		t.Skip("serves only with -pinned serve, on standard input")
	}
	ready := map[string]*rounds{}
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		name := asked.Text()
		if ready[name] == nil {
			i := slices.IndexFunc(pinnedWork, func(p pinned) bool { return p.name == name })
			if i < 0 {
				t.Fatalf("there is no pinned work named %q", name)
			}
			ready[name] = pinnedWork[i].ready(t)
		}
		fmt.Println(int64(ready[name].slice(t)))
	}
}

// slice is one measurement.
func (r *rounds) slice(tb testing.TB) time.Duration {
	percent := planted(tb)
	var costs []time.Duration
	for total := time.Duration(0); total < sliceTime || len(costs) < sliceRounds; {
		r.do(func(work func()) {
			began := processorTime(tb)
			work()
			cost := processorTime(tb) - began
			if percent > 0 {
				cost = burn(tb, began, cost+cost*time.Duration(percent)/100)
			}
			costs = append(costs, cost)
			total += cost
		})
	}
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// burn uses processor time until so much of it has gone by since began.
func burn(tb testing.TB, began, until time.Duration) time.Duration {
	for {
		if used := processorTime(tb) - began; used >= until {
			return used
		}
	}
}

// planted is by how many percent pinned work is made slower.
func planted(tb testing.TB) int {
	text := os.Getenv(plantEnv)
	if text == "" {
		return 0
	}
	percent, err := strconv.Atoi(text)
	if err != nil || percent <= 0 || pinnedRounds*percent%100 != 0 {
		tb.Fatalf("%s=%s: a number of percent is wanted that is whole rounds of %d", plantEnv, text, pinnedRounds)
	}
	return percent
}
