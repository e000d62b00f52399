package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Shard keeps the machines of one provider serving the needs of many clusters.
// Its methods are safe for concurrent use, but only one goroutine may run
// cycles: Run, or the caller of Step.
type Shard struct {
	provider Provider
	blob     func(context.Context, string, *model.Profile) ([]byte, error)
	clock    func() time.Time
	observer func(*CycleReport)
	decided  func(engine.Input, *engine.Plan)
	log      *slog.Logger
	metrics  *metrics
	wake     chan struct{}
	queue    chan *call

	// mu guards everything below.
	mu        sync.Mutex
	cfg       Config
	ctx       context.Context // of the cycle that runs, for calls within it
	engine    *engine.Engine
	machines  *supply.Table
	demand    *demand.Table
	now       int64 // time of the last cycle, Unix nanoseconds
	lastCycle int64 // time of the one before
	cycles    uint64
	ready     bool
	hungry    bool // the last cycle had more to do than the queue takes

	// Reconciliation.
	revision   []byte
	sinceFull  int
	callFailed bool
	listing    bool
	inFlight   map[string]engine.Kind
	settled    map[string]struct{} // calls that ended while the provider listed
	deferred   map[string]news

	// Ledgers.
	held          map[string]int   // roll-ups in quarantine, in a row
	reportedAt    map[string]int64 // last accepted roll-up
	drains        map[string]drain
	added         []string
	addedOverflow bool
	parking       parking
	shortfalls    shortfalls
	drainTimes    drainTimes
	latency       latencies
	tally         tally
	wanted        demandTally
	encoder       Encoder
}

// Cycle is what one cycle did. Plan is valid until the next cycle, the rest
// is the caller's.
type Cycle struct {
	Number      uint64
	Now         int64
	Plan        *engine.Plan // nil when nothing was decided
	Reconciled  Reconciled
	Disposition Disposition
	// Started are the actions that were carried out, in that order.
	Started []Started
	Counts  [engine.NumKinds]int
	// Suppressed counts what pause or dry run kept from being carried out.
	Suppressed [engine.NumKinds]int
	Capped     int       // Reclaims held back by the cap
	Cut        int       // actions beyond MaxActionsPerCycle
	Dropped    int       // actions that the queue had no room for
	Deduped    int       // actions on machines that are busy or moved on
	Illegal    []Started // actions that the machine's state does not allow
	Parked     int       // rows that rest
	Shortfalls int       // profiles with unresolved demand
	Held       []string  // clusters whose roll-up is in quarantine
	FollowUp   bool      // a further cycle was asked for at once
	Durations  Durations
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
	eng, err := engine.New(cfg.Engine)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Shard{
		provider: deps.Provider, blob: deps.Blob, clock: deps.Clock, observer: deps.Observer, decided: deps.Decided, log: deps.Log,
		metrics: m, wake: make(chan struct{}, 1), queue: make(chan *call, 2*cfg.Concurrency),
		cfg: cfg, engine: eng, machines: supply.New(), demand: demand.New(),
		inFlight: map[string]engine.Kind{}, settled: map[string]struct{}{}, deferred: map[string]news{},
		held: map[string]int{}, reportedAt: map[string]int64{}, drains: map[string]drain{},
		parking: newParking(), shortfalls: newShortfalls(), latency: newLatencies(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s, nil
}

// Step runs one cycle; now is Unix nanoseconds. The error is that of a cycle
// that could not decide, since the provider did not list or the demand passes
// a limit of the engine: nothing was carried out then.
func (s *Shard) Step(ctx context.Context, now int64) (*Cycle, error) {
	lap := s.stopwatch()
	listing, listErr := s.list(ctx)
	c, report, err := s.cycle(ctx, now, &listing, listErr, lap)
	if report != nil {
		s.observer(report)
	}
	return c, err
}

// cycle is the cycle, under the mutex.
func (s *Shard) cycle(ctx context.Context, now int64, listing *ListResponse, listErr error, lap func() int64) (*Cycle, *CycleReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
	s.lastCycle, s.now = s.now, now
	s.cycles++
	c := &Cycle{Number: s.cycles, Now: now}
	if listErr != nil {
		s.listing = false
		s.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: the provider does not list its machines: %w", c.Number, listErr)
	}

	c.Reconciled = s.reconcile(listing)
	s.ready = true
	c.Durations.Reconcile = lap()

	c.Parked = s.stampParked()
	in := engine.Input{Supply: s.machines, Demand: s.demand, Now: now, DrainSeconds: s.drainSeconds(), Clock: s.nanos()}
	plan, err := s.engine.Cycle(in)
	if err != nil {
		s.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: %w", c.Number, err)
	}
	if s.decided != nil {
		s.decided(in, plan)
	}
	c.Plan = plan
	c.Durations.decided(&plan.Stats)
	lap()

	railed := applyRails(&s.cfg, plan, s.machines)
	c.Durations.Emit = lap()
	s.carryOut(c, plan, railed)
	c.Durations.Execute = lap()

	s.recordParking(plan)
	s.shortfalls.record(plan)
	s.latency.record(s, plan)
	c.Shortfalls, c.Held = len(s.shortfalls.open), s.heldLocked()
	c.Durations.sum()
	s.metrics.cycle(s, c)
	return c, s.reportFor(c), nil
}

// carryOut does what the rails let through, and asks for a further cycle at
// once when there is more.
func (s *Shard) carryOut(c *Cycle, plan *engine.Plan, railed railed) {
	c.Disposition, c.Capped, c.Cut = railed.disposition, railed.capped, railed.cut
	s.hungry = false
	if railed.disposition != Execute {
		for _, a := range railed.actions {
			c.Suppressed[a.Kind]++
		}
		return
	}
	s.endReservations(plan)
	s.dispatch(c, plan, railed.actions)
	if railed.followUp {
		c.FollowUp = true
		s.Wake()
	}
}

// endReservations takes the stamps off that the plan says are over. That of a
// machine which another Need binds in this plan stays until the machine is
// bound: the action may be cut or dropped.
func (s *Shard) endReservations(plan *engine.Plan) {
	if len(plan.Ended) == 0 {
		return
	}
	taken := make(map[columnar.Row]struct{}, len(plan.Ended))
	for i := range plan.Actions {
		if a := &plan.Actions[i]; a.Kind == engine.Bootstrap {
			taken[a.Machine] = struct{}{}
		}
	}
	for _, r := range plan.Ended {
		if _, ok := taken[r]; !ok {
			s.machines.Reserve(r, model.Reservation{})
		}
	}
}

// drainSeconds returns the observed drain times, nil when they are not used.
func (s *Shard) drainSeconds() map[string]float64 {
	if !s.cfg.ObserveDrains {
		return nil
	}
	return s.drainTimes.seconds
}

// Ready tells whether the provider has listed its machines at least once.
func (s *Shard) Ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ready
}

// SetPaused stops or resumes carrying out decisions.
func (s *Shard) SetPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.Paused = paused
}

// Machines calls visit for every machine in id order, with the shard locked,
// until it returns false.
func (s *Shard) Machines(visit func(model.Machine) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.machines.Order() {
		if !visit(s.machines.Get(r)) {
			return
		}
	}
}

// Count returns the number of machines in each state.
func (s *Shard) Count() [model.NumStates]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.countLocked()
}

func (s *Shard) countLocked() (out [model.NumStates]int) {
	for st := range out {
		out[st] = s.machines.Count(model.State(st))
	}
	return out
}
