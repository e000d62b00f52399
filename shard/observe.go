package shard

import (
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// observe takes over what the provider says of one machine that is not in
// flight.
func (s *Shard) observe(rec *Record, out *Reconciled) {
	r, _ := s.machines.Lookup(rec.Machine.ID)
	s.observeAt(r, rec, out)
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
func (s *Shard) observeAt(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	m := &rec.Machine
	if err := rec.validate(); err != nil {
		return r, s.refuse(err, out)
	}
	if !s.owns(m) {
		if r != columnar.None {
			s.dropQuietly(r)
			out.Removed++
		}
		return columnar.None, false
	}
	if r == columnar.None {
		return s.adopt(rec, out)
	}
	local := s.machines.State(r)
	if u, ok := s.unsure[m.ID]; ok {
		switch {
		case m.State == u.before.state && s.now < u.until:
			s.callFailed = true // look again
			return r, false
		case m.State == u.before.state && m.Cluster == u.before.cluster:
			s.undo(r, m.ID, &u.before)
			local = m.State
			out.Moved++
		}
		delete(s.unsure, m.ID)
	}
	switch {
	case local == m.State:
		changed, taken := s.refresh(r, m, out)
		if changed {
			out.Changed++
		}
		return r, taken
	case local == model.Failed && s.waits.waiting(m.ID, s.now):
		s.callFailed = true // look again later
		return r, false
	case local == model.Failed:
		s.remove(r)
		out.Retired++
		return s.adopt(rec, out)
	case ends(local, m.State) && (m.State != model.Configured || m.Cluster == s.machines.Cluster(r)):
		if err := s.move(r, m.State, ""); err != nil {
			return r, s.refuse(err, out)
		}
		out.Moved++
		_, taken := s.refresh(r, m, out)
		return r, taken
	}
	return s.replace(r, rec, out)
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
func (s *Shard) adopt(rec *Record, out *Reconciled) (columnar.Row, bool) {
	m := rec.Machine
	d := rec.Decoded
	if d == nil {
		decoded := Decode(rec.Metadata)
		d = &decoded
	}
	echo := d.Echo
	if len(d.Malformed) > 0 {
		s.log.Warn("malformed shard metadata is ignored", "machine", m.ID, "keys", d.Malformed)
	}
	excess := s.recalledExcess(&m)
	s.recalledEcho(&m, &echo)
	if s.leftBehind(m.ID, &echo.Reservation) {
		echo.Reservation = model.Reservation{}
	}
	m.Assigned, m.Reservation = echo.Assigned, echo.Reservation
	switch m.State {
	case model.Idle:
		if m.IdleSince == 0 {
			m.IdleSince = s.now
		}
		if m.Reservation.Active() && m.Reservation.Deadline == 0 {
			hold := CreatedHold
			if echo.GraceSeconds > 0 {
				hold = 2 * int64(echo.GraceSeconds) * 1e9
			}
			m.Reservation.Deadline = s.now + hold
		}
		s.noteAdded(m.ID)
	case model.Speculative:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
		s.noteAdded(m.ID)
	case model.Draining:
		if d := &echo; d.GraceSeconds != 0 || s.drains[m.ID] == (drain{}) {
			s.drains[strings.Clone(m.ID)] = drain{started: s.drains[m.ID].started, graceSeconds: d.GraceSeconds}
		}
	case model.Configuring, model.Configured:
		m.Reservation = excess
	case model.Deleting, model.Failed:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
	}
	r, err := s.machines.PutShared(&m, rec.LabelsNumber)
	if err != nil {
		return columnar.None, s.refuse(err, out)
	}
	s.tally.add(&m)
	out.Added++
	s.tell(r, "")
	return r, true
}

// replace takes over the record of a machine whose state changed without us.
// While it is bound as it was, its stamps stay: they are the shard's, not the
// provider's.
func (s *Shard) replace(r columnar.Row, rec *Record, out *Reconciled) (columnar.Row, bool) {
	was := s.machines.Get(r)
	s.log.Warn("machine is in another state than expected", "machine", was.ID, "expected", was.State, "found", rec.Machine.State)
	s.remove(r)
	r, taken := s.adopt(rec, out)
	out.Added--
	out.Diverged++
	if taken && was.Cluster != "" && s.machines.Cluster(r) != was.Cluster {
		s.tell(r, was.Cluster)
	}
	if taken && was.Cluster != "" && s.machines.Cluster(r) == was.Cluster {
		s.stamp(r, was.Assigned)
	}
	return r, taken
}

// refresh takes over what may change while the state does not, and tells
// whether anything did, and whether the table says now what the record says.
// Stamps, reservation and idle clock are the shard's.
func (s *Shard) refresh(r columnar.Row, m *model.Machine, out *Reconciled) (changed, taken bool) {
	same := s.machines.SameFacts(r, m)
	if same && s.machines.SamePrice(r, m.PricePerHour, m.InterruptionProbability) {
		return false, true
	}
	var err error
	s.prices++
	if same { // what changes most, and costs least
		err = s.changing(r, func() error { return s.machines.SetPrice(r, m.PricePerHour, m.InterruptionProbability) })
	} else {
		is := s.machines.Brief(r)
		next := *m
		next.Cluster = is.Cluster
		next.Assigned, next.Reservation, next.IdleSince = is.Assigned, is.Reservation, is.IdleSince
		err = s.changing(r, func() error { return s.machines.Put(&next) })
	}
	if err != nil {
		return false, s.refuse(err, out)
	}
	if !same {
		s.tell(r, "")
	}
	return true, true
}

// refuse counts a record that is not taken over; the last good one stays. It
// returns false.
func (s *Shard) refuse(err error, out *Reconciled) bool {
	total := 0
	for _, n := range out.Refused {
		total += n
	}
	out.Refused[refusalOf(err)]++
	if total < RefusalsLoggedMax {
		s.log.Warn("provider's record refused; the last good one stays", "error", err)
	}
	if total == RefusalsLoggedMax {
		s.log.Warn(fmt.Sprintf("more than %d records refused in this cycle; the rest is only counted", RefusalsLoggedMax))
	}
	return false
}
