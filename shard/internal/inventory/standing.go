package inventory

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Standing is what an action changes of a machine, as it was before, to be put
// back when the call was never made.
type Standing struct {
	State       model.State
	Cluster     string
	assigned    model.Assignment
	idleSince   int64
	reservation model.Reservation
}

// StandingOf returns how a machine is now.
func (v *Inventory) StandingOf(r columnar.Row) Standing {
	m := v.Table.Brief(r)
	return Standing{
		State: m.State, Cluster: m.Cluster, assigned: m.Assigned,
		idleSince: m.IdleSince, reservation: v.Table.Reservation(r),
	}
}

// Undo puts a machine back to where it was before an action whose call was
// never made.
func (v *Inventory) Undo(r columnar.Row, machine string, was *Standing) {
	m := v.Table.Get(r)
	told := m.Cluster
	m.State, m.Cluster, m.LastError = was.State, was.Cluster, ""
	m.Assigned, m.IdleSince, m.Reservation = was.assigned, was.idleSince, was.reservation
	if err := v.Changing(r, func() error { return v.Table.Put(&m) }); err != nil {
		v.log.Error("cannot roll back", "machine", machine, "error", err)
		return
	}
	delete(v.drains, machine)
	v.History.Disturbed(told)
	v.Remember(r)
	v.Tell(r, told)
}
