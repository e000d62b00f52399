package measure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
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
	// changes tells what is another than in the cycle before; nothing where each
	// cycle decides from scratch.
	changes() changes
	// wasted tells what came to nothing in the last cycle that was carried out.
	wasted() history.Counts
	// litters tells whether prepare and after leave garbage behind.
	litters() bool
}

// changes is how many machines are in another state, how many Needs ask for
// something else, and how many machines have another stamp.
type changes struct{ machines, needs, adopted int }

// newCourse builds the worlds of a regime. The growth is that of the first.
func newCourse(f *workload.Fleet, cfg *Config) (course, growth, error) {
	regime := cfg.Regime
	switch regime {
	case workload.Steady:
		in, g, err := load(f, workload.Steady, workload.Steady)
		return newChurn(f, in), g, err
	case workload.Burst, workload.Shrink:
		in, g, err := load(f, regime, workload.Steady)
		return newFlip(f, regime, cmp.Or(cfg.ClustersPercent, percent), in), g, err
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
func (t *turns) changes() changes         { return changes{} }
func (t *turns) wasted() history.Counts   { return history.Counts{} }
func (t *turns) litters() bool            { return false }

// flip lets a change of demand come and go.
type flip struct {
	fleet   *workload.Fleet
	regime  workload.Regime
	in      engine.Input
	changed []int // positions of the clusters whose demand the regime changes
	needs   int   // how many Needs of theirs
}

// newFlip changes the demand of some of the clusters whose demand the regime
// changes: of so many in a hundred, at least of one, evenly spread.
func newFlip(f *workload.Fleet, regime workload.Regime, share int, in engine.Input) *flip {
	in.Mark = unmarked
	x := &flip{fleet: f, regime: regime, in: in}
	seen := 0
	for c := range f.Clusters() {
		n := countChanged(f.Needs(workload.Steady, c), f.Needs(regime, c))
		if n == 0 {
			continue
		}
		if seen*share%percent < share { // the first of those that follow a whole one
			x.changed = append(x.changed, c)
			x.needs += n
		}
		seen++
	}
	return x
}

// countChanged counts the Needs of a cluster that are others, where more may have
// come at the end; or of which some are gone, and nothing else has changed.
func countChanged(was, now []model.Need) int {
	if len(now) < len(was) {
		return len(was) - len(now)
	}
	n := len(now) - len(was)
	for i := range was {
		if !sameNeed(was[i], now[i]) {
			n++
		}
	}
	return n
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
func (x *flip) changes() changes         { return changes{needs: x.needs} }
func (x *flip) wasted() history.Counts   { return history.Counts{} }
func (x *flip) litters() bool            { return true }
