package client_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/server"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/provider/simulated/store"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider/client"
)

// TestCursors: the first listing over a connection is full, then changes only;
// removals show in the next full one.
func TestCursors(t *testing.T) {
	var ms []model.Machine
	for i := range 20 {
		ms = append(ms, machine(fmt.Sprintf("m%02d", i), model.Idle))
	}
	path := filepath.Join(t.TempDir(), "store")
	p := start(t, store.Config{Path: path, Seed: machines(ms...)}, "")
	c := dial(t, p.address, nil)
	if _, err := c.Get(context.Background(), "m00"); err != nil { // the connection is there
		t.Fatal(err)
	}
	first := list(t, c, nil)
	if !first.full || len(first.records) != 20 || len(first.revision) == 0 {
		t.Fatalf("first: full %v, %d records, revision %q", first.full, len(first.records), first.revision)
	}
	quiet := list(t, c, first.revision)
	if quiet.full || len(quiet.records) != 0 {
		t.Errorf("nothing changed, but: full %v, %v", quiet.full, quiet.ids())
	}
	if _, err := do(c, shard.OpConfigure, "m03"); err != nil {
		t.Fatal(err)
	}
	price := 7.5
	if err := p.store.Administer(context.Background(), func(f *simulated.Fleet) error {
		return f.Change("m05", simulated.Change{PricePerHour: &price})
	}); err != nil {
		t.Fatal(err)
	}
	changed := list(t, c, quiet.revision)
	if changed.full || !slices.Equal(changed.ids(), []string{"m03", "m05"}) || changed.records["m05"].Machine.PricePerHour != price {
		t.Errorf("since then: full %v, %v", changed.full, changed.ids())
	}
	if again := list(t, c, first.revision); again.full || !slices.Equal(again.ids(), changed.ids()) {
		t.Errorf("an older cursor: full %v, %v", again.full, again.ids())
	}
	if all := list(t, c, nil); !all.full || len(all.records) != 20 {
		t.Errorf("asked for everything: full %v, %d records", all.full, len(all.records))
	}

	// A removal cannot be said among changes: everything comes, and the shard
	// takes it for changes until it asks for everything itself.
	if n, err := p.store.Lose(context.Background(), "m07", "nobody"); n != 1 || err != nil {
		t.Fatalf("lost %d, %v", n, err)
	}
	after := list(t, c, changed.revision)
	if after.full || len(after.records) != 19 {
		t.Errorf("after a removal: full %v, %d records", after.full, len(after.records))
	}
	if all := list(t, c, nil); !all.full || len(all.records) != 19 {
		t.Errorf("everything: full %v, %d records", all.full, len(all.records))
	}
	// Garbage is no error.
	if odd := list(t, c, []byte("garbage")); len(odd.records) != 19 {
		t.Errorf("garbage: %d records", len(odd.records))
	}

	// Behind a new connection there may be another provider: the client asks for
	// everything, though this one would know the cursor.
	p.end()
	start(t, store.Config{Path: path}, p.address)
	back := list(t, c, after.revision)
	if !back.full || len(back.records) != 19 || back.records["m03"].Machine.State != model.Configured {
		t.Errorf("after a restart: full %v, %d records, m03 is %s", back.full, len(back.records), back.records["m03"].Machine.State)
	}
	for range 2 { // the connection was made within a call once; then the cursor is good
		back = list(t, c, back.revision)
	}
	if back.full || len(back.records) != 0 {
		t.Errorf("then: full %v, %d records", back.full, len(back.records))
	}
}

func TestWithoutCursorsEverythingIsListed(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("a", model.Idle), machine("b", model.Idle))}, "")
	c := dial(t, p.address, func(o *client.Options) { o.Cursors = false })
	for range 3 {
		if l := list(t, c, []byte("x")); !l.full || len(l.records) != 2 || l.revision != nil {
			t.Errorf("full %v, %d records, revision %q", l.full, len(l.records), l.revision)
		}
	}
}

func TestAListingIsTriedAgain(t *testing.T) {
	p := start(t, store.Config{Seed: machines(machine("a", model.Idle))}, "")
	c := dial(t, p.address, nil)
	set := func(x ...server.Trouble) {
		t.Helper()
		if err := p.server.SetTrouble(x); err != nil {
			t.Fatal(err)
		}
	}
	set(server.Trouble{Kind: server.Refuse, Method: server.MethodList, Times: 1})
	if l := list(t, c, nil); len(l.records) != 1 {
		t.Errorf("%d records", len(l.records))
	}
	set(server.Trouble{Kind: server.Refuse, Method: server.MethodList, Probability: 1})
	if _, err := c.List(context.Background(), shard.ListRequest{}); err == nil {
		t.Error("no error")
	}
	set(server.Trouble{Kind: server.Slow, Method: server.MethodList, Probability: 1, Delay: time.Hour})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.List(ctx, shard.ListRequest{}); err == nil {
		t.Error("no error in time")
	}
}

// many yields n machines in racks and halls.
func many(n int) func(func(*model.Machine) bool) {
	return func(yield func(*model.Machine) bool) {
		m := machine("", model.Idle)
		for i := range n {
			m.ID = fmt.Sprintf("machine-%06d", i)
			m.Labels = map[string]string{"rack": fmt.Sprint("rack-", i/40), "hall": fmt.Sprint("hall-", i/4000)}
			if !yield(&m) {
				return
			}
		}
	}
}

// TestManyMachines lists a hundred thousand machines over loopback: far beyond
// what a client takes by default, in a bounded number of allocations.
func TestManyMachines(t *testing.T) {
	const n = manyMachines
	p := start(t, store.Config{Seed: many(n)}, "")
	c := dial(t, p.address, nil)
	if l := list(t, c, nil); len(l.records) != n || l.refused != 0 {
		t.Fatalf("%d records, %d refused", len(l.records), l.refused)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	l, err := c.List(context.Background(), shard.ListRequest{})
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	if err != nil || l.Batch.Len() != n {
		t.Fatalf("%d records, %v", l.Batch.Len(), err)
	}
	mallocs, mib := after.Mallocs-before.Mallocs, (after.TotalAlloc-before.TotalAlloc)>>20
	msg, _, err := p.store.List(calls.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d machines, %d bytes, listed in %v, both ends in one process: %d allocations, %d MiB", n, len(msg), took, mallocs, mib)
	if mallocs > n/4 {
		t.Errorf("%d allocations for %d machines", mallocs, n)
	}
	one, err := c.List(context.Background(), shard.ListRequest{SinceRevision: l.Revision})
	if err != nil || one.Full || one.Batch.Len() != 0 {
		t.Errorf("nothing changed: full %v, %d records, %v", one.Full, one.Batch.Len(), err)
	}
	if bytes.Equal(l.Revision, nil) {
		t.Error("no revision")
	}
}

func BenchmarkList100k(b *testing.B) {
	const n = 100_000
	s, err := store.Open(store.Config{Path: filepath.Join(b.TempDir(), "store"), Seed: many(n)})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	address := listen(b, server.New(s, nil).GRPC(nil), "")
	c, err := client.New(client.Options{Address: address, Shard: "s1", Epoch: openEpoch(b, b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		if l, err := c.List(context.Background(), shard.ListRequest{}); err != nil || l.Batch.Len() != n {
			b.Fatalf("%d records, %v", l.Batch.Len(), err)
		}
	}
}

// BenchmarkCalls makes calls from 64 goroutines, each on its own machines, to a
// store that has each on disk before it answers.
func BenchmarkCalls(b *testing.B) {
	const callers, each = 64, 16
	seed := func(yield func(*model.Machine) bool) {
		for i := range callers * each {
			if m := machine(fmt.Sprint("m", i), model.Idle); !yield(&m) {
				return
			}
		}
	}
	s, err := store.Open(store.Config{Path: filepath.Join(b.TempDir(), "store"), Seed: seed})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := client.New(client.Options{Address: listen(b, server.New(s, nil).GRPC(nil), ""), Shard: "s1", Epoch: openEpoch(b, b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	for g := range callers {
		all.Go(func() {
			for k := 0; left.Add(-1) >= 0; k++ {
				op := shard.OpConfigure + shard.Op(k/each%2) // all are bound, then all drained
				if _, err := do(c, op, fmt.Sprint("m", g*each+k%each)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	st := s.Stats()
	b.ReportMetric(float64(st.Calls)/float64(max(st.Transactions, 1)), "calls/transaction")
}
