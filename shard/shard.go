package shard

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Shard keeps the machines of one provider serving the needs of many clusters.
// Its methods are safe for concurrent use, but only one goroutine may run
// cycles: Run, or the caller of Step.
type Shard struct {
	cfg      Config // as given; what changes while the shard runs is in its rooms
	pace     *pace
	observer observer

	// mu guards the rooms below. The intake has mailboxes with a lock of their own.
	mu         sync.Mutex
	decider    decider
	intake     *intake
	inventory  *inventory
	reconciler *reconciler
	ownership  *ownership
	ledgers    *ledgers
	rails      *rails
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
	s := &Shard{cfg: cfg, pace: newPace(deps.Clock), observer: watch, decider: decider{engine: eng, decide: eng.Cycle}}
	s.furnish(&deps)
	recall(deps.Memory, s.inventory, s.ownership, s.intake, deps.Log)
	return s, nil
}

// furnish makes the rooms. Each knows those that it is made from:
//
//	executor ─▶ reconciler ─▶ ownership ─▶ inventory ─▶ in flight
//	    │            │                         │
//	    └▶ rails     └──────▶ ledgers ◀────────┘ (as its witness)
func (s *Shard) furnish(deps *Deps) {
	machines, wanted, calls := supply.New(), demand.New(), newInFlight()
	p, m, log := s.pace, s.observer.metrics, deps.Log
	s.ledgers = &ledgers{
		cfg: &s.cfg, pace: p, machines: machines, demand: wanted, metrics: m,
		parking: newParking(), shortfalls: newShortfalls(), latency: newLatencies(deps.Memory), failed: newSetbacks[string](0), refusals: newSetbacks[demandKey](refusalWait),
	}
	s.inventory = &inventory{
		table: machines, pace: p, inFlight: calls, witness: s.ledgers, operators: deps.Operators, log: log,
		drains: map[string]drain{}, history: history.New(machines),
		memory: deps.Memory, release: s.cfg.Engine.Release, recalled: map[string]recollection{},
	}
	s.ledgers.hints = newHints(p, s.inventory, wanted, deps.Operators, s.cfg.HintInterval)
	s.intake = newIntake(p, wanted, &s.ledgers.latency, m, log, quarantine{
		on: s.cfg.Quarantine, least: s.cfg.QuarantineMachines, apart: int64(quarantineApart * float64(s.cfg.CycleInterval)), memory: deps.Memory, machines: machines, log: log,
		accepted: map[string]asked{}, doubts: map[string]doubt{},
	})
	s.ownership = newOwnership(p, s.inventory, calls, deps.Memory)
	s.reconciler = &reconciler{
		cfg: &s.cfg, pace: p, inventory: s.inventory, inFlight: calls, ownership: s.ownership, failed: s.ledgers.failed, log: log,
		deferred: map[string]news{}, doubts: newDoubts(s.cfg.DoubtListings),
	}
	s.ownership.knowledge = deps.Domains
	s.ownership.onChange = s.reconciler.listAll
	s.rails = &rails{
		cfg: &s.cfg, pace: p, switches: deps.Switches, renew: deps.Renew, log: log, paused: s.cfg.Paused,
		budgets: budgets{cfg: &s.cfg, machines: machines}, breaker: newBreaker(&s.cfg, machines, deps.Trip, log),
	}
	s.executor = &executor{
		cfg: &s.cfg, pace: p, inventory: s.inventory, inFlight: calls, reconciler: s.reconciler, rails: s.rails, ledgers: s.ledgers, demand: wanted,
		provider: deps.Provider, operators: deps.Operators, memory: deps.Memory,
		audit: &audits{write: deps.Audit, pace: p, machines: machines, demand: wanted}, metrics: m, log: log,
		queue: make(chan *call, 2*s.cfg.Concurrency+PlanMachinesMax),
	}
	accounts := &s.observer.accounts
	machines.Account(accounts)
	wanted.Account(accounts)
	accounts.Enter(alloc.Ingest, func() alloc.Usage { return ingestUsage(&s.intake.mail, deps.RollupBytes) })
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
func (s *Shard) ApplyRollup(cluster string, rows []model.Need, now int64) (RollupOutcome, error) {
	return s.intake.apply(cluster, rows, now)
}

// TakeRollup is ApplyRollup for rows of an operator, which were read into a
// builder. New rows arrive now, whatever the operator says. A roll-up that the
// builder has refused is refused here. The builder holds nothing of use
// afterwards: Reset it before the next roll-up.
func (s *Shard) TakeRollup(b *demand.Builder, now int64) (RollupOutcome, error) {
	return s.intake.takeRollup(b, now)
}

// LoadDemand sets what a cluster needs without a report of its own, as from a
// file: it is served, but nothing of the cluster is reclaimed before it
// reports.
func (s *Shard) LoadDemand(cluster string, rows []model.Need) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intake.load(cluster, rows)
}

// Held returns the clusters whose last roll-up is in quarantine, sorted.
func (s *Shard) Held() []string { return s.intake.mail.heldClusters() }

// Shortfalls returns the unresolved demand, worst first, at most
// ShortfallsReportedMax.
func (s *Shard) Shortfalls() []Shortfall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledgers.shortfalls.report()
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
	for _, r := range s.inventory.table.Order() {
		if !visit(s.inventory.table.Get(r)) {
			return
		}
	}
}

// Count returns the number of machines in each state.
func (s *Shard) Count() [model.NumStates]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inventory.count()
}
