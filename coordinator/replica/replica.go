package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/coordinator/store"
)

// The rhythm of a replica.
const (
	pollEvery    = 50 * time.Millisecond  // whether leadership has changed
	attestEvery  = time.Second            // whether a majority agrees that this replica leads
	hintEvery    = 250 * time.Millisecond // who leads, for callers that ask the wrong replica
	promoteEvery = 500 * time.Millisecond
	retryAfter   = 200 * time.Millisecond
)

var (
	// ErrNotLeader says that another replica answers, or none does now. Nothing
	// happened.
	ErrNotLeader = errors.New("not leader")
	// ErrUnavailable says that it is not known whether the event had an effect.
	ErrUnavailable = errors.New("unavailable")
)

// Config is one replica.
type Config struct {
	Mode coordinator.Mode
	// RebalanceInterval is the time between two passes: about five reports.
	RebalanceInterval time.Duration
	// ExportDir keeps a snapshot each ExportInterval, the newest ExportKeep of
	// them; empty = none.
	ExportDir      string
	ExportInterval time.Duration
	ExportKeep     int
	Log            *slog.Logger
	Now            func() time.Time
	Metrics        Metrics
}

// Metrics is told what happens.
type Metrics interface {
	Applied(outcome string) // success, error or fsm_error
	Leads(leads bool, term int64)
	// Heard says whether a majority has just confirmed that this replica leads: one that hears
	// the others and is not heard by them goes on believing that it does.
	Heard(heard bool)
	Passed(took time.Duration, machines int)
	Exported(err error)
	ReportDropped()
}

// Replica is one replica of the coordinator.
type Replica struct {
	config Config
	store  *store.Store
	claims claims // of the goroutine that leads

	mu     sync.Mutex
	keeper keeper // the store
	core   *coordinator.Core
	reign  *reign // nil when this replica does not lead

	hintMu sync.Mutex
	hint   store.Leader
	known  bool
}

// New returns a replica that does not lead yet.
func New(c Config, s *store.Store) *Replica {
	return &Replica{config: c, store: s, keeper: s, core: coordinator.New(c.Mode)}
}

// Run takes part until ctx ends. It returns an error when the replica was
// removed from its group.
func (r *Replica) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var tasks sync.WaitGroup
	tasks.Go(func() { r.watch(ctx) })
	for _, t := range []struct {
		every time.Duration
		do    func(context.Context)
	}{{r.config.RebalanceInterval, r.pass}, {r.config.ExportInterval, r.export}, {promoteEvery, r.promote}, {attestEvery, r.attest}} {
		if t.every > 0 {
			tasks.Go(func() { repeat(ctx, t.every, t.do) })
		}
	}
	defer tasks.Wait()
	defer cancel()
	for {
		if err := r.lead(ctx); err != nil {
			r.config.Log.Warn("cannot lead yet", "error", err)
		}
		select {
		case <-ctx.Done():
			r.stepDown(nil)
			return nil
		case <-r.store.Ended():
			r.stepDown(nil)
			if ctx.Err() != nil {
				return nil
			}
			return errors.New("this replica was removed from its group; empty its data folder to let it join anew")
		case <-time.After(retryAfter):
		}
	}
}

func repeat(ctx context.Context, every time.Duration, do func(context.Context)) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			do(ctx)
		}
	}
}

// lead waits until this replica may lead, leads, and returns when it does no
// longer.
func (r *Replica) lead(ctx context.Context) error {
	if !r.wait(ctx, nil, r.store.Leads) {
		return nil
	}
	claim, err := r.claims.try(ctx, r.store.Claim)
	if errors.Is(err, store.ErrDeposed) {
		return nil
	} else if err != nil {
		return err
	}
	began := r.config.Now()
	if err := r.load(ctx, claim); err != nil {
		r.store.Release()
		return err
	}
	r.setHint()
	r.config.Metrics.Leads(true, claim.Term)
	r.config.Log.Info("this replica leads", "term", claim.Term, "loaded", r.config.Now().Sub(began).Round(time.Millisecond))
	gone := func() bool { return !r.store.Leads() || r.current() != claim }
	r.wait(ctx, claim.Lost(), gone)
	r.stepDown(claim)
	return nil
}

// load reads the state into the core; the replica leads from then on.
func (r *Replica) load(ctx context.Context, claim *store.Claim) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Forget()
	loader := r.core.Load(claim.Floor)
	if err := r.keeper.Load(ctx, claim, loader.Add); err != nil {
		return err
	}
	r.reign = &reign{claim: claim}
	return nil
}

// wait returns true when until holds or lost is closed, false when ctx or the
// member has ended.
func (r *Replica) wait(ctx context.Context, lost <-chan struct{}, until func() bool) bool {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for !until() {
		select {
		case <-ctx.Done():
			return false
		case <-r.store.Ended():
			return false
		case <-lost:
			return true
		case <-r.store.Changed():
		case <-t.C:
		}
	}
	return true
}

func (r *Replica) current() *store.Claim {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reign == nil {
		return nil
	}
	return r.reign.claim
}

// stepDown ends a claim, any when it is nil. What was heard is forgotten.
func (r *Replica) stepDown(claim *store.Claim) {
	r.mu.Lock()
	led := r.reign != nil && (claim == nil || r.reign.claim == claim)
	if led {
		r.reign = nil
	}
	r.core.Forget()
	r.mu.Unlock()
	r.store.Release()
	if led {
		r.config.Log.Info("this replica leads no longer")
	}
	r.config.Metrics.Leads(false, 0)
}

// Do gives the core an event, and calls then under the same lock once the event
// has taken effect in memory; what then reads is durable and confirmed when Do
// returns nil. Errors wrap ErrNotLeader, ErrUnavailable, or one of the core's.
func (r *Replica) Do(ctx context.Context, e coordinator.Event, then func(*coordinator.Core, int64)) (coordinator.Effects, error) {
	return r.Hear(ctx, e, func(c *coordinator.Core, term int64) bool {
		if then != nil {
			then(c, term)
		}
		return true
	})
}

// Hear is Do for what a shard says, where most answers ask for nothing: then
// tells whether anything follows from the answer. If not, and nothing was
// written, the answer waits for no commit and is not confirmed. A leader that was
// replaced and does not know it yet takes note of such a report in vain; it is
// made again.
func (r *Replica) Hear(ctx context.Context, e coordinator.Event, then func(*coordinator.Core, int64) bool) (coordinator.Effects, error) {
	d := r.decide(e, then)
	if d.reign == nil {
		return d.effects, d.err
	}
	if d.matters {
		if err := d.saw.wait(ctx); err != nil {
			return d.effects, err
		}
	}
	for _, n := range d.effects.Notices {
		r.config.Log.Info(n)
	}
	if d.matters && !d.wrote {
		if err := r.confirm(ctx, d.reign.claim); err != nil {
			return d.effects, err
		}
	}
	return d.effects, d.err
}

// Read calls then with the state; what it read is durable and confirmed.
func (r *Replica) Read(ctx context.Context, then func(*coordinator.Core, int64)) error {
	_, err := r.Do(ctx, nil, then)
	return err
}

// decision is what became of an event, as far as memory goes.
type decision struct {
	reign   *reign // nil: nothing was decided, err says why
	effects coordinator.Effects
	err     error  // of the core
	saw     *entry // the last entry that the decision knew of, its own included
	wrote   bool   // its own
	matters bool   // the answer must wait for saw, and be confirmed
}

// decide lets the core take one event.
func (r *Replica) decide(e coordinator.Event, then func(*coordinator.Core, int64) bool) (d decision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.reign
	if g == nil {
		d.err = ErrNotLeader
		return d
	}
	if len(g.queue) >= entriesMax {
		d.err = fmt.Errorf("%w: %d commands wait to be committed, as many as may", ErrUnavailable, len(g.queue))
		return d
	}
	if e != nil {
		d.effects, d.err = r.core.Step(r.config.Now().UnixNano(), e)
	}
	if d.err == nil && len(d.effects.Writes) > 0 {
		d.err = r.add(g, d.effects.Writes)
		d.wrote = d.err == nil
	}
	if errors.Is(d.err, ErrUnavailable) {
		return d
	}
	d.reign, d.saw, d.matters = g, g.last, true
	switch {
	case d.err == nil:
		d.matters = then(r.core, g.claim.Term) || d.wrote
	case !errors.Is(d.err, coordinator.ErrInvalid):
		r.config.Metrics.Applied("fsm_error")
	}
	return d
}

// confirm asks whether this replica still leads.
func (r *Replica) confirm(ctx context.Context, claim *store.Claim) error {
	err := r.keeper.Confirm(ctx, claim)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrDeposed):
		r.mu.Lock()
		if r.reign != nil && r.reign.claim == claim {
			r.reign = nil
		}
		r.mu.Unlock()
		return ErrNotLeader
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// attest asks the others whether this replica leads, when it believes so.
func (r *Replica) attest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, attestEvery)
	defer cancel()
	if r.Leads() {
		r.config.Metrics.Heard(r.Confirmed(ctx) == nil && r.Leads())
	}
}

// Leads tells whether this replica believes that it leads.
func (r *Replica) Leads() bool { return r.current() != nil }

// Confirmed returns nil when this replica leads, and a majority agrees.
func (r *Replica) Confirmed(ctx context.Context) error {
	claim := r.current()
	if claim == nil {
		return ErrNotLeader
	}
	return r.confirm(ctx, claim)
}

// Hint says who leads, as far as is known here; ok is false when there is no
// leader at all.
func (r *Replica) Hint() (leader store.Leader, ok bool) {
	r.hintMu.Lock()
	defer r.hintMu.Unlock()
	return r.hint, r.known
}

// watch keeps the hint.
func (r *Replica) watch(ctx context.Context) {
	repeat(ctx, hintEvery, func(context.Context) { r.setHint() })
}

func (r *Replica) setHint() {
	ctx, cancel := context.WithTimeout(context.Background(), hintEvery)
	defer cancel()
	l, err := r.store.Leader(ctx)
	known := r.store.LeaderKnown(ctx)
	r.hintMu.Lock()
	defer r.hintMu.Unlock()
	if r.known = known; err == nil {
		r.hint = l
	}
}

// Look calls then with what this replica has in memory, committed or not, without
// asking anybody whether it still holds; leads tells whether it believes so.
func (r *Replica) Look(then func(c *coordinator.Core, leads bool, term int64)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	term := int64(0)
	if r.reign != nil {
		term = r.reign.claim.Term
	}
	then(r.core, r.reign != nil, term)
}

// Store is what the replica keeps its state in.
func (r *Replica) Store() *store.Store { return r.store }
