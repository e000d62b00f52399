package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// Outcome is how an action ended, as metrics spell it.
type Outcome uint8

// The outcomes.
const (
	OutcomeSuccess Outcome = iota
	OutcomeTransition
	OutcomeBlob
	OutcomeProvider
	OutcomeCanceled
	OutcomeMissing

	// NumOutcomes is the number of outcomes.
	NumOutcomes = int(OutcomeMissing) + 1
)

// String returns the outcome as metrics spell it.
func (o Outcome) String() string {
	return [NumOutcomes]string{"success", "transition_error", "blob_error", "provider_error", "ctx_canceled", "inventory_miss"}[o]
}

// errBlob marks a call that was given up before the provider was called.
var errBlob = errors.New("bootstrap data")

// begin changes the local record as if the action were under way: the next
// decision must count the machine for whom it is meant, however long the call
// takes.
func (s *Shard) begin(a *engine.Action, plan *engine.Plan) (*call, error) {
	job := &call{kind: a.Kind, machine: s.machines.ID(a.Machine), grace: a.GraceSeconds}
	switch a.Kind {
	case engine.Bootstrap:
		return job, s.beginBootstrap(job, a, &plan.Needs[a.Need])
	case engine.Provision:
		return job, s.beginProvision(job, a, &plan.Needs[a.Need])
	case engine.Preempt:
		return job, s.beginDrain(job, a, s.reservationFor(&plan.Needs[a.Need]))
	case engine.Reclaim:
		return job, s.beginDrain(job, a, s.machines.Reservation(a.Machine))
	}
	job.op = OpDelete
	err := s.move(a.Machine, model.Deleting, "")
	if err == nil {
		s.machines.Reserve(a.Machine, model.Reservation{})
	}
	return job, err
}

func (s *Shard) beginBootstrap(job *call, a *engine.Action, n *engine.NeedResult) error {
	if err := s.move(a.Machine, model.Configuring, n.Cluster); err != nil {
		return err
	}
	stamps := s.assignmentFor(n)
	s.stamp(a.Machine, stamps)
	job.before = s.machines.Reservation(a.Machine)
	s.machines.Reserve(a.Machine, model.Reservation{})
	job.op, job.cluster, job.profile = OpConfigure, n.Cluster, n.Profile
	job.metadata = s.encoder.Encode(Echo{Assigned: stamps})
	return nil
}

func (s *Shard) beginProvision(job *call, a *engine.Action, n *engine.NeedResult) error {
	if err := s.move(a.Machine, model.Creating, ""); err != nil {
		return err
	}
	stamps, res := s.assignmentFor(n), s.reservationFor(n)
	s.stamp(a.Machine, stamps)
	s.machines.Reserve(a.Machine, res)
	job.op, job.cluster = OpCreate, n.Cluster
	job.metadata = s.encoder.Encode(Echo{Assigned: stamps, Reservation: res})
	return nil
}

func (s *Shard) beginDrain(job *call, a *engine.Action, res model.Reservation) error {
	cluster := s.machines.Cluster(a.Machine)
	if err := s.move(a.Machine, model.Draining, ""); err != nil {
		return err
	}
	s.machines.Reserve(a.Machine, res)
	s.drains[job.machine] = drain{started: s.now, graceSeconds: a.GraceSeconds}
	job.op, job.cluster = OpDrain, cluster
	echo := Echo{Assigned: s.machines.Assigned(a.Machine), Reservation: res}
	if res.Active() {
		echo.GraceSeconds = a.GraceSeconds
	}
	job.metadata = s.encoder.Encode(echo)
	return nil
}

// assignmentFor is the stamp of a machine that a Need acquires. Of a fold it
// is the fold's own.
func (s *Shard) assignmentFor(n *engine.NeedResult) model.Assignment {
	p := n.Profile
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Fingerprint: p.Fingerprint(), Group: n.Group,
	}
}

// reservationFor holds a machine for a Need, as yet without a deadline: what
// is on its way does not expire. The owner is named as its row is, so that it
// stays the owner when what made it part of a fold is gone.
func (s *Shard) reservationFor(n *engine.NeedResult) model.Reservation {
	p, b := n.Profile, s.demand.Block(n.Cluster)
	return model.Reservation{
		Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: b.Group(n.Row)},
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Arrival: b.Arrival(n.Row),
	}
}

// perform makes the call. It touches nothing of the shard that changes.
func (s *Shard) perform(ctx context.Context, job *call) (Record, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	switch job.op {
	case OpCreate:
		return s.provider.Create(ctx, CreateRequest{Machine: job.machine, Metadata: job.metadata})
	case OpConfigure:
		var blob []byte
		if s.blob != nil {
			var err error
			if blob, err = s.blob(ctx, job.cluster, job.profile); err != nil {
				return Record{}, fmt.Errorf("%w for cluster %q: %w", errBlob, job.cluster, err)
			}
		}
		return s.provider.Configure(ctx, ConfigureRequest{Machine: job.machine, Cluster: job.cluster, Blob: blob, Metadata: job.metadata})
	case OpDrain:
		return s.provider.Drain(ctx, DrainRequest{Machine: job.machine, GraceSeconds: job.grace, Metadata: job.metadata})
	}
	return s.provider.Delete(ctx, DeleteRequest{Machine: job.machine})
}

// settle notes how a call ended. With workers the machine is in flight until
// here.
func (s *Shard) settle(job *call, rec *Record, err error) {
	delete(s.inFlight, job.machine)
	if s.listing {
		s.settled[job.machine] = struct{}{}
	}
	s.metrics.outcome(job.kind, s.conclude(job, rec, err))
}

func (s *Shard) conclude(job *call, rec *Record, err error) Outcome {
	r, ok := s.machines.Lookup(job.machine)
	switch {
	case !ok:
		return OutcomeMissing
	case errors.Is(err, errBlob):
		s.rollBack(r, job)
		s.log.Warn("machine stays idle", "machine", job.machine, "error", err)
		return OutcomeBlob
	case err != nil:
		s.callFailed = true
		s.log.Warn("call failed; the machine is Failed", "kind", job.kind, "machine", job.machine, "error", err)
		if moveErr := s.failed(r, err); moveErr != nil {
			s.log.Error("cannot mark the machine Failed", "machine", job.machine, "error", moveErr)
		}
		if errors.Is(err, context.Canceled) {
			return OutcomeCanceled
		}
		return OutcomeProvider
	}
	var taken Reconciled
	s.observe(rec, &taken)
	if taken.Refused != [NumRefusals]int{} {
		s.metrics.refused(&taken.Refused)
		return OutcomeProvider
	}
	if job.op == OpDelete && s.machines.State(r) == model.Speculative {
		s.metrics.released()
	}
	return OutcomeSuccess
}

// rollBack undoes a Bootstrap whose call was never made.
func (s *Shard) rollBack(r columnar.Row, job *call) {
	if err := s.move(r, model.Idle, ""); err != nil {
		s.log.Error("cannot roll back", "machine", job.machine, "error", err)
		return
	}
	s.machines.Reserve(r, job.before)
}
