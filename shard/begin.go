package shard

import (
	"errors"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// call is one call to the provider that is waiting or being made. It holds all
// that a worker needs: workers never look at the tables.
type call struct {
	op       Op
	kind     engine.Kind
	machine  string
	cluster  string
	grace    int32
	priority int32          // the preemptor's
	profile  *model.Profile // Configure only, for the blob
	metadata map[string]string
	before   standing
	durable  uint64       // what must be durable before the call; see Memory
	audit    *AuditRecord // nil when nobody asks
}

// standing is what an action changes of a machine, as it was before, to be put
// back when the call was never made.
type standing struct {
	state       model.State
	cluster     string
	assigned    model.Assignment
	idleSince   int64
	reservation model.Reservation
}

// underWay is the state that a machine is in while a call is made.
var underWay = [NumOps]model.State{
	OpCreate: model.Creating, OpConfigure: model.Configuring, OpDrain: model.Draining, OpDelete: model.Deleting,
}

func (s *Shard) standingOf(r columnar.Row) standing {
	m := s.machines.Brief(r)
	return standing{
		state: m.State, cluster: m.Cluster, assigned: m.Assigned,
		idleSince: m.IdleSince, reservation: s.machines.Reservation(r),
	}
}

// begin changes the local record as if the action were under way: the next
// decision must count the machine for whom it is meant, however long the call
// takes. n is the Need that the action is for, nil = none; held is what plans of
// preemption hold.
func (s *Shard) begin(a *engine.Action, n *engine.NeedResult, held *holdings) (*call, error) {
	job := &call{
		kind: a.Kind, machine: s.machines.ID(a.Machine), grace: a.GraceSeconds, priority: a.PreemptorPriority,
		before: s.standingOf(a.Machine),
	}
	var err error
	switch a.Kind {
	case engine.Bootstrap:
		err = s.beginBootstrap(job, a, n)
	case engine.Provision:
		err = s.beginProvision(job, a, n)
	case engine.Preempt:
		res := s.reservationFor(n)
		if a.Plan != 0 {
			res = held.of(a.Machine)
		}
		err = s.beginDrain(job, a, res)
	case engine.Reclaim:
		err = s.beginDrain(job, a, s.machines.Reservation(a.Machine))
	default:
		err = s.beginDelete(job, a)
	}
	if err == nil {
		job.durable = s.remember(a.Machine)
	}
	return job, err
}

func (s *Shard) beginDelete(job *call, a *engine.Action) error {
	job.op = OpDelete
	if err := s.move(a.Machine, model.Deleting, ""); err != nil {
		return err
	}
	s.machines.Reserve(a.Machine, model.Reservation{})
	return nil
}

func (s *Shard) beginBootstrap(job *call, a *engine.Action, n *engine.NeedResult) error {
	if err := s.move(a.Machine, model.Configuring, n.Cluster); err != nil {
		return err
	}
	stamps := s.assignmentFor(n)
	s.stamp(a.Machine, stamps)
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
	res.Deadline = 0 // it begins when the machine turns Idle
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
	b := s.demand.Block(n.Cluster)
	p := s.demand.Profile(b.Profile(n.Row))
	return model.Reservation{
		Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: b.Group(n.Row)},
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Arrival: b.Arrival(n.Row),
	}
}

// undo puts a machine back to where it was before an action whose call was
// never made.
func (s *Shard) undo(r columnar.Row, machine string, was *standing) {
	m := s.machines.Get(r)
	told := m.Cluster
	m.State, m.Cluster, m.LastError = was.state, was.cluster, ""
	m.Assigned, m.IdleSince, m.Reservation = was.assigned, was.idleSince, was.reservation
	if err := s.changing(r, func() error { return s.machines.Put(&m) }); err != nil {
		s.log.Error("cannot roll back", "machine", machine, "error", err)
		return
	}
	delete(s.drains, machine)
	s.history.Disturbed(told)
	s.remember(r)
	s.tell(r, told)
}

// errMovedOn is why a call that waited in the queue is not made.
var errMovedOn = errors.New("the machine is in another state by now")

// errHalted is why a call that waited in the queue is not made.
var errHalted = errors.New("nothing is carried out any more")
