package provider

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

const (
	// missingMax is how many rounds in a row must not show a machine before it is gone.
	missingMax = 2
	// retryMax is the longest wait after a transient error; the first is retryMin.
	retryMin, retryMax = time.Second, time.Minute
	// blindMax is how many rounds in a row must fail for an error.
	blindMax = 3
	// toldEvery is how often it is logged how many machines are being made.
	toldEvery = 10 * time.Second
)

// hand is a driver at work.
type hand struct {
	spec    pools.Driver
	driver  driver.Driver
	limiter *rate.Limiter
	slots   chan struct{} // one for each verb under way
	wake    chan struct{}

	// Below the provider's lock.
	known   bool              // what exists was observed since the start, so that something new may be listed
	whole   bool              // it was observed completely since the start
	listed  map[string]*first // by cluster that is to be held: its first listing since the start
	round   uint64            // of the newest that has begun
	trouble string            // why the last Observe failed
	blind   int               // rounds in a row in which it failed
	made    int               // machines whose making was accepted since told
	told    time.Time
	orphans map[string]*Orphan
	removed map[string]bool // orphans whose Delete is under way
	// unlisted is how many more orphans there are.
	unlisted int
}

func newHand(spec *pools.Driver, d driver.Driver) *hand {
	return &hand{
		spec: *spec, driver: d, limiter: rate.NewLimiter(perSecond(spec), spec.LaunchBurst), slots: make(chan struct{}, ParallelMax), wake: make(chan struct{}, 1),
		orphans: map[string]*Orphan{}, removed: map[string]bool{}, listed: map[string]*first{},
	}
}

func perSecond(spec *pools.Driver) rate.Limit { return rate.Limit(spec.LaunchesPerMinute / 60) }

// pace sets how fast machines are made.
func (h *hand) pace(spec *pools.Driver) {
	h.limiter.SetLimit(perSecond(spec))
	h.limiter.SetBurst(spec.LaunchBurst)
}

// kick has a round begin soon.
func (h *hand) kick() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Run has all drivers work until the context ends, and returns when the last verb has.
func (p *Provider) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case h := <-p.started:
			all.Go(func() { p.work(ctx, h, &all) })
		case <-ctx.Done():
			return nil
		case <-p.done:
			return nil // Close says why
		}
	}
}

// work makes rounds with one driver.
func (p *Provider) work(ctx context.Context, h *hand, all *sync.WaitGroup) {
	var changed <-chan struct{} // nil = it never says
	if n, ok := h.driver.(driver.Notifier); ok {
		changed = n.Changed()
	}
	regular := time.NewTicker(p.cfg.Every)
	defer regular.Stop()
	for {
		tasks, err := p.round(ctx, h)
		if err != nil && ctx.Err() != nil {
			return
		}
		for _, t := range tasks {
			all.Go(func() { p.carry(ctx, h, t) })
		}
		least := time.NewTimer(p.cfg.Least)
		select {
		case <-least.C:
		case <-ctx.Done():
			least.Stop()
			return
		}
		select {
		case <-regular.C:
		case <-h.wake:
		case <-changed:
		case <-ctx.Done():
			return
		case <-p.done:
			return
		}
	}
}

// task is a verb for a machine.
type task struct {
	verb     verb
	id       string
	machine  *driver.Machine
	binding  *driver.Binding
	owner    driver.Owner
	deadline time.Time
}

// round observes a driver and compares what exists with the records.
func (p *Provider) round(ctx context.Context, h *hand) ([]task, error) {
	if err := p.submit(ctx, func() error { h.round++; return nil }); err != nil {
		return nil, err
	}
	start := time.Now()
	exists := map[string][]driver.Observation{}
	limited, cancel := context.WithTimeout(ctx, driver.ObserveTimeout)
	trouble := h.driver.Observe(limited, func(o *driver.Observation) { exists[o.ID] = append(exists[o.ID], *o) })
	cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	took := time.Since(start)
	var tasks []task
	err := p.submit(ctx, func() error {
		p.stats.observed(h.spec.Name, took, trouble)
		tasks = p.compare(h, exists, trouble)
		return nil
	})
	if err != nil { // the writer may still be at it
		return nil, err
	}
	return tasks, nil
}

// compare takes over what was observed, and returns what is to be done.
func (p *Provider) compare(h *hand, exists map[string][]driver.Observation, trouble error) (tasks []task) {
	now := p.cfg.Now()
	p.noteTrouble(h, trouble)
	h.tell(p.log, now)
	p.adoptAll(h, exists, now)
	p.noteObserved(h, exists, trouble, now)
	why, elsewhere := unseenIn(trouble)
	for _, i := range slices.Clone(p.table.kept) { // some may be dropped
		x := &p.table.rows[i]
		if x.rec == nil || x.rec.Driver != h.spec.Name || x.busy {
			continue
		}
		if t, ok := p.look(h, i, exists[x.id], elsewhere && (len(why) == 0 || x.rec.Cluster != "" && why[x.rec.Cluster] == nil), now); ok {
			tasks = append(tasks, t)
		}
	}
	p.probe(now)
	p.pending.account = true
	return tasks
}

// noteTrouble writes a line when a driver cannot be observed, and when it can again. One round that fails is a
// warning, several in a row are an error.
func (p *Provider) noteTrouble(h *hand, trouble error) {
	before := h.trouble
	h.trouble = textOf(trouble)
	switch {
	case trouble == nil && h.blind > 0:
		h.blind = 0
		p.log.Info("driver can be observed again", "driver", h.spec.Name)
	case trouble != nil:
		h.blind++
		level := slog.LevelWarn
		if h.blind >= blindMax {
			level = slog.LevelError
		}
		if h.trouble != before || h.blind == blindMax {
			message := "driver cannot be observed; nothing is taken for gone"
			if _, elsewhere := unseenIn(trouble); elsewhere {
				message = "driver cannot be observed in some clusters; nothing there is taken for gone"
			}
			p.log.Log(context.Background(), level, message, "driver", h.spec.Name, "rounds", h.blind, "error", trouble)
		}
	}
}

// tell writes how many machines were begun to be made, at most once in toldEvery.
func (h *hand) tell(log *slog.Logger, now time.Time) {
	if h.made == 0 || now.Sub(h.told) < toldEvery {
		return
	}
	log.Info("machines are being made", "driver", h.spec.Name, "machines", h.made)
	h.made, h.told = 0, now
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// seen sorts what exists of a machine: of its generation, of an older one, or taken by somebody else.
func (x *row) seen(exists []driver.Observation, now time.Time) seen {
	s := seen{now: now}
	for k := range exists {
		o := &exists[k]
		erased := x.erased == o.Generation
		switch {
		case o.Taken:
			s.taken = o
		case o.Generation == x.rec.Generation:
			s.obs, s.erased = o, erased
		case o.Phase != driver.Deleting || !erased || o.Incomplete:
			s.older = o.Generation
		}
	}
	return s
}

// look compares one machine with what exists of it. whole says that it would have been observed if it existed.
func (p *Provider) look(h *hand, i int32, exists []driver.Observation, whole bool, now time.Time) (task, bool) {
	x := &p.table.rows[i]
	s := x.seen(exists, now)
	switch {
	case s.obs != nil || s.older != 0 || len(exists) > 0:
		x.missing = 0
	case whole && h.round > x.askedRound:
		x.missing++
	}
	s.absent = x.missing >= missingMax
	if len(exists) == 0 && p.held(h, i, now) {
		return task{}, false
	}
	do := decide(x.rec, s, &x.offer.Offer, p.timeouts(x.offer))
	p.tellWait(h, x, &s)
	p.take(i, s.obs, &do, now)
	if x.rec == nil || do.verb == verbNone || do.fail != "" || now.Before(x.retry) {
		return task{}, false
	}
	if do.verb == verbCreate || do.verb == verbConfigure && x.rec.LateBound {
		if giveUp, waits := x.waits(); waits {
			if giveUp != "" {
				p.broke(i, giveUp, now)
			}
			return task{}, false
		}
		if !h.limiter.AllowN(now, 1) {
			p.stats.paced[h.spec.Name]++
			return task{}, false
		}
	}
	x.busy = true
	m := x.rec.machine(&x.offer.Offer)
	m.Generation = do.generation
	t := task{verb: do.verb, id: x.id, machine: m, owner: x.rec.Owner, deadline: x.rec.Deadline}
	if do.verb == verbConfigure {
		t.binding = &driver.Binding{Owner: x.rec.Owner, Cluster: x.rec.Cluster, Metadata: x.rec.Metadata, Blob: x.blob}
	}
	return t, true
}

// tellAfter is how long a change takes before what it waits for is logged.
const tellAfter = 30 * time.Second

// tellWait writes what a change waits for that takes long: shards hear of it only when it has failed.
func (p *Provider) tellWait(h *hand, x *row, s *seen) {
	if s.obs == nil || s.obs.Reason == "" || s.obs.Phase == driver.Failed || s.now.Sub(x.rec.Since) < tellAfter {
		return
	}
	switch x.rec.State {
	case model.Creating, model.Configuring, model.Draining, model.Deleting:
		if says := s.obs.Reason[:min(len(s.obs.Reason), driver.ReasonBytesMax)]; says != x.trouble {
			x.trouble = says
			p.log.Info("a change takes long", "driver", h.spec.Name, "machine", x.id, "state", x.rec.State.String(), "since", s.now.Sub(x.rec.Since).Round(time.Second), "reason", says)
		}
	}
}

// defaultTimeouts are those of offers that the pools file no longer has.
var defaultTimeouts = pools.Timeouts{Create: pools.CreateDefault, Configure: pools.ConfigureDefault, Drain: pools.DrainDefault, Delete: pools.DeleteDefault}

func (p *Provider) timeouts(o *offer) *pools.Timeouts {
	if o.pool == nil {
		return &defaultTimeouts
	}
	return &o.pool.Timeouts
}

// take carries out what follows for a record.
func (p *Provider) take(i int32, obs *driver.Observation, do *step, now time.Time) {
	x := &p.table.rows[i]
	o := x.offer
	p.inStock(x, obs)
	obs = o.believed(obs)
	switch {
	case do.gone:
		p.stats.lost++
		p.log.Warn("machine is gone", "machine", x.id, "state", x.rec.State.String(), "cluster", x.rec.Cluster, "ref", x.rec.Ref)
		p.drop(i)
	case do.fail != "":
		p.failed(i, do.fail, do.outOfStock, now)
	case do.to != model.StateUnspecified:
		p.stats.Ended++
		if x.rec.making() {
			p.made(o)
		}
		p.change(i, func(r *record) {
			r.arrive(do.to, obs, now)
		})
		if do.to == model.Configured {
			p.learn(o, obs)
		}
	case do.cleaned:
		p.change(i, func(r *record) { r.Cleaned = now })
	case x.rec.State == model.Failed && !x.rec.Cleaned.IsZero() && now.Sub(x.rec.Cleaned) >= p.keepFailed(o):
		p.drop(i)
	case obs != nil && x.rec.differs(obs):
		p.change(i, func(r *record) { r.refresh(obs) })
	}
}

func (p *Provider) keepFailed(o *offer) time.Duration {
	if o.pool == nil {
		return pools.KeepFailedDefault
	}
	return o.pool.KeepFailed
}

// learn takes over what pods can really have of an offer's machines.
func (p *Provider) learn(o *offer, obs *driver.Observation) {
	if obs.Allocatable == nil || obs.Allocatable.Equal(o.real) {
		return
	}
	o.real, o.dirty = obs.Allocatable, true
	was := p.freeStates(o)
	o.writeBodies()
	p.relistFree(o, was)
}

// failed makes a machine Failed, and holds its offer back if others are likely to fail like it.
func (p *Provider) failed(i int32, why string, outOfStock bool, now time.Time) {
	switch x := &p.table.rows[i]; {
	case outOfStock:
		p.stats.soldOut++
		if why == "" {
			why = driver.ErrOutOfStock.Error()
		}
		p.sellOut(x.offer, why, now)
	case x.rec.making():
		p.failing(x.offer, x.id, why, x.rec.Since, now)
	}
	p.broke(i, why, now)
}

// broke makes a machine Failed.
func (p *Provider) broke(i int32, why string, now time.Time) {
	x := &p.table.rows[i]
	p.log.Warn("machine failed", "machine", x.id, "state", x.rec.State.String(), "cluster", x.rec.Cluster, "reason", why)
	p.stats.failures++
	x.missing, x.tries, x.retry, x.trouble = 0, 0, time.Time{}, ""
	p.change(i, func(r *record) { r.fail(why, now) })
}

// carry calls a verb, and takes over what came of it.
func (p *Provider) carry(ctx context.Context, h *hand, t task) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return
	}
	limited, cancel := context.WithTimeout(ctx, driver.VerbTimeout)
	defer cancel()
	var err error
	switch t.verb {
	case verbCreate:
		err = h.driver.Create(limited, t.machine, t.owner)
	case verbConfigure:
		err = h.driver.Configure(limited, t.machine, t.binding)
	case verbDrain:
		err = h.driver.Drain(limited, t.machine, t.deadline)
	case verbDelete:
		err = h.driver.Delete(limited, t.machine)
	}
	if ctx.Err() != nil {
		return // whatever came of it, the next process asks again
	}
	// When this fails, the file is broken, and the process ends.
	_ = p.submit(ctx, func() error { p.heard(h, &t, err); return nil })
	h.kick()
}

// heard takes over what a verb has answered.
func (p *Provider) heard(h *hand, t *task, err error) {
	p.stats.verb(h.spec.Name, t.verb, err)
	i, ok := p.table.byID[t.id]
	if !ok {
		return
	}
	x := &p.table.rows[i]
	x.busy = false
	now := p.cfg.Now()
	forNow := x.rec.Generation == t.machine.Generation && x.rec.Owner == t.owner
	switch {
	case err == nil:
		p.accepted(h, i, t, forNow, now)
	case errors.Is(err, driver.ErrOutOfStock) && forNow && x.rec.State != model.Failed:
		p.failed(i, err.Error(), true, now)
	case errors.Is(err, driver.ErrPermanent) && forNow && t.verb != verbDelete && x.rec.State != model.Failed:
		p.failed(i, err.Error(), false, now)
	default:
		wait := x.later(now, retryMin)
		if says := err.Error(); says != x.trouble {
			x.trouble = says[:min(len(says), driver.ReasonBytesMax)]
			p.log.Warn("driver failed; it is asked again", "driver", h.spec.Name, "verb", t.verb.String(), "machine", t.id, "wait", wait, "error", err)
		}
	}
}

// accepted notes that a driver has taken a verb over; forNow tells whether the record still wants what was asked.
func (p *Provider) accepted(h *hand, i int32, t *task, forNow bool, now time.Time) {
	x := &p.table.rows[i]
	if t.verb == verbCreate || t.verb == verbConfigure && t.machine.LateBound {
		h.made++
	}
	p.log.Debug("driver has accepted", "driver", h.spec.Name, "verb", t.verb.String(), "machine", t.id, "generation", t.machine.Generation)
	x.trouble = ""
	x.askedRound, x.missing = h.round, 0
	if t.verb == verbDelete {
		x.erased = t.machine.Generation
	}
	op, changing := underWay(x.rec.State)
	switch ours := changing && forNow && transitions[op].during == duringOf(t.verb); {
	case ours && !x.rec.Asked:
		x.tries, x.retry = 0, time.Time{}
		p.change(i, func(r *record) { r.Asked = true })
	case ours || t.verb == verbDelete: // it is asked again if what it does does not show
		x.later(now, 2*retryMin)
	}
}

// later has no verb be called for a while, which doubles each time, and returns how long that is.
func (x *row) later(now time.Time, first time.Duration) time.Duration {
	wait := min(first<<min(x.tries, 16), retryMax)
	x.tries++
	x.retry = now.Add(wait)
	return wait
}

// duringOf returns the state in which a verb is called.
func duringOf(v verb) model.State {
	switch v {
	case verbCreate:
		return model.Creating
	case verbConfigure:
		return model.Configuring
	case verbDrain:
		return model.Draining
	}
	return model.Deleting
}
