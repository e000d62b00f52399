package shard

import (
	"errors"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/stamps"
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
	before   inventory.Standing
	began    int64        // when it was decided, Unix nanoseconds
	answered bool         // the operator has given the blob
	durable  uint64       // what must be durable before the call; see Memory
	audit    *AuditRecord // nil when nobody asks
}

// underWay is the state that a machine is in while a call is made.
var underWay = [NumOps]model.State{
	OpCreate: model.Creating, OpConfigure: model.Configuring, OpDrain: model.Draining, OpDelete: model.Deleting,
}

// begin changes the local record as if the action were under way: the next
// decision must count the machine for whom it is meant, however long the call
// takes. n is the Need that the action is for, nil = none; held is what plans of
// preemption hold.
func (e *executor) begin(a *engine.Action, n *engine.NeedResult, held *rails.Holdings) (*call, error) {
	job := &call{
		kind: a.Kind, machine: e.inventory.Table.ID(a.Machine), grace: a.GraceSeconds, priority: a.PreemptorPriority,
		before: e.inventory.StandingOf(a.Machine), began: e.pace.Now,
	}
	var err error
	switch a.Kind {
	case engine.Bootstrap:
		err = e.beginBootstrap(job, a, n)
	case engine.Provision:
		err = e.beginProvision(job, a, n)
	case engine.Preempt:
		res := e.reservationFor(n)
		if a.Plan != 0 {
			res = held.Of(a.Machine)
		}
		err = e.beginDrain(job, a, res)
	case engine.Reclaim:
		err = e.beginDrain(job, a, e.inventory.Table.Reservation(a.Machine))
	default:
		err = e.beginDelete(job, a)
	}
	if err == nil {
		job.durable = e.inventory.Remember(a.Machine)
	}
	return job, err
}

func (e *executor) beginDelete(job *call, a *engine.Action) error {
	job.op = OpDelete
	if err := e.inventory.Move(a.Machine, model.Deleting, ""); err != nil {
		return err
	}
	e.inventory.Table.Reserve(a.Machine, model.Reservation{})
	return nil
}

func (e *executor) beginBootstrap(job *call, a *engine.Action, n *engine.NeedResult) error {
	if err := e.inventory.Move(a.Machine, model.Configuring, n.Cluster); err != nil {
		return err
	}
	stamp := e.assignmentFor(n)
	e.inventory.Stamp(a.Machine, stamp)
	e.inventory.Table.Reserve(a.Machine, model.Reservation{})
	job.op, job.cluster, job.profile = OpConfigure, n.Cluster, n.Profile
	job.metadata = e.encoder.Encode(stamps.Echo{Assigned: stamp})
	return nil
}

func (e *executor) beginProvision(job *call, a *engine.Action, n *engine.NeedResult) error {
	if err := e.inventory.Move(a.Machine, model.Creating, ""); err != nil {
		return err
	}
	stamp, res := e.assignmentFor(n), e.reservationFor(n)
	e.inventory.Stamp(a.Machine, stamp)
	e.inventory.Table.Reserve(a.Machine, res)
	job.op, job.cluster = OpCreate, n.Cluster
	job.metadata = e.encoder.Encode(stamps.Echo{Assigned: stamp, Reservation: res})
	return nil
}

func (e *executor) beginDrain(job *call, a *engine.Action, res model.Reservation) error {
	cluster := e.inventory.Table.Cluster(a.Machine)
	if err := e.inventory.Move(a.Machine, model.Draining, ""); err != nil {
		return err
	}
	res.Deadline = 0 // it begins when the machine turns Idle
	e.inventory.Table.Reserve(a.Machine, res)
	e.inventory.DrainBegins(job.machine, a.GraceSeconds)
	job.op, job.cluster = OpDrain, cluster
	echo := stamps.Echo{Assigned: e.inventory.Table.Assigned(a.Machine), Reservation: res}
	if res.Active() {
		echo.GraceSeconds = a.GraceSeconds
	}
	job.metadata = e.encoder.Encode(echo)
	return nil
}

// assignmentFor is the stamp of a machine that a Need acquires. Of a fold it
// is the fold's own.
func (e *executor) assignmentFor(n *engine.NeedResult) model.Assignment {
	p := n.Profile
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Fingerprint: p.Fingerprint(), Group: n.Group,
	}
}

// reservationFor holds a machine for a Need, as yet without a deadline: what
// is on its way does not expire. The owner is named as its row is, so that it
// stays the owner when what made it part of a fold is gone.
func (e *executor) reservationFor(n *engine.NeedResult) model.Reservation {
	b := e.demand.Block(n.Cluster)
	p := e.demand.Profile(b.Profile(n.Row))
	return model.Reservation{
		Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: b.Group(n.Row)},
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Arrival: b.Arrival(n.Row),
	}
}

// errMovedOn is why a call that waited in the queue is not made.
var errMovedOn = errors.New("the machine is in another state by now")

// errHalted is why a call that waited in the queue is not made.
var errHalted = errors.New("nothing is carried out any more")
