package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/history"
)

// beginHistory tells the history what has changed since the last cycle.
func (v *inventory) beginHistory(wanted *demand.Table, r *Reconciled) {
	v.history.Begin(wanted)
	if r.Added+r.Changed+r.Diverged > 0 {
		v.history.Disturbed("")
	}
}

// closeHistory tells the history what a cycle has carried out, and counts what came to
// nothing.
func (v *inventory) closeHistory(c *Cycle, plan *engine.Plan) {
	if c.Disposition == Execute {
		v.history.Ended(plan.Ended)
	}
	for i := range c.Started {
		a := &c.Started[i]
		r, there := v.table.Lookup(a.Machine)
		if !there {
			continue
		}
		d := history.Deed{Kind: a.Kind, Machine: r, Cluster: a.Cluster}
		if a.Kind == engine.Preempt && a.Need >= 0 {
			d.By, _ = plan.Identity(int(a.Need))
		}
		v.history.Did(&d)
	}
	c.Wasted = v.history.Close()
}
