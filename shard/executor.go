package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/pace"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/stamps"
)

// How an action goes on after it was begun.
//
//	queue ── admit: still halted? moved on? ── Memory durable ─┐
//	                                                           ▼
//	 Create, Delete ─────────────────────────────────────▶ provider
//	 Configure ── blob from the operator, within its time ─▶ provider
//	 Drain ── cordon acknowledged, CordonTimeout at most ──▶ provider
//	                                                           │
//	 not sent, fenced ─▶ undo      answer lost ─▶ the listing tells      refused ─▶ Failed

// blobFetchesMax is how often a blob that outlived its time is fetched for
// one call.
const blobFetchesMax = 2

// errBlob marks a call that was given up before the provider was called.
var errBlob = errors.New("bootstrap data")

// executor carries out what the rails let through: it changes the record of a machine,
// calls the provider, within the cycle or by workers, and notes how the call ended.
type executor struct {
	cfg        *Config
	pace       *pace.Pace
	inventory  *inventory.Inventory
	inFlight   *inventory.InFlight
	reconciler *reconciler
	rails      *rails.Rails
	ledgers    *ledgers.Ledgers
	demand     *demand.Table
	provider   Provider
	operators  Operators     // nil = machines get no bootstrap data, and are drained without notice
	memory     memory.Memory // nil = nothing outlives the process
	hints      *hints
	audit      *audits
	metrics    *metrics
	log        *slog.Logger

	ctx     context.Context // of the last cycle, for calls without workers
	queue   chan *call      // a plan of preemption may pass queueMax
	hungry  bool            // the last cycle had more to do than the queue takes
	encoder stamps.Encoder
}

// queueMax is how many calls wait at most, but for a plan that is larger.
func (e *executor) queueMax() int { return 2 * e.cfg.Concurrency }

// admit looks at a call again before it is made: what was enqueued some cycles
// ago may be wrong by now. A call that is not made is settled here.
func (e *executor) admit(job *call) bool {
	var why error
	r, ok := e.inventory.Table.Lookup(job.machine)
	switch {
	case e.rails.Halted() != rails.Execute:
		why = errHalted
	case ok && e.inventory.Table.State(r) != underWay[job.op]:
		why = errMovedOn
	default:
		return true
	}
	e.settle(job, &Record{}, why)
	return false
}

// awaitMemory waits until what a call is about is on disk, so that a process
// that is killed during the call knows for whom it was made. If it cannot be
// kept the call is made all the same: a full disk must not stop a fleet.
func (e *executor) awaitMemory(ctx context.Context, job *call) {
	if e.memory == nil || job.durable == 0 || job.op != OpCreate && job.op != OpDrain {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	if err := e.memory.Durable(ctx, job.durable); err != nil {
		e.metrics.unremembered.Inc()
	}
}

// perform makes the call. It touches nothing of the shard that changes.
func (e *executor) perform(ctx context.Context, job *call) (Record, error) {
	e.awaitMemory(ctx, job)
	switch job.op {
	case OpConfigure:
		return e.configure(ctx, job)
	case OpDrain:
		e.cordon(ctx, job)
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	switch job.op {
	case OpCreate:
		return e.provider.Create(ctx, CreateRequest{Machine: job.machine, Metadata: job.metadata})
	case OpDrain:
		return e.provider.Drain(ctx, DrainRequest{Machine: job.machine, GraceSeconds: job.grace, Metadata: job.metadata})
	}
	return e.provider.Delete(ctx, DeleteRequest{Machine: job.machine})
}

// cordon lets the operator move the workloads off first. Whatever becomes of
// that, the drain goes on: a cluster that does not answer cannot hold back what
// others need.
func (e *executor) cordon(ctx context.Context, job *call) {
	if e.operators == nil {
		return
	}
	start := e.pace.WallClock()
	defer func() { e.metrics.drainPhase.Observe(e.pace.WallClock().Sub(start).Seconds()) }()
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CordonTimeout)
	defer cancel()
	err := e.operators.Cordon(ctx, Cordon{Cluster: job.cluster, Machine: job.machine, GraceSeconds: job.grace, PreemptorPriority: job.priority})
	if err != nil {
		e.log.Warn("draining without the operator's acknowledgement: disruption budgets are not minded", "machine", job.machine, "cluster", job.cluster, "error", err)
	}
}

// configure fetches the blob and makes the call while the blob is good. When
// that ends before the call has left, it is fetched anew.
func (e *executor) configure(ctx context.Context, job *call) (Record, error) {
	req := ConfigureRequest{Machine: job.machine, Cluster: job.cluster, Metadata: job.metadata}
	for fetches := 1; ; fetches++ {
		var goodUntil time.Time
		if e.operators != nil {
			blob, until, err := e.fetchBlob(ctx, job)
			if err != nil {
				return Record{}, err
			}
			req.Blob, goodUntil, job.answered = blob, until, true
		}
		rec, expired, err := e.configureWithin(ctx, req, goodUntil)
		if expired && errors.Is(err, ErrUnsent) && fetches < blobFetchesMax {
			continue
		}
		return rec, err
	}
}

// fetchBlob asks the operator, again when the answer took longer than it is
// good for.
func (e *executor) fetchBlob(ctx context.Context, job *call) (data []byte, goodUntil time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	for range blobFetchesMax {
		asked := e.pace.WallClock()
		blob, err := e.operators.Bootstrap(ctx, job.cluster, job.profile)
		now := e.pace.WallClock()
		e.metrics.requestBootstrap.Observe(now.Sub(asked).Seconds())
		switch {
		case err != nil:
			return nil, time.Time{}, fmt.Errorf("%w for cluster %q: %w", errBlob, job.cluster, err)
		case blob.TTL <= 0:
			return blob.Data, time.Time{}, nil
		case now.Sub(asked) < blob.TTL:
			return blob.Data, asked.Add(blob.TTL), nil
		}
	}
	return nil, time.Time{}, fmt.Errorf("%w for cluster %q: it is older than its ttl_seconds when it arrives", errBlob, job.cluster)
}

// configureWithin makes the call; expired tells that it was the blob's time
// that ended it.
func (e *executor) configureWithin(ctx context.Context, req ConfigureRequest, goodUntil time.Time) (rec Record, expired bool, err error) {
	start := e.pace.WallClock()
	limit := e.cfg.CallTimeout
	if !goodUntil.IsZero() {
		if left := goodUntil.Sub(start); left < limit {
			limit, expired = left, true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rec, err = e.provider.Configure(ctx, req)
	e.metrics.configurePhase.Observe(e.pace.WallClock().Sub(start).Seconds())
	return rec, expired && ctx.Err() != nil, err
}

// settle notes how a call ended. With workers the machine is in flight until
// here.
func (e *executor) settle(job *call, rec *Record, err error) {
	e.inFlight.End(job.machine)
	if job.answered {
		e.ledgers.Refusals.Over(ledgers.DemandKey{Cluster: job.cluster, Fingerprint: job.profile.Fingerprint()})
	}
	outcome := e.conclude(job, rec, err)
	e.metrics.outcome(job.kind, outcome)
	e.audit.end(job, outcome, err)
}

func (e *executor) conclude(job *call, rec *Record, err error) Outcome {
	r, ok := e.inventory.Table.Lookup(job.machine)
	switch {
	case !ok:
		return OutcomeMissing
	case errors.Is(err, errMovedOn):
		return OutcomeStale
	case err != nil:
		return e.failedCall(r, job, err)
	case rec.Machine.State == job.before.State:
		return e.notYet(r, job)
	}
	var taken Reconciled
	e.reconciler.doubts.passed(job.machine)
	e.reconciler.observe(rec, &taken)
	e.inventory.Remember(r)
	switch {
	case taken.Refused != [NumRefusals]int{}:
		e.metrics.refused(&taken.Refused)
		return OutcomeProvider
	case job.op == OpDelete && e.inventory.Table.State(r) == model.Speculative:
		e.metrics.released()
	case job.op == OpCreate && e.inventory.Table.IsLateBound(r):
		e.pace.WakeUp() // it waits for nothing but to be bound
	}
	e.ledgers.Failed.Over(job.machine)
	e.reconciler.doubts.acknowledged(job, e.pace.Now)
	return OutcomeSuccess
}

// notYet deals with a provider that has accepted a call and answers with the
// machine as it was before. The record stays as the action has set it: if it
// were free again, a second action could start on the machine. The next
// listings tell.
func (e *executor) notYet(r columnar.Row, job *call) Outcome {
	e.unsure(job)
	e.inventory.Remember(r)
	if job.op == OpConfigure {
		return OutcomeRaced
	}
	return OutcomeSuccess
}

// unsure has the next listings tell whether a call has done anything.
func (e *executor) unsure(job *call) {
	e.reconciler.doubts.passed(job.machine)
	e.inFlight.Doubt(job.machine, job.before, e.pace.Now)
}

// failedCall deals with a call that brought no record. What certainly was not
// done is undone here; what may have been is left to the next listings.
func (e *executor) failedCall(r columnar.Row, job *call, err error) Outcome {
	switch {
	case errors.Is(err, errHalted):
		e.undo(r, job)
		return OutcomeCanceled
	case errors.Is(err, ErrFenced):
		e.undo(r, job)
		e.rails.Fence(err)
		return OutcomeFenced
	case errors.Is(err, errBlob):
		return e.withoutBlob(r, job, err)
	case errors.Is(err, ErrUnsent):
		e.undo(r, job)
		e.log.Warn("call not made; the machine is as it was", "kind", job.kind, "machine", job.machine, "error", err)
		return OutcomeProvider
	case errors.Is(err, ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e.unsure(job)
		e.log.Warn("call without an answer; the next listings tell", "kind", job.kind, "machine", job.machine, "error", err)
		if errors.Is(err, ErrUncertain) {
			return OutcomeProvider
		}
		return OutcomeCanceled
	}
	e.inFlight.LookAgain()
	e.ledgers.Failed.Failed(job.machine, job.began, e.pace.Now)
	e.log.Warn("call failed; the machine is Failed", "kind", job.kind, "machine", job.machine, "error", err)
	if moveErr := e.inventory.Fail(r, err); moveErr != nil {
		e.log.Error("cannot mark the machine Failed", "machine", job.machine, "error", moveErr)
		return OutcomeTransition
	}
	return OutcomeProvider
}

// undo has all be as it was before a call that was not made.
func (e *executor) undo(r columnar.Row, job *call) {
	e.inventory.Undo(r, job.machine, &job.before)
	e.rails.NotMade(job.kind, r)
}

// refused notes that an operator refused bootstrap data, and has a cycle begin when it may
// be asked again.
func (e *executor) refused(key ledgers.DemandKey, began int64) {
	e.ledgers.Refusals.Failed(key, began, e.pace.Now)
	e.pace.WakeAt(e.ledgers.Refusals.Next(e.pace.Now))
}

// withoutBlob leaves a machine Idle whose cluster did not say how to join it. A
// cluster that keeps refusing is asked less and less often.
func (e *executor) withoutBlob(r columnar.Row, job *call, err error) Outcome {
	e.inventory.Undo(r, job.machine, &job.before)
	e.log.Warn("machine stays idle", "machine", job.machine, "error", err)
	switch {
	case errors.Is(err, ErrNoSession):
		return OutcomeNoSession
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	case errors.Is(err, ErrOperator):
		e.refused(ledgers.DemandKey{Cluster: job.cluster, Fingerprint: job.profile.Fingerprint()}, job.began)
	}
	return OutcomeBlob
}
