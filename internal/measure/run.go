package measure

import (
	"context"
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	labels "github.com/tonnage/tonnage/pprof"
)

// run is one run under way.
type run struct {
	*Driver
	verify *verifier
	in     engine.Input // of the last cycle
	result Result
	taken  samples
	sum    uint64 // of the plans so far
	marks  *labels.Labels
	floor  *floor // nil before the first cycle
}

// Run measures as the configuration says. Errors are a *Difference, when a plan
// is not what it must be, the context's, or a fault of the configuration.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	load := host()
	d, err := NewDriver(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	r := &run{Driver: d, verify: newVerifier(&cfg, d.course)}
	defer r.dropFloor()
	r.begin(load)
	r.marks = measuredLabels(ctx, r.result.Workers)
	cfg.say(Progress{Stage: StageMeasuring})
	for i := range cfg.Cycles {
		if err := r.step(ctx, i); err != nil {
			return nil, err
		}
	}
	r.end()
	return &r.result, nil
}

// dropFloor gives the memory of the floor back, which would count as the engine's.
func (r *run) dropFloor() {
	if r.floor != nil {
		r.floor.close()
		r.floor = nil
	}
}

// begin notes what is known beforehand.
func (r *run) begin(h Host) {
	r.result = Result{
		Rung: r.cfg.Rung.Name, Regime: r.cfg.Regime.String(), Seed: r.cfg.Seed, Victims: r.engine.Options().Victims.String(), Acquire: r.engine.Options().Acquire.String(), Workers: r.engine.Options().Workers, Cycles: r.cfg.Cycles,
		SettleCycles: r.settle, AtRest: r.rest, CPU: h.CPU, GOAMD64: h.GOAMD64, SIMD: h.SIMD, Load1: h.Load1,
		Actions: map[string]int{}, ActionsTotal: map[string]int{}, CreditedBy: map[string]int{}, Rest: history.NewTotals(),
	}
}

// step runs measured cycle i.
func (r *run) step(ctx context.Context, i int) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if r.floor != nil && i%cyclesPerFloor == 0 {
		r.taken.floor = append(r.taken.floor, int64(r.floor.run()))
	}
	in, err := r.Next()
	if err != nil {
		return err
	}
	if r.floor == nil {
		r.floor = newFloor(in.Demand.Len(), in.Supply.Len(), r.result.Workers)
		r.taken.floor = append(r.taken.floor, int64(r.floor.run()))
	}
	plan, cost, err := cycle(ctx, r.engine, in, r.marks)
	if err != nil {
		return err
	}
	r.in = in
	changed := r.course.changes()
	r.result.ChangedMachines, r.result.ChangedNeeds, r.result.AdoptedMachines = changed.machines, changed.needs, changed.adopted
	r.taken.take(&cost, &plan.Stats)
	r.result.takePlan(&plan.Stats)
	if plan.Stats.Differs {
		return &Difference{Cycle: i + 1, With: "nothing remembered", Text: fmt.Sprintf("the check says so; the plan has digest %016x", plan.Digest())}
	}
	if err := r.addSum(i, Checksum(plan, in.Supply)); err != nil {
		return err
	}
	if err := r.verify.check(i, in, plan); err != nil {
		return err
	}
	r.cfg.say(Progress{Stage: StageMeasuring, Done: i + 1, LastNanos: cost.nanos})
	stats := plan.Stats
	if err := r.Done(plan); err != nil {
		return err
	}
	wasted := r.course.wasted()
	r.result.Rest.Take(&stats, &wasted)
	r.result.takeCredit(&stats.CreditCounts)
	return nil
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
func (r *run) end() {
	r.taken.floor = append(r.taken.floor, int64(r.floor.run()))
	r.dropFloor()
	r.result.takeSamples(&r.taken)
	r.result.takeMemory(r.engine, r.in, r.grown)
	r.result.PlanChecksum = fmt.Sprintf("%016x", r.sum)
	r.result.Verified, r.result.VerifiedCycles = r.verify.with, r.verify.compared
	if r.verify.with == VerifiedReference {
		r.result.ReferenceCycles = len(r.verify.took)
	}
	if len(r.verify.took) > 0 {
		r.result.VerifyMillis = spreadOf(r.verify.took, nanosPerMilli)
	}
}
