package measure

import (
	"cmp"
	"context"
	"runtime"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/workload"
)

// Driver brings about what each cycle of a regime decides on. Run measures with
// it; benchmarks that bring their own clock use it by itself:
//
//	for … {
//		in, err := d.Next()
//		plan, err := d.Engine().Cycle(in) // the measured part
//		err = d.Done(plan)
//	}
type Driver struct {
	cfg    Config
	course course
	engine *engine.Engine
	grown  growth
	settle int // cycles until a steady fleet was at rest
	rest   bool
}

// NewDriver builds the worlds of a regime and runs the cycles that are not
// measured: they see what the measured ones will, so that memory for it is
// there.
func NewDriver(ctx context.Context, cfg Config) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.say(Progress{Stage: "building " + cfg.Rung.Name})
	cfg.Workers = cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0))
	d := &Driver{cfg: cfg, rest: true}
	var err error
	if d.course, d.grown, err = newCourse(workload.Build(cfg.Rung, cfg.Seed), &cfg); err != nil {
		return nil, err
	}
	if d.engine, err = engine.New(cfg.options()); err != nil {
		return nil, err
	}
	if err := d.warmUp(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Close ends the engine's workers. Nothing of its last plan is valid then.
func (d *Driver) Close() { d.engine.Close() }

func (d *Driver) warmUp(ctx context.Context) error {
	d.cfg.say(Progress{Stage: "warming up"})
	rounds := churnWarmups
	if c, ok := d.course.(*churn); ok {
		var err error
		if d.settle, d.rest, err = c.settle(d.engine); err != nil {
			return err
		}
	}
	if same, inputs := d.course.repeats(); same {
		rounds = max(inputs, warmupsMin)
	}
	for range rounds {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		in, err := d.Next()
		if err != nil {
			return err
		}
		plan, err := d.engine.Cycle(in)
		if err != nil {
			return err
		}
		if err := d.Done(plan); err != nil {
			return err
		}
	}
	return nil
}

// Engine returns the engine that must decide.
func (d *Driver) Engine() *engine.Engine { return d.engine }

// Next returns what the next cycle decides on, and collects what garbage that
// made.
func (d *Driver) Next() (engine.Input, error) {
	in, err := d.course.prepare(d.engine)
	if err == nil && d.course.litters() {
		runtime.GC()
	}
	return in, err
}

// Done takes the plan of the cycle.
func (d *Driver) Done(plan *engine.Plan) error { return d.course.after(plan) }
