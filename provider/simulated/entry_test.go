package simulated

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// entriesOf returns everything that a fleet knows.
func entriesOf(f *Fleet) (out []Entry) {
	f.Changed(0, func(e *Entry) bool { out = append(out, *e); return true })
	return out
}

// TestARestoredFleetGoesOn: after any calls, a fleet and the one restored from
// it say the same and go on to do the same, and the cursors of the first are
// good with the second.
func TestARestoredFleetGoesOn(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 1))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	var ms []model.Machine
	for i := range 40 {
		ms = append(ms, machine(fmt.Sprint("m", i), model.State(1+rng.IntN(int(model.Deleting)))))
	}
	latencies := Latencies{Create: seconds(3), Configure: seconds(5), Drain: seconds(7), Delete: seconds(2)}
	f := newFleet(t, Config{Machines: ms, Latencies: latencies, Seed: seed})
	if err := f.SetFaults([]Fault{{Probability: 0.05}}, []Fault{{Op: shard.OpCreate, Probability: 0.2}}); err != nil {
		t.Fatal(err)
	}
	now := int64(0)
	for range 20 {
		for range 30 {
			_, _ = do(f, shard.OpCreate+shard.Op(rng.IntN(4)), fmt.Sprint("m", rng.IntN(40)))
		}
		now += int64(time.Second) * rng.Int64N(4)
		f.Advance(now)
	}
	cursor := f.Cursor()
	f.Lose("m3")
	again, err := Restore(Config{Latencies: latencies, Now: now}, entriesOf(f), f.Counters())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Since(cursor); ok {
		t.Error("a cursor from before a removal is good")
	}
	if r, ok := again.Since(f.Cursor()); !ok || r != f.Counters().Revision || !bytes.Equal(again.Cursor(), f.Cursor()) {
		t.Errorf("the cursor of the restored fleet is %x, was %x", again.Cursor(), f.Cursor())
	}
	if _, ok := again.Since([]byte("garbage")); ok {
		t.Error("garbage is a cursor")
	}
	f.ClearFaults()
	for range 30 {
		a, b := entriesOf(f), entriesOf(again)
		for i := range a {
			a[i].Slot = 0
			a[i].Machine.IdleSince = 0
		}
		for i := range b {
			b[i].Slot = 0
			b[i].Machine.IdleSince = 0
		}
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("the fleets differ:\n%+v\n%+v", a, b)
		}
		now += int64(time.Second)
		if x, y := f.Advance(now), again.Advance(now); x != y {
			t.Fatalf("%d transitions ended in one fleet, %d in the other", x, y)
		}
		op, id := shard.OpCreate+shard.Op(rng.IntN(4)), fmt.Sprint("m", rng.IntN(40))
		_, errA := do(f, op, id)
		_, errB := do(again, op, id)
		if fmt.Sprint(errA) != fmt.Sprint(errB) {
			t.Fatalf("%s %s: %v in one fleet, %v in the other", op, id, errA, errB)
		}
	}
}

func TestRestoreRefusesWhatCannotBe(t *testing.T) {
	good := Entry{Machine: machine("m", model.Speculative), Revision: 2}
	was := Counters{Instance: 1, Revision: 5, Transition: 3}
	for name, change := range map[string]func(*Entry){
		"no revision":          func(e *Entry) { e.Revision = 0 },
		"revision to come":     func(e *Entry) { e.Revision = 6 },
		"transition to come":   func(e *Entry) { e.Transition = 4 },
		"no such operation":    func(e *Entry) { e.Op = 99 },
		"a machine that isn't": func(e *Entry) { e.Machine.State = 99 },
	} {
		e := good
		change(&e)
		if _, err := Restore(Config{}, []Entry{e}, was); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	other := good
	other.Revision = 3
	if _, err := Restore(Config{}, []Entry{good, other}, was); err == nil {
		t.Error("one machine twice: accepted")
	}
	if f, err := Restore(Config{}, []Entry{good}, was); err != nil || f.Len() != 1 {
		t.Errorf("%v, want one machine", err)
	}
}

// TestRepeatsNameOneOperation: while a machine is at or on its way to the end
// of a transition, asking again is the same operation; a new cycle is another.
func TestRepeatsNameOneOperation(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Idle)}, Latencies: slow()})
	name := func(op shard.Op) string {
		t.Helper()
		if _, err := do(f, op, "m"); err != nil {
			t.Fatal(err)
		}
		e, _ := f.Entry("m")
		return e.Operation()
	}
	first := name(shard.OpConfigure)
	if again := name(shard.OpConfigure); again != first {
		t.Errorf("on its way: %s, then %s", first, again)
	}
	f.Advance(int64(10 * time.Second))
	if again := name(shard.OpConfigure); again != first {
		t.Errorf("done: %s, then %s", first, again)
	}
	drain := name(shard.OpDrain)
	f.Advance(int64(20 * time.Second))
	if again := name(shard.OpDrain); again != drain {
		t.Errorf("drained: %s, then %s", drain, again)
	}
	if _, err := do(f, shard.OpCreate, "m"); err == nil {
		t.Error("a machine that was drained is taken for created")
	}
	if second := name(shard.OpConfigure); second == first {
		t.Errorf("a new cycle is %s again", second)
	}
}

func TestLateFaultsFailWhenTheTransitionEnds(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Idle)}, Latencies: slow()})
	if err := f.SetFaults(nil, []Fault{{Op: shard.OpConfigure, Times: 1}}); err != nil {
		t.Fatal(err)
	}
	if rec, err := do(f, shard.OpConfigure, "m"); err != nil || rec.Machine.State != model.Configuring {
		t.Fatalf("%s, %v", rec.Machine.State, err)
	}
	f.Advance(int64(10 * time.Second))
	if rec, _ := f.Get("m"); rec.Machine.State != model.Failed || rec.Machine.LastError == "" {
		t.Errorf("ended as %+v", rec.Machine)
	}
	if err := f.SetFaults([]Fault{{}}, nil); err == nil {
		t.Error("a fault that says nothing is accepted")
	}
}
