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
	if !slices.Equal(x.Order, byID) || !slices.Equal(x.ByKeep, byKeep) {
		return fmt.Errorf("orders are %v and %v, want %v and %v", x.Order, x.ByKeep, byID, byKeep)
	}
	for i := range byID {
		if x.IDRank[byID[i]] != uint32(i) || x.Keep[byKeep[i]] != uint32(i) {
			return fmt.Errorf("the rows of rank %d say otherwise", i)
		}
	}
	for c := range s.ClassMax() {
		of := func(state model.State) func(columnar.Row) bool {
			return func(r columnar.Row) bool { return s.State(r) == state && s.Class(r) == uint32(c) }
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
				return s.State(r) == state && (state == model.Creating && s.Reservation(r).Owner.Cluster == c || state != model.Creating && s.Cluster(r) == c)
			})...)
		}
		if got := x.ClusterRows.At(i); !slices.Equal(got, want) {
			return fmt.Errorf("machines of %s are %v, want %v", c, got, want)
		}
		if id, ok := s.NameID(c); ok && x.ClusterOf[id] != int32(i) {
			return fmt.Errorf("%s is cluster %d, not %d", c, x.ClusterOf[id], i)
		}
		bound := where(want, func(r columnar.Row) bool { return s.State(r) != model.Creating })
		last := -1
		for _, g := range x.GroupsOf(i) {
			if want := where(bound, func(r columnar.Row) bool { return s.Class(r) == g.Class }); len(want) == 0 || !slices.Equal(g.Rows, want) || int(g.Class) <= last {
				return fmt.Errorf("group %d of %s is %v after class %d, want %v", g.Class, c, g.Rows, last, want)
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
	if err != nil || !slices.Equal(x.ByKeep, x.Order) {
		t.Errorf("keep order is %v (%v)", x.ByKeep, err)
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
		if !slices.Equal(x.Dims, []string{"cpu", "gpu", "disk"}) || !slices.Equal(x.DemandDim, []int{2, 1}) {
			t.Errorf("dimensions are %q, those of demand at %v", x.Dims, x.DemandDim)
		}
		if v := x.Vector(s.Class(1)); !slices.Equal(v, []int64{1, 2, 0}) {
			t.Errorf("the machine offers %v", v)
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
	build := func() {
		for r := range columnar.Row(20) {
			s.Stamp(r+1, s.Assigned(r+1))
		}
		if _, err := b.Build(s, d, 1); err != nil {
			t.Fatal(err)
		}
	}
	build()
	if n := testing.AllocsPerRun(20, build); n > 0 {
		t.Errorf("%v allocations per Build", n)
	}
}

// BenchmarkBuild builds snapshots of unchanging tables.
func BenchmarkBuild(b *testing.B) {
	for _, name := range []string{"5k", "50k", "500k"} {
		b.Run(name, func(b *testing.B) {
			s, d := rung(b, name)
			builder := snapshot.NewBuilder(&alloc.Accounts{})
			build := func() {
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
