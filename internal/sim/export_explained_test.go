package sim

import "context"

// RunExplained is Run. It says also how many of the actions that are undone something larger or something sooner explains.
func RunExplained(ctx context.Context, scenario Scenario, emit func(*Cycle) error) (sum Summary, explained int, err error) {
	r, parts := newRun(&scenario), parts{}
	sum, err = r.play(ctx, func(c *Cycle) error {
		x := parts.take(c, r.claims, r.heldFor())
		explained += len(x.parts) + len(x.sooner)
		return emit(c)
	})
	return sum, explained, err
}
