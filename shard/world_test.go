package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

const second = int64(time.Second)

func cpu(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }

// machine makes one of 4 cpu; the cluster is set for states that need one.
func machine(id string, s model.State, cluster string) model.Machine {
	m := model.Machine{ID: id, State: s, Cluster: cluster, InstanceType: "t", PricePerHour: 1, CapacityType: model.BareMetal, Resources: cpu(4)}
	return m
}

func machines(n int, s model.State, cluster string) (out []model.Machine) {
	for i := range n {
		out = append(out, machine(fmt.Sprintf("m-%02d", i), s, cluster))
	}
	return out
}

func profile(t testing.TB, spec model.ProfileSpec) *model.Profile {
	t.Helper()
	p, err := model.NewProfile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// need asks for so many cpu in units of a whole machine.
func need(t testing.TB, priority int32, amount int64) model.Need {
	t.Helper()
	return model.Need{Profile: profile(t, model.ProfileSpec{Priority: priority}), Aggregate: cpu(amount), MinUnit: cpu(4)}
}

// gang is a need whose machines must share a rack.
func gang(t testing.TB, priority int32, amount int64) model.Need {
	t.Helper()
	n := need(t, priority, amount)
	n.Profile = profile(t, model.ProfileSpec{Priority: priority, Requirements: []model.Requirement{{Key: "rack", Operator: model.Same}}})
	n.Group = "g"
	return n
}

func inRack(m model.Machine, rack string) model.Machine {
	m.Labels = map[string]string{"rack": rack}
	return m
}

// world is a shard and its provider in virtual time.
type world struct {
	t     *testing.T
	fleet *simulated.Fleet
	shard *shard.Shard
	cfg   shard.Config
	deps  shard.Deps
	now   int64
}

type option func(*shard.Config, *shard.Deps, *simulated.Config)

func latencies(create, configure, drain time.Duration) option {
	at := func(d time.Duration) simulated.Latency { return simulated.Latency{Min: d, Max: d} }
	return func(_ *shard.Config, _ *shard.Deps, p *simulated.Config) {
		p.Latencies = simulated.Latencies{Create: at(create), Configure: at(configure), Drain: at(drain)}
	}
}

func configured(change func(*shard.Config)) option {
	return func(c *shard.Config, _ *shard.Deps, _ *simulated.Config) { change(c) }
}

func newWorld(t *testing.T, ms []model.Machine, options ...option) *world {
	t.Helper()
	w := &world{t: t, cfg: shard.DefaultConfig(), now: 1000 * second}
	w.cfg.Concurrency = 0
	w.cfg.Unbounded()
	w.cfg.Engine.Victims = engine.VictimsMachine
	p := simulated.Config{Machines: ms, Now: w.now}
	for _, o := range options {
		o(&w.cfg, &w.deps, &p)
	}
	var err error
	if w.fleet, err = simulated.New(p); err != nil {
		t.Fatal(err)
	}
	if w.deps.Provider == nil {
		w.deps.Provider = w.fleet
	}
	w.restart()
	t.Cleanup(func() { w.shard.Close() })
	return w
}

// restart makes a shard that remembers nothing.
func (w *world) restart() {
	w.t.Helper()
	if w.shard != nil {
		w.shard.Close()
	}
	var err error
	if w.shard, err = shard.New(w.cfg, w.deps); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) report(cluster string, needs ...model.Need) shard.RollupOutcome {
	w.t.Helper()
	outcome, err := w.shard.ApplyRollup(cluster, needs, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return outcome
}

// step lets ten seconds pass and runs a cycle.
func (w *world) step() *shard.Cycle {
	w.t.Helper()
	w.now += 10 * second
	w.fleet.Advance(w.now)
	c, err := w.shard.Step(context.Background(), w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// steps runs cycles and returns what they started, as "kind machine".
func (w *world) steps(n int) (out []string) {
	w.t.Helper()
	for range n {
		for _, a := range w.step().Started {
			out = append(out, a.Kind.String()+" "+a.Machine)
		}
	}
	return out
}

// get returns the shard's record of a machine.
func (w *world) get(id string) model.Machine {
	w.t.Helper()
	var found model.Machine
	w.shard.Machines(func(m model.Machine) bool {
		if m.ID == id {
			found = m
		}
		return found.ID == ""
	})
	return found
}
