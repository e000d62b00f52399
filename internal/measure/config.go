package measure

import (
	"errors"
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/workload"
)

const (
	// CyclesMax is the most cycles that one run measures; every figure of every
	// cycle is kept.
	CyclesMax = 100_000
	// CyclesDefault are enough for a p99 of a kind and few enough to wait for.
	CyclesDefault = 60
	// CycleStep is the engine's time between two cycles, in nanoseconds.
	CycleStep = int64(1e6)
	// SettleCyclesMax is how many cycles a steady fleet has to come to rest.
	SettleCyclesMax = 64
	// churnWarmups are the steady cycles with changes that are not measured:
	// they see every sort of change, so that memory for it is there.
	churnWarmups = 4
	// warmupsMin are the cycles of the other regimes that are not measured at
	// least: the engine builds two cycles in turn, in two sets of memory.
	warmupsMin = 2
)

const percent = 100

// Regimes returns all regimes.
func Regimes() []workload.Regime {
	return []workload.Regime{workload.Cold, workload.Steady, workload.Burst, workload.Shrink, workload.Contended}
}

// Config says what to measure.
type Config struct {
	Rung   workload.Rung
	Regime workload.Regime
	// ClustersPercent is in how many of the clusters whose demand burst or shrink
	// change it does so, 1 … 100; 0 = in all.
	ClustersPercent int
	// Cycles to measure, 1 … CyclesMax.
	Cycles int
	// Workers of a cycle, 0 = GOMAXPROCS.
	Workers int
	// Pin and Nodes are the engine's.
	Pin   func(worker int)
	Nodes []int
	// Acquire is the rule of acquisition.
	Acquire engine.AcquireRule
	// Full lets no cycle build on the one before.
	Full bool
	// Seed of the fleet and of the changes.
	Seed uint64
	// Verify compares plans of measured cycles: with the reference on rungs of
	// at most ReferenceMachinesMax machines, else with one worker that builds
	// on nothing.
	Verify bool
	// Progress, when set, is told how far the run is. It is called outside the
	// measured time and must return soon.
	Progress func(Progress)
}

// StageMeasuring is the stage of a Progress from the first measured cycle on.
// It is told once before that, with nothing done.
const StageMeasuring = "measuring"

// Progress is how far a run is.
type Progress struct {
	Stage  string // what happens, in a word or two
	Done   int    // cycles measured
	Cycles int    // cycles to measure
	// LastNanos is how long the last measured cycle took.
	LastNanos int64
}

// Validate returns every fault of the configuration.
func (c *Config) Validate() error {
	var faults []error
	if c.Rung.Name == "" {
		faults = append(faults, errors.New("rung: none given"))
	}
	if c.Cycles < 1 || c.Cycles > CyclesMax {
		faults = append(faults, fmt.Errorf("cycles: must be between 1 and %d, got %d", CyclesMax, c.Cycles))
	}
	if c.ClustersPercent < 0 || c.ClustersPercent > percent {
		faults = append(faults, fmt.Errorf("percent of clusters: must be between 1 and %d, got %d", percent, c.ClustersPercent))
	}
	if c.ClustersPercent > 0 && c.Regime != workload.Burst && c.Regime != workload.Shrink {
		faults = append(faults, fmt.Errorf("percent of clusters: %s changes all of them; only burst and shrink can change some", c.Regime))
	}
	opts := c.options()
	if err := opts.Validate(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// options are the engine's.
func (c *Config) options() engine.Options {
	opts := engine.DefaultOptions()
	opts.Workers, opts.Pin, opts.Nodes, opts.Full, opts.Acquire = c.Workers, c.Pin, c.Nodes, c.Full, c.Acquire
	return opts
}

// say tells the progress to whom it concerns.
func (c *Config) say(p Progress) {
	if c.Progress != nil {
		p.Cycles = c.Cycles
		c.Progress(p)
	}
}
