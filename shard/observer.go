package shard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/pprof"
	"github.com/tonnage/tonnage/shard/internal/worst"
)

// observer is who looks at a shard from outside, and what they are shown.
type observer struct {
	report   func(*CycleReport)                                // nil = nobody asks
	running  func(bool)                                        // nil = nobody asks
	decided  func(engine.Input, *engine.Plan)                  // nil = nobody asks
	differed func(uint64, engine.Input) (kept string, _ error) // nil = nothing is kept
	awake    func(context.Context)                             // nil = nobody has anything to find out
	log      *slog.Logger
	metrics  *metrics
	bills    *bills
	labels   *pprof.Labels
	mark     func(model.Stage, int) // labels.Mark
	worst    *worst.Cycles          // nil = no traces are kept
	accounts alloc.Accounts         // of both tables and of roll-ups; the engine has its own
}

func newObserver(cfg *Config, deps *Deps) (observer, error) {
	b := &bills{eager: deps.Observer != nil}
	m, err := newMetrics(deps.Registerer, deps.Operators, b)
	if err != nil {
		return observer{}, err
	}
	o := observer{report: deps.Observer, running: deps.Running, decided: deps.Decided, differed: deps.Differed, awake: deps.Awake, log: deps.Log, metrics: m, bills: b}
	o.labels = pprof.New(context.Background(), cmp.Or(cfg.Engine.Workers, runtime.GOMAXPROCS(0)))
	o.mark = o.labels.Mark
	if cfg.WorstDir != "" {
		o.worst, err = worst.New(cfg.WorstDir, cfg.WorstMin, deps.Log)
	}
	return o, err
}

// noteKind counts what sort of cycle a plan is from. Of one whose check found a
// difference it keeps the input: cycles before it may have been wrong. The tables must be those that the plan
// was made from.
func (o *observer) noteKind(cycle uint64, in engine.Input, plan *engine.Plan) {
	o.metrics.cycles.WithLabelValues(kindOf(&plan.Stats)).Inc()
	if !plan.Stats.Differs {
		return
	}
	o.metrics.differences.Inc()
	kept, err := o.keepDiffering(cycle, in)
	says := "what cycles build on differs from what is found out from nothing; the next cycle builds on nothing; please report this with the input"
	if plan.Stats.Checked {
		says = "a cycle that built on the one before gave another answer than one from nothing, which is carried out; please report this with the input"
	}
	o.log.Error(says,
		"cycle", cycle, "digest", fmt.Sprintf("%016x", plan.Digest()), "input", kept, "error", err)
}

// keepDiffering hands the input on to whoever keeps it, and returns where it is.
func (o *observer) keepDiffering(cycle uint64, in engine.Input) (kept string, err error) {
	if o.differed == nil {
		return "not kept", nil
	}
	kept, err = o.differed(cycle, in)
	if kept == "" {
		kept = "not kept"
	}
	return kept, err
}

// cycleKinds are the label values of the counter of cycles: those that built on
// nothing, those that built on the cycle before, and those that did and were
// decided once more from nothing.
const (
	cycleFull        = "full"
	cycleIncremental = "incremental"
	cycleChecked     = "checked"
)

func kindOf(st *engine.Stats) string {
	switch {
	case st.Checked:
		return cycleChecked
	case st.Full:
		return cycleFull
	}
	return cycleIncremental
}

// wakenUp has whoever knows find out whether this process may still act.
func (o *observer) wakenUp(ctx context.Context) {
	o.log.Warn("no cycle has run for more than two intervals; it is found out whether this process still acts for the shard")
	ctx, cancel := context.WithTimeout(ctx, AwakeMax)
	defer cancel()
	o.awake(ctx)
}
