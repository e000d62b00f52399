package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
)

// bindable returns tables with n Configured machines of a few types, in five
// clusters by turns.
func bindable(tb testing.TB, n int) (*supply.Table, *demand.Table) {
	tb.Helper()
	s := supply.New()
	for i := range n {
		if err := s.Put(&model.Machine{
			ID: fmt.Sprintf("m%05d", i*7919%n), State: model.Configured, Cluster: clusters[i%5],
			InstanceType: fmt.Sprint("t", i%3), PricePerHour: float64(i % 4),
		}); err != nil {
			tb.Fatal(err)
		}
	}
	return s, demand.New()
}

// rebind moves a bound machine to a cluster.
func rebind(tb testing.TB, s *supply.Table, r columnar.Row, cluster string) {
	tb.Helper()
	for _, to := range []model.State{model.Draining, model.Idle, model.Configuring, model.Configured} {
		if err := s.Transition(r, to, cluster, 1); err != nil {
			tb.Fatal(err)
		}
	}
	s.Stamp(r, model.Assignment{Fingerprint: uint64(r), Reclamation: model.Bucket(int(r) % model.NumBuckets)})
}

// TestListsOutgrowTheirRoom: machines flock to one cluster after the other, so
// that lists are spread anew while the snapshot is updated.
func TestListsOutgrowTheirRoom(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) & 0xffffff
	rng := rand.New(rand.NewPCG(seed, 1))
	s, d := bindable(t, 600)
	b := snapshot.NewBuilder(&alloc.Accounts{})
	var off []uint32
	spread := 0
	for step := range 150 {
		to := clusters[step/12%5]
		for range 25 {
			rebind(t, s, columnar.Row(1+rng.IntN(600)), to)
		}
		got, err := b.Build(s, d, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Fresh && !slices.Equal(off, snapshot.Beginnings(got)) {
			spread++
		}
		off = slices.Clone(snapshot.Beginnings(got))
		want, err := snapshot.NewBuilder(&alloc.Accounts{}).Build(s, d, 0)
		if err == nil {
			err = snapshot.Diff(got, want)
		}
		if err == nil {
			err = check(s, d, got)
		}
		if err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
	}
	if spread < 5 {
		t.Errorf("lists were spread anew %d times, too few to say much (seed %d)", spread, seed)
	}
}

// TestUpdatesAllocateNothing: machines that change cluster and state, and come
// and go, are followed in the memory that there is.
func TestUpdatesAllocateNothing(t *testing.T) {
	s, d := bindable(t, 4000)
	b := snapshot.NewBuilder(&alloc.Accounts{})
	at, fresh := 0, 0
	var before, after runtime.MemStats
	mallocs := uint64(0)
	const warm, builds = 20, 100
	for i := range warm + builds {
		for range 40 {
			at = (at + 1237) % 4000
			rebind(t, s, columnar.Row(1+at), clusters[at%5])
		}
		runtime.ReadMemStats(&before)
		x, err := b.Build(s, d, 1)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		if i >= warm {
			mallocs += after.Mallocs - before.Mallocs
			if x.Fresh {
				fresh++
			}
		}
	}
	if mallocs >= builds || fresh > 0 {
		t.Errorf("%d allocations in %d Builds, of which %d anew", mallocs, builds, fresh)
	}
}

var clusters = []string{"c0", "c1", "c2", "c3", "c4"}
