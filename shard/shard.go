package shard

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/pprof"
)

// Shard keeps the machines of one provider serving the needs of many clusters.
// Its methods are safe for concurrent use, but only one goroutine may run
// cycles: Run, or the caller of Step.
type Shard struct {
	provider  Provider
	operators Operators
	memory    Memory
	switches  func() Switches
	renew     func(context.Context) error
	audit     func(*AuditRecord)
	clock     func() time.Time
	observer  func(*CycleReport)
	decided   func(engine.Input, *engine.Plan)
	differed  func(uint64, engine.Input) (string, error)
	log       *slog.Logger
	metrics   *metrics
	labels    *pprof.Labels
	mark      func(model.Stage, int) // labels.Mark
	worst     *worst                 // nil = no traces are kept
	wake      chan struct{}
	queue     chan *call // a plan of preemption may pass queueMax
	queueMax  int
	mail      mailboxes                        // roll-ups on their way to the next cycle; with a lock of their own
	admission atomic.Pointer[demand.Admission] // of the demand as the last cycle began with it
	term      atomic.Int64                     // the coordinator's, the highest heard of

	// mu guards everything below.
	mu       sync.Mutex
	cfg      Config
	ctx      context.Context // of the cycle that runs, for calls within it
	engine   *engine.Engine
	decide   func(engine.Input) (*engine.Plan, error) // engine.Cycle
	closed   bool
	mailed   []delivery // scratch of takeMail
	ignored  int        // names of resources, at the last cycle
	machines *supply.Table
	demand   *demand.Table
	accounts alloc.Accounts // of both tables and of roll-ups; the engine has its own
	now      int64          // time of the last cycle, Unix nanoseconds
	cycles   uint64
	prices   uint64 // how often the price of a machine changed
	set      Switches
	fenced   bool
	ready    bool
	hungry   bool // the last cycle had more to do than the queue takes

	// Reconciliation.
	revision   []byte
	sinceFull  int
	callFailed bool
	listing    bool
	inFlight   map[string]engine.Kind
	settled    map[string]struct{} // calls that ended while the provider listed
	deferred   map[string]news
	unsure     map[string]unsure // calls without an answer
	waits      setbacks

	// Ledgers.
	reportedAt    map[string]int64 // when the roll-ups came that were taken over since the last cycle that decided
	drains        map[string]drain
	backOffs      backOffs
	settledCycle  uint64 // number of the last cycle that decided
	added         []string
	addedOverflow bool
	parking       parking
	deeds         []deeds // of the last plan, by number of the row
	shortfalls    shortfalls
	drainTimes    drainTimes
	latency       latencies
	tally         tally
	wanted        demandTally
	history       *history.History
	encoder       Encoder
	hints         hints

	// What outlives the process.
	recalled    map[string]recollection // not yet listed in this process
	remembered  uint64                  // version of the machines that was kept
	scratch     []byte
	domains     map[Domain]struct{}
	domainKeys  map[string]int // how many domains have the key
	given       map[string]given
	received    map[string]string // machine → instruction
	adoptions   map[string]int64  // instruction → when it was carried out, Unix nanoseconds
	gone        map[string]int    // machines given or received → looks at full listings in which they were not
	fullLists   int               // since machines were given or received
	arrived     map[string]uint64 // machine → cycle in which it came from another shard
	ownedAt     uint64            // position in the memory of the last change of ownership
	offeredUpTo columnar.Row      // where the next offers begin, when one look is not enough
	reown       bool              // what is this shard's has changed
	relist      bool              // the next listing is to be full
}

// Cycle is what one cycle did. It is the caller's, apart from Plan, which is
// valid until the next cycle. What Plan says of rows is valid until a table
// changes: where workers make calls or clusters report meanwhile, take what you
// need in Deps.Decided.
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
	Waiting    int       // actions whose cluster cannot take machines at the moment
	Illegal    []Started // actions that the machine's state does not allow
	Parked     int       // rows that rest
	Shortfalls int       // profiles with unresolved demand
	Held       []string  // clusters whose roll-up is in quarantine
	FollowUp   bool      // a further cycle was asked for at once
	Durations  Durations
	// Wasted counts the actions that came to nothing in this cycle.
	Wasted history.Counts
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
	m, err := newMetrics(deps.Registerer, deps.Operators)
	if err != nil {
		return nil, err
	}
	s := &Shard{
		provider: deps.Provider, operators: deps.Operators, memory: deps.Memory, switches: deps.Switches, renew: deps.Renew, audit: deps.Audit,
		clock: deps.Clock, observer: deps.Observer, decided: deps.Decided, differed: deps.Differed, log: deps.Log,
		metrics: m, wake: make(chan struct{}, 1), queue: make(chan *call, 2*cfg.Concurrency+PlanMachinesMax), queueMax: 2 * cfg.Concurrency,
		cfg: cfg, engine: eng, decide: eng.Cycle, mail: newMailboxes(cfg.Quarantine), machines: supply.New(), demand: demand.New(),
		inFlight: map[string]engine.Kind{}, settled: map[string]struct{}{}, deferred: map[string]news{}, unsure: map[string]unsure{},
		reportedAt: map[string]int64{}, drains: map[string]drain{},
		parking: newParking(), shortfalls: newShortfalls(), latency: newLatencies(), hints: newHints(),
		recalled: map[string]recollection{}, domains: map[Domain]struct{}{}, domainKeys: map[string]int{},
		given: map[string]given{}, received: map[string]string{}, adoptions: map[string]int64{}, arrived: map[string]uint64{}, gone: map[string]int{},
	}
	s.admission.Store(s.demand.Admission())
	s.history = history.New(s.machines)
	s.machines.Account(&s.accounts)
	s.demand.Account(&s.accounts)
	s.accounts.Enter(alloc.Ingest, func() alloc.Usage { return ingestUsage(&s.mail, deps.RollupBytes) })
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.recall()
	s.labels = pprof.New(context.Background(), cmp.Or(cfg.Engine.Workers, runtime.GOMAXPROCS(0)))
	s.mark = s.labels.Mark
	if cfg.WorstDir != "" {
		if s.worst, err = newWorst(cfg.WorstDir, cfg.WorstMin, s.log); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Step runs one cycle; now is Unix nanoseconds. The error is that of a cycle
// that could not decide, since the provider did not list or the demand passes
// a limit of the engine: nothing was carried out then.
func (s *Shard) Step(ctx context.Context, now int64) (*Cycle, error) {
	lap := s.stopwatch()
	s.mark(model.StageReconcile, 0)
	defer s.labels.Clear()
	s.control(ctx)
	listing, listErr := s.list(ctx)
	c, report, err := s.cycle(ctx, now, &listing, listErr, lap)
	s.worst.took(c.Number, now, c.Durations.Total)
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
	s.now = now
	s.cycles++
	c := &Cycle{Number: s.cycles, Now: now}
	if s.closed {
		return c, nil, fmt.Errorf("cycle %d decides nothing: the shard is closed", c.Number)
	}
	s.takeMail()
	if listErr != nil {
		s.listing = false
		s.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: the provider does not list its machines: %w", c.Number, listErr)
	}

	c.Reconciled = s.reconcile(listing)
	s.ready = true
	c.Durations.Reconcile = lap()

	s.beginHistory(&c.Reconciled)
	c.Parked = s.stampParked()
	s.history.Decided(s.demand)
	in := engine.Input{Supply: s.machines, Demand: s.demand, Now: now, DrainSeconds: s.drainSeconds(), BackingOff: s.backOffs.in(s.cycles), Clock: s.nanos(), Mark: s.mark}
	plan, err := s.decide(in)
	if err != nil {
		s.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: %w", c.Number, err)
	}
	s.note(in, plan)
	c.Plan = plan
	c.Durations.decided(&plan.Stats)
	report := s.startReport(plan)
	s.record(plan)
	lap()

	s.mark(model.StageEmit, 0)
	s.hint()
	railed := applyRails(&s.cfg, s.halted(), plan, s.machines)
	c.Durations.Emit = lap()
	s.mark(model.StageExecute, 0)
	s.carryOut(c, plan, railed)
	s.closeHistory(c, plan)
	c.Durations.Execute = lap()

	s.latency.record(s, plan)
	s.rememberChanges()
	c.Shortfalls, c.Held = len(s.shortfalls.open), s.mail.heldClusters()
	c.Durations.sum()
	s.metrics.cycle(s, c)
	s.finishReport(report, c)
	return c, report, nil
}

// note keeps what a decision says of the tables, before it is carried out.
func (s *Shard) note(in engine.Input, plan *engine.Plan) {
	s.settledCycle = s.cycles
	s.noteKind(in, plan)
	s.noteIgnored()
	if !s.admission.Load().KnowsOffer(s.demand) {
		s.admission.Store(s.demand.Admission())
	}
	if s.decided != nil {
		s.decided(in, plan)
	}
}

// noteIgnored logs that machines offer more resources than decisions take account
// of, when the number of these has changed.
func (s *Shard) noteIgnored() {
	names := s.machines.Ignored()
	if len(names) == s.ignored {
		return
	}
	if s.ignored = len(names); s.ignored > 0 {
		s.log.Warn("machines offer more resources than are supported; the first by name count, the others are ignored",
			"ignored", len(names), "first", names[0], "supported", model.OfferedNamesMax)
	} else {
		s.log.Info("machines offer no more resources than are supported", "supported", model.OfferedNamesMax)
	}
}

// record enters a plan in the ledgers, before anything is done about it: what
// it says of rows is read from the tables that it was made for.
func (s *Shard) record(plan *engine.Plan) {
	s.deeds = deedsOf(plan.Actions, plan.Len(), s.deeds)
	s.recordParking(plan)
	s.shortfalls.record(plan)
}

// carryOut does what the rails let through, and asks for a further cycle at
// once when there is more.
func (s *Shard) carryOut(c *Cycle, plan *engine.Plan, railed railed) {
	c.Disposition, c.Capped, c.Cut = railed.disposition, railed.capped, railed.cut
	s.hungry = false
	auditor := s.newAuditor(plan)
	s.adoptStamps(plan)
	if railed.disposition != Execute {
		for _, a := range railed.actions {
			c.Suppressed[a.Kind]++
		}
		auditor.held(railed.actions, railed.disposition.String())
		return
	}
	auditor.heldByRails(plan, &railed)
	s.endReservations(plan)
	s.dispatch(c, plan, &railed, &auditor)
	if railed.followUp {
		c.FollowUp = true
		s.Wake()
	}
}

// adoptStamps stamps machines with the Need of their cluster that they serve by now.
// A Need is credited with its own machines before others, whatever these cost,
// so it keeps what it has: without the new stamp each cheaper machine that
// comes to the cluster, also one that was freed for another Need, would take
// the place of one that serves already. That is nothing which is carried out, and
// happens under pause and dry run too.
func (s *Shard) adoptStamps(plan *engine.Plan) {
	for _, x := range plan.Adopted {
		s.stamp(x.Machine, plan.Stamp(int(x.Need)))
	}
}

// endReservations takes the stamps off that the plan says are over. That of a
// machine which another Need binds in this plan stays until the machine is
// bound: the action may be cut or dropped. That of a machine which drains on for
// its owner changes.
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
	drains := s.stillDrains(plan)
	for _, r := range plan.Ended {
		if _, ok := taken[r]; !ok {
			s.machines.Reserve(r, drains[r])
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

// Close ends the engine's workers and gives its memory back: no further cycle is
// decided, and plans of earlier ones are no longer valid. What there is of
// machines and demand can still be read. A shard that nobody refers to any more
// is closed in time.
func (s *Shard) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.engine.Close()
	}
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
