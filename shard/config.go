package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// The defaults and limits of Config.
const (
	CycleIntervalDefault      = 10 * time.Second
	CycleIntervalMin          = 10 * time.Millisecond
	ReclaimCapFractionDefault = 0.05
	FullListCyclesDefault     = 60
	ConcurrencyDefault        = 64
	ConcurrencyMax            = 4096
	CallTimeoutDefault        = 30 * time.Second
	ListTimeoutDefault        = 2 * time.Minute
)

// Config is everything about a shard that can be set.
type Config struct {
	Engine engine.Options
	// CycleInterval is the time between two cycles that nothing else starts.
	CycleInterval time.Duration
	// ReclaimCapFraction is the part of a cluster's Configured machines that
	// one cycle may reclaim, at least one machine; 0 = no cap.
	ReclaimCapFraction float64
	// Quarantine holds a roll-up that drops nearly all rows until it is
	// confirmed.
	Quarantine bool
	// Paused and DryRun decide everything and carry out nothing.
	Paused bool
	DryRun bool
	// MaxActionsPerCycle bounds what a cycle starts, by rank; 0 = no limit.
	MaxActionsPerCycle int
	// Concurrency is the number of calls to the provider at a time; the queue
	// before them is twice as long. 0 makes the calls within the cycle, one
	// after the other: for a provider that answers at once.
	Concurrency int
	CallTimeout time.Duration
	ListTimeout time.Duration
	// FullListCycles is how often a provider that lists by revision is asked
	// for everything all the same; 0 = never.
	FullListCycles int
	// ObserveDrains lets the victim score use observed drain times; off, every
	// machine takes engine.DrainSecondsDefault.
	ObserveDrains bool
}

// DefaultConfig returns the settings of the contract.
func DefaultConfig() Config {
	return Config{
		Engine: engine.DefaultOptions(), CycleInterval: CycleIntervalDefault,
		ReclaimCapFraction: ReclaimCapFractionDefault, Quarantine: true,
		Concurrency: ConcurrencyDefault, CallTimeout: CallTimeoutDefault, ListTimeout: ListTimeoutDefault,
		FullListCycles: FullListCyclesDefault, ObserveDrains: true,
	}
}

// Validate returns every fault of the settings.
func (c *Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := c.Engine.Validate(); err != nil {
		faults = append(faults, err)
	}
	if c.CycleInterval < CycleIntervalMin {
		fault("cycleInterval: must be at least %v, got %v", CycleIntervalMin, c.CycleInterval)
	}
	if !(c.ReclaimCapFraction >= 0 && c.ReclaimCapFraction <= 1) {
		fault("reclaimCapFraction: must be between 0 (off) and 1, got %v", c.ReclaimCapFraction)
	}
	if c.MaxActionsPerCycle < 0 {
		fault("maxActionsPerCycle: must be 0 (no limit) or more, got %d", c.MaxActionsPerCycle)
	}
	if c.Concurrency < 0 || c.Concurrency > ConcurrencyMax {
		fault("concurrency: must be between 0 (within the cycle) and %d, got %d", ConcurrencyMax, c.Concurrency)
	}
	if c.CallTimeout <= 0 || c.ListTimeout <= 0 {
		fault("callTimeout, listTimeout: must be positive, got %v and %v", c.CallTimeout, c.ListTimeout)
	}
	if c.FullListCycles < 0 {
		fault("fullListCycles: must be 0 (never) or more, got %d", c.FullListCycles)
	}
	return errors.Join(faults...)
}

// Deps is what a shard works with. Only Provider is required.
type Deps struct {
	Provider Provider
	// Registerer takes the shard's metrics.
	Registerer prometheus.Registerer
	// Log of what an operator of the fleet should know.
	Log *slog.Logger
	// Clock gives the time for the loop and for durations. Without one, Run
	// uses the wall clock and Step measures no durations.
	Clock func() time.Time
	// Observer is called after each cycle, by the goroutine that ran it,
	// without any lock. The report is the observer's to keep.
	Observer func(*CycleReport)
	// Decided is called with each plan before anything is done about it, with
	// the shard locked: it may read, and must not call the shard.
	Decided func(engine.Input, *engine.Plan)
	// Blob fetches what a machine needs to join a cluster. An error leaves the
	// machine Idle: the provider was not called yet.
	Blob func(ctx context.Context, cluster string, profile *model.Profile) ([]byte, error)
}
