package shard

import (
	"fmt"

	"github.com/tonnage/tonnage/engine"
)

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

// noteKind counts what sort of cycle a plan is from. Of one whose two answers
// were not the same it keeps the input: the plan at hand is the right one, but
// cycles before it may have been wrong. The tables must be those that the plan
// was made from.
func (s *Shard) noteKind(in engine.Input, plan *engine.Plan) {
	s.metrics.cycles.WithLabelValues(kindOf(&plan.Stats)).Inc()
	if !plan.Stats.Differs {
		return
	}
	s.metrics.differences.Inc()
	kept, err := s.keepDiffering(in)
	s.log.Error("a cycle that built on the one before gave another answer than one from nothing, which is carried out; please report this with the input",
		"cycle", s.cycles, "digest", fmt.Sprintf("%016x", plan.Digest()), "input", kept, "error", err)
}

// keepDiffering hands the input on to whoever keeps it, and returns where it is.
func (s *Shard) keepDiffering(in engine.Input) (kept string, err error) {
	if s.differed == nil {
		return "not kept", nil
	}
	kept, err = s.differed(s.cycles, in)
	if kept == "" {
		kept = "not kept"
	}
	return kept, err
}
