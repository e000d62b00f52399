package inventory

import (
	"sync"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// AdoptStamps stamps machines with the Need of their cluster that they serve by now.
// A Need is credited with its own machines before others, whatever these cost,
// so it keeps what it has: without the new stamp each cheaper machine that
// comes to the cluster, also one that was freed for another Need, would take
// the place of one that serves already. That is nothing which is carried out, and
// happens under pause and dry run too.
func (v *Inventory) AdoptStamps(plan *engine.Plan) {
	for _, x := range plan.Adopted {
		was, stamp := v.Table.Assigned(x.Machine).Priority, plan.Stamp(int(x.Need))
		v.Stamp(x.Machine, stamp)
		v.adopted.Add(x.Machine)
		if stamp.Priority < was && v.Table.State(x.Machine) == model.Configured {
			v.witness.Available(v.Table.ID(x.Machine)) // to be preempted
		}
	}
}

// EndReservations takes the stamps off that the plan says are over. That of a
// machine which another Need binds in this plan stays until the machine is
// bound: the action may be cut or dropped. That of a machine which drains on for
// its owner changes.
func (v *Inventory) EndReservations(plan *engine.Plan) {
	if len(plan.Ended) == 0 {
		return
	}
	taken := make(map[columnar.Row]struct{}, len(plan.Ended))
	for i := range plan.Actions {
		if a := &plan.Actions[i]; a.Kind == engine.Bootstrap {
			taken[a.Machine] = struct{}{}
		}
	}
	drains := v.stillDrains(plan)
	for _, r := range plan.Ended {
		if _, ok := taken[r]; !ok {
			v.Table.Reserve(r, drains[r])
			if v.Table.State(r) == model.Idle {
				v.witness.Available(v.Table.ID(r))
			}
		}
	}
}

// stillDrains returns for whom plans of a cycle reserve machines that drain
// already: their plan has ended in the same cycle, and its owner counts on them
// anew. They are stamped whether the new plan is accepted or not, since the next
// cycle will count on them too.
func (v *Inventory) stillDrains(plan *engine.Plan) map[columnar.Row]model.Reservation {
	var out map[columnar.Row]model.Reservation
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		if !v.Table.Has(x.Machine) || v.Table.State(x.Machine) != model.Draining || v.Table.Reservation(x.Machine).Owner != x.Reservation.Owner {
			continue
		}
		if out == nil {
			out = map[columnar.Row]model.Reservation{}
		}
		out[x.Machine] = x.Reservation
	}
	return out
}

// Reserve stamps what plans reserve beside the machines that they preempt: Idle
// ones, those that are reclaimed anyway, and those that drained before. refused are
// the plans that were not accepted.
func (v *Inventory) Reserve(plan *engine.Plan, refused map[uint64]bool) {
	began := sync.OnceValue(func() map[columnar.Row]bool { return drainedBy(plan) })
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		if refused[x.Reservation.Plan] || !v.Table.Has(x.Machine) || v.Table.Reservation(x.Machine).Plan == x.Reservation.Plan {
			continue
		}
		switch v.Table.State(x.Machine) {
		case model.Idle, model.Configured:
		case model.Draining:
			if began()[x.Machine] {
				continue // it was stamped when it began
			}
		default:
			continue
		}
		v.Table.Reserve(x.Machine, x.Reservation)
		v.Remember(x.Machine)
	}
}

// drainedBy returns the machines that a plan preempts or reclaims.
func drainedBy(plan *engine.Plan) map[columnar.Row]bool {
	rows := make(map[columnar.Row]bool)
	for i := range plan.Actions {
		if a := &plan.Actions[i]; a.Kind == engine.Preempt || a.Kind == engine.Reclaim {
			rows[a.Machine] = true
		}
	}
	return rows
}

// drainFailed ends the plan that a machine was drained for. All that is planned for an
// owner is one plan: what it planned in one cycle adds to what it had planned before.
func (v *Inventory) drainFailed(res *model.Reservation) {
	if res.Plan == 0 {
		return
	}
	v.witness.PlanFailed(res.Owner)
	var rest []columnar.Row
	for r, other := range v.Table.Reservations() {
		if other.Plan != 0 && other.Owner == res.Owner {
			rest = append(rest, r)
		}
	}
	for _, r := range rest {
		v.Table.Reserve(r, model.Reservation{})
		v.Remember(r)
	}
	v.log.Warn("a drain failed, and with it the plan that it was part of", "cluster", res.Owner.Cluster, "group", res.Owner.Group, "machines", len(rest))
}
