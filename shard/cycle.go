package shard

import (
	"context"
	"fmt"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Cycle is what one cycle did. It is the caller's, apart from Plan, which is
// valid until the next cycle. What Plan says of rows is valid until a table
// changes: where workers make calls or clusters report meanwhile, take what you
// need in Deps.Decided.
type Cycle struct {
	Number      uint64
	Now         int64
	Plan        *engine.Plan // nil when nothing was decided
	Reconciled  Reconciled
	Disposition rails.Disposition
	// Started are the actions that were carried out, in that order.
	Started []Started
	Counts  [engine.NumKinds]int
	// Suppressed counts what pause or dry run kept from being carried out.
	Suppressed [engine.NumKinds]int
	// Limited counts the actions that budgets held back; Capped are the Reclaims of them.
	Limited    [engine.NumKinds]int
	Capped     int
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

// Step runs one cycle; now is Unix nanoseconds. The error is that of a cycle
// that could not decide, since the provider did not list or the demand passes
// a limit of the engine: nothing was carried out then.
func (s *Shard) Step(ctx context.Context, now int64) (*Cycle, error) {
	if s.observer.running != nil {
		s.observer.running(true)
		defer s.observer.running(false)
	}
	lap := s.pace.Stopwatch()
	s.observer.mark(model.StageReconcile, 0)
	defer s.observer.labels.Clear()
	s.control(ctx)
	listing, listErr := s.list(ctx)
	c, report, err := s.cycle(ctx, now, &listing, listErr, lap)
	s.observer.worst.Took(c.Number, now, c.Durations.Total)
	if report != nil {
		s.observer.report(report)
	}
	return c, err
}

// list asks the provider what has changed. It runs without the mutex.
func (s *Shard) list(ctx context.Context) (ListResponse, error) {
	s.mu.Lock()
	req := s.reconciler.request()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ListTimeout)
	defer cancel()
	return s.executor.provider.List(ctx, req)
}

// cycle is the cycle, under the mutex: what has come in becomes the world as it is
// believed to be, the engine decides on it, and what the rails let through is carried
// out.
func (s *Shard) cycle(ctx context.Context, now int64, listing *ListResponse, listErr error, lap func() int64) (*Cycle, *CycleReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace.Begin(now)
	s.executor.ctx = ctx
	c := &Cycle{Number: s.pace.Cycle, Now: now}
	if s.decider.closed {
		return c, nil, fmt.Errorf("cycle %d decides nothing: the shard is closed", c.Number)
	}
	if listErr != nil {
		s.reconciler.gaveUp()
		s.observer.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: the provider does not list its machines: %w", c.Number, listErr)
	}
	c.Reconciled = s.reconciler.reconcile(listing)
	s.intake.TakeMail() // what is bound is known by now
	s.rails.ForgetHeld()
	c.Durations.Reconcile = lap()

	plan, err := s.decide(c)
	if err != nil {
		s.observer.metrics.cycleFailed()
		return c, nil, fmt.Errorf("cycle %d decides nothing: %w", c.Number, err)
	}
	c.Plan = plan
	c.Durations.decided(&plan.Stats)
	report := s.observer.startReport(plan, s.intake.Table())
	s.ledgers.Record(plan)
	lap()

	s.observer.mark(model.StageEmit, 0)
	s.executor.hints.tell()
	s.inventory.Recount(s.intake.Table().TakeTurned())
	railed := s.rails.Apply(plan)
	c.Durations.Emit = lap()

	s.observer.mark(model.StageExecute, 0)
	s.executor.carryOut(c, plan, &railed)
	closeHistory(s.inventory, c, plan)
	c.Durations.Execute = lap()

	s.ledgers.RecordWaiting(plan)
	s.inventory.RememberChanges()
	c.Shortfalls, c.Held = s.ledgers.Shortfalls.Count(), s.intake.HeldClusters()
	s.pace.WakeAt(s.ledgers.Refusals.Next(now))
	c.Durations.sum()
	s.observer.metrics.cycle(s, c)
	report.finish(s, c)
	return c, report, nil
}

// decide lets the engine decide, and keeps what the decision says of the tables before
// it is carried out.
func (s *Shard) decide(c *Cycle) (*engine.Plan, error) {
	wanted := s.intake.Table()
	beginHistory(s.inventory.History, wanted, &c.Reconciled)
	c.Parked = s.ledgers.StampParked()
	s.inventory.History.Decided(wanted)
	in := engine.Input{
		Supply: s.inventory.Table, Demand: wanted, Now: c.Now,
		DrainSeconds: s.ledgers.DrainSeconds(), BackingOff: s.ledgers.BackOffs.In(c.Number),
		Clock: s.pace.Nanos(), Mark: s.observer.mark,
	}
	plan, err := s.decider.decide(in)
	if err != nil {
		return nil, err
	}
	s.pace.Decided = c.Number
	s.observer.noteKind(c.Number, in, plan)
	s.observer.bills.take(in, plan)
	s.inventory.NoteIgnored()
	s.intake.NoteOffer()
	if s.observer.decided != nil {
		s.observer.decided(in, plan)
	}
	return plan, nil
}
