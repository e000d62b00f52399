package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/tonnage/tonnage/engine"
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
}

// Outcome is how a closed loop went.
type Outcome struct {
	Cycles int
	Rest   history.Totals
	// Actions counts actions by stage and kind, Undone those that were undone by the stage in which they
	// were, Lost the machines that were lost.
	Actions map[Stage]map[string]int
	Undone  map[Stage]int
	// Parts counts those of Undone that the contract (docs/explanation/contract.md, 6.4) excepts: see parts.
	Parts map[Stage]int
	Lost  int
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
	out := Outcome{Rest: r.summary.Rest, Actions: map[Stage]map[string]int{}, Undone: map[Stage]int{}, Parts: map[Stage]int{}, Needs: map[Stage]map[string]int{}}
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
	out.Actions[stage], out.Needs[stage] = count, since
	for n := 1; n <= c.StageCycles; n++ {
		x, err := r.step(ctx, began+n)
		if err != nil {
			return err
		}
		r.summary.take(x)
		out.Parts[stage] += parts.take(x, r.claims)
		for _, a := range x.Actions {
			count[a.Kind.String()]++
		}
		r.noteSatisfied(since, x.Unsatisfied, n)
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
	r.gangs.disturbed = r.cycle
	return count
}

// parts are the machines that were bound, or bought, in a stage, by id. One of them is a part that something
// larger has made superfluous when its Need lacked something with it, lacks no more of anything without it, and has a
// machine that it had not then: it was sought because nothing better was free, and sooner is better.
type parts map[string]part

type part struct {
	need  string
	lacks model.Resources     // what the Need lacked with it
	had   map[string]struct{} // what the Need claimed
}

// take notes what a cycle binds and buys, and returns how many actions it undoes that were for such parts.
func (p parts) take(x *Cycle, claims map[string]string) (excepted int) {
	of := func(need string) map[string]struct{} {
		ids := map[string]struct{}{}
		for id, n := range claims {
			if n == need {
				ids[id] = struct{}{}
			}
		}
		return ids
	}
	counted := map[engine.Kind]int{engine.Reclaim: x.wasted.Undone[history.BoundReclaimed], engine.Delete: x.wasted.Undone[history.BoughtDeleted]}
	for _, a := range x.Actions {
		switch a.Kind {
		case engine.Bootstrap, engine.Provision:
			p[a.Machine] = part{a.Need, x.lacks[a.Need], of(a.Need)}
		case engine.Reclaim, engine.Delete:
			was, known := p[a.Machine]
			if !known || was.lacks.IsZero() || !was.lacks.Covers(x.lacks[was.need]) || counted[a.Kind] == 0 {
				continue
			}
			for id := range of(was.need) {
				if _, had := was.had[id]; !had {
					excepted++
					counted[a.Kind]--
					break
				}
			}
		}
	}
	return excepted
}
