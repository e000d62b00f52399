package measure

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// course is what a regime does around measured cycles.
type course interface {
	// prepare brings about what the next cycle decides on, and returns it.
	prepare(e *engine.Engine) (engine.Input, error)
	// after takes the plan of that cycle.
	after(plan *engine.Plan) error
	// repeats tells whether every cycle decides on the same, from the given
	// number of different inputs.
	repeats() (same bool, inputs int)
	// litters tells whether prepare and after leave garbage behind.
	litters() bool
}

// newCourse builds the worlds of a regime. The growth is that of the first.
func newCourse(f *workload.Fleet, regime workload.Regime) (course, growth, error) {
	switch regime {
	case workload.Steady:
		in, g, err := load(f, workload.Steady, workload.Steady)
		return newChurn(f, in), g, err
	case workload.Burst, workload.Shrink:
		in, g, err := load(f, regime, workload.Steady)
		return newFlip(f, regime, in), g, err
	}
	first, g, err := load(f, regime, regime)
	if err != nil {
		return nil, g, err
	}
	second, _, err := load(f, regime, regime)
	return &turns{worlds: [2]engine.Input{first, second}}, g, err
}

// turns lets two equal worlds take turns.
type turns struct {
	worlds [2]engine.Input
	count  int
}

func (t *turns) prepare(*engine.Engine) (engine.Input, error) {
	in := &t.worlds[t.count%len(t.worlds)]
	t.count++
	in.Now = workload.Epoch.UnixNano() + int64(t.count)*CycleStep
	return *in, nil
}

func (t *turns) after(*engine.Plan) error { return nil }
func (t *turns) repeats() (bool, int)     { return true, len(t.worlds) }
func (t *turns) litters() bool            { return false }

// flip lets a change of demand come and go.
type flip struct {
	fleet   *workload.Fleet
	regime  workload.Regime
	in      engine.Input
	changed []int // positions of the clusters whose demand the regime changes
}

func newFlip(f *workload.Fleet, regime workload.Regime, in engine.Input) *flip {
	in.Mark = unmarked
	x := &flip{fleet: f, regime: regime, in: in}
	for c := range f.Clusters() {
		if !slices.EqualFunc(f.Needs(workload.Steady, c), f.Needs(regime, c), sameNeed) {
			x.changed = append(x.changed, c)
		}
	}
	return x
}

// sameNeed compares what may differ between two regimes.
func sameNeed(a, b model.Need) bool {
	return a.Profile == b.Profile && a.Group == b.Group && slices.Equal(a.Aggregate, b.Aggregate)
}

// prepare lets the engine decide on the steady demand before it changes it.
func (x *flip) prepare(e *engine.Engine) (engine.Input, error) {
	if err := x.report(workload.Steady); err != nil {
		return x.in, err
	}
	x.in.Now += CycleStep
	if _, err := e.Cycle(x.in); err != nil {
		return x.in, err
	}
	x.in.Now += CycleStep
	return x.in, x.report(x.regime)
}

// report gives the clusters that change the demand of a regime.
func (x *flip) report(regime workload.Regime) error {
	for _, c := range x.changed {
		if err := x.in.Demand.Replace(x.fleet.Clusters()[c], x.fleet.Needs(regime, c)); err != nil {
			return fmt.Errorf("%s: %w", regime, err)
		}
	}
	return nil
}

func (x *flip) after(*engine.Plan) error { return nil }
func (x *flip) repeats() (bool, int)     { return true, 1 }
func (x *flip) litters() bool            { return true }
