package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
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
const (
	// blobFetchesMax is how often a blob that outlived its time is fetched for
	// one call.
	blobFetchesMax = 2
	// uncertainHoldNanos is how long the listing is not believed when it says
	// that a call without an answer did nothing: the call may still arrive.
	uncertainHoldNanos = int64(5 * time.Second)
)

// errBlob marks a call that was given up before the provider was called.
var errBlob = errors.New("bootstrap data")

// admit looks at a call again before it is made: what was enqueued some cycles
// ago may be wrong by now. A call that is not made is settled here.
func (s *Shard) admit(job *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var why error
	r, ok := s.machines.Lookup(job.machine)
	switch {
	case s.halted() != Execute:
		why = errHalted
	case ok && s.machines.State(r) != underWay[job.op]:
		why = errMovedOn
	default:
		return true
	}
	s.settle(job, &Record{}, why)
	return false
}

// perform makes the call. It touches nothing of the shard that changes.
func (s *Shard) perform(ctx context.Context, job *call) (Record, error) {
	s.awaitMemory(ctx, job)
	switch job.op {
	case OpConfigure:
		return s.configure(ctx, job)
	case OpDrain:
		s.cordon(ctx, job)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	switch job.op {
	case OpCreate:
		return s.provider.Create(ctx, CreateRequest{Machine: job.machine, Metadata: job.metadata})
	case OpDrain:
		return s.provider.Drain(ctx, DrainRequest{Machine: job.machine, GraceSeconds: job.grace, Metadata: job.metadata})
	}
	return s.provider.Delete(ctx, DeleteRequest{Machine: job.machine})
}

// cordon lets the operator move the workloads off first. Whatever becomes of
// that, the drain goes on: a cluster that does not answer cannot hold back what
// others need.
func (s *Shard) cordon(ctx context.Context, job *call) {
	if s.operators == nil {
		return
	}
	start := s.wallClock()
	defer func() { s.metrics.drainPhase.Observe(s.wallClock().Sub(start).Seconds()) }()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CordonTimeout)
	defer cancel()
	err := s.operators.Cordon(ctx, Cordon{Cluster: job.cluster, Machine: job.machine, GraceSeconds: job.grace, PreemptorPriority: job.priority})
	if err != nil {
		s.log.Warn("draining without the operator's acknowledgement: disruption budgets are not minded", "machine", job.machine, "cluster", job.cluster, "error", err)
	}
}

// configure fetches the blob and makes the call while the blob is good. When
// that ends before the call has left, it is fetched anew.
func (s *Shard) configure(ctx context.Context, job *call) (Record, error) {
	req := ConfigureRequest{Machine: job.machine, Cluster: job.cluster, Metadata: job.metadata}
	for fetches := 1; ; fetches++ {
		var goodUntil time.Time
		if s.operators != nil {
			blob, until, err := s.fetchBlob(ctx, job)
			if err != nil {
				return Record{}, err
			}
			req.Blob, goodUntil = blob, until
		}
		rec, expired, err := s.configureWithin(ctx, req, goodUntil)
		if expired && errors.Is(err, ErrUnsent) && fetches < blobFetchesMax {
			continue
		}
		return rec, err
	}
}

// fetchBlob asks the operator, again when the answer took longer than it is
// good for.
func (s *Shard) fetchBlob(ctx context.Context, job *call) (data []byte, goodUntil time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	for range blobFetchesMax {
		asked := s.wallClock()
		blob, err := s.operators.Bootstrap(ctx, job.cluster, job.profile)
		now := s.wallClock()
		s.metrics.requestBootstrap.Observe(now.Sub(asked).Seconds())
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
func (s *Shard) configureWithin(ctx context.Context, req ConfigureRequest, goodUntil time.Time) (rec Record, expired bool, err error) {
	start := s.wallClock()
	limit := s.cfg.CallTimeout
	if !goodUntil.IsZero() {
		if left := goodUntil.Sub(start); left < limit {
			limit, expired = left, true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rec, err = s.provider.Configure(ctx, req)
	s.metrics.configurePhase.Observe(s.wallClock().Sub(start).Seconds())
	return rec, expired && ctx.Err() != nil, err
}

// settle notes how a call ended. With workers the machine is in flight until
// here.
func (s *Shard) settle(job *call, rec *Record, err error) {
	delete(s.inFlight, job.machine)
	if s.listing {
		s.settled[job.machine] = struct{}{}
	}
	outcome := s.conclude(job, rec, err)
	s.metrics.outcome(job.kind, outcome)
	s.auditEnd(job, outcome, err)
}

func (s *Shard) conclude(job *call, rec *Record, err error) Outcome {
	r, ok := s.machines.Lookup(job.machine)
	switch {
	case !ok:
		return OutcomeMissing
	case errors.Is(err, errMovedOn):
		return OutcomeStale
	case err != nil:
		return s.failedCall(r, job, err)
	case rec.Machine.State == job.before.state:
		return s.notYet(r, job)
	}
	var taken Reconciled
	s.observe(rec, &taken)
	s.remember(r)
	switch {
	case taken.Refused != [NumRefusals]int{}:
		s.metrics.refused(&taken.Refused)
		return OutcomeProvider
	case job.op == OpDelete && s.machines.State(r) == model.Speculative:
		s.metrics.released()
	}
	s.waits.over(job.machine)
	return OutcomeSuccess
}

// notYet deals with a provider that has accepted a call and answers with the
// machine as it was before. The record stays as the action has it: whoever took
// the machine for free would have it called for twice. The next listings tell.
func (s *Shard) notYet(r columnar.Row, job *call) Outcome {
	s.callFailed = true
	s.unsure[job.machine] = unsure{before: job.before, until: s.now + uncertainHoldNanos}
	s.remember(r)
	if job.op == OpConfigure {
		return OutcomeRaced
	}
	return OutcomeSuccess
}

// failedCall deals with a call that brought no record. What certainly was not
// done is undone here; what may have been is left to the next listings.
func (s *Shard) failedCall(r columnar.Row, job *call, err error) Outcome {
	switch {
	case errors.Is(err, errHalted):
		s.undo(r, job.machine, &job.before)
		return OutcomeCanceled
	case errors.Is(err, ErrFenced):
		s.undo(r, job.machine, &job.before)
		s.fence(err)
		return OutcomeFenced
	case errors.Is(err, errBlob):
		return s.withoutBlob(r, job, err)
	case errors.Is(err, ErrUnsent):
		s.undo(r, job.machine, &job.before)
		s.log.Warn("call not made; the machine is as it was", "kind", job.kind, "machine", job.machine, "error", err)
		return OutcomeProvider
	case errors.Is(err, ErrUncertain), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		s.callFailed = true
		s.unsure[job.machine] = unsure{before: job.before, until: s.now + uncertainHoldNanos}
		s.log.Warn("call without an answer; the next listings tell", "kind", job.kind, "machine", job.machine, "error", err)
		if errors.Is(err, ErrUncertain) {
			return OutcomeProvider
		}
		return OutcomeCanceled
	}
	s.callFailed = true
	s.waits.failed(job.machine, s.now)
	s.log.Warn("call failed; the machine is Failed", "kind", job.kind, "machine", job.machine, "error", err)
	if moveErr := s.failed(r, err); moveErr != nil {
		s.log.Error("cannot mark the machine Failed", "machine", job.machine, "error", moveErr)
		return OutcomeTransition
	}
	return OutcomeProvider
}

// withoutBlob leaves a machine Idle whose cluster did not say how to join it. A
// cluster that keeps refusing is asked less and less often.
func (s *Shard) withoutBlob(r columnar.Row, job *call, err error) Outcome {
	s.undo(r, job.machine, &job.before)
	s.log.Warn("machine stays idle", "machine", job.machine, "error", err)
	switch {
	case errors.Is(err, ErrNoSession):
		return OutcomeNoSession
	case errors.Is(err, context.Canceled):
		return OutcomeCanceled
	case errors.Is(err, ErrOperator):
		s.waits.failed(waitsFor(job.cluster, job.profile.Fingerprint()), s.now)
	}
	return OutcomeBlob
}

// unsure is what is remembered of a call without an answer, or with one that does
// not say that it has begun.
type unsure struct {
	before standing
	until  int64 // Unix nanoseconds; what the listing says before is not final
}
