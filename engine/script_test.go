package engine_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/twin"
)

var (
	scripts    = flag.Int("scripts", 60, "random edit scripts to compare with the reference")
	scriptFrom = flag.Int64("script-from", 1, "the seed of the first script")
	scriptSeed = flag.Int64("script-seed", 0, "run only the script of this seed")
	scriptTiny = flag.Bool("script-tiny", false, "leave out the scripts of medium fleets, which take most of the time")
)

// scriptSteps is how many cycles a script has.
const scriptSteps = 25

// script is a fleet that changes between cycles; see script_edits_test.go.
type script struct {
	rng      *rand.Rand
	supply   *supply.Table
	demand   *demand.Table
	clusters map[string]bool
	donors   []fleet.World
	now      int64
	notes    []string // what happened before this cycle
	options  reference.Options
	races    bool // the engine with two workers acquires by racing
	backing  map[model.Owner]bool
	drains   map[string]float64 // seconds by instance type
	running  []*engine.Engine
}

// sizeOf is the size of the fleets of a script.
func sizeOf(seed int64) fleet.Size {
	return []fleet.Size{fleet.Tiny, fleet.Small, fleet.Small, fleet.Medium}[seed%4]
}

func newScript(seed int64, fit bool) (*script, error) {
	x := &script{rng: rand.New(rand.NewPCG(uint64(seed), 11)), clusters: map[string]bool{}}
	draw := fleet.Random
	if seed%5 == 0 {
		draw = fleet.Extreme
	}
	for i := range 3 {
		x.donors = append(x.donors, draw(seed*3+int64(i), sizeOf(seed)))
	}
	if fit {
		for i := range x.donors {
			x.donors[i] = fleet.Fitted(x.donors[i], seed+int64(i))
		}
	}
	if seed/4%2 == 0 {
		for i := range x.donors {
			x.donors[i] = fleet.LateBound(x.donors[i], seed+int64(i))
		}
	}
	if seed%3 == 0 {
		x.donors[0] = fleet.Shared(x.donors[0], seed)
	}
	first := inputOf(x.donors[0])
	x.options, x.races = first.Options, seed%2 == 0
	switch seed % 5 { // in two of five the search for plans ends early
	case 2:
		x.options.SearchUnits = 1 + int(seed/5%24)
	case 4:
		x.options.SearchPairs = 1 + int(seed/5%6)
	}
	x.backing, x.drains = map[model.Owner]bool{}, map[string]float64{}
	maps.Copy(x.backing, first.BackingOff)
	maps.Copy(x.drains, first.DrainSeconds)
	var err error
	x.supply, x.demand, _, err = twin.Tables(first)
	x.now = x.donors[0].Now
	for _, w := range x.donors {
		for i := range w.Needs {
			x.clusters[w.Needs[i].Cluster] = true
		}
	}
	return x, err
}

func (x *script) note(format string, args ...any) {
	x.notes = append(x.notes, fmt.Sprintf(format, args...))
}

// input is the fleet as the reference reads it; at is that of twin.Translate.
func (x *script) input() (in reference.Input, at map[string][]int) {
	in = reference.Input{Now: x.now, Options: x.options, Reported: map[string]bool{}, BackingOff: x.backing, DrainSeconds: x.drains}
	at = map[string][]int{}
	for r := range x.supply.All() {
		in.Machines = append(in.Machines, x.supply.Get(r))
	}
	for _, c := range x.demand.Clusters() {
		for _, n := range x.demand.Rows(c) {
			at[c] = append(at[c], len(in.Needs))
			in.Needs = append(in.Needs, n)
		}
	}
	for c := range x.clusters {
		in.Reported[c] = x.demand.Reported(c)
	}
	for i := range in.Machines {
		for _, c := range []string{in.Machines[i].Cluster, in.Machines[i].Reservation.Owner.Cluster} {
			in.Reported[c] = x.demand.Reported(c)
		}
	}
	return in, at
}

func (x *script) cluster() string {
	list := make([]string, 0, len(x.clusters))
	for c := range x.clusters {
		list = append(list, c)
	}
	slices.Sort(list)
	return list[x.rng.IntN(len(list))]
}

// carryOut does a part of what a plan asks for.
func (x *script) carryOut(plan *engine.Plan) {
	for _, r := range plan.Ended {
		x.supply.Reserve(r, model.Reservation{})
	}
	if x.rng.IntN(4) > 0 { // as a shard does, or nobody
		// In one order, which is no promise of the engine's: a seed draws the same again.
		adopted := slices.SortedFunc(slices.Values(plan.Adopted), func(a, b engine.Adopted) int { return cmp.Compare(a.Machine, b.Machine) })
		for _, a := range adopted {
			if x.rng.IntN(8) > 0 {
				x.supply.Stamp(a.Machine, plan.Stamp(int(a.Need)))
			}
		}
	}
	for i := range plan.Reservations {
		if res := &plan.Reservations[i]; x.rng.IntN(5) > 0 {
			x.supply.Reserve(res.Machine, res.Reservation)
		}
	}
	for _, a := range plan.Actions {
		if x.rng.IntN(4) == 0 {
			continue
		}
		x.note("%s %s", a.Kind, x.supply.ID(a.Machine))
		switch a.Kind {
		case engine.Bootstrap:
			n := plan.Need(int(a.Need))
			if x.supply.Transition(a.Machine, model.Configuring, n.Cluster, x.now) == nil {
				x.supply.Reserve(a.Machine, model.Reservation{})
				x.supply.Stamp(a.Machine, stampFor(&n))
				if x.rng.IntN(2) == 0 {
					_ = x.supply.Transition(a.Machine, model.Configured, n.Cluster, x.now)
				}
			}
		case engine.Provision:
			n := plan.Need(int(a.Need))
			if x.supply.Transition(a.Machine, model.Creating, "", x.now) == nil {
				x.supply.Stamp(a.Machine, stampFor(&n))
				x.supply.Reserve(a.Machine, heldFor(&n, 0))
			}
		case engine.Preempt:
			if n := plan.Need(int(a.Need)); a.Plan == 0 {
				x.supply.Reserve(a.Machine, heldFor(&n, x.now+2e9*int64(a.GraceSeconds)))
			}
			if x.supply.Transition(a.Machine, model.Draining, "", x.now) == nil && x.rng.IntN(2) == 0 {
				_ = x.supply.Transition(a.Machine, model.Idle, "", x.now)
			}
		case engine.Reclaim:
			if x.supply.Transition(a.Machine, model.Draining, "", x.now) == nil {
				_ = x.supply.Transition(a.Machine, model.Idle, "", x.now)
			}
		case engine.Delete:
			if x.supply.Transition(a.Machine, model.Deleting, "", x.now) == nil {
				_ = x.supply.Transition(a.Machine, model.Speculative, "", x.now)
			}
		}
	}
}

func stampFor(n *engine.NeedResult) model.Assignment {
	p := n.Profile
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Fingerprint: p.Fingerprint(), Group: n.Group,
	}
}

func heldFor(n *engine.NeedResult, deadline int64) model.Reservation {
	p := n.Profile
	return model.Reservation{
		Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: n.Group},
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(), Deadline: deadline,
	}
}

// TestIncrementalCyclesEqualTheReference: a cycle that builds on the one before
// gives the answer of one that does not, whatever has happened in between, with
// one worker and with several.
func TestIncrementalCyclesEqualTheReference(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	if *scriptSeed != 0 {
		*scriptFrom, *scripts = *scriptSeed, 1
	}
	count := *scripts
	if testing.Short() {
		count = (count + 1) / 2
	}
	failed := 0
	for _, seed := range scriptsThatFailed {
		if fault := runScript(t, seed, false); fault != "" && *scriptSeed == 0 {
			t.Errorf("seed %d (repeat with -script-seed=%d), %s", seed, seed, fault)
		}
	}
	for i := range count {
		seed := *scriptFrom + int64(i)
		if *scriptTiny && sizeOf(seed) == fleet.Medium {
			continue
		}
		if i%scriptsALine == scriptsALine-1 {
			t.Logf("%d scripts are done", i+1)
		}
		if fault := runScript(t, seed, false); fault != "" {
			t.Errorf("seed %d (repeat with -script-seed=%d), %s", seed, seed, fault)
			if failed++; failed == scriptFaultsMax {
				return
			}
		}
	}
}

// TestIncrementalFitEqualsTheReference: the same with acquisition by fit.
func TestIncrementalFitEqualsTheReference(t *testing.T) {
	defer engine.SetComponentsMin(engine.SetComponentsMin(0))
	first, count := *scriptFrom, (*scripts+2)/3
	if *scriptSeed != 0 {
		first, count = *scriptSeed, 1
	} else {
		for _, seed := range fitScriptsThatFailed {
			if fault := runScript(t, seed, true); fault != "" {
				t.Errorf("seed %d (repeat with -script-seed=%d), %s", seed, seed, fault)
			}
		}
	}
	for seed := first; seed < first+int64(count); seed++ {
		if *scriptTiny && sizeOf(seed) == fleet.Medium {
			continue
		}
		if fault := runScript(t, seed, true); fault != "" {
			t.Fatalf("seed %d (repeat with -script-seed=%d), %s", seed, seed, fault)
		}
	}
}

// scriptsThatFailed once found a fault: in 910081 a row whose credit waits
// overtakes one that did not; in 755 what is put in the place of a gang leaves some
// of that gang outside, which goes before what was chosen first; in 4188, and in 213 with
// acquisition by fit, a Need without a turn was told that there were candidates, and the
// next cycles did not forget it; in 3415 an engine got other tables, whose dimensions stand in another
// order, and acquired by fit in the old one.
var (
	scriptsThatFailed    = []int64{755, 910081, 4188}
	fitScriptsThatFailed = []int64{213, 3415}
)

// scriptsALine is after how many scripts a sweep says how far it is.
const scriptsALine = 200

// scriptFaultsMax is how many scripts may fail before the others are left.
const scriptFaultsMax = 5

// The engines that go through a script: how many workers they have, and how
// often they are checked. One never is, one decides a cycle a second time, and
// the others spread the checks over cycles.
var (
	workersOf     = []int{1, 2, 3, 16}
	checkCyclesOf = []int{1 << 20, 8, 5, 3}
	auditedFrom   = 2
)

// runScript goes through one script and says where an engine and the reference
// came to different answers, "" where they did not.
func runScript(t *testing.T, seed int64, fit bool) (fault string) {
	t.Helper()
	x, err := newScript(seed, fit)
	if err != nil {
		t.Fatal(err)
	}
	x.start(t)
	defer x.stop()
	var last *engine.Plan
	for step := range scriptSteps {
		x.edit(t, last)
		if last, fault = x.compare(t); fault != "" {
			return fmt.Sprintf("cycle %d, %s\nbefore it: %q", step, fault, x.notes)
		}
	}
	return ""
}

// start makes the engines that go through the script.
func (x *script) start(t *testing.T) {
	t.Helper()
	x.stop()
	for i, workers := range workersOf {
		opts := twin.Options(x.options)
		opts.Workers = workers
		opts.CheckCycles = checkCyclesOf[i]
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if i >= auditedFrom {
			e.SetAuditMin(0)
		}
		if workers == 2 && x.races {
			engine.Race(e)
		}
		x.running = append(x.running, e)
	}
}

func (x *script) stop() {
	for _, e := range x.running {
		e.Close()
	}
	x.running = nil
}

// compare runs a cycle of every engine and of the reference, and says where they
// differ.
func (x *script) compare(t *testing.T) (plan *engine.Plan, fault string) {
	t.Helper()
	in, at := x.input()
	want := reference.Decide(in)
	for i, e := range x.running {
		var err error
		if plan, err = e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now, DrainSeconds: x.drains, BackingOff: x.backing}); err != nil {
			t.Fatal(err)
		}
		if plan.Stats.Differs {
			return plan, fmt.Sprintf("engine %d: another answer when decided from nothing", i)
		}
		if err := e.CheckFolds(); err != nil {
			return plan, fmt.Sprintf("engine %d: %v", i, err)
		}
		got := twin.Translate(plan, twin.Results(plan), x.supply, at, len(in.Needs))
		if d := twin.Diff(got, want); d != "" {
			return plan, fmt.Sprintf("engine %d: %s\ngot:  %v\nwant: %v", i, d, got.Actions, want.Actions)
		}
	}
	return plan, ""
}
