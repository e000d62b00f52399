package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
)

// Stage is a part of a closed loop. Demand and supply change at its beginning only.
type Stage string

// The stages.
const (
	Settle Stage = "settle" // nothing changes
	Lose   Stage = "lose"   // bound machines are lost
	Add    Stage = "add"    // a Need comes
	Remove Stage = "remove" // it goes
)

// Course is a closed loop: a world without faults, and its stages.
type Course struct {
	Scenario Scenario
	Stages   []Stage
	// StageCycles is how long a stage is. With Quiet set it ends sooner, once nothing is under way and
	// so many cycles in a row have had no action.
	StageCycles, Quiet int
	// Lost is how many bound machines are lost, fewer when there are fewer. Draw chooses them.
	Lost int
	Draw *rand.Rand
	// Top is the Need that comes and goes.
	Top Need
	// Trace is called after each cycle that acts, or in which other Needs are unsatisfied than before; nil = not.
	Trace func(Stage, *Cycle)
	// Watch is called after each cycle with the run and what explains its undone actions; nil = not.
	Watch func(*run, Stage, *Cycle, explained)
}

// Outcome is how a closed loop went.
type Outcome struct {
	Cycles int
	Rest   history.Totals
	// Actions counts actions by stage and kind, Undone those that were undone by the stage in which they
	// were, Lost the machines that were lost.
	Actions map[Stage]map[string]int
	Undone  map[Stage]int
	// Parts counts those of Undone that the contract (docs/explanation/contract.md, 6.4) excepts: see parts. Sooner
	// counts those that are no part, and undo what drained for a Need that something else has served sooner.
	Parts, Sooner map[Stage]int
	Lost          int
	// Needs says from which cycle of a stage on each Need was satisfied to its end, 0 = it is not at the
	// end, by stage and name.
	Needs map[Stage]map[string]int
}

// ErrRestless says that a stage of a closed loop ended with actions.
var ErrRestless = errors.New("still acts at the end of a stage")

// loopQuiet is how many cycles at the end of a stage are without an action when the world has come to rest.
const loopQuiet = 10

// Play runs a closed loop to its end. Without plans that are compared with the reference's: other tests
// do that.
func (c *Course) Play(ctx context.Context) (Outcome, error) {
	r := newRun(&c.Scenario)
	r.compareEvery = 0
	out := Outcome{Rest: r.summary.Rest, Actions: map[Stage]map[string]int{}, Undone: map[Stage]int{}, Parts: map[Stage]int{}, Sooner: map[Stage]int{}, Needs: map[Stage]map[string]int{}}
	if err := r.start(); err != nil {
		return out, err
	}
	defer r.shard.Close()
	for _, stage := range c.Stages {
		r.cycle++
		if err := c.enter(r, stage, &out); err != nil {
			return out, err
		}
		r.cycle--
		before := history.Sum(r.summary.Rest.Undone)
		err := c.stage(ctx, r, stage, &out)
		out.Cycles, out.Rest, out.Undone[stage] = r.cycle, r.summary.Rest, history.Sum(r.summary.Rest.Undone)-before
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// enter lets happen what a stage begins with.
func (c *Course) enter(r *run, stage Stage, out *Outcome) error {
	if (stage == Add || stage == Remove) && c.Top.Profile == nil {
		return nil
	}
	switch stage {
	case Lose:
		out.Lost = r.loseBound(c.Draw, c.Lost)
	case Add:
		return r.report(&Rollup{Cluster: c.Top.Cluster, Needs: append(slices.Clone(c.needsOf(c.Top.Cluster)), c.Top)})
	case Remove:
		return r.report(&Rollup{Cluster: c.Top.Cluster, Needs: c.needsOf(c.Top.Cluster)})
	}
	return nil
}

// needsOf returns what a cluster wants throughout.
func (c *Course) needsOf(cluster string) []Need {
	for i := range c.Scenario.Demand {
		if c.Scenario.Demand[i].Cluster == cluster {
			return c.Scenario.Demand[i].Needs
		}
	}
	return nil
}

// stage runs the cycles of a stage.
func (c *Course) stage(ctx context.Context, r *run, stage Stage, out *Outcome) error {
	began, quiet := r.cycle, 0
	count, since, parts := map[string]int{}, map[string]int{}, parts{}
	var unsatisfied []string
	out.Actions[stage], out.Needs[stage] = count, since
	for n := 1; n <= c.StageCycles; n++ {
		x, err := r.step(ctx, began+n)
		if err != nil {
			return err
		}
		r.summary.take(x)
		explained := parts.take(x, r.claims, r.heldFor())
		out.Parts[stage] += len(explained.parts)
		out.Sooner[stage] += len(explained.sooner)
		if c.Watch != nil {
			c.Watch(r, stage, x, explained)
		}
		for _, a := range x.Actions {
			count[a.Kind.String()]++
		}
		r.noteSatisfied(since, x.Unsatisfied, n)
		if c.Trace != nil && (n == 1 || len(x.Actions) > 0 || !slices.Equal(x.Unsatisfied, unsatisfied)) {
			c.Trace(stage, x)
		}
		unsatisfied = x.Unsatisfied
		if quiet++; len(x.Actions) > 0 {
			quiet = 0
		}
		if n == c.StageCycles && quiet < min(loopQuiet, n) {
			return fmt.Errorf("cycle %d: %w: %v", r.cycle, ErrRestless, x.Actions)
		}
		if c.Quiet > 0 && quiet >= c.Quiet && x.InFlight == 0 {
			return nil
		}
	}
	return nil
}

// noteSatisfied keeps since which cycle of the stage each Need has been satisfied without a break.
func (r *run) noteSatisfied(since map[string]int, unsatisfied []string, cycle int) {
	for _, names := range r.names {
		for _, name := range names {
			if slices.Contains(unsatisfied, name) {
				since[name] = 0
			} else if since[name] == 0 {
				since[name] = cycle
			}
		}
	}
}

// loseBound loses so many bound machines, or all when there are fewer, and returns how many.
func (r *run) loseBound(rng *rand.Rand, count int) int {
	var bound []string
	r.shard.Machines(func(m model.Machine) bool {
		if m.State == model.Configured {
			bound = append(bound, m.ID)
		}
		return true
	})
	count = min(count, len(bound))
	for range count {
		at := rng.IntN(len(bound))
		r.fleet.Lose(bound[at])
		delete(r.expected, bound[at])
		bound[at] = bound[len(bound)-1]
		bound = bound[:len(bound)-1]
	}
	r.gangs.change(r.cycle)
	return count
}
