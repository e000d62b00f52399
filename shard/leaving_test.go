package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// TestDrainedAway: machines whose work ranks below are drained and given away
// together, also when the process is killed in between; meanwhile nobody takes
// them, and those that rank higher stay.
func TestDrainedAway(t *testing.T) {
	ms := []model.Machine{machine("m1", model.Idle, ""), machine("m2", model.Idle, ""), machine("m3", model.Idle, "")}
	w, _, _ := silentWorld(t, ms, latencies(0, 0, 15*time.Second))
	ctx := t.Context()
	w.report("low", need(t, 1, 8))
	w.report("high", need(t, 50, 4))
	w.steps(3)
	var low []string
	w.shard.Machines(func(m model.Machine) bool {
		if m.Cluster == "low" {
			low = append(low, m.ID)
		}
		return true
	})
	all := []string{"m1", "m2", "m3", "none"}
	ask := func() error { return w.shard.DrainAway(ctx, "m-5", all, 40) }
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	given := func() []string {
		t.Helper()
		h, err := w.shard.HandOvers(ctx)
		if err != nil || len(h) > 1 {
			t.Fatalf("hand-overs %v, %v", h, err)
		}
		if len(h) == 0 {
			return nil
		}
		return h[0].Machines
	}
	w.step()
	if got := given(); got != nil {
		t.Fatalf("given away while they drain: %v", got)
	}
	w.restart()
	w.report("low", need(t, 1, 8))
	w.report("high", need(t, 50, 4))
	w.steps(3) // they are Idle now, and wanted here
	for _, id := range low {
		if m := w.get(id); m.State != model.Idle {
			t.Errorf("%s is %s while it waits to be given", id, m.State)
		}
	}
	for range 2 { // the second time is a repeat
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		if got := given(); !slices.Equal(got, low) {
			t.Fatalf("given %v, want %v", got, low)
		}
	}
	w.steps(2)
	if got := w.ids(); len(got) != 1 || w.get(got[0]).Cluster != "high" {
		t.Errorf("left are %v", got)
	}
	if err := w.shard.DrainAway(ctx, "m-6", all, 40); !errors.Is(err, shard.ErrInvalid) {
		t.Errorf("nothing to drain: %v", err)
	}
	w.shard.SetPaused(true)
	if err := w.shard.DrainAway(ctx, "m-7", all, 99); err == nil || errors.Is(err, shard.ErrInvalid) {
		t.Errorf("paused: %v", err)
	}
}

// TestAdoptedOnce: an adoption that comes again does nothing, also in another
// process, when its machines have moved on.
func TestAdoptedOnce(t *testing.T) {
	w, _, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("z1", "z", model.Idle, "")})
	ctx, a := t.Context(), shard.Domain{Key: model.KeyZone, Value: "a"}
	if err := w.shard.AssignDomain(a); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.shard.Adopt(ctx, "m-1/adopt", []string{"z1"}))
	w.step()
	_, err := w.shard.Release(ctx, "m-2", "shard-9", []string{"z1"}, model.Idle)
	must(err)
	w.restart()
	must(w.shard.Adopt(ctx, "m-1/adopt", []string{"z1"}))
	w.steps(2)
	if got := w.ids(); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("after the repeat it has %v", got)
	}
	// One that comes home belongs to its domain again, and goes with that.
	_, err = w.shard.Release(ctx, "m-3", "shard-9", []string{"a1"}, model.Idle)
	must(err)
	must(w.shard.Adopt(ctx, "m-3/return", []string{"a1"}))
	w.restart()
	w.step()
	if got := w.ids(); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("after the return it has %v", got)
	}
	unassign(t, w, a)
	w.step()
	if got := w.ids(); len(got) != 0 {
		t.Errorf("without its domain it has %v", got)
	}
}

// TestNothingIsMentionedThatIsNotOnDisk: neither acknowledged nor mentioned, and
// not used either, until it is known to be kept.
func TestNothingIsMentionedThatIsNotOnDisk(t *testing.T) {
	w, mem, _ := silentWorld(t, []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("a2", "a", model.Idle, "")})
	w.step()
	ctx := t.Context()
	mem.err = errors.New("disk full")
	for range 2 {
		if _, err := w.shard.Release(ctx, "m-1", "shard-9", []string{"a1"}, model.Idle); !errors.Is(err, mem.err) {
			t.Errorf("released: %v", err)
		}
		if h, err := w.shard.HandOvers(ctx); !errors.Is(err, mem.err) {
			t.Errorf("mentioned: %v, %v", h, err)
		}
	}
	if err := w.shard.Adopt(ctx, "m-2/adopt", []string{"z1"}); !errors.Is(err, mem.err) {
		t.Errorf("adopted: %v", err)
	}
	mem.err = nil
	// A move gives once: what became free meanwhile is not added to it.
	h, err := w.shard.Release(ctx, "m-1", "shard-9", []string{"a1", "a2"}, model.Idle)
	if err != nil || !slices.Equal(h.Machines, []string{"a1"}) {
		t.Errorf("released %v, %v", h, err)
	}
	w.step()
	if got := w.ids(); !slices.Equal(got, []string{"a2"}) {
		t.Errorf("it has %v", got)
	}
}

// TestOffers: kinds with what all of them have in common; nothing that is
// reserved, in flight, or has just come.
func TestOffers(t *testing.T) {
	ms := []model.Machine{zoned("a1", "a", model.Idle, ""), zoned("a2", "a", model.Idle, ""), zoned("b1", "b", model.Idle, ""), zoned("b2", "b", model.Configured, "c1"), zoned("s1", "b", model.Speculative, "")}
	ms[0].Labels, ms[1].Labels = map[string]string{"kubernetes.io/hostname": "h1"}, map[string]string{"kubernetes.io/hostname": "h2"}
	w, _, _ := silentWorld(t, ms)
	w.shard.SetPaused(true)
	w.step()
	offered := func() (out []string) {
		for _, o := range w.shard.Offers() {
			out = append(out, o.Machine.State.String())
			out = append(out, o.Machines...)
		}
		return out
	}
	if got := offered(); !slices.Equal(got, []string{"Speculative", "s1", "Idle", "a1", "a2", "Idle", "b1", "Configured", "b2"}) {
		t.Errorf("offered %v", got)
	}
	if err := w.shard.Adopt(t.Context(), "m-1/adopt", []string{"b1"}); err != nil {
		t.Fatal(err)
	}
	w.steps(shard.ArrivedCycles - 1)
	if got := offered(); slices.Contains(got, "b1") {
		t.Errorf("b1 has just come: %v", got)
	}
	w.step()
	if got := offered(); !slices.Contains(got, "b1") {
		t.Errorf("b1 came long ago: %v", got)
	}
}

// TestOffersOfManyRacks: a label with many values does not part kinds, one with
// few does.
func TestOffersOfManyRacks(t *testing.T) {
	var ms []model.Machine
	for i := range 40 {
		m := machine(fmt.Sprintf("m-%02d", i), model.Idle, "")
		m.Labels = map[string]string{"rack": fmt.Sprint(i), "gpu": []string{"h100", "a100"}[i%2]}
		ms = append(ms, m)
	}
	w, _, _ := silentWorld(t, ms)
	w.step()
	got := w.shard.Offers()
	if !slices.Equal(got[0].Varied, []string{"rack"}) {
		t.Errorf("the labels with many values are %v", got[0].Varied)
	}
	if len(got) != 2 || got[0].Count != 20 || len(got[0].Machines) != 20 || len(got[0].Machine.Labels) != 1 || got[0].Machine.Labels["gpu"] == got[1].Machine.Labels["gpu"] {
		t.Errorf("offered %+v", got)
	}
}

// TestDrainAwayWithoutADecision: where calls are made within cycles, machines are drained for
// another shard also when no cycle has decided yet.
func TestDrainAwayWithoutADecision(t *testing.T) {
	w := newWorld(t, machines(2, model.Configured, "c"))
	w.shard.FailDecisions()
	if _, err := w.shard.Step(t.Context(), w.now); err == nil {
		t.Fatal("it has decided")
	}
	if err := w.shard.DrainAway(t.Context(), "move", []string{"m-00"}, 100); err != nil {
		t.Error(err)
	}
	if n := w.shard.Count()[model.Configured]; n != 1 {
		t.Errorf("%d of 2 machines are left", n)
	}
}
