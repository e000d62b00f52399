package sim

import (
	"errors"
	"flag"
	"fmt"
	"maps"
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

// tame leaves out of a profile what makes a Need want another machine when one
// has been taken, so that it goes round and round with what is free: values
// listed with Same count only while the gang needs several machines.
func tame(n *model.Need) error {
	p := n.Profile
	spec := model.ProfileSpec{Spread: p.Spread(), Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation()}
	for _, r := range p.Requirements() {
		if r.Operator == model.Same {
			r.Values = nil
		}
		spec.Requirements = append(spec.Requirements, r)
	}
	var err error
	n.Profile, err = model.NewProfile(spec)
	return err
}

// everywhere gives each machine a place under the keys that gangs share.
func everywhere(ms []model.Machine) {
	for i := range ms {
		for key, value := range map[string]string{model.KeyZone: "za", "topology.kubernetes.io/rack": "r1"} {
			if _, ok := ms[i].Attribute(key); !ok {
				ms[i].Labels = maps.Clone(ms[i].Labels)
				if ms[i].Labels == nil {
					ms[i].Labels = map[string]string{}
				}
				ms[i].Labels[key] = value
			}
		}
	}
}

// scenarioOf turns a random world into a scenario with random latencies.
func scenarioOf(w fleet.World, seed int64) (Scenario, error) {
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
	if w.Fit {
		sc.Options.Acquire, sc.Options.MaxMachineShare = engine.AcquireFit, w.MaxMachineShare
	}
	everywhere(sc.Machines)
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
		if err := tame(&n); err != nil {
			return sc, err
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
	return sc, nil
}

// trace is what happened to each machine after the trouble.
type trace map[string][]string

func (x trace) add(c *Cycle) {
	for _, a := range c.Actions {
		x[a.Machine] = append(x[a.Machine], fmt.Sprintf("%d:%s(%s)", c.Cycle, a.Kind, a.Need))
	}
}

// roundsMax is how often a machine may be acquired and given up again while the
// world comes to rest: drains that end and others that take what is free may
// each make something else the better choice.
const roundsMax = 5

// restless names a machine that went round more often than that.
func (x trace) restless() string {
	for id, steps := range x {
		acquired, rounds := false, 0
		for _, s := range steps {
			switch {
			case strings.Contains(s, "Bootstrap"), strings.Contains(s, "Provision"):
				acquired = true
			case acquired:
				acquired = false
				rounds++
			}
		}
		if rounds > roundsMax {
			return fmt.Sprintf("machine %s: %v", id, steps)
		}
	}
	return ""
}

// heal ends the trouble: calls succeed again and Failed machines are whole.
func (r *run) heal() (err error) {
	r.fleet.ClearFaults()
	r.shard.Machines(func(m model.Machine) bool {
		if rec, ok := r.fleet.Get(m.ID); ok && rec.Machine.State == model.Failed {
			err = errors.Join(err, r.fleet.Heal(m.ID))
		}
		return true
	})
	return err
}

// TestRandomWorldsComeToRest: with faults for a while and then none, whatever
// the latencies, the engine stops acting, and does not go round before.
func TestRandomWorldsComeToRest(t *testing.T) {
	sizes := []fleet.Size{fleet.Tiny, fleet.Tiny, fleet.Small}
	n := *worlds
	if testing.Short() {
		n = min(n, 10)
	}
	for i := range n {
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
	sc, err := scenarioOf(fleet.Random(seed, size), seed)
	if err != nil {
		return err
	}
	r := newRun(&sc)
	if err := r.start(); err != nil {
		return err
	}
	steps := trace{}
	for k := 1; k <= runCycles; k++ {
		if k == troubleUntil {
			if err := r.heal(); err != nil {
				return err
			}
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
	if m := steps.restless(); m != "" {
		return fmt.Errorf("acquired and given up more than %d times: %s", roundsMax, m)
	}
	return nil
}
