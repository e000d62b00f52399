package shard_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// digested is a listing whose records have digests, as those over the wire have.
type digested []shard.Record

var digestSeed = maphash.MakeSeed()

func (b digested) Len() int        { return len(b) }
func (b digested) ID(i int) string { return b[i].Machine.ID }
func (b digested) Digest(i int) uint64 {
	return maphash.String(digestSeed, fmt.Sprintf("%+v", b[i].Machine)) | 1
}
func (b digested) Done() {}

func (b digested) Record(i int) (*shard.Record, error) { return &b[i], nil }

// digesting lists with digests.
type digesting struct{ shard.Provider }

func (d digesting) List(ctx context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	out, err := d.Provider.List(ctx, r)
	out.Batch, out.Records = digested(out.Records), nil
	return out, err
}

// TestADoubtEndsWithARecordThatIsTheSame: a machine that was missing is listed again as it was
// before, and its record would be passed over unread.
func TestADoubtEndsWithARecordThatIsTheSame(t *testing.T) {
	w, l := lyingWorld(t, machines(40, model.Configured, "c"))
	w.deps.Provider = digesting{l}
	w.restart()
	w.report("c", need(t, 1, 160))
	w.steps(2)
	l.change = leavingOut(bound)
	if c := w.step(); c.Reconciled.Doubted != 40 {
		t.Fatalf("%d are doubted, want all 40", c.Reconciled.Doubted)
	}
	l.change = nil
	if c := w.step(); c.Reconciled.Doubted != 0 {
		t.Errorf("all are listed again, and %d are doubted", c.Reconciled.Doubted)
	}
}

// TestADoubtedMachineIsNotDrainedForAnotherShard: the move waits until it is known whether the
// machine is there.
func TestADoubtedMachineIsNotDrainedForAnotherShard(t *testing.T) {
	w, l := fleetOf(t, 40)
	ask := func() int {
		if err := w.shard.DrainAway(context.Background(), "m-1", []string{"m-00", "m-01"}, 100); err != nil {
			t.Error(err)
		}
		return w.shard.Count()[model.Configured]
	}
	l.change = leavingOut(bound)
	if w.step(); ask() != 40 {
		t.Error("machines are drained that may be gone")
	}
	l.change = nil
	if w.step(); ask() != 38 {
		t.Error("they are there again, and are not drained")
	}
}

// TestDoubtsOfForeignMachinesEnd: a machine that becomes another shard's while it is doubted is
// not doubted any more.
func TestDoubtsOfForeignMachinesEnd(t *testing.T) {
	var ms []model.Machine
	for i, m := range machines(40, model.Configured, "c") {
		ms = append(ms, inRack(m, fmt.Sprint("r", i%2)))
	}
	w, l := lyingWorld(t, ms)
	for _, rack := range []string{"r0", "r1"} {
		if err := w.shard.AssignDomain(shard.Domain{Key: "rack", Value: rack}); err != nil {
			t.Fatal(err)
		}
	}
	w.report("c", need(t, 1, 160))
	w.steps(2)
	l.change = leavingOut(bound)
	w.step()
	if err := w.shard.UnassignDomain(shard.Domain{Key: "rack", Value: "r1"}); err != nil {
		t.Fatal(err)
	}
	if c := w.step(); c.Reconciled.Doubted != 20 {
		t.Errorf("%d are doubted, want the 20 that are still the shard's", c.Reconciled.Doubted)
	}
}

// TestDenialsInARowAreCounted: two replicas, of which one is old, answer in turns; what the old
// one says is never believed, whether unchanged records are passed over or not.
func TestDenialsInARowAreCounted(t *testing.T) {
	for _, digests := range []bool{false, true} {
		w, l := lyingWorld(t, machines(1, model.Idle, ""))
		if digests {
			w.deps.Provider = digesting{l}
			w.restart()
		}
		before, err := w.fleet.List(context.Background(), shard.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w.report("c", need(t, 1, 4))
		w.step()
		for i := range 10 { // within the time that an answer is remembered
			if l.old = nil; i%2 == 0 {
				l.old = &before
			}
			if c := w.step(); c.Reconciled.Diverged != 0 {
				t.Fatalf("with digests %v: listing %d is believed against the answer", digests, i)
			}
		}
	}
}

// TestADenialIsForgotten: what was denied once counts no more than another answer when it is
// long ago.
func TestADenialIsForgotten(t *testing.T) {
	w, l := lyingWorld(t, machines(1, model.Idle, ""))
	before, err := w.fleet.List(context.Background(), shard.ListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	w.report("c", need(t, 1, 4))
	w.step()
	l.old = &before
	w.step()
	l.old = nil
	w.step()
	w.stepAfter(time.Hour)
	l.old = &before
	if c := w.step(); c.Reconciled.Diverged != 1 {
		t.Errorf("an hour after the answer a listing is held against it: %+v", c.Reconciled)
	}
}

// revised lists by revision: a change once, and everything when it is asked for that.
type revised struct {
	shard.Provider
	all    shard.ListResponse
	change []shard.Record
}

func (p *revised) List(_ context.Context, r shard.ListRequest) (shard.ListResponse, error) {
	out := shard.ListResponse{Revision: []byte("r"), Records: slices.Clone(p.change)}
	if p.change = nil; r.SinceRevision == nil {
		out.Full, out.Records = true, slices.Clone(p.all.Records)
	}
	return out, nil
}

// TestADenialByRevisionIsLookedAtAgain: a listing by revision says once that a machine came to
// nothing; it is believed as soon as if it had been repeated.
func TestADenialByRevisionIsLookedAtAgain(t *testing.T) {
	for _, every := range []int{0, shard.FullListCyclesDefault} {
		w := newWorld(t, machines(1, model.Speculative, ""), latencies(time.Hour, 0, 0), configured(func(c *shard.Config) { c.FullListCycles = every }))
		all, err := w.fleet.List(context.Background(), shard.ListRequest{})
		if err != nil {
			t.Fatal(err)
		}
		p := &revised{Provider: w.fleet, all: all}
		w.deps.Provider = p
		w.restart()
		w.report("c", need(t, 1, 4))
		if w.step(); w.get("m-00").State != model.Creating {
			t.Fatalf("it is %s, want Creating", w.get("m-00").State)
		}
		w.report("c")
		p.change = slices.Clone(all.Records)
		if w.steps(5); w.get("m-00").State != model.Speculative {
			t.Errorf("with a full listing each %d cycles, it is %s after 50 s", every, w.get("m-00").State)
		}
	}
}

// TestALaterCallEndsWhatAnEarlierOneAnswered: a machine that is bound and drained again is as it
// was before it was bound. That is taken from the answer to the drain, and from the first
// listing when the answer is lost.
func TestALaterCallEndsWhatAnEarlierOneAnswered(t *testing.T) {
	w := newWorld(t, machines(1, model.Idle, ""))
	f := &failing{Provider: w.fleet, err: shard.ErrUncertain, made: true}
	w.deps.Provider = f
	w.restart()
	drained := func(cycles int, what string) {
		t.Helper()
		w.report("c", need(t, 1, 4))
		if w.step(); w.get("m-00").State != model.Configured {
			t.Fatalf("it is %s", w.get("m-00").State)
		}
		f.left = cycles - 1
		w.report("c")
		if w.steps(cycles); w.get("m-00").State != model.Idle {
			t.Errorf("%s: it is %s", what, w.get("m-00").State)
		}
	}
	drained(1, "after the answer to the drain")
	drained(2, "after the listing, the answer was lost")
}

// TestADoubtEndsWithARecordThatIsRefused: a machine that is listed is not missing, whatever is wrong
// with its record.
func TestADoubtEndsWithARecordThatIsRefused(t *testing.T) {
	w, l := fleetOf(t, 40)
	l.change = leavingOut(bound)
	if c := w.step(); c.Reconciled.Doubted != 40 {
		t.Fatalf("%d are doubted, want all 40", c.Reconciled.Doubted)
	}
	l.change = func(all []shard.Record) []shard.Record {
		for i := range all {
			all[i].Machine.PricePerHour = -1
		}
		return all
	}
	if c := w.step(); c.Reconciled.Doubted != 0 || c.Reconciled.Refused[shard.RefusedPrice] == 0 {
		t.Errorf("all are listed again, and %d are doubted: %+v", c.Reconciled.Doubted, c.Reconciled)
	}
}

// TestFurtherMissingMachinesAreDoubtedToo: a listing that lacks a few machines more than one that
// was not believed is believed no sooner.
func TestFurtherMissingMachinesAreDoubtedToo(t *testing.T) {
	w, l := fleetOf(t, 100)
	gone := 0
	l.change = leavingOut(func(m *model.Machine) bool { return bound(m) && m.ID < fmt.Sprintf("m-%02d", gone) })
	for _, n := range []int{40, 45} {
		gone = n
		if c := w.step(); c.Reconciled.Doubted != n || len(c.Started) != 0 {
			t.Errorf("%d are missing and %d are doubted; it starts %v", n, c.Reconciled.Doubted, c.Started)
		}
	}
}
