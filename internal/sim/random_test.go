package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/fleet"
	"github.com/tonnage/tonnage/shard"
)

var (
	worlds    = flag.Int("worlds", 40, "random worlds to run until they rest")
	worldSeed = flag.Int64("world-seed", 0, "run only the world of this seed")
)

// The course of a random run, in cycles. Cycles are a minute apart, so that
// reservations and holds end within it.
const (
	troubleUntil = 25
	restFrom     = 180
	runCycles    = 260
)

// withoutSpread leaves spread off a profile. On a gang it counts for nothing
// while the gang needs several machines and for much once one machine holds
// it, so that what is drained for it may be of no use to it. With several
// dimensions a domain whose free machines hold nothing that is still missing
// keeps the minimum down among Idle machines and not among quota slots, so that
// what was bought may not be bound. Both go round and round.
func withoutSpread(t *testing.T, p *model.Profile) *model.Profile {
	t.Helper()
	out, err := model.NewProfile(model.ProfileSpec{
		Requirements: p.Requirements(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// scenarioOf turns a random world into a scenario with random latencies.
func scenarioOf(t *testing.T, w fleet.World, seed int64) Scenario {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	latency := func() Latency {
		l := Latency{Min: rng.IntN(3)}
		l.Max = l.Min + rng.IntN(4)
		return l
	}
	sc := Scenario{
		Now: w.Now, Machines: w.Machines, Seed: uint64(seed), Cycles: runCycles, Interval: time.Minute, Options: engine.DefaultOptions(),
		Latencies: Latencies{Create: latency(), Configure: latency(), Drain: latency(), Delete: latency()},
		Faults:    []Fault{{Op: shard.OpAny, Probability: 0.05}},
		Rails:     Rails{ReclaimCapFraction: 0.25, Queue: rng.IntN(2) * 5},
	}
	sc.Options.Release = engine.Release{OnDemand: 3 * time.Minute, Spot: time.Minute}
	byCluster := map[string]*Rollup{}
	var order []string
	for i, n := range w.Needs {
		// A gang that nothing covers moves to where most of it could be, and
		// what another gang of its cluster acquires there counts for it: two of
		// them may chase each other without end. Each has a cluster to itself.
		if n.Profile.Same() != nil {
			own := fmt.Sprintf("%s~%d", n.Cluster, i)
			w.Reported[own] = w.Reported[n.Cluster]
			n.Cluster = own
		}
		if n.Profile.Same() != nil || len(n.Aggregate) > 1 {
			n.Profile = withoutSpread(t, n.Profile)
		}
		d := byCluster[n.Cluster]
		if d == nil {
			d = &Rollup{Cluster: n.Cluster}
			byCluster[n.Cluster] = d
			order = append(order, n.Cluster)
		}
		d.Needs = append(d.Needs, Need{Name: fmt.Sprintf("n%d", i), Need: n})
	}
	for _, c := range order {
		sc.Demand = append(sc.Demand, *byCluster[c])
	}
	for c, yes := range w.Reported {
		if yes {
			sc.Reported = append(sc.Reported, c)
		}
	}
	return sc
}

// trace is what happened to each machine after the trouble.
type trace map[string][]string

func (x trace) add(c *Cycle) {
	for _, a := range c.Actions {
		x[a.Machine] = append(x[a.Machine], fmt.Sprintf("%d:%s(%s)", c.Cycle, a.Kind, a.Need))
	}
}

// undone names a machine that was acquired and then given up again, with
// nobody who wanted it more. Machines that a gang acquired do not count: while
// drains end and others take what is free, another domain may come to hold
// more of it, or it no longer fits one machine, and then it moves.
func (x trace) undone(gangs map[string]bool) string {
	for id, steps := range x {
		acquired := false
		for _, s := range steps {
			kind, need, _ := strings.Cut(strings.TrimSuffix(s[strings.IndexByte(s, ':')+1:], ")"), "(")
			switch {
			case kind == "Bootstrap", kind == "Provision":
				acquired = !gangs[need]
			case acquired && kind != "Preempt":
				return fmt.Sprintf("machine %s: %v", id, steps)
			}
		}
	}
	return ""
}

// heal ends the trouble: calls succeed again and Failed machines are whole.
func (r *run) heal(t *testing.T) {
	r.fleet.ClearFaults()
	r.shard.Machines(func(m model.Machine) bool {
		if rec, ok := r.fleet.Get(m.ID); ok && rec.Machine.State == model.Failed {
			if err := r.fleet.Heal(m.ID); err != nil {
				t.Error(err)
			}
		}
		return true
	})
}

// TestRandomWorldsComeToRest: with faults, losses and latencies for a while and
// then none, whatever the world, the engine stops acting, and undoes nothing
// that it did after the trouble.
func TestRandomWorldsComeToRest(t *testing.T) {
	sizes := []fleet.Size{fleet.Tiny, fleet.Tiny, fleet.Small}
	for i := range *worlds {
		seed := int64(i + 1)
		if *worldSeed != 0 {
			if seed = *worldSeed; i > 0 {
				break
			}
		}
		if err := comesToRest(t, seed, sizes[seed%int64(len(sizes))]); err != nil {
			t.Fatalf("seed %d (repeat with -world-seed=%d): %v", seed, seed, err)
		}
	}
}

func comesToRest(t *testing.T, seed int64, size fleet.Size) error {
	sc := scenarioOf(t, fleet.Random(seed, size), seed)
	r := newRun(&sc)
	if err := r.start(); err != nil {
		return err
	}
	steps := trace{}
	for k := 1; k <= runCycles; k++ {
		if k == troubleUntil {
			r.heal(t)
		}
		c, err := r.step(t.Context(), k)
		if err != nil {
			return err
		}
		if k > troubleUntil {
			steps.add(c)
		}
		if testing.Verbose() && *worldSeed != 0 && len(c.Actions) > 0 {
			t.Logf("cycle %d: %v unsatisfied %v", k, c.Actions, c.Unsatisfied)
		}
		if k > restFrom && len(c.Actions) > 0 {
			return fmt.Errorf("cycle %d still acts: %v; before: %v", k, c.Actions, steps[c.Actions[0].Machine])
		}
	}
	gangs := map[string]bool{}
	for _, d := range sc.Demand {
		for i := range d.Needs {
			gangs[d.Needs[i].Name] = d.Needs[i].Profile.Same() != nil
		}
	}
	if u := steps.undone(gangs); u != "" {
		return fmt.Errorf("undone: %s", u)
	}
	return nil
}
