package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// beginHistory tells the history of the machines what has changed since the last cycle.
func beginHistory(h *history.History, wanted *demand.Table, r *Reconciled) {
	h.Begin(wanted)
	if r.Added+r.Changed+r.Diverged > 0 {
		h.Disturbed("")
	}
}

// closeHistory tells the history what a cycle has carried out, and counts what came to
// nothing.
func closeHistory(v *inventory.Inventory, c *Cycle, plan *engine.Plan) {
	if c.Disposition == rails.Execute {
		v.History.Ended(plan.Ended)
	}
	for i := range c.Started {
		a := &c.Started[i]
		r, there := v.Table.Lookup(a.Machine)
		if !there {
			continue
		}
		d := history.Deed{Kind: a.Kind, Machine: r, Cluster: a.Cluster}
		if a.Kind == engine.Preempt && a.Need >= 0 {
			d.By, _ = plan.Identity(int(a.Need))
		}
		v.History.Did(&d)
	}
	c.Wasted = v.History.Close()
}
