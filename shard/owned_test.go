package shard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

func (w *world) ids() (out []string) {
	w.shard.Machines(func(m model.Machine) bool { out = append(out, m.ID); return true })
	return out
}

func zoned(id, zone string, s model.State, cluster string) model.Machine {
	m := machine(id, s, cluster)
	m.Zone = zone
	return m
}

func unassign(t *testing.T, w *world, d shard.Domain) {
	t.Helper()
	if err := w.shard.UnassignDomain(d); err != nil {
		t.Fatal(err)
	}
}

// TestDomainsSayWhatIsOurs: nothing assigned, everything; then what is assigned;
// and nothing rather than everything once the last one is taken away.
func TestDomainsSayWhatIsOurs(t *testing.T) {
	o := &operators{}
	w, _, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Configured, "c1"), zoned("b1", "b", model.Idle, ""), zoned("b2", "b", model.Configured, "c1")},
		func(_ *shard.Config, d *shard.Deps, _ *provCfg) { d.Operators = o })
	w.report("c1", need(t, 1, 8))
	expect := func(when string, want ...string) {
		t.Helper()
		w.step()
		if got := w.ids(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	w.shard.SetPaused(true)
	expect("never assigned", "a1", "b1", "b2")
	a, b := shard.Domain{Key: model.KeyZone, Value: "a"}, shard.Domain{Key: model.KeyZone, Value: "b"}
	assign := func(d shard.Domain) {
		t.Helper()
		if err := w.shard.AssignDomain(d); err != nil {
			t.Fatal(err)
		}
	}
	assign(b)
	o.told("c1")
	expect("b assigned", "b1", "b2")
	if got := o.told("c1"); len(got) != 0 {
		t.Errorf("the cluster of a machine that goes on elsewhere hears %v", got)
	}
	assign(a)
	expect("both", "a1", "b1", "b2")
	unassign(t, w, b)
	expect("b taken away", "a1")
	unassign(t, w, a)
	expect("nothing left")
	w.restart()
	w.shard.SetPaused(true)
	expect("nothing left, started again")
	assign(b)
	expect("b again", "b1", "b2")
	for range 3 {
		expect("and it stays so", "b1", "b2")
	}
}

// TestHandOver: given away is given away, also after a restart, until it comes
// back; received counts although no domain covers it.
func TestHandOver(t *testing.T) {
	w, mem, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("a2", "a", model.Idle, ""), zoned("a3", "a", model.Configured, "c1"), zoned("z1", "z", model.Idle, "")})
	if err := w.shard.AssignDomain(shard.Domain{Key: model.KeyZone, Value: "a"}); err != nil {
		t.Fatal(err)
	}
	w.shard.SetPaused(true)
	w.step()
	ctx := t.Context()
	for range 2 { // the second time is a repeat
		h, err := w.shard.Release(ctx, "move-1", "shard-9", []string{"a1", "a3", "z1", "none"}, model.Idle)
		if err != nil || !slices.Equal(h.Machines, []string{"a1"}) {
			t.Fatalf("released %v, %v", h, err)
		}
	}
	if mem.durable == 0 {
		t.Error("it is given away before it is on disk")
	}
	if _, err := w.shard.Release(ctx, "move-2", "shard-9", []string{"a1", "a3"}, model.Idle); !errors.Is(err, shard.ErrInvalid) {
		t.Errorf("nothing to give: %v", err)
	}
	check := func(when string, moves int, want ...string) {
		t.Helper()
		w.step()
		w.step()
		if got := w.ids(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		if h, err := w.shard.HandOvers(ctx); err != nil || len(h) != moves {
			t.Errorf("%s: hand-overs %v, %v", when, h, err)
		}
	}
	again := func() { w.restart(); w.shard.SetPaused(true) }
	check("given", 1, "a2", "a3")
	again()
	check("given, started again", 1, "a2", "a3")
	w.shard.Settle([]string{"move-1"})
	check("settled", 0, "a2", "a3")
	if err := w.shard.Adopt(ctx, "move-3", []string{"z1"}); err != nil {
		t.Fatal(err)
	}
	check("received", 0, "a2", "a3", "z1")
	again()
	check("received, started again", 0, "a2", "a3", "z1")
	if err := w.shard.Adopt(ctx, "move-1/back", []string{"a1"}); err != nil {
		t.Fatal(err)
	}
	again()
	check("taken back", 0, "a1", "a2", "a3", "z1")
}

// TestADomainStaysWhileMachinesOfItAreAway: who has it next would take them up,
// too. Other domains go, and this one does when all are back.
func TestADomainStaysWhileMachinesOfItAreAway(t *testing.T) {
	w, mem, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("a2", "a", model.Idle, ""), zoned("b1", "b", model.Idle, ""), zoned("z1", "z", model.Idle, "")})
	a, b, ctx := shard.Domain{Key: model.KeyZone, Value: "a"}, shard.Domain{Key: model.KeyZone, Value: "b"}, t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.shard.AssignDomain(a))
	must(w.shard.AssignDomain(b))
	must(w.shard.Adopt(ctx, "m-1/adopt", []string{"z1"}))
	w.steps(2)
	_, err := w.shard.Release(ctx, "m-2", "shard-9", []string{"a1"}, model.Idle)
	must(err)
	_, err = w.shard.Release(ctx, "m-3", "shard-9", []string{"z1"}, model.Idle) // is of none of its domains
	must(err)
	w.shard.Settle([]string{"m-2", "m-3"})
	if _, kept := mem.entries["gz1"]; kept {
		t.Error("what was received and has moved on is remembered after it is settled")
	}
	for range 2 {
		if err := w.shard.UnassignDomain(a); err == nil || errors.Is(err, shard.ErrInvalid) || !strings.Contains(err.Error(), "1 machines of domain topology.kubernetes.io/zone=a are with other shards, such as a1") {
			t.Errorf("unassigned: %v", err)
		}
		w.restart()
		w.step()
	}
	must(w.shard.UnassignDomain(b))
	must(w.shard.Adopt(ctx, "m-4/adopt", []string{"a1"}))
	must(w.shard.UnassignDomain(a))
	must(w.shard.Kept(ctx))
	w.restart()
	w.steps(2)
	if got := w.ids(); len(got) != 0 {
		t.Errorf("without domains it has %v", got)
	}
}

// TestDomainsAreKept: what is not on disk is not said to be done.
func TestDomainsAreKept(t *testing.T) {
	w, mem, _ := silentWorld(t, nil)
	if err := w.shard.AssignDomain(shard.Domain{Key: model.KeyZone, Value: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := w.shard.Kept(t.Context()); err != nil || mem.durable != mem.position {
		t.Errorf("kept up to %d of %d: %v", mem.durable, mem.position, err)
	}
	mem.err = errors.New("disk full")
	unassign(t, w, shard.Domain{Key: model.KeyZone, Value: "a"})
	for range 2 {
		if err := w.shard.Kept(t.Context()); !errors.Is(err, mem.err) {
			t.Errorf("kept: %v", err)
		}
	}
}

// without is a provider that does not list some machines.
type without struct {
	shard.Provider
	ids []string
}

func (p *without) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	l, err := p.Provider.List(ctx, r)
	l.Records = slices.DeleteFunc(l.Records, func(x shard.Record) bool { return slices.Contains(p.ids, x.Machine.ID) })
	return l, err
}

// TestMachinesThatAreGoneAreForgotten: what was given or received does not stay
// remembered for ever; what is there, or comes back in time, does.
func TestMachinesThatAreGoneAreForgotten(t *testing.T) {
	p := &without{}
	w, mem, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("a2", "a", model.Idle, ""), zoned("z1", "z", model.Idle, ""), zoned("z2", "z", model.Idle, "")},
		configured(func(c *shard.Config) { c.AlwaysFull = true }))
	p.Provider = w.deps.Provider
	w.deps.Provider = p
	w.restart()
	if err := w.shard.AssignDomain(shard.Domain{Key: model.KeyZone, Value: "a"}); err != nil {
		t.Fatal(err)
	}
	w.steps(1)
	if err := w.shard.Adopt(t.Context(), "m-1/adopt", []string{"z1", "z2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.shard.Release(t.Context(), "m-2", "shard-9", []string{"a1", "a2"}, model.Idle); err != nil {
		t.Fatal(err)
	}
	remembered := func() (out []string) {
		for key := range mem.entries {
			if strings.ContainsAny(key[:1], "gr") {
				out = append(out, key)
			}
		}
		slices.Sort(out)
		return out
	}
	all := []string{"ga1", "ga2", "rz1", "rz2"}
	long := shard.GoneLooks * shard.GoneLookListings
	p.ids = []string{"a1", "z1"}
	w.steps(long - shard.GoneLookListings)
	p.ids = nil
	w.steps(shard.GoneLookListings)
	p.ids = []string{"a1", "z1"}
	w.steps(long - shard.GoneLookListings)
	if got := remembered(); !slices.Equal(got, all) {
		t.Errorf("remembered are %v; they were missing for a while only", got)
	}
	w.steps(shard.GoneLookListings)
	if got := remembered(); !slices.Equal(got, []string{"ga1", "ga2", "rz2"}) {
		t.Errorf("remembered are %v; a1 is not settled, z1 is gone", got)
	}
	w.shard.Settle([]string{"m-2"})
	w.steps(long)
	if got := remembered(); !slices.Equal(got, []string{"ga2", "rz2"}) {
		t.Errorf("remembered are %v, want what is there", got)
	}
}
