package shard_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// memory is a Memory that is on no disk.
type memory struct {
	entries map[string][]byte
	position,
	durable uint64
	err error
}

func newMemory() *memory { return &memory{entries: map[string][]byte{}} }

func (m *memory) Set(key string, value []byte) uint64 {
	if bytes.Equal(m.entries[key], value) {
		return 0
	}
	if len(value) == 0 {
		delete(m.entries, key)
	} else {
		m.entries[key] = bytes.Clone(value)
	}
	m.position++
	return m.position
}

func (m *memory) Durable(_ context.Context, position uint64) error {
	m.durable = max(m.durable, position)
	return m.err
}

func (m *memory) All(visit func(string, []byte)) {
	for k, v := range maps.Clone(m.entries) {
		visit(k, v)
	}
}

// noMachines fails when any machine is remembered.
func (m *memory) noMachines(t *testing.T) {
	t.Helper()
	for key := range m.entries {
		if key[0] == 'm' {
			t.Errorf("still remembered: %q", key)
		}
	}
}

// silent is a provider that echoes only what the protocol promises: stamps from
// Configure until the machine has drained.
type silent struct {
	shard.Provider
	called func(op string)
}

func (s *silent) Create(ctx context.Context, r shard.CreateRequest) (shard.Record, error) {
	s.called("Create")
	r.Metadata = nil
	return s.Provider.Create(ctx, r)
}

func (s *silent) Drain(ctx context.Context, r shard.DrainRequest) (shard.Record, error) {
	s.called("Drain")
	r.Metadata = nil
	return s.Provider.Drain(ctx, r)
}

func (s *silent) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	l, err := s.Provider.List(ctx, r)
	for i := range l.Records {
		switch l.Records[i].Machine.State {
		case model.Configuring, model.Configured, model.Draining:
		default:
			l.Records[i].Metadata, l.Records[i].Decoded = nil, nil
		}
		l.Records[i].Machine.IdleSince = 0
	}
	return l, err
}

func silentWorld(t *testing.T, ms []model.Machine, options ...option) (*world, *memory, *silent) {
	mem, s := newMemory(), &silent{called: func(string) {}}
	w := newWorld(t, ms, append(options, func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Memory = mem })...)
	s.Provider = w.fleet
	w.deps.Provider = s
	w.restart()
	return w, mem, s
}

// TestKilledWhileBuying: the process that follows knows for whom the machine is
// being created, and does not buy another one.
func TestKilledWhileBuying(t *testing.T) {
	w, mem, s := silentWorld(t, []model.Machine{machine("s1", model.Speculative, ""), machine("s2", model.Speculative, "")}, latencies(time.Minute, 0, 0))
	n := need(t, 7, 4)
	s.called = func(op string) {
		if op == "Create" && mem.durable == 0 {
			t.Error("the provider is called before it is on disk for whom")
		}
	}
	w.report("c1", n)
	if got := w.steps(1); !slices.Equal(got, []string{"Provision s1"}) {
		t.Fatalf("got %v", got)
	}
	before := w.get("s1")
	w.restart()
	w.step()
	if after := w.get("s1"); after.Assigned != before.Assigned || after.Reservation != before.Reservation {
		t.Errorf("was %+v\n is %+v", before, after)
	}
	w.report("c1", n)
	if got := w.steps(8); !slices.Equal(got, []string{"Bootstrap s1"}) {
		t.Errorf("after the restart: %v", got)
	}
	w.steps(1)
	mem.noMachines(t)
}

// TestKilledWhileAVictimDrains: it stays its preemptor's, without a second
// preemption, and for as long as it would have.
func TestKilledWhileAVictimDrains(t *testing.T) {
	w, _, _ := silentWorld(t, machines(2, model.Configured, "low"), latencies(0, 0, 30*time.Second))
	low, top := need(t, 1, 8), need(t, 600_000, 4)
	w.report("low", low)
	w.report("top", top)
	got := w.steps(1)
	if len(got) != 1 {
		t.Fatalf("got %v", got)
	}
	victim := got[0][len("Preempt "):]
	before := w.get(victim)
	w.restart()
	w.report("low", low)
	w.report("top", top)
	if got := w.steps(2); len(got) != 0 {
		t.Errorf("while it drains: %v", got)
	}
	if after := w.get(victim); after.Reservation.Owner != before.Reservation.Owner || after.Reservation.Priority != 600_000 {
		t.Errorf("while it drains: %+v", after)
	}
	w.restart()
	w.shard.SetPaused(true)
	w.step()
	if m := w.get(victim); m.State != model.Idle || m.Reservation.Owner != before.Reservation.Owner || m.Reservation.Deadline != w.now+2*30*second {
		t.Errorf("drained: %+v", m)
	}
	w.shard.SetPaused(false)
	w.report("low", low)
	w.report("top", top)
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap " + victim}) {
		t.Errorf("got %v", got)
	}
}

// TestIdleClockGoesOn: a restart does not give an idle machine its whole hold
// again.
func TestIdleClockGoesOn(t *testing.T) {
	m := machine("m", model.Idle, "")
	m.CapacityType = model.Spot
	w, _, _ := silentWorld(t, []model.Machine{m}, configured(func(c *shard.Config) {
		c.Engine.Release = engine.Release{Spot: 60 * time.Second}
	}))
	w.steps(4)
	since := w.get("m").IdleSince
	w.restart()
	w.step()
	if got := w.get("m").IdleSince; got != since || since == 0 {
		t.Errorf("idle since %d, was %d", got/second, since/second)
	}
	if got := w.steps(3); !slices.Equal(got, []string{"Delete m"}) {
		t.Errorf("got %v", got)
	}
}

// TestDemandThatWaitedKeepsItsPlace: among equals, who waited longer comes
// first, also when the other one is the first to connect again.
func TestDemandThatWaitedKeepsItsPlace(t *testing.T) {
	w, _, _ := silentWorld(t, nil)
	w.report("c2", need(t, 1, 4))
	w.step()
	w.report("c1", need(t, 1, 4))
	w.steps(2)
	w.restart()
	late := need(t, 1, 4)
	late.Arrival = w.now
	w.report("c1", late)
	w.now += 3 * second
	late.Arrival = w.now
	w.report("c2", late)
	if err := w.fleet.Add(machine("m-00", model.Idle, "")); err != nil {
		t.Fatal(err)
	}
	if got := w.steps(1); !slices.Equal(got, []string{"Bootstrap m-00"}) || w.get("m-00").Cluster != "c2" {
		t.Errorf("%v, for %s; c2 was first", got, w.get("m-00").Cluster)
	}
}

// TestMemoryThatFailsStopsNothing: and it is counted.
func TestMemoryThatFailsStopsNothing(t *testing.T) {
	w, mem, _ := silentWorld(t, []model.Machine{machine("s1", model.Speculative, "")})
	mem.err = errors.New("disk full")
	w.report("c1", need(t, 1, 4))
	if w.steps(2); w.get("s1").State != model.Configured {
		t.Errorf("it is %s", w.get("s1").State)
	}
}

// TestWhatIsGoneIsForgotten: machines that the provider does not list any more
// take no room for ever.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	w, mem, _ := silentWorld(t, []model.Machine{machine("s1", model.Speculative, "")}, latencies(time.Hour, 0, 0))
	w.report("c1", need(t, 1, 4))
	w.step()
	if len(mem.entries) == 0 {
		t.Fatal("nothing is remembered")
	}
	w.fleet.Lose("s1")
	w.restart()
	w.step()
	mem.noMachines(t)
}

// TestUnreadableMemoryIsLeftOut: what another version wrote is no reason not to
// start.
func TestUnreadableMemoryIsLeftOut(t *testing.T) {
	w, mem, _ := silentWorld(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 1, 4))
	for key, value := range map[string]string{"mm-00": "\xff", "mm-01": "", "w": "x", "wc1\x00zz": "1", "z": "?", "": "?"} {
		mem.entries[key] = []byte(value)
	}
	w.restart()
	w.report("c1", need(t, 1, 4))
	if w.steps(1); w.get("m-00").State != model.Configured {
		t.Errorf("it is %s", w.get("m-00").State)
	}
}

// TestDomainsOutliveTheProcess: assigned ones stay until they are taken away.
func TestDomainsOutliveTheProcess(t *testing.T) {
	w, _, _ := silentWorld(t, nil)
	a, b := shard.Domain{Key: "zone", Value: "a"}, shard.Domain{Key: "zone", Value: "b"}
	for _, d := range []shard.Domain{b, a, a} {
		if err := w.shard.AssignDomain(d); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	if got := w.shard.Domains(); !slices.Equal(got, []shard.Domain{a, b}) {
		t.Errorf("got %v", got)
	}
	unassign(t, w, a)
	unassign(t, w, a)
	w.restart()
	if got := w.shard.Domains(); !slices.Equal(got, []shard.Domain{b}) {
		t.Errorf("got %v", got)
	}
	if err := w.shard.AssignDomain(shard.Domain{Key: "zone"}); !errors.Is(err, shard.ErrInvalid) {
		t.Errorf("a domain without a value: %v", err)
	}
}

// TestAdoptedStampsOutliveTheProcess: the provider has only been told the stamp of the time at which
// a machine was bound; whom it has served since decides who owns it, and at what priority it
// is a victim.
func TestAdoptedStampsOutliveTheProcess(t *testing.T) {
	w, mem, _ := silentWorld(t, machines(2, model.Idle, ""))
	w.report("c1", need(t, 100, 8))
	w.steps(3)
	w.report("c1", need(t, 50, 8))
	w.steps(2)
	stamp := w.get("m-00").Assigned
	if stamp.Priority != 50 {
		t.Fatalf("the stamp is not adopted: %+v", stamp)
	}
	for range 2 { // what a process has recalled, the one after it knows too
		w.restart()
		w.report("c1", need(t, 50, 8))
		if w.steps(1); w.get("m-00").Assigned != stamp {
			t.Fatalf("after a restart the stamp is %+v, want %+v", w.get("m-00").Assigned, stamp)
		}
	}
	w.report("c1")
	w.steps(4)
	mem.noMachines(t)
}

// TestStampsOfAnotherClusterAreNotRecalled: while the shard was away somebody has bound the
// machine to another cluster.
func TestStampsOfAnotherClusterAreNotRecalled(t *testing.T) {
	w, _, s := silentWorld(t, machines(1, model.Idle, ""))
	w.report("c1", need(t, 100, 4))
	w.steps(3)
	w.report("c1", need(t, 50, 4))
	w.steps(2)
	moved := machine("m-00", model.Configured, "c2")
	moved.Host = "h"
	other, err := simulated.New(simulated.Config{Machines: []model.Machine{moved}, Now: w.now})
	if err != nil {
		t.Fatal(err)
	}
	s.Provider = other
	w.restart()
	if w.step(); w.get("m-00").Cluster != "c2" || w.get("m-00").Assigned != (model.Assignment{}) {
		t.Errorf("it is %+v", w.get("m-00"))
	}
}
