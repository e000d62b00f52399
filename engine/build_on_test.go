package engine_test

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/engine/supply"
)

// story is a small fleet, told cycle by cycle.
type story struct {
	*testing.T
	script
}

// The names that stories use.
const (
	storyNow  = int64(1_800_000_000) * 1e9
	storyRack = "example.com/rack"
)

// machine enters a machine with some cores in a rack, or changes it.
func (s *story) machine(id string, state model.State, cluster string, cores int64, rack string) {
	s.Helper()
	m := model.Machine{
		ID: id, State: state, Cluster: cluster, Labels: map[string]string{storyRack: rack},
		Resources: model.NewResources(model.Amount{Name: "cpu", Value: cores}),
	}
	if state != model.Speculative && state != model.Creating {
		m.Host = "host-" + id
	}
	if err := s.supply.Put(&m); err != nil {
		s.Fatal(err)
	}
}

// row is a row of a cluster's roll-up that wants some cores, a number of
// machines of a size: a gang in one rack when it says so.
func (s *story) row(priority int32, cores, unit int64, gang bool, requirements ...model.Requirement) model.Need {
	s.Helper()
	spec := model.ProfileSpec{Priority: priority, Requirements: requirements}
	if gang {
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: storyRack, Operator: model.Same})
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		s.Fatal(err)
	}
	amount := func(v int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: v}) }
	return model.Need{Profile: p, Aggregate: amount(cores), MinUnit: amount(unit)}
}

func (s *story) reports(cluster string, rows ...model.Need) {
	s.Helper()
	for i := range rows {
		rows[i].Cluster = cluster
	}
	if err := s.demand.Replace(cluster, rows); err != nil {
		s.Fatal(err)
	}
	s.demand.MarkReported(cluster)
	s.clusters[cluster] = true
}

func (s *story) moves(id string, to model.State) {
	s.Helper()
	r, ok := s.supply.Lookup(id)
	if !ok {
		s.Fatalf("there is no machine %s", id)
	}
	if err := s.supply.Transition(r, to, "", s.now); err != nil {
		s.Fatal(err)
	}
}

// holds has a machine held for the first row of a cluster, and stamped for it if it is
// on its way.
func (s *story) holds(id, cluster string, until int64) {
	s.Helper()
	r, ok := s.supply.Lookup(id)
	if !ok {
		s.Fatalf("there is no machine %s", id)
	}
	n := s.demand.Rows(cluster)[0]
	s.supply.Reserve(r, model.Reservation{Owner: n.Owner(), Priority: n.Profile.Priority(), Deadline: until})
	if s.supply.State(r) == model.Creating {
		s.supply.Stamp(r, stampOf(&n))
	}
}

// stamps has a machine carry the stamp of the first row of a cluster, or none.
func (s *story) stamps(id, cluster string) {
	s.Helper()
	r, ok := s.supply.Lookup(id)
	if !ok {
		s.Fatalf("there is no machine %s", id)
	}
	stamp := model.Assignment{}
	if cluster != "" {
		stamp = stampOf(&s.demand.Rows(cluster)[0])
	}
	s.supply.Stamp(r, stamp)
}

// stories are what cycles that build on one another have got wrong: the first
// part is there at the first cycle, the others happen between cycles. The last
// cycle must build on the one before.
var stories = []struct {
	name  string
	parts []func(*story)
}{
	{"ARowLooksAgainWhenWhatItLeftGoes", []func(*story){
		func(s *story) {
			of := func(cpu, memory, gpu int64) model.Resources {
				return model.NewResources(model.Amount{Name: "cpu", Value: cpu}, model.Amount{Name: "memory", Value: memory}, model.Amount{Name: "gpu", Value: gpu})
			}
			first, last := s.row(100, 0, 0, false), s.row(100, 0, 0, false)
			first.Aggregate, first.MinUnit = of(2, 8, 2), of(1, 0, 0)
			last.Aggregate, last.MinUnit = of(0, 0, 4), of(0, 0, 1)
			s.reports("a", first, last)
			for id, has := range map[string]model.Resources{"small": of(2, 4, 0), "l1": of(2, 8, 4), "l2": of(8, 8, 2)} {
				m := model.Machine{ID: id, State: model.Configured, Cluster: "a", Host: "host-" + id, Labels: map[string]string{storyRack: "r"}, Resources: has}
				if err := s.supply.Put(&m); err != nil {
					s.Fatal(err)
				}
				s.stamps(id, "a")
			}
		},
		func(s *story) { s.moves("small", model.Draining) }, // the first row had taken it first, and then l2 instead
	}},
	{"WhatARowLetsGoIsWorthItsStampAgain", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 8, 4, false), s.row(90, 0, 4, false))
			s.machine("a1", model.Configured, "a", 4, "r")
			s.machine("a2", model.Configured, "a", 4, "r")
			s.reports("b", s.row(50, 8, 4, false))
		},
		func(s *story) { // nobody has a2 by now, and b may
			s.reports("a", s.row(90, 4, 4, false), s.row(90, 0, 4, false))
		},
	}},
	{"SeatsThatNobodyHasSatOnAreEmpty", []func(*story){
		func(s *story) { // nine kinds leave their numbers in memory
			rows := []model.Need{}
			for i := range int32(9) {
				rows = append(rows, s.row(i, 4, 4, false))
			}
			s.reports("a", rows...)
			s.machine("m1", model.Idle, "", 8, "r")
		},
		func(s *story) { // as many places for rows as before, and two kinds
			s.reports("a", s.row(0, 4, 4, false))
			s.reports("b", s.row(1, 4, 4, true))
		},
		func(s *story) { // seven rows that fold come to where nobody sat
			rows := []model.Need{s.row(0, 4, 4, false)}
			for range 7 {
				rows = append(rows, s.row(1, 4, 4, true))
			}
			s.reports("a", rows...)
		},
	}},
	{"ARowThatHasBegunFoldsAgainWhenNothingHasItsStamp", []func(*story){
		func(s *story) { // i1 holds the row whole
			s.reports("a", s.row(100, 8, 4, true))
			s.machine("a1", model.Configured, "a", 4, "r")
			s.machine("i1", model.Idle, "", 8, "r")
		},
		func(s *story) { s.stamps("a1", "a") },
		func(s *story) { s.stamps("a1", "") },
	}},
	{"NumbersOfProfilesAndUnitsGetAnotherMeaning", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 8, 4, false))
			s.reports("b", s.row(50, 8, 4, true), s.row(50, 4, 1, true))
			for i := range 5 {
				s.machine(fmt.Sprint("m", i), model.Idle, "", 4, "r")
			}
		},
		func(s *story) { // there is no 100 any more, nor a unit of 1
			s.reports("a", s.row(70, 8, 2, false))
			s.reports("b", s.row(50, 8, 4, true), s.row(50, 4, 4, true))
		},
		func(s *story) { // their numbers are others', in plain rows and in folds
			s.reports("b", s.row(80, 8, 3, true), s.row(50, 4, 4, true))
		},
		func(s *story) { // and they are back
			s.reports("a", s.row(100, 8, 4, false))
		},
	}},
	{"FreeMachinesBreakTheTieOfCredit", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 8, 4, true))
			for _, id := range []string{"1", "2"} {
				s.machine("r"+id, model.Configured, "a", 4, "r")
				s.machine("s"+id, model.Configured, "a", 4, "s")
			}
			s.machine("r3", model.Draining, "z", 4, "r")
			s.reports("z", s.row(1, 0, 4, false))
		},
		func(s *story) { s.moves("r3", model.Idle) },
	}},
	{"WhatLeavesAFoldIsTakenOffItsSum", []func(*story){
		func(s *story) { // a machine holds any of them, so they are one
			s.reports("a", s.row(100, 4, 4, true), s.row(100, 4, 4, true), s.row(100, 4, 4, true))
			s.reports("b", s.row(100, 0, 4, false))
			s.machine("a1", model.Configured, "a", 4, "r")
			for i := range 4 {
				s.machine(fmt.Sprint("m", i), model.Idle, "", 4, fmt.Sprint("r", i))
			}
		},
		func(s *story) {
			s.reports("a", s.row(100, 4, 4, true), s.row(100, 0, 4, false), s.row(100, 4, 4, true))
		},
	}},
	{"AGangBeginsWhenItsReservationDoes", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 8, 4, true))
			s.reports("b", s.row(100, 0, 4, false))
			s.machine("big", model.Idle, "", 8, "s")
			s.machine("m1", model.Idle, "", 4, "r")
			s.machine("m2", model.Idle, "", 4, "r")
		},
		func(s *story) { s.holds("m1", "a", storyNow+1e9) },
		func(s *story) { s.now += 2e9 }, // it has expired, and nothing else has changed
	}},
	{"AFoldGetsWhatIsCreatedForAMember", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 4, 4, true), s.row(100, 4, 4, true))
			s.machine("m1", model.Idle, "", 4, "r")
			s.machine("s1", model.Speculative, "", 4, "r")
		},
		func(s *story) {
			s.moves("s1", model.Creating)
			s.holds("s1", "a", 0)
		},
	}},
	{"TheLargestUnitGoesFirst", []func(*story){
		func(s *story) {
			s.reports("a", s.row(100, 4, 2, false), s.row(100, 4, 4, false), s.row(90, 4, 1, false))
			s.machine("a1", model.Configured, "a", 4, "r")
			s.machine("a2", model.Configured, "a", 2, "r")
			s.machine("m1", model.Idle, "", 4, "r")
		},
		func(s *story) { // now the first has it
			s.reports("a", s.row(100, 8, 8, false), s.row(100, 4, 4, false), s.row(90, 4, 1, false))
		},
		func(s *story) { // they are alike
			s.reports("a", s.row(100, 4, 4, false), s.row(100, 4, 4, false), s.row(90, 4, 1, false))
		},
		func(s *story) { // and one comes between
			s.reports("a", s.row(100, 4, 1, false), s.row(100, 4, 4, false), s.row(90, 4, 1, false))
		},
	}},
	{"WithItsMachineAFoldGoes", []func(*story){
		func(s *story) { // only a1 holds it whole
			s.reports("a", s.row(100, 8, 4, true), s.row(100, 4, 4, false))
			s.machine("a1", model.Configured, "a", 8, "r")
			s.machine("a2", model.Configured, "a", 4, "r")
			for i := range 4 {
				s.machine(fmt.Sprint("m", i), model.Idle, "", 4, fmt.Sprint("r", i/2))
			}
		},
		func(s *story) { s.moves("a1", model.Draining) },
		func(s *story) { s.moves("a1", model.Idle) },
	}},
}

func TestStories(t *testing.T) {
	for _, mode := range []reference.VictimMode{reference.VictimsGang, reference.VictimsMachine} {
		for _, x := range stories {
			t.Run(x.name+"/"+engine.VictimMode(mode).String(), func(t *testing.T) {
				s := &story{T: t, script: script{
					supply: supply.New(), demand: demand.New(), clusters: map[string]bool{}, now: storyNow, options: reference.DefaultOptions(),
				}}
				s.options.Victims = mode
				s.start(t)
				for i, happens := range x.parts {
					happens(s)
					plan, fault := s.compare(t)
					if fault != "" {
						t.Fatalf("cycle %d, %s", i, fault)
					}
					if last := i == len(x.parts)-1; last && plan.Stats.Full {
						t.Errorf("cycle %d built on nothing", i)
					}
				}
			})
		}
	}
}

// TestMachinesGoFromClusterToCluster: a provider may say that a machine is bound to another
// cluster than it was. Two workers have it in hand then, one for each of the clusters;
// under the race detector they do not meet.
func TestMachinesGoFromClusterToCluster(t *testing.T) {
	const clusters, each = 40, 3
	s := &story{T: t, script: script{
		supply: supply.New(), demand: demand.New(), clusters: map[string]bool{}, now: storyNow, options: reference.DefaultOptions(),
	}}
	s.start(t)
	name := func(c int) string { return fmt.Sprint("c", c%clusters) }
	for c := range clusters {
		s.reports(name(c), s.row(100, 4*each, 4, false))
	}
	for m := range clusters * each {
		s.machine(fmt.Sprint("m", m), model.Configured, name(m/each), 4, "r")
	}
	builtOn := 0
	for cycle := range 100 {
		plan, fault := s.compare(t)
		if fault != "" {
			t.Fatalf("cycle %d, %s", cycle, fault)
		}
		if !plan.Stats.Full {
			builtOn++
		}
		for i := range 16 {
			m := (cycle*16 + i) % (clusters * each)
			s.machine(fmt.Sprint("m", m), model.Configured, name(m/each+clusters/2), 4, "r")
		}
	}
	if builtOn < 50 {
		t.Errorf("%d of 100 cycles built on the one before: too few to try that", builtOn)
	}
}

// TestProfilesThatAreGoneAreForgotten: a demand whose every report brings a
// profile that never was there is decided upon the cycle before, but for one
// cycle in thousands, which forgets the kinds of those that are gone.
func TestProfilesThatAreGoneAreForgotten(t *testing.T) {
	if testing.Short() {
		t.Skip("counts bytes over many cycles")
	}
	s := &story{T: t, script: script{
		supply: supply.New(), demand: demand.New(), clusters: map[string]bool{}, now: storyNow, options: reference.DefaultOptions(),
	}}
	s.start(t)
	s.machine("m", model.Idle, "", 4, "r")
	full := 0
	for i := range int32(10_000) {
		s.reports("a", s.row(i, 4, 4, false))
		plan, err := s.running[0].Cycle(engine.Input{Supply: s.supply, Demand: s.demand, Now: s.now})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Stats.Full {
			full++
		}
		if n := plan.Stats.Actions[engine.Bootstrap]; n != 1 {
			t.Fatalf("cycle %d: %d Bootstraps, want 1", i, n)
		}
	}
	if full < 2 || full > 4 {
		t.Errorf("%d of 10,000 cycles built on nothing, want the first and one or two more", full)
	}
}
