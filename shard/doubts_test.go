package shard_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// liar changes listings on their way.
type liar struct {
	shard.Provider
	change func([]shard.Record) []shard.Record // nil = it tells the truth
	old    *shard.ListResponse                 // instead of what is
}

func (l *liar) List(ctx context.Context, _ shard.ListRequest) (shard.ListResponse, error) {
	if l.old != nil {
		out := *l.old
		out.Records = slices.Clone(out.Records)
		return out, nil
	}
	out, err := l.Provider.List(ctx, shard.ListRequest{})
	if err == nil && l.change != nil {
		out.Records = l.change(slices.Clone(out.Records))
	}
	return out, err
}

func lyingWorld(t *testing.T, ms []model.Machine, options ...option) (*world, *liar) {
	w := newWorld(t, ms, options...)
	l := &liar{Provider: w.fleet}
	w.deps.Provider = l
	w.restart()
	return w, l
}

// leavingOut leaves out records.
func leavingOut(gone func(*model.Machine) bool) func([]shard.Record) []shard.Record {
	return func(all []shard.Record) []shard.Record {
		return slices.DeleteFunc(all, func(r shard.Record) bool { return gone(&r.Machine) })
	}
}

func bound(m *model.Machine) bool { return m.State == model.Configured }

// fleetOf is a served cluster with bound machines, and quota for as many more.
func fleetOf(t *testing.T, n int) (*world, *liar) {
	ms := machines(n, model.Configured, "c")
	for i := range n {
		ms = append(ms, machine(fmt.Sprintf("q-%02d", i), model.Speculative, ""))
	}
	w, l := lyingWorld(t, ms)
	w.report("c", need(t, 1, 4*int64(n)))
	if got := w.steps(2); len(got) != 0 {
		t.Fatalf("it is served, and starts %v", got)
	}
	return w, l
}

// TestAListingWithoutBoundMachinesIsDoubted: nothing is bought for one that lacks 40 machines,
// and they are there when the next one has them.
func TestAListingWithoutBoundMachinesIsDoubted(t *testing.T) {
	w, l := fleetOf(t, 40)
	l.change = leavingOut(bound)
	for range 2 {
		if c := w.step(); len(c.Started) != 0 || c.Reconciled.Doubted != 40 || w.shard.Count()[model.Configured] != 40 {
			t.Fatalf("it starts %v; %d are doubted, %d are bound", c.Started, c.Reconciled.Doubted, w.shard.Count()[model.Configured])
		}
	}
	l.change = nil
	if c := w.step(); len(c.Started) != 0 || c.Reconciled.Doubted != 0 {
		t.Errorf("with all machines again it starts %v; %d are doubted", c.Started, c.Reconciled.Doubted)
	}
	l.change = leavingOut(bound) // and again: it counts anew
	for range 3 {
		if c := w.step(); len(c.Started) != 0 {
			t.Errorf("it starts %v", c.Started)
		}
	}
}

// TestThreeListingsAreBelieved: when they say the same over half a minute.
func TestThreeListingsAreBelieved(t *testing.T) {
	w, l := fleetOf(t, 40)
	l.change = leavingOut(bound)
	began := w.now
	for w.shard.Count()[model.Configured] > 0 && w.now < began+300*second {
		w.stepAfter(5 * time.Second)
	}
	if took := time.Duration(w.now - began); took < 30*time.Second || took > time.Minute {
		t.Errorf("they are believed after %v, want the half minute", took)
	}
	if got := w.shard.Count()[model.Creating] + w.shard.Count()[model.Idle]; got == 0 {
		t.Error("nothing is bought in their place")
	}
}

// TestFewAreBelievedAtOnce: some machines go; only many within ten minutes are doubted.
func TestFewAreBelievedAtOnce(t *testing.T) {
	w, l := fleetOf(t, 100) // five may go
	gone := 0
	l.change = leavingOut(func(m *model.Machine) bool { return bound(m) && m.ID < fmt.Sprintf("m-%02d", gone) })
	for _, x := range []struct{ gone, doubted int }{{3, 0}, {5, 0}, {7, 2}} {
		gone = x.gone
		if c := w.step(); c.Reconciled.Doubted != x.doubted {
			t.Errorf("with %d machines gone %d are doubted, want %d", gone, c.Reconciled.Doubted, x.doubted)
		}
	}
	w.stepAfter(11 * time.Minute)
	gone = 12 // two of them have waited long enough, five more may go
	w.steps(4)
	gone = 15
	if c := w.stepAfter(11 * time.Minute); c.Reconciled.Doubted != 0 {
		t.Errorf("ten minutes later %d are doubted", c.Reconciled.Doubted)
	}
}

// TestNothingIsDoneWithWhatIsDoubted: a machine that may be gone is not reclaimed.
func TestNothingIsDoneWithWhatIsDoubted(t *testing.T) {
	w, l := fleetOf(t, 40)
	l.change = leavingOut(bound)
	w.report("c", need(t, 1, 4*20)) // less than before
	if c := w.step(); c.Counts[engine.Reclaim] != 0 || c.Deduped == 0 {
		t.Errorf("%d machines are reclaimed that may be gone, %d are left alone", c.Counts[engine.Reclaim], c.Deduped)
	} else if h := w.held(); len(h.Actions) != c.Deduped || h.Actions[0].By != shard.ByMachine {
		t.Errorf("%d are left alone; told is %+v", c.Deduped, h.Actions)
	}
	l.change = nil
	if c := w.step(); c.Counts[engine.Reclaim] != 20 {
		t.Errorf("%d machines are reclaimed when all are there, want 20", c.Counts[engine.Reclaim])
	}
}

// TestAnOldListingDeniesNoAnswer: one from before a call is not believed against the answer to
// it, for each of the four calls.
func TestAnOldListingDeniesNoAnswer(t *testing.T) {
	var ms []model.Machine
	for i := range 20 {
		ms = append(ms, machine(fmt.Sprintf("s-%02d", i), model.Speculative, ""), machine(fmt.Sprintf("i-%02d", i), model.Idle, ""))
	}
	w, l := lyingWorld(t, ms, latencies(time.Minute, 0, 0))
	before, err := w.fleet.List(context.Background(), shard.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.report("c", need(t, 1, 4*30)) // 20 are idle, 10 are bought
	w.step()
	l.old = &before
	for range 2 {
		w.stepAfter(2 * time.Second)
	}
	n := w.shard.Count()
	if n[model.Creating] != 10 || n[model.Configured]+n[model.Configuring] != 20 {
		t.Errorf("after an old listing %d are being created and %d are bound, want 10 and 20", n[model.Creating], n[model.Configured]+n[model.Configuring])
	}
	l.old = nil
	w.steps(10)
	if n = w.shard.Count(); n[model.Configured] != 30 || n[model.Speculative] != 10 {
		t.Errorf("in the end %d are bound and %d are left, want 30 and 10", n[model.Configured], n[model.Speculative])
	}
}

// TestADenialThatStaysIsBelieved: what the provider goes on saying is so, whatever it had
// answered.
func TestADenialThatStaysIsBelieved(t *testing.T) {
	w, l := lyingWorld(t, machines(1, model.Idle, ""))
	before, err := w.fleet.List(context.Background(), shard.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.report("c", need(t, 1, 4))
	w.step()
	l.old = &before
	began, diverged := w.now, 0
	for diverged == 0 && w.now < began+300*second {
		diverged = w.step().Reconciled.Diverged
	}
	if took := time.Duration(w.now - began); took < 30*time.Second || took > time.Minute {
		t.Errorf("it is believed after %v, want half a minute", took)
	}
}

// TestOwnersDoNotSwap: a record that gives a machine to another cluster, which nobody here has
// drained, is refused.
func TestOwnersDoNotSwap(t *testing.T) {
	ms := append(machines(20, model.Configured, "a"), machine("x", model.Speculative, ""))
	for i := range 20 {
		ms = append(ms, machine(fmt.Sprintf("b-%02d", i), model.Configured, "b"))
	}
	w, l := lyingWorld(t, ms)
	w.report("a", need(t, 1, 80))
	w.report("b", need(t, 2, 80))
	w.steps(2)
	l.change = func(all []shard.Record) []shard.Record {
		for i := range all {
			switch all[i].Machine.Cluster {
			case "a":
				all[i].Machine.Cluster = "b"
			case "b":
				all[i].Machine.Cluster = "a"
			}
		}
		return all
	}
	for range 5 {
		c := w.step()
		if len(c.Started) != 0 || c.Reconciled.Refused[shard.RefusedOwner] != 40 || w.boundTo("a") != 20 {
			t.Fatalf("it starts %v, refuses %v; %d are bound to a", c.Started, c.Reconciled.Refused, w.boundTo("a"))
		}
	}
}
