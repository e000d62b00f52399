package inventory

import (
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/stamps"
)

// worth tells whether there is anything to remember of a machine.
func (v *Inventory) worth(r columnar.Row, m *model.Machine, res *model.Reservation) bool {
	switch m.State {
	case model.Creating:
		return true
	case model.Draining:
		return res.Active()
	case model.Configuring, model.Configured: // a plan may count on it as excess that is reclaimed later
		return res.Plan != 0 || v.adopted.Has(r)
	case model.Idle:
		return res.Active() || v.releasable(m.CapacityType) && m.IdleSince != 0
	}
	return false
}

// releasable tells whether the idle clock of such a machine matters.
func (v *Inventory) releasable(t model.CapacityType) bool {
	switch t {
	case model.OnDemand:
		return v.release.OnDemand > 0
	case model.Spot:
		return v.release.Spot > 0
	}
	return false
}

// Remember keeps what is worth keeping of a machine, and forgets the rest. It
// returns the position to wait for before the provider is called.
func (v *Inventory) Remember(r columnar.Row) uint64 {
	if v.memory == nil || !v.Table.Has(r) {
		return 0
	}
	m, res := v.Table.Brief(r), v.Table.Reservation(r)
	key := memory.Machine + m.ID
	if !v.worth(r, &m, &res) {
		return v.memory.Set(key, nil)
	}
	x := recollection{state: m.State, idleSince: m.IdleSince, assigned: m.Assigned, reservation: res, drain: v.drains[m.ID], cluster: m.Cluster}
	v.scratch = x.encode(v.scratch[:0])
	return v.memory.Set(key, v.scratch)
}

// RememberChanges keeps what changed since the last time: clocks that started,
// reservations that ended.
func (v *Inventory) RememberChanges() {
	if v.memory == nil {
		return
	}
	rows, now, complete := v.Table.Changes(v.remembered)
	if v.remembered = now; complete {
		for _, r := range rows {
			v.Remember(r)
		}
		return
	}
	for r := range v.Table.All() {
		v.Remember(r)
	}
}

// Recall takes over what an earlier process left of a machine; false says that it cannot be
// read.
func (v *Inventory) Recall(machine string, value []byte) bool {
	x, err := decodeRecollection(value)
	if err == nil {
		v.recalled[machine] = x
	}
	return err == nil
}

// RecalledEcho completes what the provider echoes of a machine by what an
// earlier process left of it, and tells whether its stamp is one that was adopted. What the
// provider says of a bound machine stands, but for what it has not been told: a
// stamp that was adopted since, and for whom it is held as excess.
func (v *Inventory) RecalledEcho(m *model.Machine, echo *stamps.Echo) (adopted bool) {
	x, ok := v.recalled[m.ID]
	if !ok {
		return false
	}
	delete(v.recalled, m.ID)
	switch m.State {
	case model.Configuring, model.Configured:
		return x.state.Bound() && (x.cluster == m.Cluster || x.cluster == "") && x.completeBound(m, echo)
	case model.Creating, model.Idle, model.Draining:
	default:
		return false
	}
	if !echo.Reservation.Active() && x.reservation.Active() {
		echo.Reservation, echo.GraceSeconds = x.reservation, x.drain.graceSeconds
	}
	if m.State != model.Draining && x.state != model.Draining && echo.Assigned == (model.Assignment{}) {
		echo.Assigned = x.assigned
	}
	if m.State == model.Idle && x.state == model.Idle && m.IdleSince == 0 {
		m.IdleSince = min(x.idleSince, v.pace.Now)
	}
	if m.State == model.Draining {
		v.drains[strings.Clone(m.ID)] = x.drain
	}
	return false
}

// completeBound is recalledEcho for a machine that is bound as it was.
func (x *recollection) completeBound(m *model.Machine, echo *stamps.Echo) (adopted bool) {
	if m.State == model.Configured && x.reservation.Plan != 0 {
		echo.Reservation = x.reservation
	}
	// Versions before 0.2.0 remember no stamps of bound machines, and no cluster.
	if x.cluster == "" || x.assigned == echo.Assigned {
		return false
	}
	echo.Assigned = x.assigned
	return true
}

// ForgetRecalled drops what is left of machines that the provider does not list.
func (v *Inventory) ForgetRecalled() {
	for id := range v.recalled {
		if _, there := v.Table.Lookup(id); !there {
			v.memory.Set(memory.Machine+id, nil)
		}
	}
	v.recalled = nil
}
