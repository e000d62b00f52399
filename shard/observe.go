package shard

import (
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/stamps"
)

// observe takes over what the provider says of one machine that is not in
// flight.
func (x *reconciler) observe(rec *Record, out *Reconciled) {
	r, _ := x.inventory.table.Lookup(rec.Machine.ID)
	x.observeAt(r, rec, out)
}

// validate is Validate of the machine.
func (rec *Record) validate() error {
	if rec.LabelsNumber != 0 {
		return rec.Machine.ValidateRest(true)
	}
	return rec.Machine.Validate(true)
}

// observeAt is observe; r is the machine's row, None if there is no such machine. It returns the row
// that the machine has now, and whether the table says now what the record
// says.
func (x *reconciler) observeAt(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	m := &rec.Machine
	if err := rec.validate(); err != nil {
		return r, x.refuse(err, out)
	}
	if !x.ownership.owns(m) {
		if r != columnar.None {
			x.inventory.dropQuietly(r)
			out.Removed++
		}
		return columnar.None, false
	}
	if r == columnar.None {
		return x.adopt(rec, out)
	}
	x.doubts.seen(m.ID)
	if !x.believes(r, m, out) {
		return r, false
	}
	switch local := x.inventory.table.State(r); {
	case local == m.State:
		changed, taken := x.refresh(r, m, out)
		if changed {
			out.Changed++
		}
		return r, taken
	case local == model.Failed && x.failed.waiting(m.ID, x.pace.now):
		x.inFlight.failed = true // look again later
		return r, false
	case local == model.Failed:
		x.inventory.remove(r)
		out.Retired++
		return x.adopt(rec, out)
	case ends(local, m.State) && (m.State != model.Configured || m.Cluster == x.inventory.table.Cluster(r)):
		if err := x.inventory.move(r, m.State, ""); err != nil {
			return r, x.refuse(err, out)
		}
		out.Moved++
		_, taken := x.refresh(r, m, out)
		return r, taken
	}
	return x.replace(r, rec, out)
}

// believes tells whether a record of a machine that is known is to be taken over now: it gives the
// machine to nobody else, is not older than an answer, and does not only seem to
// say that a call without an answer did nothing. What certainly did nothing is undone.
func (x *reconciler) believes(r columnar.Row, m *model.Machine, out *Reconciled) bool {
	local, owner := x.inventory.table.State(r), x.inventory.table.Cluster(r)
	if local.Bound() && m.State.Bound() && owner != m.Cluster {
		return x.refuse(fmt.Errorf("machine %q is listed as bound to %q, and it is bound to %q: %w; if that is right, restart the shard, which takes over what is listed then", m.ID, m.Cluster, owner, errOwner), out)
	}
	if x.doubts.stale(m.ID, local, m.State, x.pace.now) {
		out.Skipped++
		x.relist = true // one by revision would not repeat it
		return false
	}
	u, unsure := x.inFlight.unsure[m.ID]
	switch {
	case !unsure:
		return true
	case m.State == u.before.state && x.pace.now < u.until:
		x.inFlight.failed = true // look again
		return false
	case m.State == u.before.state && m.Cluster == u.before.cluster:
		x.inventory.undo(r, m.ID, &u.before)
		out.Moved++
	}
	delete(x.inFlight.unsure, m.ID)
	return true
}

// ends tells whether one state follows the other as the end of a transition
// that was under way, or by failure.
func ends(from, to model.State) bool {
	switch from {
	case model.Creating, model.Configuring, model.Draining, model.Deleting:
		return model.LegalMove(from, to) && !(from == model.Configuring && to == model.Idle)
	}
	return false
}

// adopt inserts a machine that this process does not know; its stamps come
// back from the provider's echo.
func (x *reconciler) adopt(rec *Record, out *Reconciled) (columnar.Row, bool) {
	m := rec.Machine
	d := rec.Decoded
	if d == nil {
		decoded := stamps.Decode(rec.Metadata)
		d = &decoded
	}
	echo := d.Echo
	if len(d.Malformed) > 0 {
		x.log.Warn("malformed shard metadata is ignored", "machine", m.ID, "keys", d.Malformed)
	}
	if m.State.Bound() {
		echo.Reservation = model.Reservation{} // it was for whom the machine is bound now
	}
	adopted := x.inventory.recalledEcho(&m, &echo)
	if x.ownership.leftBehind(m.ID, &echo.Reservation) {
		echo.Reservation = model.Reservation{}
	}
	m.Assigned, m.Reservation = echo.Assigned, echo.Reservation
	switch m.State {
	case model.Idle:
		if m.IdleSince == 0 {
			m.IdleSince = x.pace.now
		}
		if m.Reservation.Active() && m.Reservation.Deadline == 0 {
			hold := CreatedHold
			if echo.GraceSeconds > 0 {
				hold = 2 * int64(echo.GraceSeconds) * 1e9
			}
			m.Reservation.Deadline = x.pace.now + hold
		}
		x.inventory.witness.available(m.ID)
	case model.Speculative:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
		x.inventory.witness.available(m.ID)
	case model.Draining:
		if d := &echo; d.GraceSeconds != 0 || x.inventory.drains[m.ID] == (drain{}) {
			x.inventory.drains[strings.Clone(m.ID)] = drain{started: x.inventory.drains[m.ID].started, graceSeconds: d.GraceSeconds}
		}
	case model.Deleting, model.Failed:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
	}
	r, err := x.inventory.table.PutShared(&m, rec.LabelsNumber)
	if err != nil {
		return columnar.None, x.refuse(err, out)
	}
	x.inventory.tally.add(&m)
	if adopted {
		x.inventory.adopted.add(r)
	}
	out.Added++
	x.inventory.tell(r, "")
	return r, true
}

// replace takes over the record of a machine whose state changed without us.
// While it is bound as it was, its stamps stay: they are the shard's, not the
// provider's.
func (x *reconciler) replace(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	was, adopted := x.inventory.table.Get(r), x.inventory.adopted.has(r)
	x.log.Warn("machine is in another state than expected", "machine", was.ID, "expected", was.State, "found", rec.Machine.State)
	x.inventory.remove(r)
	r, taken := x.adopt(rec, out)
	out.Added--
	out.Diverged++
	if taken && was.Cluster != "" && x.inventory.table.Cluster(r) != was.Cluster {
		x.inventory.tell(r, was.Cluster)
	}
	if taken && was.Cluster != "" && x.inventory.table.Cluster(r) == was.Cluster {
		x.inventory.stamp(r, was.Assigned)
		if adopted {
			x.inventory.adopted.add(r)
		}
	}
	return r, taken
}

// refresh takes over what may change while the state does not, and tells
// whether anything did, and whether the table says now what the record says.
// Stamps, reservation and idle clock are the shard's.
func (x *reconciler) refresh(r columnar.Row, m *model.Machine, out *Reconciled) (changed, taken bool) {
	same := x.inventory.table.SameFacts(r, m)
	if same && x.inventory.table.SamePrice(r, m.PricePerHour, m.InterruptionProbability) {
		return false, true
	}
	var err error
	x.inventory.prices++
	if same { // what changes most, and costs least
		err = x.inventory.changing(r, func() error { return x.inventory.table.SetPrice(r, m.PricePerHour, m.InterruptionProbability) })
	} else {
		is := x.inventory.table.Brief(r)
		next := *m
		next.Cluster = is.Cluster
		next.Assigned, next.Reservation, next.IdleSince = is.Assigned, is.Reservation, is.IdleSince
		err = x.inventory.changing(r, func() error { return x.inventory.table.Put(&next) })
	}
	if err != nil {
		return false, x.refuse(err, out)
	}
	if !same {
		x.inventory.tell(r, "")
	}
	return true, true
}

// refuse counts a record that is not taken over; the last good one stays. It
// returns false.
func (x *reconciler) refuse(err error, out *Reconciled) bool {
	total := 0
	for _, n := range out.Refused {
		total += n
	}
	out.Refused[refusalOf(err)]++
	if total < RefusalsLoggedMax {
		x.log.Warn("provider's record refused; the last good one stays", "error", err)
	}
	if total == RefusalsLoggedMax {
		x.log.Warn(fmt.Sprintf("more than %d records refused in this cycle; the rest is only counted", RefusalsLoggedMax))
	}
	return false
}
