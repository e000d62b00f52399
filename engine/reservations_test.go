package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
)

// TestAPlanIsHeldUntilItsLastDeadline: a gang's plan holds an Idle machine past its
// deadline and one whose drain has not been acknowledged. Neither is given up while
// the other is not, and nobody of lower rank gets either.
func TestAPlanIsHeldUntilItsLastDeadline(t *testing.T) {
	const now = int64(1e18)
	profile := func(priority int32, same bool) *model.Profile {
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
	cpu := func(n int64) model.Resources { return model.Resources{{Name: "cpu", Value: n}} }
	gang := model.Need{Cluster: "gang", Profile: profile(100, true), Aggregate: cpu(2000), MinUnit: cpu(1000)}
	decide := func(idle, other int64, plans [2]uint64) []string {
		machine := func(id string, state model.State, cluster string, deadline int64, plan uint64) model.Machine {
			return model.Machine{
				ID: id, Host: id, State: state, Cluster: cluster, Zone: "a", Resources: cpu(1000),
				Reservation: model.Reservation{Owner: gang.Owner(), Priority: 100, Plan: plan, Domain: "a", Deadline: deadline},
			}
		}
		in := reference.Input{
			Machines: []model.Machine{machine("m-0", model.Idle, "", idle, plans[0]), machine("m-1", model.Configured, "low", other, plans[1])},
			Needs:    []model.Need{gang, {Cluster: "low", Profile: profile(1, false), Aggregate: cpu(2000), MinUnit: cpu(1000)}},
			Reported: map[string]bool{"gang": true, "low": true}, Now: now, Options: reference.DefaultOptions(),
		}
		in.Options.Victims = reference.VictimsGang
		want := reference.Decide(in)
		got, err := twin.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := twin.Diff(got, want); d != "" {
			t.Fatal(d)
		}
		return got.Ended
	}
	for _, c := range []struct {
		name        string
		idle, other int64
		ended       []string
	}{
		{"none is past its deadline", now + 1, 0, nil},
		{"the Idle one is", now - 1, 0, nil},
		{"the other one is", now + 1, now - 1, nil},
		{"both are", now - 1, now - 1, []string{"m-0", "m-1"}},
	} {
		// What an owner plans in two cycles is one plan, whatever the ids.
		for _, plans := range [][2]uint64{{7, 7}, {7, 8}} {
			if got := decide(c.idle, c.other, plans); !slices.Equal(got, c.ended) {
				t.Errorf("%s, plans %v: the reservations of %v end, want %v", c.name, plans, got, c.ended)
			}
		}
	}
}

// heldForEqualRows returns a fleet in which a plan holds Idle machines for equal rows of a cluster,
// and rows of higher priority of another cluster take some of them.
func heldForEqualRows(t *testing.T, rows, machines, thieves int) reference.Input {
	t.Helper()
	const now = int64(1e18)
	profile := func(priority int32) *model.Profile {
		p, err := model.NewProfile(model.ProfileSpec{Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	cpu := model.Resources{{Name: "cpu", Value: 4000}}
	low, high := profile(10), profile(100)
	in := reference.Input{Reported: map[string]bool{"c": true, "d": true}, Now: now, Options: reference.DefaultOptions()}
	in.Options.Victims = reference.VictimsGang
	for range rows {
		in.Needs = append(in.Needs, model.Need{Cluster: "c", Profile: low, Aggregate: cpu, MinUnit: cpu})
	}
	for range thieves {
		in.Needs = append(in.Needs, model.Need{Cluster: "d", Profile: high, Aggregate: cpu, MinUnit: cpu})
	}
	for i := range machines {
		state := []model.State{model.Idle, model.Idle, model.Draining}[i%3]
		cluster := ""
		if state == model.Draining {
			cluster = "d"
		}
		in.Machines = append(in.Machines, model.Machine{
			ID: fmt.Sprintf("m%06d", i), Host: fmt.Sprintf("m%06d", i), State: state, Cluster: cluster, Resources: cpu,
			Reservation: model.Reservation{Owner: in.Needs[0].Owner(), Priority: 10, Plan: 1, Deadline: now + 1e9},
		})
	}
	return in
}

// TestManyRowsShareWhatIsHeld: rows that are equal have one owner. What is held for it
// takes memory once, also when its plan ends.
func TestManyRowsShareWhatIsHeld(t *testing.T) {
	for _, thieves := range []int{0, 1, 7} {
		in := heldForEqualRows(t, 30, 40, thieves)
		got, err := twin.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		if d := twin.Diff(got, reference.Decide(in)); d != "" {
			t.Errorf("%d thieves: %s", thieves, d)
		}
		const many, most = 4_000, 48 << 20 // a copy for each row would be 64 MB
		in = heldForEqualRows(t, many, many, thieves)
		supply, demand, _, err := twin.Tables(in)
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.DefaultOptions()
		opts.Workers, opts.Victims = 1, engine.VictimsGang
		e, err := engine.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Cycle(engine.Input{Supply: supply, Demand: demand, Now: in.Now}); err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for _, u := range e.Memory() {
			total += u.Reserved
		}
		if total > most {
			t.Errorf("%d thieves: %d equal rows for which %d machines are held take %d bytes", thieves, many, many, total)
		}
		e.Close()
	}
}

// TestWhatDepartsIsExplained: a machine on which a plan of another cluster counts as excess is in no state
// in which it could serve the Need that would have it.
func TestWhatDepartsIsExplained(t *testing.T) {
	const now = int64(1e18)
	profile, err := model.NewProfile(model.ProfileSpec{Priority: 1})
	if err != nil {
		t.Fatal(err)
	}
	owner := model.Need{Cluster: "owner", Profile: profile, Aggregate: model.Resources{{Name: "cpu", Value: 2000}}}
	heir := model.Need{Cluster: "heir", Profile: profile, Aggregate: model.Resources{{Name: "cpu", Value: 1000}}}
	in := reference.Input{
		Machines: []model.Machine{{
			ID: "m", Host: "m", State: model.Configured, Cluster: "heir", Resources: model.Resources{{Name: "cpu", Value: 1000}},
			Reservation: model.Reservation{Owner: owner.Owner(), Priority: 1, Plan: 7, Deadline: now + 1},
		}},
		Needs:    []model.Need{owner, heir},
		Reported: map[string]bool{"owner": true, "heir": true}, Now: now, Options: reference.DefaultOptions(),
	}
	s, d, _, err := twin.Tables(in)
	if err != nil {
		t.Fatal(err)
	}
	opts := twin.Options(in.Options)
	opts.Victims = engine.VictimsGang
	e := newEngine(t, withExplain(opts))
	plan, err := e.Cycle(engine.Input{Supply: s, Demand: d, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Actions) != 1 || plan.Actions[0].Kind != engine.Reclaim {
		t.Errorf("actions are %v, want the machine reclaimed", plan.Actions)
	}
	for i := range plan.Len() {
		if n := plan.Need(i); n.Cluster == "heir" && e.ExplainNeed(i).Machines[engine.VerdictState] != 1 {
			t.Errorf("the machine is explained as %v", e.ExplainNeed(i).Machines)
		}
	}
}
