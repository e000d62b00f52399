package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/stamps"
)

func machine(id string, s model.State) model.Machine {
	m := model.Machine{ID: id, State: s, InstanceType: "t", PricePerHour: 1, Resources: model.NewResources(model.Amount{Name: "cpu", Value: 4000})}
	if s == model.Configured || s == model.Draining || s == model.Configuring {
		m.Cluster = "c1"
	}
	return m
}

func newFleet(t *testing.T, cfg Config) *Fleet {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// do makes a call by its name.
func do(f *Fleet, op shard.Op, id string) (shard.Record, error) {
	ctx := context.Background()
	switch op {
	case shard.OpCreate:
		return f.Create(ctx, shard.CreateRequest{Machine: id})
	case shard.OpConfigure:
		return f.Configure(ctx, shard.ConfigureRequest{Machine: id, Cluster: "c1"})
	case shard.OpDrain:
		return f.Drain(ctx, shard.DrainRequest{Machine: id})
	}
	return f.Delete(ctx, shard.DeleteRequest{Machine: id})
}

func seconds(n int) Latency {
	return Latency{Min: time.Duration(n) * time.Second, Max: time.Duration(n) * time.Second}
}

func slow() Latencies {
	return Latencies{Create: seconds(10), Configure: seconds(10), Drain: seconds(10), Delete: seconds(10)}
}

func TestCallsAreLegalFromOneStateAndRepeatable(t *testing.T) {
	ok := map[shard.Op]map[model.State]model.State{
		shard.OpCreate:    {model.Speculative: model.Creating, model.Creating: model.Creating, model.Idle: model.Idle},
		shard.OpConfigure: {model.Idle: model.Configuring, model.Configuring: model.Configuring, model.Configured: model.Configured},
		shard.OpDrain:     {model.Configured: model.Draining, model.Draining: model.Draining, model.Idle: model.Idle},
		shard.OpDelete:    {model.Idle: model.Deleting, model.Deleting: model.Deleting, model.Speculative: model.Speculative},
	}
	for op, legal := range ok {
		for s := model.Speculative; s <= model.Failed; s++ {
			f := newFleet(t, Config{Machines: []model.Machine{machine("m", s)}, Latencies: slow()})
			before := f.revision
			rec, err := do(f, op, "m")
			want, fine := legal[s]
			if !fine {
				if !errors.Is(err, ErrPosition) {
					t.Errorf("%s in %s: got %v, want ErrPosition", op, s, err)
				}
				continue
			}
			if err != nil || rec.Machine.State != want {
				t.Errorf("%s in %s: got %s and %v, want %s", op, s, rec.Machine.State, err, want)
			}
			if repeat := s == want; repeat && f.revision != before {
				t.Errorf("%s in %s is a repeat, but changed the machine", op, s)
			}
		}
	}
	if _, err := do(newFleet(t, Config{}), shard.OpCreate, "m"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown machine: got %v", err)
	}
}

func TestConfigureForAnotherClusterIsRefused(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Configured)}})
	for _, cluster := range []string{"", "c2"} {
		if _, err := f.Configure(context.Background(), shard.ConfigureRequest{Machine: "m", Cluster: cluster}); !errors.Is(err, ErrPosition) {
			t.Errorf("cluster %q: got %v", cluster, err)
		}
	}
}

func TestTransitionsTakeTheirTime(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Speculative)}, Latencies: slow(), Now: 100})
	if _, err := do(f, shard.OpCreate, "m"); err != nil {
		t.Fatal(err)
	}
	due, ok := f.NextDue()
	if want := 100 + int64(10*time.Second); !ok || due != want {
		t.Fatalf("next due: got %d, %v, want %d", due, ok, want)
	}
	if n := f.Advance(due - 1); n != 0 {
		t.Errorf("%d transitions ended too early", n)
	}
	if n := f.Advance(due); n != 1 {
		t.Errorf("%d transitions ended, want 1", n)
	}
	rec, _ := f.Get("m")
	if m := rec.Machine; m.State != model.Idle || m.Host == "" || m.IdleSince != due {
		t.Errorf("after Create: %+v", m)
	}
}

func TestNoLatencyEndsWithinTheCall(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Speculative)}})
	for _, step := range []struct {
		op      shard.Op
		state   model.State
		host    bool
		cluster string
	}{
		{shard.OpCreate, model.Idle, true, ""}, {shard.OpConfigure, model.Configured, true, "c1"},
		{shard.OpDrain, model.Idle, true, ""}, {shard.OpDelete, model.Speculative, false, ""},
	} {
		rec, err := do(f, step.op, "m")
		m := rec.Machine
		if err != nil || m.State != step.state || (m.Host != "") != step.host || m.Cluster != step.cluster {
			t.Fatalf("%s: got %+v and %v", step.op, m, err)
		}
		if err := m.Validate(true); err != nil {
			t.Errorf("%s: %v", step.op, err)
		}
	}
}

func TestLatencyIsDrawnInStepsFromTheSeed(t *testing.T) {
	draws := func(seed uint64) (out []int64) {
		var ms []model.Machine
		for i := range 50 {
			ms = append(ms, machine(fmt.Sprint(i), model.Idle))
		}
		l := Latency{Min: 2 * time.Second, Max: 5 * time.Second, Step: time.Second}
		f := newFleet(t, Config{Machines: ms, Latencies: Latencies{Configure: l}, Seed: seed})
		for i := range ms {
			if _, err := do(f, shard.OpConfigure, ms[i].ID); err != nil {
				t.Fatal(err)
			}
			out = append(out, f.pending[len(f.pending)-1].due)
		}
		return out
	}
	a := draws(1)
	if !slices.Equal(a, draws(1)) {
		t.Error("one seed, two courses")
	}
	if slices.Equal(a, draws(2)) {
		t.Error("the seed has no influence")
	}
	seen := map[int64]bool{}
	for range 20 {
		seen[int64(Latency{Min: 2, Max: 4, Step: 2}.draw(newFleet(t, Config{Seed: uint64(len(seen))}).rng))] = true
	}
	for d := range seen {
		if d != 2 && d != 4 {
			t.Errorf("drew %d, want 2 or 4", d)
		}
	}
}

func TestInitialTransitionsEnd(t *testing.T) {
	var ms []model.Machine
	for _, s := range []model.State{model.Creating, model.Configuring, model.Draining, model.Deleting} {
		ms = append(ms, machine(s.String(), s))
	}
	f := newFleet(t, Config{Machines: ms, Latencies: slow()})
	f.Advance(int64(10 * time.Second))
	for id, want := range map[string]model.State{"Creating": model.Idle, "Configuring": model.Configured, "Draining": model.Idle, "Deleting": model.Speculative} {
		if rec, _ := f.Get(id); rec.Machine.State != want {
			t.Errorf("%s ended in %s, want %s", id, rec.Machine.State, want)
		}
	}
}

func list(t *testing.T, f *Fleet, since []byte) shard.ListResponse {
	t.Helper()
	l, err := f.List(context.Background(), shard.ListRequest{SinceRevision: since})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestListSinceARevisionTellsWhatChanged(t *testing.T) {
	var ms []model.Machine
	for i := range 1000 {
		ms = append(ms, machine(fmt.Sprintf("m%04d", i), model.Idle))
	}
	f := newFleet(t, Config{Machines: ms})
	all := list(t, f, nil)
	if !all.Full || len(all.Records) != 1000 {
		t.Fatalf("first list: full %v, %d records", all.Full, len(all.Records))
	}
	if l := list(t, f, all.Revision); l.Full || len(l.Records) != 0 || len(l.Removed) != 0 {
		t.Errorf("nothing changed, but: full %v, %d records", l.Full, len(l.Records))
	}
	price := 7.0
	if err := f.Change("m0003", Change{PricePerHour: &price}); err != nil {
		t.Fatal(err)
	}
	if _, err := do(f, shard.OpConfigure, "m0009"); err != nil {
		t.Fatal(err)
	}
	f.Lose("m0005", "m0006", "nobody")
	if err := f.Add(machine("m0006", model.Speculative)); err != nil {
		t.Fatal(err)
	}
	l := list(t, f, all.Revision)
	var ids []string
	for _, r := range l.Records {
		ids = append(ids, r.Machine.ID)
	}
	slices.Sort(ids)
	if l.Full || !slices.Equal(ids, []string{"m0003", "m0006", "m0009"}) || !slices.Equal(l.Removed, []string{"m0005"}) {
		t.Errorf("since then: full %v, changed %v, removed %v", l.Full, ids, l.Removed)
	}
	if l := list(t, f, l.Revision); len(l.Records)+len(l.Removed) != 0 {
		t.Errorf("told twice: %d records, %d removed", len(l.Records), len(l.Removed))
	}
}

func TestUnknownCursorsGetEverything(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("a", model.Idle)}, Seed: 1})
	foreign := list(t, newFleet(t, Config{Machines: []model.Machine{machine("b", model.Idle)}, Seed: 2}), nil).Revision
	for _, cursor := range [][]byte{nil, {}, []byte("garbage"), foreign} {
		if l := list(t, f, cursor); !l.Full || len(l.Records) != 1 {
			t.Errorf("cursor %q: full %v, %d records", cursor, l.Full, len(l.Records))
		}
	}
}

func TestForgottenRemovalsMakeTheListFull(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("keep", model.Idle), machine("first", model.Idle)}})
	old := list(t, f, nil).Revision
	f.Lose("first")
	after := list(t, f, old).Revision
	for i := range TombstonesMax {
		id := fmt.Sprint("x", i)
		if err := f.Add(machine(id, model.Idle)); err != nil {
			t.Fatal(err)
		}
		f.Lose(id)
	}
	if l := list(t, f, old); !l.Full || len(l.Records) != 1 {
		t.Errorf("a cursor older than the oldest removal kept: full %v, %d records", l.Full, len(l.Records))
	}
	if l := list(t, f, after); l.Full || len(l.Removed) != TombstonesMax {
		t.Errorf("a cursor as old as it: full %v, %d removed", l.Full, len(l.Removed))
	}
}

func TestFaults(t *testing.T) {
	f := newFleet(t, Config{
		Machines: []model.Machine{machine("a", model.Idle), machine("b", model.Idle), machine("c", model.Configured)},
		Faults:   []Fault{{Op: shard.OpConfigure, Machine: "a", Times: 1}},
	})
	if _, err := do(f, shard.OpConfigure, "b"); err != nil {
		t.Errorf("the fault is for a: %v", err)
	}
	if _, err := do(f, shard.OpConfigure, "a"); !errors.Is(err, ErrInjected) {
		t.Errorf("the first call: %v", err)
	}
	rec, _ := f.Get("a")
	if rec.Machine.State != model.Failed || rec.Machine.LastError == "" {
		t.Errorf("after the fault: %+v", rec.Machine)
	}
	if err := f.Heal("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := do(f, shard.OpConfigure, "a"); err != nil {
		t.Errorf("the fault is used up: %v", err)
	}
	if err := f.Inject(Fault{Probability: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := do(f, shard.OpDrain, "c"); !errors.Is(err, ErrInjected) {
		t.Errorf("any operation, always: %v", err)
	}
	f.ClearFaults()
	if _, err := do(f, shard.OpDrain, "b"); err != nil {
		t.Errorf("after ClearFaults: %v", err)
	}
	if err := f.Heal("b"); !errors.Is(err, ErrPosition) {
		t.Errorf("healing what is well: %v", err)
	}
}

func TestConfigNamesEveryFault(t *testing.T) {
	_, err := New(Config{
		Machines:  []model.Machine{machine("a", model.Idle), machine("a", model.Idle), {ID: "b", State: model.Configured}},
		Latencies: Latencies{Create: Latency{Min: 2, Max: 1}},
		Faults:    []Fault{{}, {Times: 1, Probability: 0.5}, {Probability: 2}, {Times: -1}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"latency of Create", "faults[0]", "faults[1]", "faults[2]", "faults[3]", "machines[1]", "machines[2]"} {
		if !slices.ContainsFunc(linesOf(err), func(l string) bool { return len(l) >= len(want) && l[:len(want)] == want }) {
			t.Errorf("%q is not named in:\n%v", want, err)
		}
	}
}

func linesOf(err error) (out []string) {
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		out = append(out, e.Error())
	}
	return out
}

// TestMetadataIsEchoed: what the shard gives with a call comes back with every
// list, is gone with the binding, and a reservation outlives a drain.
func TestMetadataIsEchoed(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Idle)}})
	ctx := context.Background()
	written := map[string]string{"bigfleet.lucy.sh/assigned-priority": "7", "other": "\x00"}
	if _, err := f.Configure(ctx, shard.ConfigureRequest{Machine: "m", Cluster: "c1", Metadata: written}); err != nil {
		t.Fatal(err)
	}
	if got := list(t, f, nil).Records[0].Metadata; len(got) != 2 || got["other"] != "\x00" {
		t.Errorf("after Configure: %v", got)
	}
	drain := map[string]string{"bigfleet.lucy.sh/assigned-priority": "7", stamps.ReservationPrefix + "cluster": "c2"}
	rec, err := f.Drain(ctx, shard.DrainRequest{Machine: "m", Metadata: drain})
	if err != nil || len(rec.Metadata) != 1 || rec.Metadata[stamps.ReservationPrefix+"cluster"] != "c2" {
		t.Errorf("drained: %v and %v", rec.Metadata, err)
	}
	if rec, err = f.Delete(ctx, shard.DeleteRequest{Machine: "m"}); err != nil || rec.Metadata != nil {
		t.Errorf("deleted: %v and %v", rec.Metadata, err)
	}
}

func TestInitialStampsTravelAsMetadata(t *testing.T) {
	m := machine("m", model.Configured)
	m.Assigned = model.Assignment{Priority: -5, Interruption: model.BucketPinned, Fingerprint: 0xabc, Group: "g"}
	f := newFleet(t, Config{Machines: []model.Machine{m}})
	rec, _ := f.Get("m")
	echo, malformed := stamps.DecodeMetadata(rec.Metadata)
	if echo.Assigned != m.Assigned || malformed != nil {
		t.Errorf("got %+v, malformed %v", echo.Assigned, malformed)
	}
	if rec.Machine.Assigned != (model.Assignment{}) {
		t.Error("the provider itself knows no stamps")
	}
}

func TestChangeIsChecked(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("m", model.Idle)}})
	bad := -1.0
	if err := f.Change("m", Change{PricePerHour: &bad}); !errors.Is(err, model.ErrPrice) {
		t.Errorf("price: %v", err)
	}
	if err := f.Change("m", Change{InterruptionProbability: &bad}); !errors.Is(err, model.ErrProbability) {
		t.Errorf("probability: %v", err)
	}
	if err := f.Change("x", Change{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	alloc := model.NewResources(model.Amount{Name: "cpu", Value: 1})
	if err := f.Change("m", Change{Allocatable: &alloc, Labels: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if rec, _ := f.Get("m"); rec.Machine.Labels["a"] != "b" || rec.Machine.Allocatable.Get("cpu") != 1 {
		t.Errorf("got %+v", rec.Machine)
	}
}

// TestLostMachinesDoNotComeBack: a transition that was under way when the
// machine vanished must not touch the machine that took its place.
func TestLostMachinesDoNotComeBack(t *testing.T) {
	f := newFleet(t, Config{Machines: []model.Machine{machine("a", model.Idle)}, Latencies: slow()})
	if _, err := do(f, shard.OpConfigure, "a"); err != nil {
		t.Fatal(err)
	}
	f.Lose("a")
	if err := f.Add(machine("b", model.Idle)); err != nil {
		t.Fatal(err)
	}
	if n := f.Advance(int64(time.Hour)); n != 0 {
		t.Errorf("%d transitions ended", n)
	}
	if rec, _ := f.Get("b"); rec.Machine.State != model.Idle {
		t.Errorf("b is %s", rec.Machine.State)
	}
	if f.Len() != 1 {
		t.Errorf("%d machines", f.Len())
	}
}

// TestALateBoundMachineIsMadeWhenItIsBound: Create and Delete are done within the call, Configure and Drain take what making and
// removing it takes as well.
func TestALateBoundMachineIsMadeWhenItIsBound(t *testing.T) {
	m := machine("m", model.Speculative)
	m.Labels = map[string]string{model.LabelLateBound: "true"}
	f := newFleet(t, Config{Machines: []model.Machine{m}, Latencies: Latencies{Create: seconds(1), Configure: seconds(2), Drain: seconds(4), Delete: seconds(8)}})
	now := int64(0)
	for _, x := range []struct {
		op           shard.Op
		at, after    model.State
		takes        int
		keepsItsHost bool
	}{
		{shard.OpCreate, model.Idle, model.Idle, 0, true},
		{shard.OpConfigure, model.Configuring, model.Configured, 3, true},
		{shard.OpDrain, model.Draining, model.Idle, 12, true},
		{shard.OpDelete, model.Speculative, model.Speculative, 0, false},
	} {
		rec, err := do(f, x.op, "m")
		if err != nil || rec.Machine.State != x.at || (rec.Machine.Host != "") != x.keepsItsHost {
			t.Fatalf("%s answers %+v and %v, want %s", x.op, rec.Machine, err, x.at)
		}
		if x.takes == 0 {
			continue
		}
		end := now + int64(x.takes)*int64(time.Second)
		f.Advance(end - 1)
		if rec, _ := f.Get("m"); rec.Machine.State != x.at {
			t.Errorf("%s is over too soon", x.op)
		}
		f.Advance(end)
		if rec, _ := f.Get("m"); rec.Machine.State != x.after {
			t.Errorf("after %s it is %s, want %s", x.op, rec.Machine.State, x.after)
		}
		now = end
	}
}
