package plan

import (
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Input is everything that a cycle depends on, apart from the engine's options.
type Input struct {
	Supply *supply.Table
	Demand *demand.Table
	// Now is the time of the decision in Unix nanoseconds.
	Now int64
	// DrainSeconds is the observed drain time by instance type, in seconds; DrainSecondsDefault for
	// types that are missing.
	DrainSeconds map[string]float64
	// BackingOff holds owners whose plan of preemption has failed. In this cycle they keep what they
	// have, acquire and reserve, but preempt nothing.
	BackingOff map[model.Owner]bool
	// ExplainOnly, if not nil, says of which rows Options.Explain records explanations; nil = of all. To explain all
	// rows of a contended fleet takes many times as long as to decide. Rows that are not there are ignored.
	ExplainOnly []NeedRow
	// Clock returns nanoseconds, for the durations in Stats; nil leaves these 0.
	Clock func() int64
	// Mark, if not nil, is called by every worker that begins a stage. It may label the goroutine for
	// profiles.
	Mark func(stage model.Stage, worker int)
}

// NeedRow names a row of the demand: by its cluster, and its place in the cluster's roll-up.
type NeedRow struct {
	Cluster string
	Row     int
}
