package sim

import "context"

// RunExplained is Run. It says also how many of the actions that are undone something larger or something sooner explains.
func RunExplained(ctx context.Context, scenario Scenario, emit func(*Cycle) error) (sum Summary, explained int, err error) {
	r, parts := newRun(&scenario), parts{}
	if err := r.start(); err != nil {
		return r.summary, 0, err
	}
	for k := 1; k <= scenario.Cycles; k++ {
		c, err := r.step(ctx, k)
		if err != nil {
			return r.summary, explained, err
		}
		r.summary.take(c)
		x := parts.take(c, r.claims, r.heldFor())
		explained += len(x.parts) + len(x.sooner)
		if err := emit(c); err != nil {
			return r.summary, explained, err
		}
	}
	return r.summary, explained, nil
}
