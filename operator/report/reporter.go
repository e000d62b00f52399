package report

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// eventsMax is how many requests are told anew in one roll-up why they are left
// out; the others are told in the next ones.
const eventsMax = 100

// Config is what a Reporter is made of.
type Config struct {
	// List returns all requests of the cluster, from memory. They are not modified.
	List func() []*api.CapacityRequest
	// Client writes marks.
	Client client.Client
	// Concurrency is how many marks are written at a time.
	Concurrency int
	// Refused tells a request, in the cluster, why it is not reported.
	Refused func(request *api.CapacityRequest, why error)
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

	mu     sync.Mutex
	ledger ledger
	recent recent
	told   map[version]bool // requests that know why they are left out
	marks  map[version]*api.CapacityRequest
	wake   chan struct{}
}

// New returns a reporter that has reported nothing.
func New(cfg Config) *Reporter {
	r := &Reporter{cfg: cfg, marks: map[version]*api.CapacityRequest{}, wake: make(chan struct{}, 1), grown: make(chan struct{}, 1)}
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
	r.ledger.report(result.Included)
	tell := r.refused(result.Refused)
	r.mu.Unlock()
	for _, t := range tell {
		r.cfg.Refused(t.Request, t.Err)
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

// refused returns who does not know yet.
func (r *Reporter) refused(all []rollup.Refusal) []rollup.Refusal {
	told := make(map[version]bool, len(all))
	var tell []rollup.Refusal
	for _, f := range all {
		v := versionOf(f.Request)
		if r.told[v] {
			told[v] = true
		} else if len(tell) < eventsMax {
			told[v] = true
			tell = append(tell, f)
		}
	}
	r.told = told
	return tell
}

// Acknowledged takes an acknowledgement of the shard.
func (r *Reporter) Acknowledged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range r.ledger.acknowledge() {
		r.marks[versionOf(request)] = request
	}
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

// write marks all who were heard so far. What fails is heard again.
func (r *Reporter) write(ctx context.Context) {
	r.mu.Lock()
	marks := r.marks
	r.marks = map[version]*api.CapacityRequest{}
	r.mu.Unlock()
	began, wrote := r.cfg.Now(), 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan *api.CapacityRequest)
	for range min(r.cfg.Concurrency, len(marks)) {
		wg.Go(func() {
			for request := range work {
				if r.mark(ctx, request) {
					mu.Lock()
					wrote++
					mu.Unlock()
				}
			}
		})
	}
	for _, request := range marks {
		if ctx.Err() != nil {
			break
		}
		work <- request
	}
	close(work)
	wg.Wait()
	if len(marks) > 0 {
		r.cfg.Metrics.Acknowledged(wrote, r.cfg.Now().Sub(began))
	}
}

// mark writes that one request was heard.
func (r *Reporter) mark(ctx context.Context, request *api.CapacityRequest) bool {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": request.UID, "resourceVersion": request.ResourceVersion},
		"status":   map[string]any{"phase": api.RequestAcknowledged, "acknowledgedAt": r.cfg.Now().UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return false
	}
	target := &api.CapacityRequest{}
	target.Namespace, target.Name = request.Namespace, request.Name
	err = r.cfg.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), mirror.Owner)
	switch {
	case err == nil:
		return true
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil:
	default:
		r.cfg.Log.Warn("a request could not be marked as heard; it will be after the next roll-up",
			"request", request.Namespace+"/"+request.Name, "error", err)
	}
	return false
}
