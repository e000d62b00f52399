package shard

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/intake"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"github.com/tonnage/tonnage/shard/internal/pace"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Shard keeps the machines of one provider serving the needs of many clusters.
// Its methods are safe for concurrent use, but only one goroutine may run
// cycles: Run, or the caller of Step.
type Shard struct {
	cfg      Config // as given; what changes while the shard runs is in its rooms
	pace     *pace.Pace
	observer observer

	// mu guards the rooms below. The intake has mailboxes with a lock of their own.
	mu         sync.Mutex
	decider    decider
	intake     *intake.Intake
	inventory  *inventory.Inventory
	reconciler *reconciler
	ownership  *ownership.Ownership
	ledgers    *ledgers.Ledgers
	rails      *rails.Rails
	executor   *executor
}

// decider is the engine of a shard.
type decider struct {
	engine *engine.Engine
	decide func(engine.Input) (*engine.Plan, error) // engine.Cycle
	closed bool
}

// New returns a shard that knows nothing yet: the first cycle lists the
// provider's machines. The error lists every fault of the settings.
func New(cfg Config, deps Deps) (*Shard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Provider == nil {
		return nil, fmt.Errorf("a shard needs a provider")
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	watch, err := newObserver(&cfg, &deps)
	if err != nil {
		return nil, err
	}
	eng, err := engine.New(cfg.Engine)
	if err != nil {
		return nil, err
	}
	s := &Shard{cfg: cfg, pace: pace.New(deps.Clock), observer: watch, decider: decider{engine: eng, decide: eng.Cycle}}
	s.furnish(&deps)
	recall(deps.Memory, s.inventory, &s.ledgers.Latency, s.ownership, s.intake, deps.Log)
	return s, nil
}

// furnish makes the rooms. Each knows those that it is made from:
//
//	executor ─▶ reconciler ─▶ ownership ─▶ inventory ─▶ in flight
//	    │            │                         │
//	    └▶ rails     └──────▶ ledgers ◀────────┘ (as its witness)
func (s *Shard) furnish(deps *Deps) {
	machines, wanted, calls := supply.New(), demand.New(), inventory.NewInFlight()
	p, m, log := s.pace, s.observer.metrics, deps.Log
	s.ledgers = ledgers.New(p, machines, wanted, m, deps.Memory, s.cfg.ObserveDrains)
	s.inventory = inventory.New(&inventory.Deps{
		Table: machines, Pace: p, InFlight: calls, Witness: s.ledgers, Listener: listenerOf(deps.Operators), CountedFor: wanted.CountedFor,
		Memory: deps.Memory, Release: s.cfg.Engine.Release, Log: log,
	})
	s.intake = intake.New(&intake.Deps{
		Pace: p, Demand: wanted, Machines: machines, Waits: &s.ledgers.Latency, Meter: m, Memory: deps.Memory, Log: log,
		Quarantine: s.cfg.Quarantine, BoundMin: s.cfg.QuarantineMachines, Interval: s.cfg.CycleInterval,
	})
	s.ownership = ownership.New(p, s.inventory, calls, deps.Memory, deps.Domains, func() { s.reconciler.listAll() }, log)
	s.reconciler = &reconciler{
		cfg: &s.cfg, pace: p, inventory: s.inventory, inFlight: calls, ownership: s.ownership, failed: s.ledgers.Failed, log: log,
		deferred: map[string]news{}, doubts: newDoubts(s.cfg.DoubtListings),
	}
	s.rails = rails.New(s.cfg.limits(), s.cfg.Paused, &rails.Deps{Pace: p, Machines: machines, Switches: deps.Switches, Renew: deps.Renew, Trip: deps.Trip, Log: log})
	s.executor = &executor{
		cfg: &s.cfg, pace: p, inventory: s.inventory, inFlight: calls, reconciler: s.reconciler, rails: s.rails, ledgers: s.ledgers, demand: wanted,
		hints:    newHints(p, s.inventory, wanted, deps.Operators, s.cfg.HintInterval),
		provider: deps.Provider, operators: deps.Operators, memory: deps.Memory,
		audit: &audits{write: deps.Audit, pace: p, machines: machines, demand: wanted}, metrics: m, log: log,
		queue: make(chan *call, 2*s.cfg.Concurrency+rails.PlanMachinesMax),
	}
	accounts := &s.observer.accounts
	machines.Account(accounts)
	wanted.Account(accounts)
	accounts.Enter(alloc.Ingest, func() alloc.Usage { return ingestUsage(s.intake, deps.RollupBytes) })
}

// Ready tells whether the provider has listed its machines at least once.
func (s *Shard) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reconciler.listed
}

// ApplyRollup takes in a cluster's whole demand; rows may leave Cluster empty. An
// accepted roll-up starts a cycle at once, and that cycle takes it over, or a
// newer one of the cluster; a row that continues one of the demand before keeps
// its arrival. A new row arrives when the caller says. A refused roll-up changes
// nothing: the error says what is wrong with it, and the last good demand stays.
// A held one leaves the demand as it is too, but the cluster has reported. now is
// Unix nanoseconds. It is safe for concurrent use and waits for no cycle.
func (s *Shard) ApplyRollup(cluster string, rows []model.Need, now int64) (intake.RollupOutcome, error) {
	return s.intake.Apply(cluster, rows, now)
}

// TakeRollup is ApplyRollup for rows of an operator, which were read into a
// builder. New rows arrive now, whatever the operator says. A roll-up that the
// builder has refused is refused here. The builder holds nothing of use
// afterwards: Reset it before the next roll-up.
func (s *Shard) TakeRollup(b *demand.Builder, now int64) (intake.RollupOutcome, error) {
	return s.intake.TakeRollup(b, now)
}

// LoadDemand sets what a cluster needs without a report of its own, as from a
// file: it is served, but nothing of the cluster is reclaimed before it
// reports.
func (s *Shard) LoadDemand(cluster string, rows []model.Need) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intake.Load(cluster, rows)
}

// Held returns the clusters whose last roll-up is in quarantine, sorted.
func (s *Shard) Held() []string { return s.intake.HeldClusters() }

// Shortfalls returns the unresolved demand, worst first, at most
// ShortfallsReportedMax.
func (s *Shard) Shortfalls() []ledgers.Shortfall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledgers.Shortfalls.Report()
}

// Close ends the engine's workers and gives its memory back: no further cycle is
// decided, and plans of earlier ones are no longer valid. What there is of
// machines and demand can still be read. A shard that nobody refers to any more
// is closed in time.
func (s *Shard) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.decider.closed {
		s.decider.closed = true
		s.decider.engine.Close()
	}
}

// Machines calls visit for every machine in id order, with the shard locked,
// until it returns false.
func (s *Shard) Machines(visit func(model.Machine) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.inventory.Table.Order() {
		if !visit(s.inventory.Table.Get(r)) {
			return
		}
	}
}

// Count returns the number of machines in each state.
func (s *Shard) Count() [model.NumStates]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inventory.Count()
}
