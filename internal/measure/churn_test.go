package measure

import (
	"slices"
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// steady returns a churn over a rung, and an engine.
func steady(t *testing.T, name string, seed uint64) (*churn, *engine.Engine) {
	t.Helper()
	rung, err := workload.ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	f := workload.Build(rung, seed)
	in, err := Load(f, workload.Steady)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return newChurn(f, in), e
}

// decide runs a cycle and carries its plan out.
func decide(t *testing.T, c *churn, e *engine.Engine) int {
	t.Helper()
	in, err := c.prepare(e)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	n := len(plan.Actions)
	if err := c.after(plan); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSteadyActsOnChangesOnly: without changes a settled fleet rests; with them
// it acts about as much as changes; and it rests again when they end.
func TestSteadyActsOnChangesOnly(t *testing.T) {
	const seed = 5
	c, e := steady(t, "5k", seed)
	rest := func(when string) {
		t.Helper()
		if cycles, ok, err := c.settle(e); err != nil || !ok {
			t.Fatalf("%s: at rest %v after %d cycles: %v", when, ok, cycles, err)
		}
		c.quiet = true
		for range 5 {
			if n := decide(t, c, e); n != 0 {
				t.Fatalf("%s, seed %d: %d actions without any change", when, seed, n)
			}
		}
		c.quiet = false
	}
	rest("at the start")
	const cycles = 20
	changes := cycles * (c.in.Demand.Len() + c.in.Supply.Len()) / changedOneIn
	actions := 0
	for range cycles {
		actions += decide(t, c, e)
	}
	if actions < changes/10 || actions > changes {
		t.Errorf("%d actions on %d changes", actions, changes)
	}
	rest("after changes")
}

// TestOnePerCentChanges: from one decision to the next one Need in a hundred is
// another, and one machine in a hundred, among them those that the plan has
// moved: no more than these where they are more.
func TestOnePerCentChanges(t *testing.T) {
	c, e := steady(t, "5k", 2)
	if _, _, err := c.settle(e); err != nil {
		t.Fatal(err)
	}
	demand, machines := needs(c), states(c)
	planned, adopted := 0, 0
	for range 6 {
		in, err := c.prepare(e)
		if err != nil {
			t.Fatal(err)
		}
		asked, moved := 0, 0
		now := needs(c)
		for i, n := range now {
			if !slices.Equal(n.Aggregate, demand[i].Aggregate) {
				asked++
			}
			if !n.Aggregate.Covers(n.MinUnit) {
				t.Fatalf("a Need of %v with units of %v", n.Aggregate, n.MinUnit)
			}
		}
		for id, s := range states(c) {
			if machines[id] != s {
				moved++
			}
		}
		if want := len(demand) / 100; asked != want {
			t.Errorf("%d of %d Needs changed, want %d", asked, len(demand), want)
		}
		if want := max(len(machines)/100, planned); moved != want {
			t.Errorf("%d of %d machines are in another state, %d of them by a plan, want %d", moved, len(machines), planned, want)
		}
		if is, want := c.changes(), (changes{moved, asked, adopted}); is != want {
			t.Errorf("%+v are said to have changed, want %+v", is, want)
		}
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		demand, machines, planned, adopted = now, states(c), len(plan.Actions), len(plan.Adopted)
		if planned == 0 || adopted == 0 {
			t.Errorf("a plan moves %d machines, and %d have come to serve others", planned, adopted)
		}
		if err := c.after(plan); err != nil {
			t.Fatal(err)
		}
		for _, x := range plan.Adopted {
			is, want := c.in.Supply.Assigned(x.Machine), plan.Stamp(int(x.Need))
			if c.in.Supply.State(x.Machine) == model.Configured && is != want {
				t.Errorf("%q has the stamp %+v, and serves %+v", c.in.Supply.ID(x.Machine), is, want)
			}
		}
	}
}

// states returns the states of all machines.
func states(c *churn) map[string]model.State {
	out := map[string]model.State{}
	for r := range c.in.Supply.All() {
		out[c.in.Supply.ID(r)] = c.in.Supply.State(r)
	}
	return out
}

// TestSomeClustersBurst: a burst comes in so many of the clusters, and says how
// much that changes.
func TestSomeClustersBurst(t *testing.T) {
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	f := workload.Build(rung, 1)
	for share, want := range map[int]int{1: 1, 5: 1, 50: 10, 100: 20} {
		x := newFlip(f, workload.Burst, share, engine.Input{})
		if len(x.changed) != want {
			t.Errorf("%d %%: %d of %d clusters, want %d", share, len(x.changed), len(f.Clusters()), want)
		}
		n := 0
		for _, c := range x.changed {
			was, now := f.Needs(workload.Steady, c), f.Needs(workload.Burst, c)
			n += len(now) - len(was)
			for i := range was {
				if !slices.Equal(was[i].Aggregate, now[i].Aggregate) {
					n++
				}
			}
		}
		if got := x.changes().needs; got != n || n == 0 {
			t.Errorf("%d %%: %d Needs are said to change, want %d", share, got, n)
		}
	}
	if newFlip(f, workload.Shrink, percent, engine.Input{}).changes().needs == 0 {
		t.Error("nothing shrinks")
	}
}

// needs returns the whole demand.
func needs(c *churn) []model.Need {
	var out []model.Need
	for _, id := range c.in.Demand.Clusters() {
		out = append(out, c.in.Demand.Rows(id)...)
	}
	return out
}

func TestTheIdleTierKeepsItsSize(t *testing.T) {
	c, e := steady(t, "5k", 7)
	if _, _, err := c.settle(e); err != nil {
		t.Fatal(err)
	}
	was := c.in.Supply.Count(model.Idle)
	for range 100 {
		decide(t, c, e)
	}
	if is := c.in.Supply.Count(model.Idle); is < was*3/4 || is > was*5/4 {
		t.Errorf("%d machines are Idle, %d were at the start", is, was)
	}
}

// TestContendedPlansCanBeCarriedOut: preempted machines reach their preemptor,
// and a fleet that lacks a quarter of what is asked for comes to rest.
func TestContendedPlansCanBeCarriedOut(t *testing.T) {
	f := workload.Build(tiny(t), 1)
	in, err := Load(f, workload.Contended)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	machines := in.Supply.Len()
	c := newChurn(f, in)
	if cycles, rest, err := c.settle(e); err != nil || !rest || cycles < 2 {
		t.Errorf("at rest %v after %d cycles: %v", rest, cycles, err)
	}
	if idle := c.in.Supply.Count(model.Idle); c.in.Supply.Len() != machines || c.in.Supply.Count(model.Configured)+idle != machines {
		t.Errorf("%d machines, %d Configured, %d Idle", c.in.Supply.Len(), c.in.Supply.Count(model.Configured), idle)
	}
	for r := range c.in.Supply.All() {
		if c.in.Supply.Reservation(r).Active() {
			t.Errorf("machine %q is still held for %+v", c.in.Supply.ID(r), c.in.Supply.Reservation(r).Owner)
		}
	}
}

// TestPlansHold: what plans of preemption reserve is held for their owners when they
// have been carried out, victims too.
func TestPlansHold(t *testing.T) {
	rung, err := workload.ByName("5k")
	if err != nil {
		t.Fatal(err)
	}
	in, err := Load(workload.Build(rung, 3), workload.Contended)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	held, drained := 0, 0
	for range 4 {
		in.Now += CycleStep
		plan, err := e.Cycle(in)
		if err != nil {
			t.Fatal(err)
		}
		reserved := slices.Clone(plan.Reservations)
		victims := map[columnar.Row]bool{}
		for _, a := range plan.Actions {
			victims[a.Machine] = a.Kind == engine.Preempt && a.Plan != 0
		}
		if err := carryOut(&in, plan); err != nil {
			t.Fatal(err)
		}
		for _, x := range reserved {
			is := in.Supply.Reservation(x.Machine)
			if is.Owner != x.Reservation.Owner || is.Plan != x.Reservation.Plan || is.Deadline <= in.Now {
				t.Fatalf("%q is held as %+v, want %+v", in.Supply.ID(x.Machine), is, x.Reservation)
			}
			if held++; victims[x.Machine] {
				drained++
			}
		}
	}
	if held == 0 || drained == 0 {
		t.Errorf("%d machines are held, %d of them victims: nothing was tried", held, drained)
	}
}
