package sim

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

var (
	soakGangs  = flag.Bool("soak-gangs", false, "2,000 cycles of a contended 5k rung, with gangs and machine by machine")
	soakSeeds  = flag.Int("soak-seeds", 3, "seeds of -soak-gangs")
	soakSeed   = flag.Uint64("soak-seed", 1, "the first seed of -soak-gangs")
	soakMode   = flag.String("soak-victims", "", "gang or machine: only these victims; empty = both")
	soakCycles = flag.Int("soak-cycles", 2000, "cycles of a run of -soak-gangs")
)

// The contended fleet: demand changes in the first part of a run, and then
// stays as it is.
const (
	steadyShare = 0.6 // of the cycles, with changes
	gangsMost   = 8   // machines of a gang that comes; a rack has 16
	rackKey     = "topology.kubernetes.io/rack"
)

var gangPriorities = [...]int32{1_000, 150_000, 600_000}

// contended is a rung of which everything is wanted more than once, and gangs of
// three priorities come and go.
func contended(t testing.TB, rung string, seed uint64, cycles, events int) Scenario {
	t.Helper()
	size, err := workload.ByName(rung)
	if err != nil {
		t.Fatal(err)
	}
	f := workload.Build(size, seed)
	sc := Scenario{
		Now: workload.Epoch.UnixNano(), Seed: seed, Cycles: cycles, Interval: 10 * time.Second, Options: engine.DefaultOptions(),
		Latencies: Latencies{Configure: Latency{1, 6}, Drain: Latency{1, 60}, Create: Latency{1, 6}, Delete: Latency{1, 6}},
		Rails:     Rails{ReclaimCapFraction: 0.05},
	}
	sc.Options.Workers = 1
	for m := range f.Machines(workload.Contended, sc.Now) {
		sc.Machines = append(sc.Machines, *m)
	}
	g := gangsToCome{rng: rand.New(rand.NewPCG(seed, 7)), machines: sc.Machines}
	for i, c := range f.Clusters() {
		d := Rollup{Cluster: c}
		for j, n := range f.Needs(workload.Contended, i) {
			if n.AllOrNothing() {
				n.Profile = g.at(t, n.Profile)
			}
			d.Needs = append(d.Needs, Need{Name: fmt.Sprintf("%s-%d", c, j), Need: n})
		}
		sc.Demand, sc.Reported = append(sc.Demand, d), append(sc.Reported, c)
	}
	sc.Timeline = g.timeline(t, sc.Demand, int(steadyShare*float64(cycles)), events)
	return sc
}

// gangsToCome draws gangs.
type gangsToCome struct {
	rng      *rand.Rand
	machines []model.Machine
	count    int
}

// at returns a profile at one of the three priorities.
func (g *gangsToCome) at(t testing.TB, p *model.Profile) *model.Profile {
	t.Helper()
	out, err := model.NewProfile(model.ProfileSpec{
		Requirements: p.Requirements(), Spread: p.Spread(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Priority: gangPriorities[g.rng.IntN(len(gangPriorities))],
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gang returns a gang of whole machines like one of the fleet, in one rack.
func (g *gangsToCome) gang(t testing.TB, cluster string, now int64) Need {
	t.Helper()
	m := &g.machines[g.rng.IntN(len(g.machines))]
	p, err := model.NewProfile(model.ProfileSpec{Requirements: []model.Requirement{
		{Key: rackKey, Operator: model.Same},
		{Key: model.KeyInstanceType, Operator: model.In, Values: []string{m.InstanceType}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g.count++
	unit, sum := m.EffectiveAllocatable(), model.Resources(nil)
	for range 2 + g.rng.IntN(gangsMost-1) {
		sum = sum.Add(unit)
	}
	name := fmt.Sprintf("visitor-%d", g.count)
	return Need{Name: name, Need: model.Need{Cluster: cluster, Profile: g.at(t, p), Aggregate: sum, MinUnit: unit, Group: name, Arrival: now}}
}

// timeline lets gangs come and go until a cycle.
func (g *gangsToCome) timeline(t testing.TB, demand []Rollup, until, events int) []Event {
	t.Helper()
	last := map[int][]Need{}
	var out []Event
	for i := range events {
		at := 2 + i*until/events
		c := g.rng.IntN(len(demand))
		needs := last[c]
		if needs == nil {
			needs = demand[c].Needs
		}
		visitors := len(needs) - len(demand[c].Needs)
		if visitors > 0 && g.rng.IntN(3) == 0 {
			gone := len(demand[c].Needs) + g.rng.IntN(visitors)
			needs = append(append([]Need{}, needs[:gone]...), needs[gone+1:]...)
		} else {
			needs = append(append([]Need{}, needs...), g.gang(t, demand[c].Cluster, workload.Epoch.UnixNano()+int64(at)*int64(10*time.Second)))
		}
		last[c] = needs
		out = append(out, Event{At: at, Replace: &Rollup{Cluster: demand[c].Cluster, Needs: needs}})
	}
	return out
}

// restFromCycle is from which cycle on nothing may be preempted any more. When the
// demand has become steady, machines drain for what was short; whoever had
// them may preempt in turn, once they are bound to another: priority falls along
// each such chain.
func restFromCycle(sc *Scenario) int {
	priorities := map[int32]bool{}
	for i := range sc.Demand {
		for j := range sc.Demand[i].Needs {
			priorities[sc.Demand[i].Needs[j].Profile.Priority()] = true
		}
	}
	last := 0
	for i := range sc.Timeline {
		last = max(last, sc.Timeline[i].At)
	}
	return last + (len(priorities)-1)*(sc.Latencies.Drain.Max+sc.Latencies.Configure.Max+1)
}

// contend runs a scenario to its end and returns how gangs fared, and how far from rest it was.
func contend(t testing.TB, sc Scenario) (GangFigures, history.Totals, error) {
	t.Helper()
	r := newRun(&sc)
	r.compareEvery = 0
	if err := r.start(); err != nil {
		return GangFigures{}, r.summary.Rest, err
	}
	for k := 1; k <= sc.Cycles; k++ {
		c, err := r.step(t.Context(), k)
		if err != nil {
			return r.gangs.ledger.GangFigures, r.summary.Rest, err
		}
		r.summary.take(c)
	}
	return r.gangs.ledger.GangFigures, r.summary.Rest, nil
}

// TestGangsInAContendedFleet: whatever the drains take, nothing of what must hold
// of gangs is broken, and when the demand is steady nothing is preempted any more.
func TestGangsInAContendedFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many cycles of one fleet")
	}
	first, rung, cycles, events, seeds := uint64(1), "tiny", 700, 100, 2
	if *soakGangs {
		first, rung, cycles, events, seeds = *soakSeed, "5k", *soakCycles, *soakCycles/4, *soakSeeds
	}
	for seed := first; seed < first+uint64(seeds); seed++ {
		for _, mode := range []engine.VictimMode{engine.VictimsGang, engine.VictimsMachine} {
			if *soakMode != "" && *soakMode != mode.String() {
				continue
			}
			sc := contended(t, rung, seed, cycles, events)
			sc.Options.Victims = mode
			began := time.Now()
			f, rest, err := contend(t, sc)
			t.Logf("seed %d, victims %s: %d gangs, assembled %d, broken %d, drained %d, twice %d, after a higher rank %d, stranded %d (%d cycles), last Preempt %d, waits p50 %d p90 %d p99 %d max %d; %v",
				seed, mode, f.Gangs, f.Assembled, f.Broken, f.Drained, f.Twice, f.Passed, f.Stranded, f.StrandedCycles, f.LastPreempt, f.Wait(0.5), f.Wait(0.9), f.Wait(0.99), f.Wait(1), time.Since(began).Round(time.Second))
			t.Logf("seed %d, victims %s: %+v", seed, mode, rest)
			if broken := (*Violation)(nil); errors.As(err, &broken) && mode == engine.VictimsGang {
				t.Errorf("seed %d: %v", seed, err)
			} else if err != nil {
				t.Errorf("seed %d, victims %s: %v", seed, mode, err)
			}
			from := restFromCycle(&sc)
			if from >= cycles {
				t.Fatalf("seed %d: %d cycles are too few to see that nothing is preempted from cycle %d on", seed, cycles, from)
			}
			if f.LastPreempt >= from {
				t.Errorf("seed %d, victims %s: a Preempt in cycle %d, and everything has come to rest from %d on", seed, mode, f.LastPreempt, from)
			}
		}
	}
}
