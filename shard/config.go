package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/internal/worst"
)

// The defaults and limits of Config.
const (
	CycleIntervalDefault        = 10 * time.Second
	CycleIntervalMin            = 10 * time.Millisecond
	ReclaimCapFractionDefault   = 0.05
	DeleteCapFractionDefault    = 0.1
	ProvisionCapFractionDefault = 0.1
	PreemptCapFractionDefault   = 0.1
	BreakerShareDefault         = 0.2
	BreakerWindowDefault        = 10 * time.Minute
	AwakeMax                    = 2 * time.Second
	QuarantineMachinesDefault   = 10
	FullListCyclesDefault       = 60
	ConcurrencyDefault          = 64
	ConcurrencyMax              = 4096
	CallTimeoutDefault          = 30 * time.Second
	CordonTimeoutDefault        = 5 * time.Second
	HintIntervalDefault         = 5 * time.Second
	ListTimeoutDefault          = 2 * time.Minute
)

// Config is everything about a shard that can be set.
type Config struct {
	Engine engine.Options
	// CycleInterval is the time between two cycles that nothing else starts.
	CycleInterval time.Duration
	// BudgetInterval is how often the budgets below are filled; 0 = before each cycle.
	BudgetInterval time.Duration
	// ReclaimCapFraction is the part of a cluster's Configured machines that an interval may
	// reclaim, at least one machine; 0 = no cap.
	ReclaimCapFraction float64
	// DeleteCapFraction is the part of the Idle machines that an interval may give back, at
	// least 10; ProvisionCapFraction the part of all records that it may buy, at least 100;
	// PreemptCapFraction the part of all Configured machines that it may preempt, at least 20.
	// 0 = no cap.
	DeleteCapFraction, ProvisionCapFraction, PreemptCapFraction float64
	// BreakerShare is the part of the fleet that may be preempted, reclaimed or deleted within
	// BreakerWindow, at least BreakerMin machines, before the shard pauses itself; 0 = it does not.
	BreakerShare  float64
	BreakerWindow time.Duration
	// Quarantine holds a roll-up that drops nearly all rows until it is
	// confirmed; of a cluster with at least QuarantineMachines bound machines also one that asks for
	// nearly nothing of what was asked for before, or of what is bound where that is not known. 0
	// = rows alone.
	Quarantine         bool
	QuarantineMachines int
	// Paused and DryRun decide everything and carry out nothing.
	Paused bool
	DryRun bool
	// MaxActionsPerCycle bounds what a cycle starts, by rank; 0 = no limit.
	MaxActionsPerCycle int
	// Concurrency is the number of calls to the provider at a time; the queue
	// before them is twice as long. 0 makes the calls within the cycle, one
	// after the other: for a provider that answers at once.
	Concurrency int
	// CallTimeout bounds each call of the provider, and each wait for a
	// cluster's bootstrap data.
	CallTimeout time.Duration
	ListTimeout time.Duration
	// CordonTimeout is how long a drain waits for the operator's acknowledgement
	// at most.
	CordonTimeout time.Duration
	// HintInterval is how often a cluster is told of free capacity at most.
	HintInterval time.Duration
	// AlwaysFull asks the provider for everything in every cycle.
	AlwaysFull bool
	// WarmupCycles is how many cycles from the first have their durations left
	// out of the metrics.
	WarmupCycles int
	// DoubtListings has a listing believed in parts only, until later ones say the same: when
	// many bound machines are missing in it, or when it says of a machine what was before
	// an answered call.
	DoubtListings bool
	// FullListCycles is how often a provider that lists by revision is asked
	// for everything all the same; 0 = never.
	FullListCycles int
	// ObserveDrains lets the victim score use observed drain times; off, every
	// machine takes engine.DrainSecondsDefault.
	ObserveDrains bool
	// WorstDir is a folder in which Run keeps execution traces of the slowest
	// cycles, those of at least WorstMin; empty = none. It needs a Clock.
	WorstDir string
	WorstMin time.Duration
}

// DefaultConfig returns the settings of the contract.
func DefaultConfig() Config {
	return Config{
		Engine: engine.DefaultOptions(), CycleInterval: CycleIntervalDefault,
		BudgetInterval: CycleIntervalDefault, ReclaimCapFraction: ReclaimCapFractionDefault, DeleteCapFraction: DeleteCapFractionDefault,
		ProvisionCapFraction: ProvisionCapFractionDefault, PreemptCapFraction: PreemptCapFractionDefault,
		BreakerShare: BreakerShareDefault, BreakerWindow: BreakerWindowDefault, Quarantine: true, QuarantineMachines: QuarantineMachinesDefault, DoubtListings: true,
		Concurrency: ConcurrencyDefault, CallTimeout: CallTimeoutDefault, ListTimeout: ListTimeoutDefault,
		CordonTimeout: CordonTimeoutDefault, HintInterval: HintIntervalDefault,
		FullListCycles: FullListCyclesDefault, ObserveDrains: true, WorstMin: worst.MinDefault,
	}
}

// limits are those of the rails.
func (c *Config) limits() rails.Limits {
	return rails.Limits{
		BudgetInterval: c.BudgetInterval, ReclaimCapFraction: c.ReclaimCapFraction, DeleteCapFraction: c.DeleteCapFraction,
		ProvisionCapFraction: c.ProvisionCapFraction, PreemptCapFraction: c.PreemptCapFraction,
		BreakerShare: c.BreakerShare, BreakerWindow: c.BreakerWindow, MaxActionsPerCycle: c.MaxActionsPerCycle, DryRun: c.DryRun,
	}
}

// Unbounded takes off what bounds the work over time: budgets and breaker. It is for fleets that
// exist in a process only, and for cycles in a time of their own.
func (c *Config) Unbounded() {
	c.BudgetInterval, c.ReclaimCapFraction, c.DeleteCapFraction, c.ProvisionCapFraction, c.PreemptCapFraction = 0, 0, 0, 0, 0
	c.BreakerShare = 0
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
	if c.BudgetInterval < 0 {
		fault("budgetInterval: must be 0 (each cycle) or more, got %v", c.BudgetInterval)
	}
	for _, x := range []struct {
		name string
		of   float64
	}{
		{"reclaimCapFraction", c.ReclaimCapFraction}, {"deleteCapFraction", c.DeleteCapFraction}, {"provisionCapFraction", c.ProvisionCapFraction},
		{"preemptCapFraction", c.PreemptCapFraction}, {"breakerShare", c.BreakerShare},
	} {
		if !(x.of >= 0 && x.of <= 1) {
			fault("%s: must be between 0 (off) and 1, got %v", x.name, x.of)
		}
	}
	if c.BreakerShare > 0 && c.BreakerWindow < BreakerWindowMin {
		fault("breakerWindow: must be at least %v, got %v", BreakerWindowMin, c.BreakerWindow)
	}
	if c.QuarantineMachines < 0 {
		fault("quarantineMachines: must be 0 (rows alone) or more, got %d", c.QuarantineMachines)
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
	if c.CordonTimeout <= 0 || c.HintInterval <= 0 {
		fault("cordonTimeout, hintInterval: must be positive, got %v and %v", c.CordonTimeout, c.HintInterval)
	}
	if c.WarmupCycles < 0 {
		fault("warmupCycles: must be 0 or more, got %d", c.WarmupCycles)
	}
	if c.FullListCycles < 0 {
		fault("fullListCycles: must be 0 (never) or more, got %d", c.FullListCycles)
	}
	if c.WorstMin <= 0 {
		fault("worstMin: must be positive, got %v", c.WorstMin)
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
	// Clock gives the time for the loop and for durations; it is steady, as that of
	// internal/steady is. Without one, Run uses such a clock and Step measures no durations.
	Clock func() time.Time
	// Observer is called after each cycle, by the goroutine that ran it,
	// without any lock. The report is the observer's to keep.
	Observer func(*CycleReport)
	// Running is called when a cycle begins, and when it has ended, by the goroutine that runs it, without any
	// lock. What competes with cycles can pause meanwhile. It must not wait.
	Running func(running bool)
	// Decided is called with each plan before anything is done about it, with
	// the shard locked: it may read, and must call nothing of the shard but AgesOf.
	Decided func(engine.Input, *engine.Plan)
	// Differed keeps the input of a cycle that gave another answer when it was
	// decided once more from nothing: a fault of the engine, to be replayed. It
	// returns where the input is kept, empty when it is not, and must bound what
	// it keeps. It is called with the shard locked, before anything is done
	// about the plan: it may read, and must not call the shard.
	Differed func(cycle uint64, in engine.Input) (kept string, err error)
	// Operators are the clusters' operators. Without them machines get no
	// bootstrap data, and are drained without notice.
	Operators Operators
	// RollupBytes says how many bytes roll-ups hold on their way to the shard: those
	// that wait or are read, and what they are read with and into. Without it only
	// the shard's own are counted. It is called with the shard locked, and must not wait.
	RollupBytes func() (waiting, reading int64)
	// Memory outlives the process; without one, what no provider echoes begins
	// anew.
	Memory Memory
	// Domains says what is known of the keys of Memory that begin with DomainPrefix; nil =
	// they are what they are. It is called before every cycle, with the shard locked.
	Domains func() ownership.DomainKnowledge
	// Switches stop the shard from outside; they are read before every cycle.
	Switches func() rails.Switches
	// Trip keeps why the breaker has tripped where Switches will find it; empty = it has let
	// go. It is called with the shard locked.
	Trip func(why string) error
	// Renew makes sure, after a fenced reply, that this process may act again.
	// It is called before every cycle until it returns nil.
	Renew func(context.Context) error
	// Awake is called by Run before a cycle when none has run for more than two intervals, as after
	// the process was stopped: what it finds out shows in Switches. It has AwakeMax.
	Awake func(context.Context)
	// Audit takes what became of every action. It is called with the shard
	// locked, must not wait, and keeps the record.
	Audit func(*AuditRecord)
}
