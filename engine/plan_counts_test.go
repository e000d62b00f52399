package engine_test

import (
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/twin"
)

// planned is a world of four machines of zone a that "low" has, and what others want.
type planned struct {
	t     *testing.T
	in    reference.Input
	owner model.Need
}

const plannedAt = int64(1e18)

func plannedProfile(t *testing.T, priority int32, same bool) *model.Profile {
	t.Helper()
	spec := model.ProfileSpec{Priority: priority}
	if same {
		spec.Requirements = []model.Requirement{{Key: model.KeyZone, Operator: model.Same}}
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func cpus(n int64) model.Resources { return model.Resources{{Name: "cpu", Value: 1000 * n}} }

// newPlanned reserves machines for a gang of two, as a plan of an earlier cycle has; others are of "low".
func newPlanned(t *testing.T, states ...model.State) *planned {
	p := &planned{t: t}
	p.owner = model.Need{Cluster: "gang", Profile: plannedProfile(t, 100, true), Aggregate: cpus(2), MinUnit: cpus(1)}
	p.in = reference.Input{
		Needs:    []model.Need{p.owner, {Cluster: "low", Profile: plannedProfile(t, 1, false), Aggregate: cpus(2), MinUnit: cpus(1)}},
		Reported: map[string]bool{"gang": true, "low": true, "top": true}, Now: plannedAt, Options: reference.DefaultOptions(),
	}
	p.in.Options.Victims = reference.VictimsGang
	for i, s := range states {
		m := model.Machine{ID: string(rune('a' + i)), Host: "h", State: s, Zone: "a", Resources: cpus(1)}
		if s == model.Configured {
			m.Cluster = "low"
		}
		if s == model.Draining {
			m.Cluster = "low"
		}
		if s != model.Configured {
			m.Reservation = model.Reservation{Owner: p.owner.Owner(), Priority: 100, Plan: 1, Domain: "a", Deadline: plannedAt + 1}
		}
		p.in.Machines = append(p.in.Machines, m)
	}
	return p
}

func (p *planned) stats() (st engine.Stats) {
	p.t.Helper()
	p.decide(func(_ *supply.Table, plan *engine.Plan) { st = plan.Stats })
	return st
}

// decide lets something look at the plan.
func (p *planned) decide(look func(*supply.Table, *engine.Plan)) {
	p.t.Helper()
	machines, demand, _, err := twin.Tables(p.in)
	if err != nil {
		p.t.Fatal(err)
	}
	e, err := engine.New(twin.Options(p.in.Options))
	if err != nil {
		p.t.Fatal(err)
	}
	defer e.Close()
	plan, err := e.Cycle(engine.Input{Supply: machines, Demand: demand, Now: p.in.Now})
	if err != nil {
		p.t.Fatal(err)
	}
	look(machines, plan)
}

// TestWhatBecomesOfPlans: each plan is counted once, as made, kept, completed or ended, with
// the cause.
func TestWhatBecomesOfPlans(t *testing.T) {
	ended := func(end engine.PlanEnd) (c engine.PlanCounts) {
		c.PlansEnded[end] = 1
		return c
	}
	satisfied := func(p *planned) {
		for _, id := range []string{"y", "z"} {
			p.in.Machines = append(p.in.Machines, model.Machine{
				ID: id, Host: "h", State: model.Configured, Cluster: "gang", Zone: "a", Resources: cpus(1),
				Assigned: model.Assignment{Priority: 100, Fingerprint: p.owner.Profile.Fingerprint()},
			})
		}
	}
	for _, c := range []struct {
		name   string
		states []model.State
		change func(*planned)
		want   engine.PlanCounts
	}{
		{"made", []model.State{model.Configured, model.Configured}, func(*planned) {}, engine.PlanCounts{PlansMade: 1}},
		{"kept while it drains", []model.State{model.Draining, model.Draining}, func(*planned) {}, engine.PlanCounts{PlansKept: 1}},
		{"completed when all is Idle", []model.State{model.Idle, model.Idle}, func(*planned) {}, engine.PlanCounts{PlansCompleted: 1}},
		{"the owner is gone", []model.State{model.Idle, model.Idle}, func(p *planned) { p.in.Needs = p.in.Needs[1:] }, ended(engine.PlanOwnerGone)},
		{"the deadline has passed", []model.State{model.Idle, model.Idle}, func(p *planned) { p.in.Now += 2; p.in.Needs = p.in.Needs[1:] }, ended(engine.PlanExpired)},
		{"a higher rank takes one", []model.State{model.Idle, model.Idle}, func(p *planned) {
			p.in.Needs = append(p.in.Needs, model.Need{Cluster: "top", Profile: plannedProfile(t, 200, false), Aggregate: cpus(2), MinUnit: cpus(1)})
		}, ended(engine.PlanRankLost)},
		{"the owner is satisfied by others", []model.State{model.Idle, model.Idle}, satisfied, ended(engine.PlanOwnerSatisfied)},
		{"what drains is not needed", []model.State{model.Draining, model.Draining}, satisfied, ended(engine.PlanUnneeded)},
		{"its domain cannot cover it", []model.State{model.Draining}, func(*planned) {}, ended(engine.PlanDomainLost)},
		{"its machine has failed", []model.State{model.Failed}, func(*planned) {}, ended(engine.PlanMachinesGone)},
	} {
		p := newPlanned(t, c.states...)
		c.change(p)
		if got := p.stats().PlanCounts; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestTheRestOfABrokenGangStaysBound: of a gang of three a plan uses two; the third is
// counted and not preempted. A gang that can live with one is not broken.
func TestTheRestOfABrokenGangStaysBound(t *testing.T) {
	for _, least := range []int64{3, 1} {
		p := newPlanned(t, model.Configured, model.Configured, model.Configured, model.Configured)
		victim := model.Need{Cluster: "low", Group: "v", Profile: plannedProfile(t, 1, true), Aggregate: cpus(3), MinUnit: cpus(1), MinAggregate: cpus(least)}
		p.in.Needs[1] = victim
		for i := range p.in.Machines {
			p.in.Machines[i].Assigned = model.Assignment{Priority: 1, Fingerprint: victim.Profile.Fingerprint(), Group: "v"}
		}
		nobodys := &p.in.Machines[3]
		nobodys.Zone, nobodys.Cluster = "b", "other"
		broken := least == 3
		p.decide(func(machines *supply.Table, plan *engine.Plan) {
			if st := &plan.Stats; st.PlansMade != 1 || st.LeftBound == 1 != broken || st.Actions[engine.Preempt] != 2 {
				t.Errorf("%d at least: %+v with %d Preempts", least, st.PlanCounts, st.Actions[engine.Preempt])
			}
			for i := range p.in.Machines {
				m := &p.in.Machines[i]
				if r, _ := machines.Lookup(m.ID); plan.Breaks(r) != (broken && m != nobodys) {
					t.Errorf("%d at least: %s is of a broken gang: %v", least, m.ID, plan.Breaks(r))
				}
			}
		})
	}
}

// TestCreditIsCounted: a cycle that builds on nothing works out the credit of all, one after it
// of what has changed. What serves another Need is adopted, and counted once.
func TestCreditIsCounted(t *testing.T) {
	p := newPlanned(t, model.Configured, model.Configured)
	p.in.Needs = p.in.Needs[1:]
	supply, demand, _, err := twin.Tables(p.in)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(twin.Options(p.in.Options))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var first, last engine.Stats
	for i := range 3 {
		plan, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: p.in.Now + int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range plan.Adopted {
			supply.Stamp(x.Machine, plan.Stamp(int(x.Need)))
		}
		if last = plan.Stats; i == 0 {
			first = last
		}
	}
	if first.Credited != 1 || first.ClustersCredited != first.Clusters || first.Adopted != 2 {
		t.Errorf("the first cycle: %d Needs and %d of %d clusters credited, %d adopted", first.Credited, first.ClustersCredited, first.Clusters, first.Adopted)
	}
	if last.Credited+last.ClustersCredited+last.Adopted != 0 {
		t.Errorf("when nothing changes: %d Needs and %d clusters credited, %d adopted", last.Credited, last.ClustersCredited, last.Adopted)
	}
}
