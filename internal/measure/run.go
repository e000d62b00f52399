package measure

import (
	"context"
	"fmt"
	"runtime"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/workload"
)

// run is one run under way.
type run struct {
	cfg    Config
	course course
	engine *engine.Engine
	verify *verifier
	in     engine.Input // of the last cycle
	result Result
	taken  samples
	sum    uint64 // of the plans so far
}

// Run measures as the configuration says. Errors are a *Difference, when a plan
// is not what it must be, the context's, or a fault of the configuration.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.say(Progress{Stage: "building " + cfg.Rung.Name})
	course, grown, err := newCourse(workload.Build(cfg.Rung, cfg.Seed), cfg.Regime)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(cfg.options())
	if err != nil {
		return nil, err
	}
	r := &run{cfg: cfg, course: course, engine: e, verify: newVerifier(&cfg, course)}
	r.begin()
	if err := r.warmUp(ctx); err != nil {
		return nil, err
	}
	for i := range cfg.Cycles {
		if err := r.step(ctx, i); err != nil {
			return nil, err
		}
	}
	r.end(grown)
	return &r.result, nil
}

// begin notes what is known beforehand.
func (r *run) begin() {
	workers, h := r.cfg.Workers, host()
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	r.result = Result{
		Rung: r.cfg.Rung.Name, Regime: r.cfg.Regime.String(), Seed: r.cfg.Seed, Workers: workers, Cycles: r.cfg.Cycles,
		CPU: h.CPU, GOAMD64: h.GOAMD64, SIMD: h.SIMD, Load1: h.Load1, AtRest: true,
		Actions: map[string]int{}, ActionsTotal: map[string]int{},
	}
}

// warmUp runs the cycles that are not measured: they see what the measured ones
// will, so that memory for it is there.
func (r *run) warmUp(ctx context.Context) error {
	r.cfg.say(Progress{Stage: "warming up"})
	rounds := churnWarmups
	if c, ok := r.course.(*churn); ok {
		var err error
		if r.result.SettleCycles, r.result.AtRest, err = c.settle(r.engine); err != nil {
			return err
		}
	}
	if same, inputs := r.course.repeats(); same {
		rounds = inputs
	}
	for range rounds {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		in, err := r.course.prepare(r.engine)
		if err != nil {
			return err
		}
		plan, err := r.engine.Cycle(in)
		if err != nil {
			return err
		}
		if err := r.course.after(plan); err != nil {
			return err
		}
	}
	return nil
}

// step runs measured cycle i.
func (r *run) step(ctx context.Context, i int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	in, err := r.course.prepare(r.engine)
	if err != nil {
		return err
	}
	if r.course.litters() {
		runtime.GC()
	}
	plan, cost, err := cycle(ctx, r.engine, in)
	if err != nil {
		return err
	}
	r.in = in
	r.taken.take(&cost, &plan.Stats)
	r.result.takePlan(&plan.Stats)
	if err := r.addSum(i, Checksum(plan, in.Supply)); err != nil {
		return err
	}
	if err := r.verify.check(i, in, plan); err != nil {
		return err
	}
	r.cfg.say(Progress{Stage: "measuring", Done: i + 1, LastNanos: cost.nanos})
	return r.course.after(plan)
}

// addSum takes the checksum of cycle i's plan.
func (r *run) addSum(i int, sum uint64) error {
	same, _ := r.course.repeats()
	switch {
	case !same:
		r.sum = chain(r.sum, sum)
	case i == 0:
		r.sum = sum
	case r.sum != sum:
		return &Difference{Cycle: i + 1, With: "cycle 1", Text: fmt.Sprintf("checksum %016x, want %016x, of the same input", sum, r.sum)}
	}
	return nil
}

// end adds up.
func (r *run) end(grown growth) {
	r.result.takeSamples(&r.taken)
	r.result.takeMemory(r.engine, r.in, grown)
	r.result.PlanChecksum = fmt.Sprintf("%016x", r.sum)
	r.result.Verified, r.result.VerifiedCycles = r.verify.with, r.verify.count
}
