package snapshot_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/internal/workload"
)

// put brings a world into the tables, which may hold another one.
func put(tb testing.TB, s *supply.Table, d *demand.Table, w fleet.World) {
	tb.Helper()
	for i := range w.Machines {
		if err := s.Put(&w.Machines[i]); err != nil {
			tb.Fatal(err)
		}
	}
	rows := map[string][]model.Need{}
	for _, n := range w.Needs {
		rows[n.Cluster] = append(rows[n.Cluster], n)
	}
	for c, r := range rows {
		if err := d.Replace(c, r); err != nil {
			tb.Fatal(err)
		}
	}
}

// keepOrder is the order by price, reclamation penalty, id, said once more.
func keepOrder(s *supply.Table) func(a, b columnar.Row) int {
	return func(a, b columnar.Row) int {
		x, y := s.Get(a), s.Get(b)
		return cmp.Or(cmp.Compare(x.PricePerHour, y.PricePerHour),
			cmp.Compare(y.Assigned.Reclamation.Dollars(), x.Assigned.Reclamation.Dollars()), cmp.Compare(x.ID, y.ID))
	}
}

// where returns the rows that keep says, in an order.
func where(rows []columnar.Row, keep func(columnar.Row) bool) []columnar.Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r columnar.Row) bool { return !keep(r) })
}

// check compares a snapshot with what follows from the records one by one.
func check(s *supply.Table, d *demand.Table, x *snapshot.Snapshot) error {
	byID := slices.Collect(s.All())
	byKeep := slices.SortedFunc(slices.Values(byID), keepOrder(s))
	if !slices.Equal(x.Order, byID) {
		return fmt.Errorf("order is %v, want %v", x.Order, byID)
	}
	for i := range byID {
		if x.IDRank(byID[i]) != uint32(i) || i > 0 && x.KeepKey(byKeep[i-1]) >= x.KeepKey(byKeep[i]) {
			return fmt.Errorf("the rows of rank %d say otherwise", i)
		}
	}
	for c := range s.ClassMax() {
		of := func(state model.State) func(columnar.Row) bool {
			return func(r columnar.Row) bool { return s.State(r) == state && s.Class(r) == uint32(c) }
		}
		usable := where(byID, func(r columnar.Row) bool {
			return s.Class(r) == uint32(c) && s.State(r) != model.Deleting && s.State(r) != model.Failed
		})
		if int(x.Usable[c]) != len(usable) {
			return fmt.Errorf("class %d has %d usable machines, want %v", c, x.Usable[c], usable)
		}
		if want := where(byKeep, of(model.Idle)); !slices.Equal(x.Idle.At(c), want) {
			return fmt.Errorf("idle machines of class %d are %v, want %v", c, x.Idle.At(c), want)
		}
		if want := where(byID, of(model.Speculative)); !slices.Equal(x.Speculative.At(c), want) {
			return fmt.Errorf("speculative machines of class %d are %v, want %v", c, x.Speculative.At(c), want)
		}
	}
	return checkClusters(s, d, x, byKeep)
}

func checkClusters(s *supply.Table, d *demand.Table, x *snapshot.Snapshot, byKeep []columnar.Row) error {
	set := map[string]bool{}
	for _, c := range d.Clusters() {
		set[c] = true
	}
	for _, r := range byKeep {
		if c := s.Cluster(r); c != "" {
			set[c] = true
		}
	}
	if want := slices.Sorted(maps.Keys(set)); !slices.Equal(x.Clusters, want) {
		return fmt.Errorf("clusters are %q, want %q", x.Clusters, want)
	}
	for i, c := range x.Clusters {
		var want []columnar.Row
		for _, state := range []model.State{model.Configured, model.Configuring, model.Creating} {
			want = append(want, where(byKeep, func(r columnar.Row) bool {
				m := s.Get(r)
				return m.State == state && !m.Departs() && (state == model.Creating && m.Reservation.Owner.Cluster == c || state != model.Creating && m.Cluster == c)
			})...)
		}
		var got []columnar.Row
		for _, b := range x.BoundOf(i) {
			got = append(got, b.Row)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("machines of %s are %v, want %v", c, got, want)
		}
		if id, ok := s.NameID(c); ok && x.ClusterOf[id] != int32(i) {
			return fmt.Errorf("%s is cluster %d, not %d", c, x.ClusterOf[id], i)
		}
		if err := checkBound(s, x, i, want); err != nil {
			return fmt.Errorf("cluster %s: %w", c, err)
		}
		bound := where(want, func(r columnar.Row) bool { return s.State(r) != model.Creating })
		last := -1
		for _, g := range x.GroupsOf(i) {
			var chain []columnar.Row
			for at := g.First + 1; at != 0; at = x.BoundOf(i)[at-1].Next {
				chain = append(chain, x.BoundOf(i)[at-1].Row)
			}
			if want := where(bound, func(r columnar.Row) bool { return s.Class(r) == g.Class }); len(want) == 0 || !slices.Equal(chain, want) || int(g.Class) <= last {
				return fmt.Errorf("group %d of %s is %v after class %d, want %v", g.Class, c, chain, last, want)
			}
			last = int(g.Class)
			bound = where(bound, func(r columnar.Row) bool { return s.Class(r) != g.Class })
		}
		if len(bound) > 0 {
			return fmt.Errorf("%v of %s are in no group", bound, c)
		}
	}
	return nil
}

// checkBound compares what is said of a cluster's machines with the records.
func checkBound(s *supply.Table, x *snapshot.Snapshot, c int, rows []columnar.Row) error {
	counts := map[model.State]int{}
	for i, b := range x.BoundOf(c) {
		r := rows[i]
		counts[s.State(r)]++
		a := s.Assigned(r)
		group, _ := s.NameID(a.Group)
		if b.Row != r || b.Class != s.Class(r) || b.Fingerprint != a.Fingerprint || b.Group != group || b.Next != 0 && s.State(r) == model.Creating {
			return fmt.Errorf("place %d is %+v, want row %d of class %d with stamp %d, %d", i, b, r, s.Class(r), a.Fingerprint, group)
		}
	}
	if n := counts[model.Configured]; x.Configured(c) != n || x.CreatingFrom(c) != n+counts[model.Configuring] {
		return fmt.Errorf("%d are Configured, %d bound, want %v", x.Configured(c), x.CreatingFrom(c), counts)
	}
	return nil
}

// TestEqualsNaive: every order and list is what sorting the records one by one
// gives, in a new builder and in one that has seen other fleets.
func TestEqualsNaive(t *testing.T) {
	start := time.Now().UnixNano()
	old := snapshot.NewBuilder(&alloc.Accounts{})
	for i := range int64(150) {
		seed := (start + i) & 0xffffff
		s, d := supply.New(), demand.New()
		for step := range int64(3) {
			put(t, s, d, fleet.Random(3*seed+step, fleet.Small))
			for _, b := range []*snapshot.Builder{old, snapshot.NewBuilder(&alloc.Accounts{})} {
				x, err := b.Build(s, d, 1)
				if err == nil {
					err = check(s, d, x)
				}
				if err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			for r := range s.All() {
				if r%5 == 0 {
					s.Remove(s.ID(r))
					break
				}
			}
		}
	}
}

// TestZerosAreOnePrice: among machines that cost −0 and 0 the id decides.
func TestZerosAreOnePrice(t *testing.T) {
	s := supply.New()
	for i, price := range []float64{0, math.Copysign(0, -1), 0, math.Copysign(0, -1)} {
		if err := s.Put(&model.Machine{ID: fmt.Sprint(i), State: model.Idle, PricePerHour: price}); err != nil {
			t.Fatal(err)
		}
	}
	x, err := snapshot.NewBuilder(&alloc.Accounts{}).Build(s, demand.New(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(x.Order, func(a, b columnar.Row) int { return cmp.Compare(x.KeepKey(a), x.KeepKey(b)) }) {
		t.Errorf("keep order is not that of the ids")
	}
}

// TestDimensions: vectors of both tables meet in the snapshot's dimensions.
func TestDimensions(t *testing.T) {
	s, d := supply.New(), demand.New()
	res := func(names ...string) (r model.Resources) {
		for i, n := range names {
			r = append(r, model.Amount{Name: n, Value: int64(i + 1)})
		}
		return r
	}
	if err := s.Put(&model.Machine{ID: "a", State: model.Idle, Resources: res("cpu", "gpu")}); err != nil {
		t.Fatal(err)
	}
	p, err := model.NewProfile(model.ProfileSpec{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Replace("c", []model.Need{{Profile: p, Aggregate: res("disk", "gpu")}}); err != nil {
		t.Fatal(err)
	}
	b := snapshot.NewBuilder(&alloc.Accounts{})
	for range 2 {
		x, err := b.Build(s, d, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(x.Dims[:2], d.Dims()) || !slices.Equal(x.Dims[2:], []string{"cpu"}) {
			t.Errorf("dimensions are %q, those of demand %q", x.Dims, d.Dims())
		}
		offer := map[string]int64{"cpu": 1, "gpu": 2, "disk": 0}
		for i, v := range x.Vector(s.Class(1)) {
			if want := offer[x.Dims[i]]; v != want {
				t.Errorf("the machine offers %d of %s, want %d", v, x.Dims[i], want)
			}
		}
	}
}

// rung returns the tables of a rung in the steady regime.
func rung(tb testing.TB, name string) (*supply.Table, *demand.Table) {
	tb.Helper()
	r, err := workload.ByName(name)
	if err != nil {
		tb.Fatal(err)
	}
	f := workload.Build(r, 1)
	s, d := supply.New(), demand.New()
	for m := range f.Machines(workload.Steady, 1) {
		if err := s.Put(m); err != nil {
			tb.Fatal(err)
		}
	}
	for i, c := range f.Clusters() {
		if err := d.Replace(c, f.Needs(workload.Steady, i)); err != nil {
			tb.Fatal(err)
		}
	}
	return s, d
}

// TestSteadyBuildAllocatesNothing: memory of the Build before is used again,
// also while machines change.
func TestSteadyBuildAllocatesNothing(t *testing.T) {
	s, d := rung(t, "tiny")
	b := snapshot.NewBuilder(&alloc.Accounts{})
	anew := false
	build := func() {
		if anew {
			b.Forget()
		}
		for r := range columnar.Row(20) {
			s.Stamp(r+1, s.Assigned(r+1))
		}
		if _, err := b.Build(s, d, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		build()
	}
	for range 2 {
		if n := testing.AllocsPerRun(20, build); n > 0 {
			t.Errorf("%v allocations per Build, anew: %v", n, anew)
		}
		anew = true
	}
}

// BenchmarkBuild builds snapshots anew.
func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"5k", "50k", "500k"} {
		b.Run(name, func(b *testing.B) {
			s, d := rung(b, name)
			builder := snapshot.NewBuilder(&alloc.Accounts{})
			build := func() {
				builder.Forget()
				if _, err := builder.Build(s, d, 1); err != nil {
					b.Fatal(err)
				}
			}
			build() // the first one makes the indexes
			b.ReportAllocs()
			for b.Loop() {
				build()
			}
			b.ReportMetric(float64(s.Len()), "machines")
		})
	}
}

// BenchmarkUpdate builds snapshots after one machine in so many has lost its
// cluster or found one.
func BenchmarkUpdate(b *testing.B) {
	for _, share := range []int{100, 1000} {
		b.Run(fmt.Sprintf("500k/one-in-%d", share), func(b *testing.B) {
			s, d := rung(b, "500k")
			order, clusters := slices.Clone(s.Order()), d.Clusters()
			builder := snapshot.NewBuilder(&alloc.Accounts{})
			build := func() {
				if _, err := builder.Build(s, d, 1); err != nil {
					b.Fatal(err)
				}
			}
			build()
			at := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for range len(order) / share {
					at = (at + 7919) % len(order)
					exchange(b, s, order[at], clusters[at%len(clusters)])
				}
				b.StartTimer()
				build()
			}
		})
	}
}

// exchange frees a bound machine and binds a free one.
func exchange(tb testing.TB, s *supply.Table, r columnar.Row, cluster string) {
	tb.Helper()
	states := map[model.State][]model.State{
		model.Configured:  {model.Draining, model.Idle},
		model.Idle:        {model.Configuring, model.Configured},
		model.Speculative: {model.Creating, model.Idle},
	}
	for _, to := range states[s.State(r)] {
		if err := s.Transition(r, to, cluster, 1); err != nil {
			tb.Fatal(err)
		}
	}
}
