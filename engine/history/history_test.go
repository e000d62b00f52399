package history

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// world is a table of Idle machines m0, m1, …, two clusters with demand, and its history.
type world struct {
	t      *testing.T
	supply *supply.Table
	demand *demand.Table
	h      *History
}

func newWorld(t *testing.T, machines int) *world {
	t.Helper()
	w := &world{t: t, supply: supply.New(), demand: demand.New()}
	for i := range machines {
		if err := w.supply.Put(&model.Machine{ID: fmt.Sprintf("m%d", i), Host: "h", State: model.Idle, Resources: cpu(1)}); err != nil {
			t.Fatal(err)
		}
	}
	w.h = New(w.supply)
	w.report("a", 1)
	w.report("b", 1)
	w.cycle()
	return w
}

func cpu(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }

func (w *world) report(cluster string, amount int64) {
	w.t.Helper()
	p, err := model.NewProfile(model.ProfileSpec{Priority: 1})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.demand.Replace(cluster, []model.Need{{Profile: p, Aggregate: cpu(amount), MinUnit: cpu(1)}}); err != nil {
		w.t.Fatal(err)
	}
}

// row returns the row of a machine by its number.
func (w *world) row(i int) columnar.Row {
	r, there := w.supply.Lookup(fmt.Sprintf("m%d", i))
	if !there {
		w.t.Fatalf("no machine m%d", i)
	}
	return r
}

// cycle carries out deeds in one cycle.
func (w *world) cycle(deeds ...Deed) Counts {
	w.h.Begin(w.demand)
	w.h.Decided(w.demand)
	for i := range deeds {
		w.h.Did(&deeds[i])
	}
	return w.h.Close()
}

// deed is a deed at m0.
func (w *world) deed(k engine.Kind, cluster, by string) Deed {
	return Deed{Kind: k, Machine: w.row(0), Cluster: cluster, By: by}
}

// TestEachPairUndoes: each action is undone by its opposite on the same machine, once.
func TestEachPairUndoes(t *testing.T) {
	for _, c := range []struct {
		first, second engine.Kind
		cluster, by   string
		want          Undoing
	}{
		{engine.Provision, engine.Delete, "", "", BoughtDeleted},
		{engine.Bootstrap, engine.Preempt, "a", "b", BoundPreempted},
		{engine.Bootstrap, engine.Reclaim, "a", "", BoundReclaimed},
		{engine.Preempt, engine.Bootstrap, "a", "", PreemptedBoundBack},
		{engine.Reclaim, engine.Bootstrap, "a", "", ReclaimedBoundBack},
		{engine.Delete, engine.Provision, "a", "", DeletedBought},
	} {
		w := newWorld(t, 1)
		if got := w.cycle(w.deed(c.first, "a", "b")); got != (Counts{}) {
			t.Errorf("%s alone counts %+v", c.first, got)
		}
		want := Counts{}
		want.Undone[c.want] = 1
		if got := w.cycle(w.deed(c.second, c.cluster, c.by)); got != want {
			t.Errorf("%s after %s counts %+v, want %+v", c.second, c.first, got, want)
		}
		if got := w.cycle(w.deed(c.second, c.cluster, c.by)); got != (Counts{}) {
			t.Errorf("%s once more counts %+v", c.second, got)
		}
	}
}

// TestAMachineBoundElsewhereIsNotUndone: only the cluster that had the machine binds it back.
func TestAMachineBoundElsewhereIsNotUndone(t *testing.T) {
	w := newWorld(t, 1)
	w.cycle(w.deed(engine.Reclaim, "a", ""))
	if got := w.cycle(w.deed(engine.Bootstrap, "b", "")); got != (Counts{}) {
		t.Errorf("it counts %+v", got)
	}
}

// TestAChangeExplains: a change of a cluster that an action concerns explains it; one of
// another cluster is told apart; a report of the same changes nothing.
func TestAChangeExplains(t *testing.T) {
	none, elsewhere := Counts{}, Counts{}
	none.Undone[BoundPreempted], elsewhere.UndoneElsewhere[BoundPreempted] = 1, 1
	for _, c := range []struct {
		name   string
		change func(*world)
		want   Counts
	}{
		{"the same is reported again", func(w *world) { w.report("a", 1) }, none},
		{"a row is parked by the shard", func(w *world) { w.h.Begin(w.demand); w.demand.SetParked("a", 0, true); w.h.Decided(w.demand) }, none},
		{"the victim's cluster asks for more", func(w *world) { w.report("a", 2) }, Counts{}},
		{"the preemptor's cluster asks for more", func(w *world) { w.report("b", 2) }, Counts{}},
		{"the preemptor's cluster loses a machine", func(w *world) { w.h.Disturbed("b") }, Counts{}},
		{"another cluster comes", func(w *world) { w.report("c", 2) }, elsewhere},
		{"a free machine comes", func(w *world) { w.h.Disturbed("") }, elsewhere},
		{"too many clusters change", func(w *world) {
			for i := range ClustersMax + 1 {
				w.h.Disturbed(fmt.Sprint(i))
			}
		}, Counts{}},
	} {
		w := newWorld(t, 1)
		w.cycle(w.deed(engine.Bootstrap, "a", ""))
		c.change(w)
		if got := w.cycle(w.deed(engine.Preempt, "a", "b")); got != c.want {
			t.Errorf("%s: it counts %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestDrainedInVain: a machine that is preempted for an owner is drained in vain when its
// reservation ends before the owner binds it.
func TestDrainedInVain(t *testing.T) {
	held := model.Reservation{Owner: model.Owner{Cluster: "b", Fingerprint: 7}}
	bind := func(w *world) []Deed { return []Deed{w.deed(engine.Bootstrap, "b", "")} }
	nothing := func(*world) []Deed { return nil }
	for _, c := range []struct {
		name   string
		change func(*world)
		ended  bool
		deeds  func(*world) []Deed
		want   int
	}{
		{"it is held yet", func(*world) {}, false, nothing, 0},
		{"its owner binds it", func(*world) {}, false, bind, 0},
		{"another binds it", func(*world) {}, true, bind, 1},
		{"its reservation ends", func(w *world) { w.supply.Reserve(w.row(0), model.Reservation{}) }, true, nothing, 1},
		{"it is held for another", func(w *world) {
			w.supply.Reserve(w.row(0), model.Reservation{Owner: model.Owner{Cluster: "c"}})
		}, true, nothing, 1},
		{"it is held anew for its owner", func(*world) {}, true, nothing, 0},
		{"it is lost", func(w *world) { w.supply.Remove("m0") }, false, nothing, 1},
	} {
		w := newWorld(t, 1)
		w.supply.Reserve(w.row(0), held)
		if got := w.cycle(w.deed(engine.Preempt, "a", "b")); got != (Counts{}) {
			t.Errorf("the Preempt counts %+v", got)
		}
		row := w.row(0)
		c.change(w)
		w.h.Begin(w.demand)
		w.h.Decided(w.demand)
		if c.ended {
			w.h.Ended([]columnar.Row{row})
		}
		for _, d := range c.deeds(w) {
			w.h.Did(&d)
		}
		if got := w.h.Close().DrainedInVain; got != c.want {
			t.Errorf("%s: %d in vain, want %d", c.name, got, c.want)
		}
		if got := w.cycle().DrainedInVain; got != 0 {
			t.Errorf("%s: %d more in the next cycle", c.name, got)
		}
	}
}

// TestWhatIsRememberedIsBounded: the machine of the oldest action is forgotten; one that waits for its owner
// is not counted then.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	w := newWorld(t, MachinesMax+1)
	w.supply.Reserve(w.row(0), model.Reservation{Owner: model.Owner{Cluster: "b"}})
	w.cycle(w.deed(engine.Preempt, "a", "b"))
	var deeds []Deed
	for i := range MachinesMax {
		deeds = append(deeds, Deed{Kind: engine.Bootstrap, Machine: w.row(i + 1), Cluster: "a"})
	}
	w.cycle(deeds...)
	if len(w.h.records) != MachinesMax || len(w.h.at) != MachinesMax || len(w.h.waiting) != 0 {
		t.Errorf("%d records, %d machines, %d wait", len(w.h.records), len(w.h.at), len(w.h.waiting))
	}
	w.supply.Reserve(w.row(0), model.Reservation{})
	if got := w.cycle(w.deed(engine.Bootstrap, "a", "")); got != (Counts{}) {
		t.Errorf("it counts %+v", got)
	}
}

// TestASteadyCycleAllocatesNothing: nor do actions at machines that are known.
func TestASteadyCycleAllocatesNothing(t *testing.T) {
	w := newWorld(t, 1)
	deeds := []Deed{w.deed(engine.Bootstrap, "a", ""), w.deed(engine.Reclaim, "a", "")}
	w.cycle(deeds...)
	if n := testing.AllocsPerRun(100, func() { w.cycle(deeds...) }); n != 0 {
		t.Errorf("%v allocations a cycle", n)
	}
}
