package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/epoch"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

func seedOf(n int, state model.State) func(func(*model.Machine) bool) {
	return func(yield func(*model.Machine) bool) {
		for i := range n {
			m := model.Machine{
				ID: fmt.Sprintf("m%02d", i), State: state, InstanceType: "t", CapacityType: model.Spot, PricePerHour: 0.1, InterruptionProbability: 0.25,
				Zone: "z", Labels: map[string]string{"rack": fmt.Sprint(i)},
				Resources:   model.NewResources(model.Amount{Name: "cpu", Value: 1500}, model.Amount{Name: "memory", Value: 3 << 30}),
				Allocatable: model.NewResources(model.Amount{Name: "cpu", Value: 1400}),
			}
			if !yield(&m) {
				return
			}
		}
	}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	if cfg.Path == "" {
		cfg.Path = filepath.Join(t.TempDir(), "store")
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func seconds(n int) simulated.Latency {
	d := time.Duration(n) * time.Second
	return simulated.Latency{Min: d, Max: d}
}

// call makes one of the four calls; seq 0 = without a token.
func call(s *Store, op shard.Op, id string, seq int64) (calls.Answer, error) {
	c := &calls.Call{Op: op, Machine: id}
	if op == shard.OpConfigure {
		c.Cluster, c.Metadata = "c1", map[string]string{"k": "v", "": "\x00", "e": ""}
	}
	if seq > 0 {
		c.Shard, c.Token = "s", epoch.Token{Epoch: 1, Sequence: seq}
	}
	return s.Do(context.Background(), c)
}

// records lists everything, read back.
func records(t *testing.T, s *Store, f calls.ListFilter) (out map[string]shard.Record, full bool, cursor []byte) {
	t.Helper()
	msg, full, err := s.List(f)
	if err != nil {
		t.Fatal(err)
	}
	var l wire.List
	if err := l.Parse(msg); err != nil {
		t.Fatal(err)
	}
	out = map[string]shard.Record{}
	for i := range l.Len() {
		rec, err := l.Record(i)
		if err != nil {
			t.Fatal(err)
		}
		r := *rec
		r.Decoded, r.LabelsNumber = nil, 0
		out[r.Machine.ID] = r
	}
	return out, full, l.Revision()
}

// snapshot copies a store's file as a crash would leave it now.
func snapshot(t *testing.T, path string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	to := filepath.Join(t.TempDir(), "copy")
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestWhatWasAnsweredIsInTheFile: after any calls, a store that is opened from
// the file as it is says what this one says, and refuses the same tokens.
func TestWhatWasAnsweredIsInTheFile(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	rng := rand.New(rand.NewPCG(seed, 1))
	var now atomic.Int64 // Unix nanoseconds
	now.Store(1000e9)
	path := filepath.Join(t.TempDir(), "store")
	cfg := Config{
		Path: path, Seed: seedOf(20, model.Speculative), Random: seed, Now: func() time.Time { return time.Unix(0, now.Load()) },
		Latencies: simulated.Latencies{Create: seconds(2), Configure: seconds(3), Drain: seconds(4)},
	}
	s := open(t, cfg)
	if err := s.Administer(context.Background(), func(f *simulated.Fleet) error {
		return f.SetFaults([]simulated.Fault{{Probability: 0.03}}, []simulated.Fault{{Probability: 0.05}})
	}); err != nil {
		t.Fatal(err)
	}
	seq := int64(0)
	for round := range 25 {
		for range 15 {
			seq++
			_, _ = call(s, shard.OpCreate+shard.Op(rng.IntN(4)), fmt.Sprintf("m%02d", rng.IntN(22)), seq)
		}
		if rng.IntN(4) == 0 {
			if _, err := s.Lose(context.Background(), fmt.Sprintf("m%02d", rng.IntN(20))); err != nil {
				t.Fatal(err)
			}
		}
		now.Add(rng.Int64N(3) * int64(time.Second))
		if _, err := call(s, shard.OpDrain, "nobody", 0); err == nil { // wakes the writer
			t.Fatal("nobody was drained")
		}
		again := open(t, Config{Path: snapshot(t, path), Latencies: cfg.Latencies, Now: cfg.Now})
		was, _, cursor := records(t, s, calls.ListFilter{})
		is, _, cursorIs := records(t, again, calls.ListFilter{})
		if !reflect.DeepEqual(was, is) || !bytes.Equal(cursor, cursorIs) {
			t.Fatalf("round %d: the file says\n%+v\n%x, the store\n%+v\n%x", round, is, cursorIs, was, cursor)
		}
		if s.States() != again.States() || s.Len() != again.Len() {
			t.Fatalf("round %d: states %v, of the file %v", round, s.States(), again.States())
		}
		if was, is := s.fence, again.fence; !reflect.DeepEqual(was, is) {
			t.Fatalf("round %d: tokens %v, of the file %v", round, was, is)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTransitionsEndByTheClock, also those that a restart interrupts.
func TestTransitionsEndByTheClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Path: path, Seed: seedOf(2, model.Idle), Latencies: simulated.Latencies{Configure: seconds(10)}, RepairAfter: time.Minute}
		s := open(t, cfg)
		state := func(s *Store, id string) model.State {
			t.Helper()
			all, _, _ := records(t, s, calls.ListFilter{})
			return all[id].Machine.State
		}
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		first, err := call(s, shard.OpConfigure, "m00", 1)
		if err != nil || state(s, "m00") != model.Configuring {
			t.Fatalf("%v, %s", err, state(s, "m00"))
		}
		wait(9 * time.Second)
		if got := state(s, "m00"); got != model.Configuring {
			t.Errorf("too early %s", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		wait(500 * time.Millisecond)
		s = open(t, cfg)
		if got := state(s, "m00"); got != model.Configuring {
			t.Errorf("after a restart %s", got)
		}
		if again, err := call(s, shard.OpConfigure, "m00", 2); err != nil || again.Operation != first.Operation {
			t.Errorf("a repeat after a restart is %q, %v, want %q", again.Operation, err, first.Operation)
		}
		wait(600 * time.Millisecond)
		if got := state(s, "m00"); got != model.Configured {
			t.Errorf("when its time has come %s", got)
		}
		if err := s.Administer(context.Background(), func(f *simulated.Fleet) error {
			return f.SetFaults([]simulated.Fault{{Machine: "m01", Times: 1}}, nil)
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := call(s, shard.OpConfigure, "m01", 3); !errors.Is(err, simulated.ErrInjected) || state(s, "m01") != model.Failed {
			t.Fatalf("%v, %s", err, state(s, "m01"))
		}
		wait(59 * time.Second)
		if got := state(s, "m01"); got != model.Failed {
			t.Errorf("repaired too early: %s", got)
		}
		wait(time.Second)
		if got := state(s, "m01"); got != model.Idle {
			t.Errorf("not repaired: %s", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestFilters(t *testing.T) {
	s := open(t, Config{Seed: seedOf(10, model.Idle)})
	if _, err := call(s, shard.OpConfigure, "m04", 1); err != nil {
		t.Fatal(err)
	}
	all, full, cursor := records(t, s, calls.ListFilter{})
	if len(all) != 10 || !full || cursor == nil || !reflect.DeepEqual(all["m04"].Metadata, map[string]string{"k": "v", "": "\x00", "e": ""}) {
		t.Errorf("%d records, full %v, cursor %x, metadata %q", len(all), full, cursor, all["m04"].Metadata)
	}
	some, _, _ := records(t, s, calls.ListFilter{States: []model.State{model.Configured, model.Failed}})
	if len(some) != 1 || some["m04"].Machine.Cluster != "c1" {
		t.Errorf("by state: %v", some)
	}
	if whole, _, cursor := records(t, s, calls.ListFilter{Max: 10}); len(whole) != 10 || cursor == nil {
		t.Errorf("as many as there are: %d records, cursor %x", len(whole), cursor)
	}
	if none, full, _ := records(t, s, calls.ListFilter{Since: cursor}); len(none) != 0 || full {
		t.Errorf("since then: %d records, full %v", len(none), full)
	}
}

// TestMetadataEndsWithTheCluster: all of it, also what a fleet keeps beyond a drain for a
// shard in the same process.
func TestMetadataEndsWithTheCluster(t *testing.T) {
	s := open(t, Config{Seed: seedOf(1, model.Idle)})
	given := map[string]string{"tonnage.dev/reserved-cluster": "c2", "k": "v"}
	if _, err := s.Do(context.Background(), &calls.Call{Op: shard.OpConfigure, Machine: "m00", Cluster: "c1", Metadata: given}); err != nil {
		t.Fatal(err)
	}
	if all, _, _ := records(t, s, calls.ListFilter{}); !reflect.DeepEqual(all["m00"].Metadata, given) {
		t.Errorf("Configured: %q", all["m00"].Metadata)
	}
	if _, err := call(s, shard.OpDrain, "m00", 0); err != nil {
		t.Fatal(err)
	}
	if all, _, _ := records(t, s, calls.ListFilter{}); all["m00"].Metadata != nil {
		t.Errorf("drained: %q", all["m00"].Metadata)
	}
}

// TestACutListGoesOn: the cursor of a list that Max cuts off leads to the rest, whatever
// changes meanwhile; a machine that changed since it was listed comes again.
func TestACutListGoesOn(t *testing.T) {
	s := open(t, Config{Seed: seedOf(10, model.Idle)})
	if _, err := s.Lose(context.Background(), "m03"); err != nil { // a removal before the first page
		t.Fatal(err)
	}
	pages := func(f calls.ListFilter, meanwhile func(page int)) (seen map[string]int, last []byte) {
		seen = map[string]int{}
		for page := range 20 {
			got, _, cursor := records(t, s, f)
			if len(got) > f.Max {
				t.Fatalf("a page has %d records, and may have %d", len(got), f.Max)
			}
			for id := range got {
				seen[id]++
			}
			if bytes.Equal(cursor, s.fleet.Cursor()) {
				return seen, cursor
			}
			f.Since = cursor
			meanwhile(page)
		}
		t.Fatal("20 pages do not reach the end")
		return nil, nil
	}
	seen, last := pages(calls.ListFilter{Max: 2}, func(int) {})
	if len(seen) != 9 || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
		t.Errorf("pages of two: %v, want each of 9 machines once", seen)
	}
	if none, full, _ := records(t, s, calls.ListFilter{Since: last}); len(none) != 0 || full {
		t.Errorf("after the last page: %d records, full %v", len(none), full)
	}
	seen, last = pages(calls.ListFilter{Max: 3}, func(page int) {
		if page == 0 {
			if _, err := call(s, shard.OpConfigure, "m00", 1); err != nil {
				t.Fatal(err)
			}
		}
	})
	if len(seen) != 9 || seen["m00"] != 2 {
		t.Errorf("m00 changes behind the first page: %v, want all 9 and m00 twice", seen)
	}
	for _, id := range []string{"m01", "m02", "m04"} {
		if _, err := call(s, shard.OpConfigure, id, 1); err != nil {
			t.Fatal(err)
		}
	}
	if seen, _ = pages(calls.ListFilter{Since: last, Max: 1}, func(int) {}); len(seen) != 3 {
		t.Errorf("what changed, one a page: %v", seen)
	}
	if seen, _ = pages(calls.ListFilter{Max: 2, States: []model.State{model.Idle}}, func(int) {}); len(seen) != 5 {
		t.Errorf("idle ones, two a page: %v, want 5", seen)
	}
	seen, _ = pages(calls.ListFilter{Max: 2}, func(page int) {
		if page == 1 {
			if _, err := s.Lose(context.Background(), "m09"); err != nil {
				t.Fatal(err)
			}
		}
	})
	delete(seen, "m09")
	if len(seen) != 8 {
		t.Errorf("a machine is removed between pages: %v, want the other 8", seen)
	}
}

// TestAllocatableIsListed: of a machine that names none, its resources; also when the
// file is of a version that did not write them.
func TestAllocatableIsListed(t *testing.T) {
	cpu := model.NewResources(model.Amount{Name: "cpu", Value: 1500})
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, Config{Path: path, Seed: func(yield func(*model.Machine) bool) {
		yield(&model.Machine{ID: "m00", State: model.Idle, Resources: cpu})
	}})
	check := func(s *Store) {
		t.Helper()
		got, _, _ := records(t, s, calls.ListFilter{})
		m, err := s.Get("m00")
		if err != nil || !reflect.DeepEqual(got["m00"].Machine.Allocatable, cpu) || !bytes.Contains(m, []byte("\n\x07tonnage")) {
			t.Errorf("listed as %+v, %q, %v", got["m00"].Machine, m, err)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketMachines)
		old, err := proto.Marshal(&pb.MachineList{Machines: []*pb.Machine{{
			Id: "m00", State: pb.MachineState_MACHINE_STATE_IDLE, Host: &pb.HostRef{Ref: "host-m00"},
			Resources: &pb.Resources{Resources: map[string]string{"cpu": "1500m"}},
		}}})
		behind := bytes.Clone(b.Get([]byte("m00")))[len(s.items[0].record):]
		return errors.Join(err, b.Put([]byte("m00"), append(old, behind...)))
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	check(open(t, Config{Path: path}))
}

// TestCallsShareTransactions: who comes at the same time waits for the disk
// together.
func TestCallsShareTransactions(t *testing.T) {
	const n = 400
	s := open(t, Config{Seed: func(yield func(*model.Machine) bool) {
		for i := range n {
			if !yield(&model.Machine{ID: fmt.Sprint("m", i), State: model.Idle}) {
				return
			}
		}
	}})
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() {
			if _, err := call(s, shard.OpConfigure, fmt.Sprint("m", i), 1); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	st := s.Stats()
	if st.Calls != n || st.Transactions > n/4 || st.Tokens != n {
		t.Errorf("%+v", st)
	}
	t.Logf("%d calls in %d transactions, %v on disk", st.Calls, st.Transactions, st.DiskTime)
}

func TestFilesThatAreNotTaken(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	check := func(what string, err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q in it", what, err, w)
			}
		}
	}
	_, err := Open(Config{Path: path("missing/store")})
	check("no folder", err, "missing/store")

	if err := os.WriteFile(path("text"), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = Open(Config{Path: path("text")})
	check("something else", err, "text")

	_, err = Open(Config{Path: path("seeds"), Seed: func(yield func(*model.Machine) bool) {
		_ = yield(&model.Machine{ID: "a", State: model.Idle, PricePerHour: -1}) && yield(&model.Machine{ID: "b", State: model.Configured})
	}})
	check("bad machines", err, `"a"`, `"b"`)

	s := open(t, Config{Path: path("good"), Seed: seedOf(1, model.Idle)})
	_, err = Open(Config{Path: path("good")})
	if !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		bucket, key, value []byte
		want               string
	}{
		"another format":     {bucketMeta, keyFormat, []byte("tonnage-provider-9"), "tonnage-provider-9"},
		"counters cut off":   {bucketMeta, keyCounters, []byte{1}, "counters"},
		"a record cut off":   {bucketMachines, []byte("m00"), []byte{0x0a, 0x7f}, `"m00"`},
		"another's record":   {bucketMachines, []byte("m99"), nil, `"m99"`},
		"two of one id":      {bucketMachines, []byte("m00"), []byte{}, `"m00"`},
		"a token of nothing": {bucketMarks, []byte{200}, []byte{1}, "token"},
	} {
		copied := snapshot(t, path("good"))
		db, err := bbolt.Open(copied, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(func(tx *bbolt.Tx) error {
			value := x.value
			if value == nil {
				value = bytes.Clone(tx.Bucket(bucketMachines).Get([]byte("m00")))
			}
			return tx.Bucket(x.bucket).Put(x.key, value)
		}), db.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = Open(Config{Path: copied})
		check(what, err, copied, x.want)
	}
}

func TestAClosedStoreAnswersNothing(t *testing.T) {
	s := open(t, Config{Seed: seedOf(1, model.Idle)})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	_, callErr := call(s, shard.OpConfigure, "m00", 1)
	_, _, listErr := s.List(calls.ListFilter{})
	_, getErr := s.Get("m00")
	for what, err := range map[string]error{"call": callErr, "list": listErr, "get": getErr} {
		if !errors.Is(err, calls.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestABrokenStoreAnswersNothing: memory may be ahead of the file then, and
// nobody may see that.
func TestABrokenStoreAnswersNothing(t *testing.T) {
	s := open(t, Config{Seed: seedOf(2, model.Idle)})
	if err := s.db.Close(); err != nil { // as a disk that is full or gone
		t.Fatal(err)
	}
	if _, err := call(s, shard.OpConfigure, "m00", 1); !errors.Is(err, calls.ErrBroken) {
		t.Errorf("the call: %v", err)
	}
	<-s.Done()
	if _, err := call(s, shard.OpConfigure, "m01", 1); !errors.Is(err, calls.ErrBroken) {
		t.Errorf("the next call: %v", err)
	}
	if _, _, err := s.List(calls.ListFilter{}); !errors.Is(err, calls.ErrBroken) {
		t.Errorf("list: %v", err)
	}
	if err := s.Close(); !errors.Is(err, calls.ErrBroken) {
		t.Errorf("close: %v", err)
	}
}

// TestWhoHasGoneIsNotServed: a call whose caller left before it began is not
// carried out.
func TestWhoHasGoneIsNotServed(t *testing.T) {
	s := open(t, Config{Seed: seedOf(1, model.Idle)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Do(ctx, &calls.Call{Op: shard.OpConfigure, Machine: "m00", Cluster: "c"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got, _, _ := records(t, s, calls.ListFilter{}); got["m00"].Machine.State != model.Idle {
		t.Errorf("m00 is %s", got["m00"].Machine.State)
	}
}
