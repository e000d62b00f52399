package livefleet

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/sim"
)

// played is a scenario in virtual time, a cycle a second, as `tonnage up` plays it.
func played(t *testing.T, s *scene, seconds int) (cycles []sim.Cycle) {
	t.Helper()
	p := newScenario(s)
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	run := sim.Scenario{
		Now: start, Options: p.Options(), Seed: 1, Cycles: seconds, Interval: time.Second,
		Latencies: sim.Latencies{Create: sim.Latency{Min: 1, Max: 3}, Configure: sim.Latency{Min: 1, Max: 3}, Drain: sim.Latency{Min: 1, Max: 3}, Delete: sim.Latency{Min: 1, Max: 3}},
		Rails:     sim.Rails{ReclaimCapFraction: 0.05},
	}
	for m := range p.Machines(start) {
		run.Machines = append(run.Machines, *m)
	}
	for second := range seconds {
		for _, r := range p.Due(start + int64(second)*int64(time.Second)) {
			event := sim.Event{At: second + 1, Replace: &sim.Rollup{Cluster: r.Cluster}}
			for i := range r.Needs {
				event.Replace.Needs = append(event.Replace.Needs, sim.Need{Name: p.Name(r.Cluster, &r.Needs[i]), Need: r.Needs[i]})
			}
			run.Timeline = append(run.Timeline, event)
		}
		for i := range s.moves {
			if m := &s.moves[i]; m.at == second && !m.back {
				run.Timeline = append(run.Timeline, sim.Event{At: second + 1, Lose: m.machine})
			}
		}
	}
	if _, err := sim.Run(context.Background(), run, func(c *sim.Cycle) error {
		kept := *c
		kept.Actions, kept.Unsatisfied = slices.Clone(c.Actions), slices.Clone(c.Unsatisfied)
		cycles = append(cycles, kept)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return cycles
}

// firstPreemption returns the second of the first Preempt, −1 when there is none.
func firstPreemption(cycles []sim.Cycle) int {
	for i := range cycles {
		for _, a := range cycles[i].Actions {
			if a.Kind == engine.Preempt {
				return i
			}
		}
	}
	return -1
}

// TestContendedIsInContentionSoon: within 20 s somebody is preempted, a gang waits, and a Need
// matches nothing, while most of the rest is served.
func TestContendedIsInContentionSoon(t *testing.T) {
	s := contended()
	cycles := played(t, s, 20)
	if at := firstPreemption(cycles); at < 1 || at > 15 {
		t.Errorf("the first preemption is in second %d", at)
	}
	last := cycles[len(cycles)-1]
	for _, name := range []string{"moe", "hopper"} {
		if !slices.Contains(last.Unsatisfied, name) {
			t.Errorf("%s is satisfied; short are %v", name, last.Unsatisfied)
		}
	}
	for _, name := range []string{"llama", "storefront", "checkout", "vision", "speech", "finetune", "nightly"} {
		if slices.Contains(last.Unsatisfied, name) {
			t.Errorf("%s is not satisfied", name)
		}
	}
	var spot, racks, zones, states = 0, map[string]bool{}, map[string]bool{}, map[model.State]bool{}
	for i := range s.machines {
		m := &s.machines[i]
		if m.CapacityType == model.Spot {
			spot++
		}
		racks[m.Labels[keyRack]], zones[m.Zone], states[m.State] = true, true, true
	}
	if spot == 0 || len(racks) < 4 || len(zones) < 2 || len(states) < 2 || len(s.tenancy.Tenants) < 2 || len(newScenario(s).clusters) < 3 {
		t.Errorf("spot %d, racks %v, zones %v, states %v", spot, racks, zones, states)
	}
}

// TestEveryScenarioShowsWhatItSays within its first half minute.
func TestEveryScenarioShowsWhatItSays(t *testing.T) {
	for _, build := range scenes {
		s := build()
		t.Run(s.name, func(t *testing.T) {
			cycles := played(t, s, 30)
			moves := slices.ContainsFunc(s.moves, func(m move) bool { return m.at < 30 })
			if at := firstPreemption(cycles); at < 0 && !moves {
				t.Error("nothing is preempted and nothing is lost")
			} else if at >= 0 && at < 3 {
				t.Errorf("the fleet preempts in second %d, before it has settled", at)
			}
			if s.period < 60 || len(s.trials) != 3 {
				t.Errorf("period %d, %d trials", s.period, len(s.trials))
			}
		})
	}
}

// TestEverythingLostComesBack before the scenario begins again.
func TestEverythingLostComesBack(t *testing.T) {
	for _, build := range scenes {
		s := build()
		lost := map[string]bool{}
		for i, m := range s.moves {
			if i > 0 && m.at < s.moves[i-1].at || m.at >= s.period {
				t.Errorf("%s: moves are not in order", s.name)
			}
			for _, id := range m.machine {
				if lost[id] == !m.back {
					t.Errorf("%s: %s is moved twice", s.name, id)
				}
				lost[id] = !m.back
			}
		}
		for id, gone := range lost {
			if gone {
				t.Errorf("%s: %s does not come back", s.name, id)
			}
		}
	}
}

// TestPeriod: every scenario repeats, and what is none does not.
func TestPeriod(t *testing.T) {
	for _, name := range ScenarioNames() {
		if Period(name) <= 0 {
			t.Errorf("%s does not repeat", name)
		}
	}
	if Period("contended") != 60 || Period("none") != 0 {
		t.Errorf("contended repeats every %d s, none every %d s", Period("contended"), Period("none"))
	}
}
