package sim

import (
	"testing"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/shard"
)

// stage is a decision on a gang of low priority that has two machines, of which
// one of high priority needs both.
func stage(t *testing.T) (*run, *scene) {
	t.Helper()
	ms := []model.Machine{machine("a", model.Configured, "low"), machine("b", model.Configured, "low"), machine("c", model.Idle, "")}
	for i := range ms {
		ms[i].Labels = map[string]string{"rack": "r"}
	}
	low, high, third := rollup(t, "low", 1, 2, "rack"), rollup(t, "high", 9, 3, "rack"), rollup(t, "third", 1, 1, "")
	sc := &Scenario{Machines: ms, Demand: []Rollup{*high, *low, *third}, Reported: []string{"high", "low", "third"}, Options: engine.DefaultOptions()}
	r := newRun(sc)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.cycle = 7
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: 1}
	for i := range ms {
		if err := in.Supply.Put(&ms[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sc.Demand {
		if err := in.Demand.Replace(sc.Demand[i].Cluster, rowsOf(&sc.Demand[i])); err != nil {
			t.Fatal(err)
		}
	}
	e, err := engine.New(sc.Options)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := e.Cycle(in)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{in: in, plan: plan, results: twin.Results(plan)}
	s.claimant = r.noteClaims(in, s.results)
	if n := plan.Stats.Actions[engine.Preempt]; n != 2 || len(plan.Reservations) != 2 {
		t.Fatalf("%d Preempts and %d reservations", n, len(plan.Reservations))
	}
	return r, s
}

// numbers of the rows on the stage.
const (
	highRow = iota
	lowRow
	thirdRow
)

// lookUp returns a machine's row.
func (s *scene) lookUp(t *testing.T, id string) columnar.Row {
	t.Helper()
	r, ok := s.in.Supply.Lookup(id)
	if !ok {
		t.Fatalf("no machine %q", id)
	}
	return r
}

// preempts are the Preempts that the decision led to.
func preempts(ids ...string) *shard.Cycle {
	c := &shard.Cycle{}
	for _, id := range ids {
		c.Started = append(c.Started, shard.Started{Kind: engine.Preempt, Machine: id, Need: highRow})
	}
	return c
}

// TestViolationsOfGangsAreSeen: each invariant is broken by hand, since a run
// that is right breaks none.
func TestViolationsOfGangsAreSeen(t *testing.T) {
	for _, x := range []struct {
		name  string
		want  Invariant
		spoil func(t *testing.T, r *run, s *scene)
	}{
		{"right", "", func(_ *testing.T, r *run, s *scene) {
			r.decideGangs(s)
			c := preempts("a", "b")
			c.Plan = s.plan
			r.checkWhole(c)
		}},
		{"reserved twice", ReservedOnce, func(_ *testing.T, r *run, s *scene) {
			s.plan.Reservations = append(s.plan.Reservations, s.plan.Reservations[0])
			r.decideGangs(s)
		}},
		{"preempted twice at once", ReservedOnce, func(_ *testing.T, r *run, s *scene) {
			s.plan.Actions = append(s.plan.Actions, s.plan.Actions[len(s.plan.Actions)-1])
			r.decideGangs(s)
		}},
		{"taken by a lower rank", ReservedKept, func(t *testing.T, r *run, s *scene) {
			c := s.lookUp(t, "c")
			s.in.Supply.Reserve(c, s.plan.Reservations[0].Reservation)
			s.plan.Actions = []engine.Action{{Kind: engine.Bootstrap, Machine: c, Need: thirdRow}}
			r.decideGangs(s)
		}},
		{"deleted", ReservedKept, func(t *testing.T, r *run, s *scene) {
			c := s.lookUp(t, "c")
			s.in.Supply.Reserve(c, s.plan.Reservations[0].Reservation)
			s.plan.Actions = []engine.Action{{Kind: engine.Delete, Machine: c, Need: -1}}
			r.decideGangs(s)
		}},
		{"a plan that does not cover", PlanCovers, func(_ *testing.T, r *run, s *scene) {
			s.plan.Reservations = s.plan.Reservations[:1]
			r.noteOwners(s)
			r.checkPreempts(s)
			r.checkCover(s)
		}},
		{"equal priority", PriorityFalls, func(_ *testing.T, r *run, s *scene) {
			s.results[highRow].Profile = s.results[lowRow].Profile
			r.decideGangs(s)
		}},
		{"preempted and held for nobody", VictimsHeld, func(_ *testing.T, r *run, s *scene) {
			s.plan.Reservations = s.plan.Reservations[1:]
			r.checkReserved(s)
		}},
		{"preempted and held for another", VictimsHeld, func(_ *testing.T, r *run, s *scene) {
			s.plan.Reservations[0].Need = thirdRow
			r.checkReserved(s)
		}},
		{"a part of a plan is started", PlanWhole, func(_ *testing.T, r *run, s *scene) {
			r.decideGangs(s)
			c := preempts("a")
			c.Plan = s.plan
			r.checkWhole(c)
		}},
		{"a part of a plan is given up", PlanWhole, func(_ *testing.T, r *run, s *scene) {
			r.noteOwners(s)
			o := s.plan.Reservations[0].Reservation.Owner
			r.gangs.states[o] = &ownerState{}
			r.gangs.held[o] = map[string]struct{}{"a": {}, "b": {}}
			a, b := machine("a", model.Idle, ""), machine("b", model.Idle, "")
			a.Reservation = s.plan.Reservations[0].Reservation
			r.checkHeld(map[string]model.Machine{"a": a, "b": b}, map[string]struct{}{"a": {}, "b": {}})
		}},
		{"what drains for a gang is let go", DrainsHeld, func(_ *testing.T, r *run, s *scene) {
			r.decideGangs(s)
			r.gangs.states[s.plan.Reservations[0].Reservation.Owner] = &ownerState{awaiting: true, inFlight: r.gangs.need(&s.results[highRow]).Aggregate}
			a := machine("a", model.Draining, "")
			a.Reservation = s.plan.Reservations[0].Reservation
			r.gangs.noteMachine(map[string]model.Machine{}, &a)
			r.checkLeaving()
		}},
		{"preempted again", PreemptedOnce, func(_ *testing.T, r *run, s *scene) {
			r.decideGangs(s)
			c := preempts("a", "b")
			c.Plan = s.plan
			r.checkWhole(c)
			r.checkWhole(c)
		}},
		{"out of nothing", SteadyPreemption, func(_ *testing.T, r *run, s *scene) {
			r.cycle = 2 * settleCycles
			r.gangs.calm, r.gangs.calmFrom = true, 3
			r.decideGangs(s)
		}},
	} {
		r, s := stage(t)
		x.spoil(t, r, s)
		switch {
		case x.want == "" && r.violation != nil:
			t.Errorf("%s: nothing is wrong, but: %v", x.name, r.violation)
		case x.want != "" && (r.violation == nil || r.violation.Invariant != x.want):
			t.Errorf("%s: got %v, want %s", x.name, r.violation, x.want)
		}
	}
}

// TestMachinesThatPassThroughHigherRanks: what a higher rank has had since may be
// preempted again, and what a lower one has had may not.
func TestMachinesThatPassThroughHigherRanks(t *testing.T) {
	for _, x := range []struct {
		owner  int
		id     string
		passed bool
	}{
		{lowRow, "c", true},   // the high gang holds it
		{highRow, "a", false}, // the low gang has it
	} {
		r, s := stage(t)
		r.noteOwners(s)
		o := r.gangs.need(&s.results[x.owner]).Owner()
		r.gangs.preempted[o] = map[string]taking{x.id: {cycle: 1}}
		s.claimant[s.lookUp(t, "c")] = highRow
		r.notePassed(s, r.outranked(s))
		if got := r.gangs.preempted[o][x.id].passed; got != x.passed {
			t.Errorf("%q: passed %v, want %v", x.id, got, x.passed)
		}
		a := &shard.Started{Kind: engine.Preempt, Machine: x.id, Need: int32(x.owner)}
		r.notePreempted(a, s.results[x.owner])
		if broken := r.violation != nil; broken == x.passed || r.gangs.ledger.Passed == 1 != x.passed {
			t.Errorf("%q: violation %v, %d after a higher rank", x.id, r.violation, r.gangs.ledger.Passed)
		}
	}
}

// TestMachinesOfPlansThatHigherRanksEnd: a higher rank takes one machine of a plan, and
// another is let go with it; that one may be preempted again.
func TestMachinesOfPlansThatHigherRanksEnd(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(s *scene, c columnar.Row)
		passed bool
	}{
		{"let go", func(*scene, columnar.Row) {}, true},
		{"held again", func(s *scene, c columnar.Row) {
			s.plan.Reservations = append(s.plan.Reservations, engine.Reserved{Machine: c, Need: lowRow, Reservation: s.in.Supply.Reservation(c)})
		}, false},
		{"a plan of another Need counts on it", func(s *scene, c columnar.Row) {
			other := s.in.Supply.Reservation(c)
			other.Owner.Cluster = "another"
			s.plan.Reservations = append(s.plan.Reservations, engine.Reserved{Machine: c, Need: lowRow, Reservation: other})
		}, true},
		{"let go, and no higher rank was there", func(s *scene, _ columnar.Row) { s.plan.Reservations, s.plan.Actions = nil, nil }, false},
		{"let go, and a higher rank counts on what it had acquired", func(s *scene, _ columnar.Row) {
			s.plan.Reservations, s.plan.Actions = nil, nil
			s.results[lowRow].LostAcquired = true
		}, true},
		{"not let go", func(s *scene, _ columnar.Row) { s.plan.Ended = nil }, false},
	} {
		r, s := stage(t)
		r.noteOwners(s)
		o := r.gangs.need(&s.results[lowRow]).Owner()
		c := s.lookUp(t, "c")
		for _, m := range []columnar.Row{s.plan.Reservations[0].Machine, c} {
			s.in.Supply.Reserve(m, model.Reservation{Owner: o, Plan: 1})
		}
		s.plan.Ended = []columnar.Row{c}
		r.gangs.preempted[o] = map[string]taking{"c": {cycle: 1}}
		delete(s.claimant, c)
		x.change(s, c)
		r.notePassed(s, r.outranked(s))
		if got := r.gangs.preempted[o]["c"].passed; got != x.passed {
			t.Errorf("%s: passed %v, want %v", x.name, got, x.passed)
		}
	}
}

// TestMachinesOfRowsThatWereServed: what was preempted for a row is forgotten once that row lacks nothing, and what was
// preempted for another row of its owner is not.
func TestMachinesOfRowsThatWereServed(t *testing.T) {
	g := newGangs()
	o := model.Owner{Cluster: "low"}
	g.preempted[o] = map[string]taking{"a": {cycle: 1, need: "served"}, "b": {cycle: 1, need: "short"}}
	g.forgetTaken(o, "served")
	if _, kept := g.preempted[o]["b"]; !kept || len(g.preempted[o]) != 1 {
		t.Errorf("remembers %v, want b alone", g.preempted[o])
	}
}

// TestUselessPartsAreCounted: a gang that was broken keeps a part below its minimum for
// longer than the longest grace.
func TestUselessPartsAreCounted(t *testing.T) {
	r, s := stage(t)
	s.plan.Actions = s.plan.Actions[:2]
	r.checkPreempts(s)
	low := &s.results[lowRow]
	f := &fate{broken: true, stranded: graceCycles - 1}
	for _, want := range []GangFigures{{}, {Stranded: 1, StrandedCycles: 1}, {Stranded: 1, StrandedCycles: 2}} {
		r.follow(s, f, low, r.gangs.need(low))
		if got := r.gangs.ledger.GangFigures; got.Stranded != want.Stranded || got.StrandedCycles != want.StrandedCycles {
			t.Errorf("%d gangs for %d cycles, want %d for %d", got.Stranded, got.StrandedCycles, want.Stranded, want.StrandedCycles)
		}
	}
}
