package shard

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// standing is what an action changes of a machine, as it was before, to be put
// back when the call was never made.
type standing struct {
	state       model.State
	cluster     string
	assigned    model.Assignment
	idleSince   int64
	reservation model.Reservation
}

func (v *inventory) standingOf(r columnar.Row) standing {
	m := v.table.Brief(r)
	return standing{
		state: m.State, cluster: m.Cluster, assigned: m.Assigned,
		idleSince: m.IdleSince, reservation: v.table.Reservation(r),
	}
}

// undo puts a machine back to where it was before an action whose call was
// never made.
func (v *inventory) undo(r columnar.Row, machine string, was *standing) {
	m := v.table.Get(r)
	told := m.Cluster
	m.State, m.Cluster, m.LastError = was.state, was.cluster, ""
	m.Assigned, m.IdleSince, m.Reservation = was.assigned, was.idleSince, was.reservation
	if err := v.changing(r, func() error { return v.table.Put(&m) }); err != nil {
		v.log.Error("cannot roll back", "machine", machine, "error", err)
		return
	}
	delete(v.drains, machine)
	v.history.Disturbed(told)
	v.remember(r)
	v.tell(r, told)
}
