package report

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/telemetry"
)

const (
	// eventsMax is how many requests are told anew in one roll-up why they are left
	// out; the others are told in the next ones. Namespaces take turns.
	eventsMax = 100
	// batch is how many marks are written before others can come in between.
	batch = 100
)

// mark is what is written into the status of a request: that it was heard, or why it is
// left out.
type mark struct {
	request *api.CapacityRequest
	why     error // nil = it was heard
	class   uint8 // the size class in which it was heard, 0 = none
	// answer is what the shard says of it; nil = this is about something else.
	answer *answer
}

// Config is what a Reporter is made of.
type Config struct {
	// List returns all requests of the cluster, from memory. They are not modified.
	List func() []*api.CapacityRequest
	// Client writes marks.
	Client client.Client
	// Concurrency is how many marks are written at a time.
	Concurrency int
	// Refused tells a request, in the cluster, why it is not reported.
	Refused func(request *api.CapacityRequest, why string)
	// Waits tells a request, in the cluster, what it waits for. May be nil.
	Waits func(request *api.CapacityRequest, reason, note string)
	// Rolled is told every roll-up. May be nil.
	Rolled  func(needs []*bigfleet.CapacityNeed)
	Log     *slog.Logger
	Metrics *telemetry.Metrics // may be nil
	Now     func() time.Time
}

// Reporter makes roll-ups and marks what was heard.
type Reporter struct {
	cfg Config

	grown chan struct{} // holds a token when something was added

	making sync.Mutex // a roll-up; sessions follow each other
	sums   rollup.Aggregator

	mu      sync.Mutex
	ledger  ledger
	recent  recent
	told    map[version]bool // requests that know why they are left out
	summary summary
	marks   queue[mark]
	newest  reported
	wake    chan struct{}
}

// New returns a reporter that has reported nothing.
func New(cfg Config) *Reporter {
	r := &Reporter{cfg: cfg, wake: make(chan struct{}, 1), grown: make(chan struct{}, 1)}
	r.ledger.begin()
	return r
}

// Begin starts a session.
func (r *Reporter) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ledger.begin()
	select {
	case <-r.grown: // its first roll-up holds it
	default:
	}
}

// Grow is called when a request was added, or asks for something else.
func (r *Reporter) Grow() {
	select {
	case r.grown <- struct{}{}:
	default:
	}
}

// Grown implements session.Demand.
func (r *Reporter) Grown() <-chan struct{} { return r.grown }

// Limit implements session.Demand.
func (r *Reporter) Limit(rows, gangs, sets, keys int, offered map[string]string) {
	r.making.Lock()
	defer r.making.Unlock()
	limits := rollup.Limits{Rows: rows, Gangs: gangs, Sets: sets, Keys: keys, Offered: r.sums.Offered()}
	if offered != nil {
		limits.Offered = rollup.Amounts(offered)
	}
	r.sums.Limit(limits)
}

// Next makes the roll-up that is sent now. An early one is withheld where it
// could help to confirm that demand has vanished.
func (r *Reporter) Next(early bool) (needs []*bigfleet.CapacityNeed, send bool) {
	r.making.Lock()
	defer r.making.Unlock()
	phases := map[telemetry.RollupPhase]time.Duration{}
	lap := r.cfg.Now()
	took := func(p telemetry.RollupPhase) {
		now := r.cfg.Now()
		phases[p], lap = now.Sub(lap), now
	}
	requests := r.cfg.List()
	took(telemetry.PhaseList)
	result := r.sums.Aggregate(requests)
	took(telemetry.PhaseBuild)
	r.mu.Lock()
	send = r.recent.admit(len(result.Needs), early)
	if early {
		r.cfg.Metrics.Early(send)
	}
	if !send {
		r.mu.Unlock()
		return nil, false
	}
	r.ledger.report(result.Included, result.Classes)
	r.newest = reported{result.Needs, result.Included, result.Rows}
	tell := r.refused(result.Refused)
	r.summary.tell(result.Refused, r.cfg.Now(), r.cfg.Metrics, r.cfg.Log)
	r.mu.Unlock()
	if len(tell) > 0 {
		r.awake()
	}
	for _, t := range tell {
		r.cfg.Refused(t.Request, message(t.Err))
	}
	if r.cfg.Rolled != nil {
		r.cfg.Rolled(result.Needs)
	}
	took(telemetry.PhaseEnqueue)
	r.cfg.Metrics.Rollup(phases)
	r.cfg.Metrics.Refused(len(result.Refused))
	r.cfg.Metrics.SoftSpread(result.SoftSpread)
	r.cfg.Log.Debug("roll-up", "early", early, "requests", len(requests), "rows", len(result.Needs), "refused", len(result.Refused))
	return result.Needs, true
}

// refused returns the requests that get an event now, and records the refusal
// in their status.
func (r *Reporter) refused(all []rollup.Refusal) []rollup.Refusal {
	told := make(map[version]bool, len(all))
	var fresh queue[rollup.Refusal]
	for i := range all {
		f := &all[i]
		if v := versionOf(f.Request); r.told[v] || knows(f) {
			told[v] = true
		} else {
			fresh.put(f.Request.Namespace, v, *f)
		}
	}
	tell := fresh.take(eventsMax)
	for _, f := range tell {
		told[versionOf(f.Request)] = true
		r.marks.put(f.Request.Namespace, versionOf(f.Request), mark{request: f.Request, why: f.Err})
	}
	r.told = told
	return tell
}

// Acknowledged takes an acknowledgement of the shard.
func (r *Reporter) Acknowledged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.ledger.acknowledge() {
		r.marks.put(e.request.Namespace, versionOf(e.request), mark{request: e.request, class: e.class})
	}
	r.awake()
}

// awake has Run look for marks.
func (r *Reporter) awake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes marks until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	for {
		select {
		case <-r.wake:
			r.write(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// write writes what is to be written so far. What fails is heard, or told, again.
func (r *Reporter) write(ctx context.Context) {
	began, of := r.cfg.Now(), 0
	var all outcome
	for ctx.Err() == nil {
		r.mu.Lock()
		marks := r.marks.take(batch)
		r.mu.Unlock()
		if len(marks) == 0 {
			break
		}
		of += len(marks)
		r.writeAll(ctx, marks, &all)
	}
	if of > 0 {
		r.cfg.Metrics.Acknowledged(all.heard, r.cfg.Now().Sub(began))
	}
	if all.failed > 0 && ctx.Err() == nil { // else it ends
		r.cfg.Log.Warn("the status of some requests could not be written; it will be after the next roll-up",
			"failed", all.failed, "of", of, "such as", all.name, "error", all.err)
	}
}

// outcome is what became of marks.
type outcome struct {
	mu     sync.Mutex
	heard  int // requests that were marked as heard
	failed int
	name   string // of one that failed, and why
	err    error
}

// note counts one mark.
func (o *outcome) note(m mark, wrote bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case wrote && m.answer != nil:
	case wrote && m.why == nil:
		o.heard++
	case err != nil:
		if o.failed++; o.failed == 1 {
			o.name, o.err = m.request.Namespace+"/"+m.request.Name, err
		}
	}
}

// writeAll writes marks side by side.
func (r *Reporter) writeAll(ctx context.Context, marks []mark, all *outcome) {
	var wg sync.WaitGroup
	work := make(chan mark)
	for range min(r.cfg.Concurrency, len(marks)) {
		wg.Go(func() {
			for m := range work {
				wrote, err := r.mark(ctx, m)
				all.note(m, wrote, err)
			}
		})
	}
	for _, m := range marks {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	wg.Wait()
}

// status is what a mark makes of the status.
func (r *Reporter) status(m mark) map[string]any {
	now := r.cfg.Now().UTC().Format(time.RFC3339)
	if m.answer != nil {
		return map[string]any{"conditions": []map[string]any{satisfied(m.request, m.answer, now)}}
	}
	if m.why == nil {
		// The condition goes with the reason for it.
		status := map[string]any{"phase": api.RequestAcknowledged, "acknowledgedAt": now, "conditions": nil}
		if c := conditionOf(m.request); c != nil {
			status["conditions"] = []*metav1.Condition{c}
		}
		if m.class > 0 {
			status["sizeClass"] = m.class
		}
		return status
	}
	status := map[string]any{"conditions": []map[string]any{{
		"type": api.ConditionReported, "status": metav1.ConditionFalse, "observedGeneration": m.request.Generation, "lastTransitionTime": now,
		"reason": string(rollup.ReasonOf(m.why)), "message": message(m.why),
	}}}
	if m.request.Status.Phase == "" {
		status["phase"] = api.RequestPending // which the schema asks for
	}
	return status
}

// mark writes one mark. It is no error that the request is gone, or has changed.
func (r *Reporter) mark(ctx context.Context, m mark) (wrote bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.request.UID, "resourceVersion": m.request.ResourceVersion},
		"status":   r.status(m),
	})
	if err != nil {
		return false, err
	}
	target := &api.CapacityRequest{}
	target.Namespace, target.Name = m.request.Namespace, m.request.Name
	err = r.cfg.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), mirror.Owner)
	switch {
	case err == nil:
		return true, nil
	case m.why != nil && !apierrors.IsNotFound(err): // nobody says again that it is left out, so it is told once more
		r.mu.Lock()
		delete(r.told, versionOf(m.request))
		r.mu.Unlock()
	}
	return false, client.IgnoreNotFound(ignoreConflict(err))
}

// ignoreConflict takes it for no error that the request has changed.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
