package holds_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
)

// now is the time of the cycle, in Unix nanoseconds.
const now = 1000

// world is two Needs of equal profile, one of cluster a and one of cluster b, in this rank order, and machines that are
// held for their owners.
type world struct {
	supply *supply.Table
	tables holds.Tables
	store  holds.Store
}

// newWorld builds it. Cluster b reports nothing if silent.
func newWorld(t *testing.T, silent bool, machines ...model.Machine) *world {
	t.Helper()
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 5})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{supply: supply.New()}
	needs := demand.New()
	clusters := []string{"a", "b"}
	if silent {
		clusters = clusters[:1]
	}
	for _, cluster := range clusters {
		if err := needs.Replace(cluster, []model.Need{{Profile: profile, Aggregate: cores(8), MinUnit: cores(4)}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range machines {
		m := &machines[i]
		m.Resources, m.Reservation.Owner.Fingerprint = cores(4), profile.WithoutSame().Fingerprint()
		if err := w.supply.Put(m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := snapshot.NewBuilder(new(alloc.Accounts)).Build(w.supply, needs, now)
	if err != nil {
		t.Fatal(err)
	}
	w.tables = holds.Tables{Snapshot: s, Arena: alloc.NewArena(alloc.Pass), Kinds: []state.Kind{{Priority: 5, Worth: state.Worth(5, 0, 0)}}, Plans: true}
	for c, id := range s.Clusters {
		src := state.Source{Base: int32(c), Room: 1}
		if src.SetBlock(needs.Block(id)); src.Block != nil {
			w.tables.Lines = append(w.tables.Lines, state.Line{})
			w.tables.Order, w.tables.RankOf = append(w.tables.Order, int32(c)), append(w.tables.RankOf, int32(c))
		}
		w.tables.Sources = append(w.tables.Sources, src)
	}
	w.tables.Atlas = state.NewAtlas(w.tables.Arena, w.tables.Sources, len(w.tables.Sources))
	w.store.Begin(s, true)
	return w
}

func cores(n int64) model.Resources {
	return model.NewResources(model.Amount{Name: "cpu", Value: 1000 * n})
}

// ids returns the ids of machines.
func (w *world) ids(rows []columnar.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, w.supply.ID(r))
	}
	return out
}

func (w *world) row(t *testing.T, id string) columnar.Row {
	t.Helper()
	r, ok := w.supply.Lookup(id)
	if !ok {
		t.Fatalf("no machine %s", id)
	}
	return r
}

// heldFor is a machine in a state, held for a cluster's owner.
func heldFor(id string, st model.State, cluster string, price float64) model.Machine {
	m := model.Machine{ID: id, State: st, Host: "h" + id, PricePerHour: price, Reservation: model.Reservation{Owner: model.Owner{Cluster: cluster}, Priority: 5}}
	if st == model.Draining {
		m.Cluster = "b"
	}
	return m
}

// TestHeldMachinesAreForTheirOwners: in keep order, withdrawn from those below the owner, and for those above it the
// machines of the lowest owner first.
func TestHeldMachinesAreForTheirOwners(t *testing.T) {
	w := newWorld(t, false, heldFor("a2", model.Idle, "a", 2), heldFor("b1", model.Idle, "b", 1), heldFor("a1", model.Idle, "a", 1), model.Machine{ID: "free", State: model.Idle, Host: "h"})
	x := w.store.Index(w.tables, true)
	want := []columnar.Row{w.row(t, "a1"), w.row(t, "a2")}
	slices.SortFunc(want, func(a, b columnar.Row) int {
		return cmp.Compare(w.tables.Snapshot.KeepKey(a), w.tables.Snapshot.KeepKey(b))
	})
	if got := x.Of(0); !slices.Equal(got, want) {
		t.Errorf("held for a: %v, want %v", w.ids(got), w.ids(want))
	}
	for _, r := range x.Of(0) {
		if !x.Live(r) || !x.OwnedBy(r, 0) || x.OwnedBy(r, 1) || !x.Lower.Has(r) {
			t.Errorf("%s is not held for a alone", w.supply.ID(r))
		}
	}
	if x.Live(w.row(t, "free")) || x.Lower.Has(w.row(t, "free")) {
		t.Error("a machine without a reservation is held")
	}
	for _, b := range x.Blocks {
		if want := x.Members(b.Row)[0] + 1; b.From != want {
			t.Errorf("%s is withdrawn from place %d on, want %d", w.supply.ID(b.Row), b.From, want)
		}
	}
	if b, a := w.row(t, "b1"), w.row(t, "a1"); x.Lower.Compare(b, a) >= 0 || x.Lower.Key(b) >= x.Lower.Key(a) {
		t.Error("what is held for the lower owner does not go first")
	}
	taken := make([]bool, w.supply.RowMax())
	taken[w.row(t, "b1")] = true
	k := state.Kind{Accepts: []uint64{^uint64(0)}}
	var open []columnar.Row
	x.Lower.Each(&k, 0, taken, func(r columnar.Row) { open = append(open, r) })
	if len(open) != 2 || slices.Contains(open, w.row(t, "b1")) {
		t.Errorf("available: %v, want those of a", w.ids(open))
	}
}

// TestWhatIsHeldForAnOwnerEndsTogether: but for a machine that is being created for it. One that still drains is
// passed on once the owner has had its turn.
func TestWhatIsHeldForAnOwnerEndsTogether(t *testing.T) {
	w := newWorld(t, false, heldFor("idle", model.Idle, "a", 1), heldFor("drains", model.Draining, "a", 1), heldFor("comes", model.Creating, "a", 1), heldFor("other", model.Idle, "b", 1))
	x := w.store.Index(w.tables, true)
	if !x.Breakable || !x.InOrder {
		t.Error("two machines that end together, one of them Idle, do not make the turns depend on each other")
	}
	var freed []columnar.Row
	owner := w.supply.Reservation(w.row(t, "idle")).Owner
	x.End(w.tables.Arena, owner, plan.PlanRankLost, func(r columnar.Row) { freed = append(freed, r) })
	if got := w.ids(freed); len(got) != 2 || !slices.Contains(got, "idle") || !slices.Contains(got, "drains") {
		t.Errorf("freed %v, want idle and drains", got)
	}
	if got := w.ids(x.Of(0)); !slices.Equal(got, []string{"comes"}) || !x.Had(0) {
		t.Errorf("held for a afterwards: %v, want what is being created", got)
	}
	if r := w.row(t, "idle"); !x.IsVoided(r) || x.Live(r) || x.Lower.Has(r) || x.Voided() != 2 {
		t.Error("the Idle machine is still held")
	}
	if !x.Live(w.row(t, "other")) {
		t.Error("another owner's machine is not held any more")
	}
	if res := w.supply.Reservation(w.row(t, "idle")); x.EndOf(&res) != plan.PlanRankLost {
		t.Errorf("ended for %v", x.EndOf(&res))
	}
	var passed []columnar.Row
	pass := func(r columnar.Row) { passed = append(passed, r) }
	if x.Passed(holds.NoRank, pass); len(passed) != 0 {
		t.Error("a machine is passed on before its owner's turn")
	}
	if x.Passed(0, pass); !slices.Equal(w.ids(passed), []string{"drains"}) {
		t.Errorf("passed on: %v, want drains", w.ids(passed))
	}
	if x.Passed(1, pass); len(passed) != 1 {
		t.Error("a machine is passed on twice")
	}
}

// TestReservationsEndAtTheirDeadline: unless the machine drains, or another machine of the plan stands.
func TestReservationsEndAtTheirDeadline(t *testing.T) {
	late := func(id string, st model.State, cluster string, plan uint64) model.Machine {
		m := heldFor(id, st, cluster, 1)
		m.Reservation.Deadline, m.Reservation.Plan = now-1, plan
		return m
	}
	standing := heldFor("stands", model.Idle, "b", 1)
	standing.Reservation.Plan = 7
	w := newWorld(t, false, late("late", model.Idle, "a", 0), late("drains", model.Draining, "a", 0), late("ofplan", model.Idle, "b", 7), standing)
	x := w.store.Index(w.tables, true)
	for id, want := range map[string]bool{"late": false, "drains": true, "ofplan": true, "stands": true} {
		if got := x.Live(w.row(t, id)); got != want {
			t.Errorf("%s is held: %v, want %v", id, got, want)
		}
	}
	if !x.Plans {
		t.Error("no plan holds anything")
	}
}

// TestAnOwnerThatHasNotReportedKeepsItsMachines: for as long as its cluster is silent.
func TestAnOwnerThatHasNotReportedKeepsItsMachines(t *testing.T) {
	for _, silent := range []bool{true, false} {
		held := heldFor("m", model.Idle, "b", 1)
		held.Reservation.Owner.Group = "nobody has this name"
		w := newWorld(t, silent, held)
		x := w.store.Index(w.tables, true)
		if r := w.row(t, "m"); x.Live(r) != silent || len(x.Members(r)) != 0 {
			t.Errorf("silent %v: held %v, for %v", silent, x.Live(r), x.Members(r))
		}
	}
}
