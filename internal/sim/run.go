package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// run is a scenario under way.
type run struct {
	scenario *Scenario
	fleet    *simulated.Fleet
	shard    *shard.Shard
	cycle    int
	paused   bool
	// names of the Needs that a cluster's accepted roll-up brought, by row.
	names map[string][]string
	// last is each cluster's last roll-up, accepted or not.
	last       map[string]*Rollup
	resendAt   int // cycle before which the last roll-ups are sent again, 0 = never
	expected   map[string]struct{}
	claims     map[string]string  // machine → Need, of this cycle's plan
	serves     map[string]serving // of those that are Configured
	configured map[string]int
	gangs      gangs
	// compareEvery is of how many cycles one has its plan compared with the reference's, 0 = of none.
	compareEvery int
	violation    *Violation
	summary      Summary
}

// Run runs a scenario and hands each cycle to emit. It ends with the error of
// emit or of ctx, with an error that names every fault of the scenario, or
// with a *Violation when an invariant does not hold; the cycle in which that
// happened is not emitted.
func Run(ctx context.Context, scenario Scenario, emit func(*Cycle) error) (Summary, error) {
	return newRun(&scenario).play(ctx, emit)
}

// play runs all cycles of the scenario.
func (r *run) play(ctx context.Context, emit func(*Cycle) error) (Summary, error) {
	if err := r.start(); err != nil {
		return r.summary, err
	}
	for k := 1; k <= r.scenario.Cycles; k++ {
		if err := ctx.Err(); err != nil {
			return r.summary, err
		}
		c, err := r.step(ctx, k)
		if err != nil {
			return r.summary, err
		}
		r.summary.take(c)
		if err := emit(c); err != nil {
			return r.summary, err
		}
	}
	return r.summary, nil
}

func newRun(sc *Scenario) *run {
	return &run{
		scenario: sc, names: map[string][]string{}, last: map[string]*Rollup{}, expected: map[string]struct{}{},
		claims: map[string]string{}, serves: map[string]serving{}, configured: map[string]int{}, gangs: newGangs(), compareEvery: 1,
		summary: Summary{Actions: map[string]int{}, States: map[string]int{}, Unsatisfied: []string{}, Rest: history.NewTotals()},
	}
}

// interval is the time between two cycles.
func (r *run) interval() time.Duration {
	if r.scenario.Interval > 0 {
		return r.scenario.Interval
	}
	return shard.CycleIntervalDefault
}

// start makes the fleet and the shard, and lets the clusters of the world
// report.
func (r *run) start() error {
	sc := r.scenario
	latency := func(l Latency) simulated.Latency {
		return simulated.Latency{Min: time.Duration(l.Min) * r.interval(), Max: time.Duration(l.Max) * r.interval(), Step: r.interval()}
	}
	cfg := simulated.Config{
		Machines: sc.Machines, Seed: sc.Seed, Now: sc.Now,
		Latencies: simulated.Latencies{
			Create: latency(sc.Latencies.Create), Configure: latency(sc.Latencies.Configure),
			Drain: latency(sc.Latencies.Drain), Delete: latency(sc.Latencies.Delete),
		},
	}
	for _, f := range sc.Faults {
		cfg.Faults = append(cfg.Faults, simulated.Fault(f))
	}
	var err error
	if r.fleet, err = simulated.New(cfg); err != nil {
		return err
	}
	for i := range sc.Machines {
		r.expected[sc.Machines[i].ID] = struct{}{}
	}
	if err := r.boot(); err != nil {
		return err
	}
	return r.firstReports()
}

// boot makes a shard that remembers nothing.
func (r *run) boot() error {
	cfg := shard.DefaultConfig()
	cfg.Engine = r.scenario.Options
	cfg.Unbounded()
	cfg.ReclaimCapFraction = r.scenario.Rails.ReclaimCapFraction
	cfg.Quarantine, cfg.QuarantineMachines = r.scenario.Rails.Quarantine, 0
	cfg.DoubtListings = false // what it lists is so
	cfg.DryRun = r.scenario.Rails.DryRun
	cfg.MaxActionsPerCycle = r.scenario.Rails.Queue
	cfg.Paused = r.paused
	cfg.Concurrency = 0
	cfg.ObserveDrains = false
	var err error
	r.shard, err = shard.New(cfg, shard.Deps{Provider: r.fleet, Decided: r.decided})
	return err
}

// firstReports brings in what the clusters have reported before the run.
func (r *run) firstReports() error {
	reported := map[string]bool{}
	for _, c := range r.scenario.Reported {
		reported[c] = true
	}
	for i := range r.scenario.Demand {
		d := &r.scenario.Demand[i]
		if reported[d.Cluster] {
			if err := r.report(d); err != nil {
				return err
			}
			delete(reported, d.Cluster)
			continue
		}
		if err := r.shard.LoadDemand(d.Cluster, rowsOf(d)); err != nil {
			return err
		}
		r.accept(d)
	}
	for _, c := range slices.Sorted(maps.Keys(reported)) {
		if err := r.report(&Rollup{Cluster: c}); err != nil {
			return err
		}
	}
	return nil
}

// name returns the name of a row of the demand.
func (r *run) name(cluster string, row int) string { return r.names[cluster][row] }

func (r *run) nameOf(n *engine.NeedResult) string { return r.name(n.Cluster, n.Row) }

// now is the time of the cycle.
func (r *run) now() int64 {
	return r.scenario.Now + int64(max(r.cycle-1, 0))*int64(r.interval())
}

// step runs one cycle.
func (r *run) step(ctx context.Context, k int) (*Cycle, error) {
	r.cycle = k
	if k > 1 { // what the world says of cycle 1 is what cycle 1 sees
		r.fleet.Advance(r.now())
	}
	if err := r.events(); err != nil {
		return nil, err
	}
	c, err := r.shard.Step(ctx, r.now())
	if err != nil {
		return nil, err
	}
	if k == 1 {
		r.fleet.Advance(r.now())
	}
	r.checkWhole(c) // before describe, which notes the drains that have failed in this cycle
	out := r.describe(c)
	r.checkActions(c)
	r.gangs.calmAfter(k, c, out.InFlight, out.Suppressed)
	if r.violation != nil {
		return nil, r.violation
	}
	return out, nil
}

// describe puts a cycle into the terms of the output.
func (r *run) describe(c *shard.Cycle) *Cycle {
	out := &Cycle{Cycle: r.cycle, Actions: make([]Action, 0, len(c.Started)), States: map[string]int{}, Unsatisfied: []string{}, Shortfalls: c.Shortfalls, Held: c.Held, stats: c.Plan.Stats, wasted: c.Wasted, lacks: map[string]model.Resources{}}
	for i := range c.Started {
		a := &c.Started[i]
		x := Action{Kind: a.Kind, Machine: a.Machine, cluster: a.Cluster}
		if a.Need >= 0 {
			x.Need = r.name(c.Plan.Identity(int(a.Need)))
		}
		out.Actions = append(out.Actions, x)
	}
	for i := range c.Plan.Len() {
		if !c.Plan.Satisfied(i) {
			name := r.name(c.Plan.Identity(i))
			out.Unsatisfied = append(out.Unsatisfied, name)
			n := c.Plan.Need(i)
			out.lacks[name] = n.Deficit
		}
	}
	for _, n := range c.Suppressed {
		out.Suppressed += n
	}
	r.machines(out)
	return out
}

// machines counts the machines by state and digests them and their claims.
func (r *run) machines(out *Cycle) {
	var d digest
	present := make(map[string]struct{}, len(r.expected))
	held := map[string]model.Machine{}
	clear(r.gangs.leaving)
	clear(r.gangs.failing)
	r.shard.Machines(func(m model.Machine) bool {
		present[m.ID] = struct{}{}
		out.States[m.State.String()]++
		switch m.State {
		case model.Creating, model.Configuring, model.Draining, model.Deleting:
			out.InFlight++
		}
		d.machine(&m, r.claims[m.ID])
		r.gangs.noteMachine(held, &m)
		r.checkStamp(&m)
		return true
	})
	r.checkPresence(present)
	r.checkHeld(held, present)
	r.checkLeaving()
	out.Digest = fmt.Sprintf("%016x", xxhash.Sum64(d))
}
