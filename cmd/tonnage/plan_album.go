package main

import (
	"io"
	"sync"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/whatif"
	"github.com/tonnage/tonnage/shard"
)

// albumPlansMax is how many plans of preemption the page can still show. One
// takes at most 150 KB.
const albumPlansMax = 64

// planAlbum keeps the last plans of preemption, of all shards of the process, to
// be drawn when somebody looks.
type planAlbum struct {
	mu    sync.Mutex
	plans [albumPlansMax]numberedPlan
	last  uint64
}

type numberedPlan struct {
	number uint64 // from 1; 0 = none
	whatif.Drawing
}

// keep takes in the plans of a cycle, before anything is done about them. A nil
// album keeps none.
func (a *planAlbum) keep(in engine.Input, plan *engine.Plan) []numberedPlan {
	if a == nil || plan.Stats.Actions[engine.Preempt] == 0 {
		return nil
	}
	drawings := whatif.DrawingsOf(in, plan, shard.Describe)
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]numberedPlan, 0, len(drawings))
	for i := range drawings {
		a.last++
		x := numberedPlan{a.last, drawings[i]}
		a.plans[a.last%albumPlansMax] = x
		out = append(out, x)
	}
	return out
}

// write draws a plan.
func (a *planAlbum) write(number uint64, out io.Writer) (ok bool, err error) {
	a.mu.Lock()
	x := a.plans[number%albumPlansMax]
	a.mu.Unlock()
	if number == 0 || x.number != number {
		return false, nil
	}
	return true, x.WriteSVG(out) // nobody changes it
}

// planOf returns the number of the plan that takes a machine, 0 = none that is
// kept.
func planOf(plans []numberedPlan, machine string) uint64 {
	for i := range plans {
		if plans[i].Takes(machine) {
			return plans[i].number
		}
	}
	return 0
}
