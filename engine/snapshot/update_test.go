package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/fleet"
)

// script edits tables at random.
type script struct {
	*rand.Rand
	s        *supply.Table
	d        *demand.Table
	machines []model.Machine // records to draw from; several have the same id
	needs    []model.Need
	clusters []string
}

// newScript draws tables with a few hundred machines, of which some are in
// them.
func newScript(tb testing.TB, seed int64) *script {
	x := &script{Rand: rand.New(rand.NewPCG(uint64(seed), 3)), s: supply.New(), d: demand.New(), clusters: []string{"c1", "c2", "c3", "c4", "new-1", "new-2"}}
	for i := range int64(4) {
		w := fleet.Random(4*seed+i, fleet.Small)
		x.needs = append(x.needs, w.Needs...)
		for copies := range 12 {
			for _, m := range w.Machines {
				m.ID = fmt.Sprintf("%s-%d", m.ID, (copies*7+int(i)/2)%16)
				x.machines = append(x.machines, m)
			}
		}
	}
	for range 300 {
		x.must(tb, x.put())
	}
	for _, n := range x.needs[:len(x.needs)/2] {
		x.must(tb, x.d.Replace(n.Cluster, []model.Need{n}))
	}
	return x
}

func (x *script) must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func (x *script) put() error {
	m := x.machines[x.IntN(len(x.machines))]
	return x.s.Put(&m)
}

func (x *script) cluster() string { return x.clusters[x.IntN(len(x.clusters))] }

// some returns a row in use, 0 when there is none.
func (x *script) some() columnar.Row {
	order := x.s.Order()
	if len(order) == 0 {
		return 0
	}
	return order[x.IntN(len(order))]
}

// edit makes one change. Rare ones are those after which everything is built
// anew.
func (x *script) edit() error {
	r := x.some()
	switch k := x.IntN(40); {
	case k < 12:
		return x.move(r)
	case k < 18:
		x.s.Stamp(r, model.Assignment{
			Priority: 7, Fingerprint: uint64(x.IntN(5)), Group: []string{"", "g1", "g2", "c1", x.cluster()}[x.IntN(5)], Reclamation: model.Bucket(x.IntN(model.NumBuckets)),
		})
	case k < 21:
		return x.s.SetPrice(r, []float64{0, 0.5, 1, 3 + float64(x.IntN(9))}[x.IntN(4)], 0.05*float64(x.IntN(2)))
	case k < 25:
		return x.reserve(r)
	case k < 30:
		return x.put()
	case k < 33:
		x.s.Remove(x.s.ID(r))
	case k < 35:
		x.s.SetError(r, "it broke")
	case k < 38 && len(x.needs) > 0:
		n := x.needs[x.IntN(len(x.needs))]
		return x.d.Replace(n.Cluster, []model.Need{n})
	case k == 38:
		return x.d.Replace(x.cluster(), nil)
	}
	return nil
}

// move takes a machine through a legal move, if it is lucky.
func (x *script) move(r columnar.Row) error {
	for range 10 {
		to := model.State(x.IntN(model.NumStates))
		if x.s.Has(r) && model.LegalMove(x.s.State(r), to) {
			return x.s.Transition(r, to, x.cluster(), 5)
		}
	}
	return nil
}

// reserve reserves a machine, mostly one that is being created.
func (x *script) reserve(r columnar.Row) error {
	for range 10 {
		if q := x.some(); x.s.State(q) == model.Creating {
			r = q
		}
	}
	var res model.Reservation
	if x.IntN(3) > 0 {
		res.Owner.Cluster, res.Deadline = x.cluster(), 1<<62
	}
	x.s.Reserve(r, res)
	return nil
}

// view is what a consumer that goes by Dirty remembers of a snapshot.
type view struct {
	clusters, classes map[int]string
	meanings          string
	bound             map[columnar.Row]listed
}

// listed is where the lists of clusters have a machine.
type listed struct {
	cluster int32
	class   uint32
}

func remember(x *snapshot.Snapshot) view {
	v := view{clusters: map[int]string{}, classes: map[int]string{}, bound: map[columnar.Row]listed{}}
	for c := range x.Clusters {
		for _, b := range x.BoundOf(c) {
			v.bound[b.Row] = listed{int32(c), b.Class}
		}
		v.clusters[c] = fmt.Sprint(x.Clusters[c], x.BoundOf(c), x.GroupsOf(c), x.Configured(c), x.CreatingFrom(c))
	}
	for c := range x.Classes {
		v.classes[c] = fmt.Sprint(x.Idle.At(c), x.Speculative.At(c))
	}
	v.meanings = fmt.Sprint(x.Classes, x.ClassVec, x.PriceRank)
	return v
}

// hidden returns what differs between two snapshots without being said.
func hidden(old, now view, x *snapshot.Snapshot) error {
	if x.Fresh {
		return nil
	}
	if len(old.clusters) != len(now.clusters) {
		return fmt.Errorf("%d clusters were %d", len(now.clusters), len(old.clusters))
	}
	for c := range x.Clusters {
		if !x.Dirty[c] && old.clusters[c] != now.clusters[c] {
			return fmt.Errorf("cluster %d was %s and is %s", c, old.clusters[c], now.clusters[c])
		}
	}
	for c := range x.Classes {
		if !x.FreeDirty[c] && old.classes[c] != now.classes[c] && now.classes[c]+old.classes[c] != "[] []" {
			return fmt.Errorf("class %d had %s free and has %s", c, old.classes[c], now.classes[c])
		}
	}
	for _, m := range x.Moves {
		was, ok := old.bound[m.Row]
		if ok != (m.From >= 0) || ok && was != (listed{m.From, m.Class}) {
			return fmt.Errorf("machine %d moved from cluster %d, where it had class %d; it was in cluster %d with class %d (%t)", m.Row, m.From, m.Class, was.cluster, was.class, ok)
		}
		delete(old.bound, m.Row)
		if is, ok := now.bound[m.Row]; ok != (m.To >= 0) || ok && is.cluster != m.To {
			return fmt.Errorf("machine %d moved to cluster %d; it is in cluster %d (%t)", m.Row, m.To, is.cluster, ok)
		}
	}
	for r, was := range old.bound {
		if now.bound[r] != was {
			return fmt.Errorf("machine %d was in cluster %d with class %d and is in cluster %d with class %d; no move says so", r, was.cluster, was.class, now.bound[r].cluster, now.bound[r].class)
		}
	}
	if !x.ClassesChanged && old.meanings != now.meanings {
		return fmt.Errorf("classes were %s and are %s", old.meanings, now.meanings)
	}
	return nil
}

// TestUpdatedEqualsBuiltAnew: after any edits the snapshot of a builder that
// goes on from the one before is that of a new builder, and what it says is
// clean has not changed.
func TestUpdatedEqualsBuiltAnew(t *testing.T) {
	testUpdates(t, snapshot.NewBuilder)
}

// TestWorkersUpdate: the snapshot is the same when workers share its clusters.
func TestWorkersUpdate(t *testing.T) {
	snapshot.ShareAll()
	testUpdates(t, func(accounts *alloc.Accounts) *snapshot.Builder {
		b := snapshot.NewBuilder(accounts)
		b.Share(3, deal)
		return b
	})
}

// deal calls f for each number below n, by three workers in turns.
func deal(n, _ int, f func(worker, from, to int)) {
	var wait sync.WaitGroup
	for worker := range 3 {
		wait.Go(func() {
			for i := worker; i < n; i += 3 {
				f(worker, i, i+1)
			}
		})
	}
	wait.Wait()
}

// testUpdates compares snapshots that are brought up to date with others that are
// built anew.
func testUpdates(t *testing.T, newBuilder func(*alloc.Accounts) *snapshot.Builder) {
	t.Helper()
	start := time.Now().UnixNano()
	updated, clean, all := 0, 0, 0
	seeds := int64(20)
	if testing.Short() {
		seeds = 5
	}
	for i := range seeds {
		seed := (start + i) & 0xffffff
		x := newScript(t, seed)
		b := newBuilder(&alloc.Accounts{})
		var old view
		for step := range 40 {
			for range x.IntN(1 << x.IntN(6)) {
				if err := x.edit(); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			got, err := b.Build(x.s, x.d, int64(step))
			if err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			want, err := snapshot.NewBuilder(&alloc.Accounts{}).Build(x.s, x.d, int64(step))
			if err == nil {
				err = snapshot.Diff(got, want)
			}
			if err == nil {
				err = check(x.s, x.d, got)
			}
			now := remember(got)
			if err == nil {
				err = hidden(old, now, got)
			}
			if err != nil {
				t.Fatalf("seed %d, step %d (built anew: %v): %v", seed, step, got.Fresh, err)
			}
			old = now
			if !got.Fresh {
				updated++
				for _, dirty := range got.Dirty {
					if !dirty {
						clean++
					}
				}
			}
			all++
		}
	}
	if updated*5 < all*3 || clean < updated {
		t.Errorf("%d of %d snapshots were updated, with %d clean clusters: too few to say much", updated, all, clean)
	}
}
