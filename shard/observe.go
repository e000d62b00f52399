package shard

import (
	"fmt"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/stamps"
)

// observe takes over what the provider says of one machine that is not in
// flight.
func (x *reconciler) observe(rec *Record, out *Reconciled) {
	r, _ := x.inventory.Table.Lookup(rec.Machine.ID)
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
	if !x.ownership.Owns(m) {
		if r != columnar.None {
			x.inventory.DropQuietly(r)
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
	switch local := x.inventory.Table.State(r); {
	case local == m.State:
		changed, taken := x.refresh(r, m, out)
		if changed {
			out.Changed++
		}
		return r, taken
	case local == model.Failed && x.failed.Waiting(m.ID, x.pace.Now):
		x.inFlight.LookAgain() // later
		return r, false
	case local == model.Failed:
		x.inventory.Remove(r)
		out.Retired++
		return x.adopt(rec, out)
	case ends(local, m.State) && (m.State != model.Configured || m.Cluster == x.inventory.Table.Cluster(r)):
		if err := x.inventory.Move(r, m.State, ""); err != nil {
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
	local, owner := x.inventory.Table.State(r), x.inventory.Table.Cluster(r)
	if local.Bound() && m.State.Bound() && owner != m.Cluster {
		return x.refuse(fmt.Errorf("machine %q is listed as bound to %q, and it is bound to %q: %w; if that is right, restart the shard, which takes over what is listed then", m.ID, m.Cluster, owner, errOwner), out)
	}
	if x.doubts.stale(m.ID, local, m.State, x.pace.Now) {
		out.Skipped++
		x.relist = true // one by revision would not repeat it
		return false
	}
	before, early, unsure := x.inFlight.Uncertain(m.ID, x.pace.Now)
	switch {
	case !unsure:
		return true
	case m.State == before.State && early:
		x.inFlight.LookAgain()
		return false
	case m.State == before.State && m.Cluster == before.Cluster:
		x.inventory.Undo(r, m.ID, &before)
		out.Moved++
	}
	x.inFlight.Certain(m.ID)
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
	adopted := x.inventory.RecalledEcho(&m, &echo)
	if x.ownership.LeftBehind(m.ID, &echo.Reservation) {
		echo.Reservation = model.Reservation{}
	}
	m.Assigned, m.Reservation = echo.Assigned, echo.Reservation
	switch m.State {
	case model.Idle:
		if m.IdleSince == 0 {
			m.IdleSince = x.pace.Now
		}
		if m.Reservation.Active() && m.Reservation.Deadline == 0 {
			hold := inventory.CreatedHold
			if echo.GraceSeconds > 0 {
				hold = 2 * int64(echo.GraceSeconds) * 1e9
			}
			m.Reservation.Deadline = x.pace.Now + hold
		}
	case model.Draining:
		x.inventory.KnowGrace(m.ID, echo.GraceSeconds)
	case model.Speculative, model.Deleting, model.Failed:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
	}
	r, err := x.inventory.Put(&m, rec.LabelsNumber)
	if err != nil {
		return columnar.None, x.refuse(err, out)
	}
	if adopted {
		x.inventory.Adopts(r)
	}
	out.Added++
	return r, true
}

// replace takes over the record of a machine whose state changed without us.
// While it is bound as it was, its stamps stay: they are the shard's, not the
// provider's.
func (x *reconciler) replace(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	was, adopted := x.inventory.Table.Get(r), x.inventory.IsAdopted(r)
	x.log.Warn("machine is in another state than expected", "machine", was.ID, "expected", was.State, "found", rec.Machine.State)
	x.inventory.Remove(r)
	r, taken := x.adopt(rec, out)
	out.Added--
	out.Diverged++
	if taken && was.Cluster != "" && x.inventory.Table.Cluster(r) != was.Cluster {
		x.inventory.Tell(r, was.Cluster)
	}
	if taken && was.Cluster != "" && x.inventory.Table.Cluster(r) == was.Cluster {
		x.inventory.Stamp(r, was.Assigned)
		if adopted {
			x.inventory.Adopts(r)
		}
	}
	return r, taken
}

// refresh takes over what may change while the state does not, and tells
// whether anything did, and whether the table says now what the record says.
// Stamps, reservation and idle clock are the shard's.
func (x *reconciler) refresh(r columnar.Row, m *model.Machine, out *Reconciled) (changed, taken bool) {
	same := x.inventory.Table.SameFacts(r, m)
	if same && x.inventory.Table.SamePrice(r, m.PricePerHour, m.InterruptionProbability) {
		return false, true
	}
	var err error
	x.inventory.PriceChanges()
	if same { // what changes most, and costs least
		err = x.inventory.Changing(r, func() error { return x.inventory.Table.SetPrice(r, m.PricePerHour, m.InterruptionProbability) })
	} else {
		is := x.inventory.Table.Brief(r)
		next := *m
		next.Cluster = is.Cluster
		next.Assigned, next.Reservation, next.IdleSince = is.Assigned, is.Reservation, is.IdleSince
		err = x.inventory.Changing(r, func() error { return x.inventory.Table.Put(&next) })
	}
	if err != nil {
		return false, x.refuse(err, out)
	}
	if !same {
		x.inventory.Tell(r, "")
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
