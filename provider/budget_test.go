package provider

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// The budgets of a pool of 400 types in three zones and two capacity types, which is 153,600 slots, and of 500 machines. What is
// counted is the gate: milliseconds differ from machine to machine, and are logged.
const (
	wideSlots = 400 * 3 * 2 * 64
	// listAllocsMax is how many objects a full listing may allocate.
	listAllocsMax = 40
	// listBytesMax is how long a full listing may be for each slot, in bytes.
	listBytesMax = 240
	// roundAllocsMax is how many objects a round in which nothing changes may allocate for each machine.
	roundAllocsMax = 4
	// parseAllocsMax is how many objects a shard may allocate to read a listing that it has the room for.
	parseAllocsMax = 16
	// tableBytesMax is what a machine may take in a shard's table, in bytes, names and indexes included.
	tableBytesMax = 128
	// wideNeeds is the demand of a cycle, wideUnits how many machines of four cores each Need asks for.
	wideNeeds, wideUnits = 1000, 4
	// probesMax is how many candidates a cycle may look at for each machine that it acquires.
	probesMax = 2
)

// cpuTime returns the processor time of this process so far.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// fastest returns the least processor time of some runs.
func fastest(tb testing.TB, do func()) time.Duration {
	least := time.Duration(1<<63 - 1)
	for range 5 {
		begun := cpuTime(tb)
		do()
		least = min(least, cpuTime(tb)-begun)
	}
	return least
}

// fewestAllocs returns how many objects something allocates while nothing else does.
func fewestAllocs(do func()) float64 {
	least := testing.AllocsPerRun(1, do)
	for range 4 {
		least = min(least, testing.AllocsPerRun(1, do))
	}
	return least
}

// TestWidePoolsWithinBudget: a listing, what a shard makes of it, a round, and a cycle over it.
func TestWidePoolsWithinBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("what is counted is the same without the race detector")
	}
	p := openWide(t, 500)
	list := func() []byte {
		msg, full, err := p.List(calls.ListFilter{})
		if err != nil || !full {
			t.Fatal(full, err)
		}
		return msg
	}
	msg := list()
	within := func(what string, got, most float64) {
		t.Helper()
		if t.Logf("%s: %.1f of %.0f", what, got, most); got > most {
			t.Errorf("%s: %.1f, at most %.0f", what, got, most)
		}
	}
	within("listing, bytes of a slot", float64(len(msg))/wideSlots, listBytesMax)
	within("listing, allocations", fewestAllocs(func() { list() }), listAllocsMax)
	within("round, allocations of a machine", fewestAllocs(func() {
		if _, err := p.round(t.Context(), p.hands["sim"]); err != nil {
			t.Fatal(err)
		}
	})/500, roundAllocsMax)
	var read wire.List
	parse := func() {
		if err := read.Parse(msg); err != nil {
			t.Fatal(err)
		}
	}
	parse()
	within("reconcile, allocations to read the listing", fewestAllocs(parse), parseAllocsMax)
	parse()
	machines := supply.New()
	fill := func() {
		machines = supply.New()
		machines.GrowTo(read.Len()) // as a shard does with its first listing
		for i := range read.Len() {
			r, err := read.Record(i)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := machines.PutShared(&r.Machine, r.LabelsNumber); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	var accounts alloc.Accounts
	machines.Account(&accounts)
	within("reconcile, bytes of a machine in the table", float64(accounts.Total().Reserved)/float64(machines.Len()), tableBytesMax)
	plan := wideCycle(t, machines)
	acquired := len(plan.Actions)
	if acquired < wideNeeds {
		t.Errorf("the cycle acquires %d machines for %d Needs", acquired, wideNeeds)
	}
	within("cycle, candidates looked at for a machine acquired", float64(plan.Stats.Probes)/float64(acquired), probesMax)
	const scaled = 500_000
	t.Logf("processor time: listing %v; reading it %v and filling a table %v, which is %v for %d machines; cycle %v",
		fastest(t, func() { list() }), fastest(t, parse), fastest(t, fill),
		(fastest(t, parse)+fastest(t, fill))*scaled/wideSlots, scaled, fastest(t, func() { wideCycle(t, machines) }))
}

// wideCycle decides for needs of many kinds, from nothing.
func wideCycle(tb testing.TB, machines *supply.Table) *engine.Plan {
	tb.Helper()
	needs := demand.New()
	cores := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n * 1000}) }
	for i := range wideNeeds {
		profile, err := model.NewProfile(model.ProfileSpec{Priority: int32(i % 10), Requirements: []model.Requirement{
			{Key: "topology.kubernetes.io/zone", Operator: model.In, Values: []string{string(rune('a' + i%3))}},
		}})
		if err != nil {
			tb.Fatal(err)
		}
		if err := needs.Replace(fmt.Sprintf("c%d", i), []model.Need{{Profile: profile, Aggregate: cores(4 * wideUnits), MinUnit: cores(4)}}); err != nil {
			tb.Fatal(err)
		}
	}
	opts := engine.DefaultOptions()
	opts.Workers = 1
	e, err := engine.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: needs, Now: 1e9})
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}
