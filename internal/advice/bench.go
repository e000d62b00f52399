package advice

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/world"
)

// bench is a world in tables, with an engine that decides about it again and again.
type bench struct {
	ctx    context.Context // of the one question that it is made for
	w      *world.World
	target int // its place in w.Needs; −1 = none
	rows   map[string][]int
	engine *engine.Engine
	supply *supply.Table
	demand *demand.Table
	tries  int
	next   func(Part) // is called before each part of the work

	// As things are, by place in w.Needs: what is satisfied, and how many machines those of the target's cluster have, which a
	// change can move among them without a preemption; and what is preempted.
	satisfied []bool
	had       map[int]int
	preempted map[columnar.Row]bool
}

// newBench makes a bench for a Need; name may be empty.
func newBench(ctx context.Context, w *world.World, name string, next func(Part)) (*bench, error) {
	b := &bench{ctx: ctx, w: w, next: next, target: -1, rows: map[string][]int{}, satisfied: make([]bool, len(w.Needs)), had: map[int]int{}, preempted: map[columnar.Row]bool{}}
	for i := range w.Needs {
		n := &w.Needs[i]
		if name != "" && n.Name == name {
			b.target = i
		}
		b.rows[n.Cluster] = append(b.rows[n.Cluster], i)
	}
	if b.target < 0 && name != "" {
		return nil, fmt.Errorf("no need is named %q", name)
	}
	var err error
	if b.supply, b.demand, err = w.TablesInParts(func() { next(Part{Stage: model.StageReconcile}) }); err != nil {
		return nil, err
	}
	for cluster := range b.rows {
		for row := range b.rows[cluster] {
			// What has waited in vain is tried again when something changes.
			b.demand.SetParked(cluster, row, false)
		}
	}
	b.engine, err = engine.New(w.Options.Engine)
	return b, err
}

func (b *bench) close() { b.engine.Close() }

// need is the Need that is to be helped.
func (b *bench) need() *world.Need { return &b.w.Needs[b.target] }

// change is what a trial changes.
type change struct {
	machines []model.Machine // that are added
	need     *world.Need     // in place of the target; nil = it stays
}

// try decides about the world with a change. Look sees the plan before the change is taken back.
func (b *bench) try(c change, look func(plan *engine.Plan, at int)) (helps bool, err error) {
	if err := b.ctx.Err(); err != nil {
		return false, err
	}
	b.tries++
	for i := range c.machines {
		if err := b.supply.Put(&c.machines[i]); err != nil {
			return false, err
		}
	}
	if c.need != nil {
		if err := b.load(c.need); err != nil {
			return false, err
		}
	}
	plan, err := b.engine.Cycle(engine.Input{
		Supply: b.supply, Demand: b.demand, Now: b.w.Now, DrainSeconds: b.w.Options.DrainSeconds,
		Mark: b.mark,
	})
	if err == nil {
		at := b.find(plan)
		helps = plan.Satisfied(at) || plan.AwaitsDrain(at)
		if look != nil {
			look(plan, at)
		}
	}
	for i := range c.machines {
		b.supply.Remove(c.machines[i].ID)
	}
	if c.need != nil {
		if undone := b.load(b.need()); err == nil {
			err = undone
		}
	}
	return helps, err
}

// mark is called when a worker begins a stage.
func (b *bench) mark(stage model.Stage, worker int) {
	if worker == 0 {
		b.next(Part{stage, b.tries == 1})
	}
}

// load replaces the demand of the target's cluster, with another Need in the target's place.
func (b *bench) load(target *world.Need) error {
	cluster := b.need().Cluster
	needs := make([]model.Need, len(b.rows[cluster]))
	for row, i := range b.rows[cluster] {
		needs[row] = b.w.Needs[i].Need
		if i == b.target {
			needs[row] = target.Need
		}
		needs[row].Parked = false
	}
	return b.demand.Load(cluster, needs)
}

// find returns the target's number in a plan.
func (b *bench) find(plan *engine.Plan) int {
	for i := range plan.Len() {
		if b.place(plan, i) == b.target {
			return i
		}
	}
	return 0 // every Need of the demand is in the plan
}

// place returns the place in the world of a Need of a plan.
func (b *bench) place(plan *engine.Plan, i int) int {
	cluster, row := plan.Identity(i)
	return b.rows[cluster][row]
}

// start decides about the world as it is.
func (b *bench) start(look func(plan *engine.Plan, at int)) (helped bool, err error) {
	return b.try(change{}, func(plan *engine.Plan, at int) {
		for i := range plan.Len() {
			place := b.place(plan, i)
			b.satisfied[place] = plan.Satisfied(i)
			if b.target >= 0 && b.w.Needs[place].Cluster == b.need().Cluster {
				b.had[place] = len(plan.Need(i).Claimed)
			}
		}
		for i := range plan.Actions {
			if a := &plan.Actions[i]; a.Kind == engine.Preempt {
				b.preempted[a.Machine] = true
			}
		}
		look(plan, at)
	})
}

// effect reads from a plan what it means for others, and what the Need's machines cost.
func (b *bench) effect(plan *engine.Plan, at int) (e Effect) {
	need := plan.Need(at)
	for _, r := range need.Claimed {
		e.DollarsPerHour += b.supply.Price(r)
	}
	victims := map[columnar.Row]bool{}
	for i := range plan.Actions {
		// Whoever loses a machine to the target may take another's.
		if a := &plan.Actions[i]; a.Kind == engine.Preempt && !b.preempted[a.Machine] {
			victims[a.Machine] = true
			if int(a.Need) == at {
				e.DrainingPerHour += b.supply.Price(a.Machine)
			}
		}
	}
	for i := range plan.Len() {
		place := b.place(plan, i)
		if place == b.target || len(victims) == 0 && b.satisfied[place] == plan.Satisfied(i) {
			continue
		}
		other := plan.Need(i)
		lost := 0
		for _, r := range other.Claimed {
			if victims[r] {
				lost++
			}
		}
		if !other.Satisfied {
			lost += max(b.had[place]-len(other.Claimed), 0)
		}
		if lost == 0 && (!b.satisfied[place] || other.Satisfied || plan.AwaitsDrain(i)) {
			continue
		}
		of := &b.w.Needs[place]
		e.Losers = append(e.Losers, Loser{Need: of.Name, Cluster: of.Cluster, Priority: of.Profile.Priority(), Machines: lost, Of: max(len(other.Claimed), b.had[place])})
	}
	slices.SortFunc(e.Losers, func(x, y Loser) int { return strings.Compare(x.Need, y.Need) })
	return e
}
