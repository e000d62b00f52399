package coordinator_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/modelshard"
	"github.com/tonnage/tonnage/engine/model"
)

// fleet is a coordinator with its durable store, and some shards, all in memory
// and in one goroutine. Whatever may crash calls point.
type fleet struct {
	t        *testing.T
	core     *coordinator.Core
	store    map[string][]byte
	mode     coordinator.Mode
	term     int64
	now      int64
	shards   map[string]*modelshard.Shard
	disks    map[string]*modelshard.Disk
	provider *modelshard.Provider
	needs    map[string]func() []coordinator.Shortfall
	points   int
	rounds   int
	crashAt  int // the number of the point, from 1; 0 = none
	crashed  string
	// unchecked leaves the owners of all machines out, for large fleets.
	unchecked bool
}

const second = int64(1e9)

func newFleet(t *testing.T, mode coordinator.Mode, ids ...string) *fleet {
	f := &fleet{
		t: t, store: map[string][]byte{}, mode: mode, term: 1, now: 1000 * second, core: coordinator.New(mode),
		shards: map[string]*modelshard.Shard{}, disks: map[string]*modelshard.Disk{}, needs: map[string]func() []coordinator.Shortfall{},
		provider: &modelshard.Provider{Name: "provider:1", Machines: map[string]*modelshard.Machine{}},
	}
	for _, id := range ids {
		f.disks[id] = modelshard.NewDisk()
		f.start(id)
	}
	return f
}

func (f *fleet) start(id string) {
	s := modelshard.Start(id, f.disks[id], f.provider)
	s.Point = f.point
	f.shards[id] = s
}

func (f *fleet) point(name string) {
	f.points++
	if !f.unchecked {
		f.checkOwners(name)
	}
	if f.points == f.crashAt {
		f.crashed = name
		panic(modelshard.Crash{At: name})
	}
}

// checkOwners holds at every instant: no machine is used by two shards.
func (f *fleet) checkOwners(at string) {
	f.t.Helper()
	for id := range f.provider.Machines {
		if o := f.owners(id); len(o) > 1 {
			f.t.Fatalf("at %q machine %s is used by %q", at, id, o)
		}
	}
}

func (f *fleet) owners(machine string) []string {
	var out []string
	for id, disk := range f.disks {
		if disk.Owns(f.provider, machine) {
			out = append(out, id)
		}
	}
	return out
}

// run does something that may crash: whose says who starts anew then.
func (f *fleet) run(restart func(), do func()) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case modelshard.Crash:
			restart()
		default:
			panic(x)
		}
	}()
	do()
}

// restartCore is a successor: it reads what is durable and has heard nobody.
func (f *fleet) restartCore() {
	f.term++
	f.core = coordinator.New(f.mode)
	load := f.core.Load(0)
	for k, v := range f.store {
		if err := load.Add(k, v); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fleet) commit(e coordinator.Effects) {
	f.t.Helper()
	for _, w := range e.Writes {
		f.point("before commit of " + w.Key)
		if w.Value == nil {
			delete(f.store, w.Key)
		} else {
			f.store[w.Key] = w.Value
		}
		f.point("after commit of " + w.Key)
	}
	if err := f.core.Apply(e.Writes); err != nil {
		f.t.Fatal(err)
	}
}

// do gives the coordinator an event.
func (f *fleet) do(e coordinator.Event) error {
	effects, err := f.core.Step(f.now, e)
	if err == nil {
		f.commit(effects)
	}
	return err
}

func (f *fleet) must(e coordinator.Event) {
	f.t.Helper()
	if err := f.do(e); err != nil {
		f.t.Fatalf("%T: %v", e, err)
	}
}

// exchange is one report and one offering of a shard, with their answers.
func (f *fleet) exchange(id string) {
	s := f.shards[id]
	if s == nil {
		return
	}
	s.Short = f.needs[id]
	restartShard := func() { f.start(id) }
	var report *coordinator.Report
	var instructions []coordinator.Instruction
	answered := false
	f.run(f.restartCore, func() {
		report = s.Report(f.now)
		f.must(report)
		instructions = f.core.Instructions(id)
		answered = true
	})
	if !answered {
		return // the shard waits for its next interval
	}
	f.run(restartShard, func() {
		f.point("answer to report lost")
		s.Answered(f.term, report, instructions)
	})
	s = f.shards[id]
	var offering *coordinator.Offering
	answered = false
	f.run(f.restartCore, func() {
		offering = s.Offering()
		f.must(offering)
		answered = true
	})
	if answered {
		f.run(restartShard, func() {
			f.point("answer to offering lost")
			s.Settled(offering.Settled)
		})
	}
}

// cycles lets every shard report n times, with a pass of rebalancing after each
// fifth round.
func (f *fleet) cycles(n int) {
	for range n {
		f.rounds++
		f.now += 10 * second
		for _, id := range slices.Sorted(maps.Keys(f.shards)) {
			f.exchange(id)
		}
		if f.rounds%5 == 0 {
			f.run(f.restartCore, func() { f.must(coordinator.Rebalance{}) })
		}
	}
}

func zone(name string) coordinator.Domain { return coordinator.Domain{Key: model.KeyZone, Value: name} }

// machines adds machines of one kind to a zone.
func (f *fleet) machines(prefix, zoneName string, state model.State, n int) {
	for i := range n {
		id := fmt.Sprintf("%s-%03d", prefix, i)
		f.provider.Machines[id] = &modelshard.Machine{ID: id, Domain: zone(zoneName), Offer: coordinator.Offer{
			State: state, InstanceType: "m6i.large", Zone: zoneName, CapacityType: model.OnDemand, PricePerHour: 0.1,
			Unit: resources("cpu", 2000),
		}}
	}
}

// inRacks gives all machines racks that offers do not name.
func (f *fleet) inRacks() {
	for _, m := range f.provider.Machines {
		m.Offer.Varied = []string{"rack"}
	}
}

func resources(name string, v int64) model.Resources {
	return model.NewResources(model.Amount{Name: name, Value: v})
}

// short is a shard's shortfall of so many machines' worth, less what it has
// received; it ages by the report.
func (f *fleet) short(id string, machines int, change func(*coordinator.Shortfall)) {
	age := int32(0)
	f.needs[id] = func() []coordinator.Shortfall {
		missing := machines - len(f.disks[id].Received)
		for m := range f.disks[id].Received { // they are put to use at once
			f.provider.Machines[m].Offer.State, f.provider.Machines[m].Priority = model.Configured, 1000
		}
		if missing <= 0 {
			return nil
		}
		age++
		s := coordinator.Shortfall{
			Requirements: []model.Requirement{{Key: model.KeyInstanceType, Operator: model.In, Values: []string{"m6i.large"}}},
			Deficit:      resources("cpu", int64(missing)*2000), Priority: 1000, AgeCycles: age, Bucket: model.BucketOneDollar + 5,
		}
		if change != nil {
			change(&s)
		}
		return []coordinator.Shortfall{s}
	}
}

// assign gives zone-a to s-0, zone-b to s-1 and so on, and waits until they know.
func (f *fleet) assign() {
	f.cycles(1)
	for i, id := range slices.Sorted(maps.Keys(f.shards)) {
		f.must(coordinator.AssignDomain{Assignment: coordinator.Assignment{Domain: zone(zoneName(i)), Shard: id}})
	}
	f.cycles(2)
}

// zoneName names zone i: zone-a to zone-z, then zone-aa.
func zoneName(i int) string {
	name := "zone-"
	if i >= 26 {
		name += string(rune('a' + i/26 - 1))
	}
	return name + string(rune('a'+i%26))
}

func (f *fleet) received(id string) int { return len(f.disks[id].Received) }

// checkLoans: those machines are lent that are not with the shard that has their
// domain.
func (f *fleet) checkLoans() {
	f.t.Helper()
	of := map[coordinator.Domain]string{}
	for _, a := range f.core.Assignments() {
		of[a.Domain] = a.Shard
	}
	loans := f.core.Loans()
	for id, m := range f.provider.Machines {
		home, owners := of[m.Domain], f.owners(id)
		l, lent := loans[id]
		if len(owners) != 1 || home == "" {
			continue
		}
		if away := owners[0] != home; lent != away || lent && (l.Home != home || l.Holder != owners[0]) {
			f.t.Errorf("machine %s of %s is with %s, and the loan is %+v (%t)", id, home, owners[0], l, lent)
		}
	}
}

// openMoves are those that are not over.
func (f *fleet) openMoves() []coordinator.Move {
	return slices.DeleteFunc(f.core.Moves(), func(m coordinator.Move) bool { return m.Ended != 0 })
}
