package world

import (
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard"
)

// Decide runs one cycle over the world. The clock gives nanoseconds for the
// durations in the answer's statistics; nil leaves them 0. The error is a limit
// that the world passes.
func (w *World) Decide(explain bool, clock func() int64) (*Answer, error) {
	opts := w.Options.Engine
	opts.Explain = explain
	eng, err := engine.New(opts)
	if err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	supply, demand, err := w.Tables()
	if err != nil {
		return nil, err
	}
	plan, err := eng.Cycle(engine.Input{Supply: supply, Demand: demand, Now: w.Now, Clock: clock})
	if err != nil {
		return nil, err
	}
	carried, _ := shard.CapReclaims(plan.Actions, supply, w.Options.ReclaimCapFraction)
	var why explainer
	if explain {
		why = eng
	}
	return NewAnswer(w, supply, plan, carried, why), nil
}
