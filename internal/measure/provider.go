package measure

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// How long a machine is held for a Need, in nanoseconds, after it has been
// created, or drained with a grace in seconds.
const (
	createdHold   = int64(600e9)
	drainedPerSec = int64(2e9)
)

// carryOut does to the tables what a plan asks for, as a shard would whose
// provider needs no time. Each action brings one machine into another state.
func carryOut(in *engine.Input, plan *engine.Plan) error {
	for _, r := range plan.Ended {
		in.Supply.Reserve(r, model.Reservation{})
	}
	for _, x := range plan.Adopted {
		in.Supply.Stamp(x.Machine, plan.Stamp(int(x.Need)))
	}
	held := reservationsOf(in, plan)
	// Actions of one Need stand together; each is read from the plan once.
	var n engine.NeedResult
	at := int32(-1)
	for i := range plan.Actions {
		if need := plan.Actions[i].Need; need >= 0 && need != at {
			at, n = need, plan.Need(int(need))
		}
		if err := perform(in, &plan.Actions[i], &n); err != nil {
			return fmt.Errorf("%s: %w", plan.Actions[i].Kind, err)
		}
	}
	for _, x := range held {
		in.Supply.Reserve(x.Machine, x.Reservation)
	}
	return nil
}

// reservationsOf returns what the plans of preemption of a cycle hold for whom, before
// anything is carried out: what has to drain first is held from then on.
func reservationsOf(in *engine.Input, plan *engine.Plan) []engine.Reserved {
	list := slices.Clone(plan.Reservations)
	for i := range list {
		if x := &list[i]; in.Supply.State(x.Machine) == model.Configured {
			x.Reservation.Deadline = in.Now + drainedPerSec*int64(x.GraceSeconds)
		}
	}
	return list
}

// perform does one action; n is the Need that it is for, if any. Of it only
// what comes from the demand may be used: its figures change as machines move.
func perform(in *engine.Input, a *engine.Action, n *engine.NeedResult) error {
	r := a.Machine
	switch a.Kind {
	case engine.Bootstrap:
		in.Supply.Reserve(r, model.Reservation{})
		if err := through(in, r, n.Cluster, model.Configuring, model.Configured); err != nil {
			return err
		}
		in.Supply.Stamp(r, stampOf(n))
	case engine.Provision:
		if err := create(in, r); err != nil {
			return err
		}
		in.Supply.Stamp(r, stampOf(n))
		in.Supply.Reserve(r, heldFor(in, n, createdHold))
	case engine.Preempt:
		if err := through(in, r, "", model.Draining, model.Idle); err != nil {
			return err
		}
		if a.Plan == 0 { // else it is among what the plan holds, or only its gang goes
			in.Supply.Reserve(r, heldFor(in, n, drainedPerSec*int64(a.GraceSeconds)))
		}
	case engine.Reclaim:
		return through(in, r, "", model.Draining, model.Idle)
	case engine.Delete:
		return through(in, r, "", model.Deleting, model.Speculative)
	}
	return nil
}

// create gives a slot its host.
func create(in *engine.Input, r columnar.Row) error {
	if err := through(in, r, "", model.Creating, model.Idle); err != nil {
		return err
	}
	in.Supply.SetHost(r, in.Supply.ID(r)+".node")
	return nil
}

// stampOf is what a machine is stamped with that a Need acquires.
func stampOf(n *engine.NeedResult) model.Assignment {
	p := n.Profile
	return model.Assignment{
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Fingerprint: p.Fingerprint(), Group: n.Group,
	}
}

// heldFor is a reservation for a Need, whose owner is named as its row is.
func heldFor(in *engine.Input, n *engine.NeedResult, hold int64) model.Reservation {
	b := in.Demand.Block(n.Cluster)
	p := in.Demand.Profile(b.Profile(n.Row))
	return model.Reservation{
		Owner:    model.Owner{Cluster: n.Cluster, Fingerprint: p.WithoutSame().Fingerprint(), Group: b.Group(n.Row)},
		Priority: p.Priority(), Interruption: p.Interruption(), Reclamation: p.Reclamation(),
		Arrival: b.Arrival(n.Row), Deadline: in.Now + hold,
	}
}
