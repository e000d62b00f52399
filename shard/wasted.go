package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
)

// beginHistory tells the history what has changed since the last cycle.
func (s *Shard) beginHistory(r *Reconciled) {
	s.history.Begin(s.demand)
	if r.Added+r.Changed+r.Diverged > 0 {
		s.history.Disturbed("")
	}
}

// closeHistory tells the history what a cycle has carried out, and counts what came to
// nothing.
func (s *Shard) closeHistory(c *Cycle, plan *engine.Plan) {
	if c.Disposition == Execute {
		s.history.Ended(plan.Ended)
	}
	for i := range c.Started {
		a := &c.Started[i]
		r, there := s.machines.Lookup(a.Machine)
		if !there {
			continue
		}
		d := history.Deed{Kind: a.Kind, Machine: r, Cluster: a.Cluster}
		if a.Kind == engine.Preempt && a.Need >= 0 {
			d.By, _ = plan.Identity(int(a.Need))
		}
		s.history.Did(&d)
	}
	c.Wasted = s.history.Close()
}
