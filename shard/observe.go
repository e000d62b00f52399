package shard

import (
	"fmt"
	"maps"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// observe takes over what the provider says of one machine that is not in
// flight.
func (s *Shard) observe(rec *Record, out *Reconciled) {
	m := &rec.Machine
	if err := m.Validate(true); err != nil {
		s.refuse(err, out)
		return
	}
	r, known := s.machines.Lookup(m.ID)
	if !known {
		s.adopt(rec, out)
		return
	}
	local := s.machines.State(r)
	switch {
	case local == m.State:
		if s.refresh(r, m, out) {
			out.Changed++
		}
	case local == model.Failed:
		s.remove(r)
		out.Retired++
		s.adopt(rec, out)
	case ends(local, m.State) && (m.State != model.Configured || m.Cluster == s.machines.Cluster(r)):
		if err := s.move(r, m.State, ""); err != nil {
			s.refuse(err, out)
			return
		}
		out.Moved++
		s.refresh(r, m, out)
	default:
		s.replace(r, rec, out)
	}
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
func (s *Shard) adopt(rec *Record, out *Reconciled) {
	m := rec.Machine
	echo, malformed := DecodeMetadata(rec.Metadata)
	if len(malformed) > 0 {
		s.log.Warn("malformed shard metadata is ignored", "machine", m.ID, "keys", malformed)
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
		s.drains[m.ID] = drain{graceSeconds: echo.GraceSeconds}
	case model.Configuring, model.Configured:
		m.Reservation = model.Reservation{}
	case model.Deleting, model.Failed:
		m.Assigned, m.Reservation = model.Assignment{}, model.Reservation{}
	}
	if err := s.put(&m); err != nil {
		s.refuse(err, out)
		return
	}
	out.Added++
}

// replace takes over the record of a machine whose state changed without us.
// While it is bound as it was, its stamps stay: they are the shard's, not the
// provider's.
func (s *Shard) replace(r columnar.Row, rec *Record, out *Reconciled) {
	was := s.machines.Get(r)
	s.log.Warn("machine is in another state than expected", "machine", was.ID, "expected", was.State, "found", rec.Machine.State)
	s.remove(r)
	s.adopt(rec, out)
	out.Added--
	out.Diverged++
	r, ok := s.machines.Lookup(was.ID)
	if ok && was.Cluster != "" && s.machines.Cluster(r) == was.Cluster {
		s.stamp(r, was.Assigned)
	}
}

// refresh takes over what may change while the state does not, and tells
// whether anything did. Stamps, reservation and idle clock are the shard's.
func (s *Shard) refresh(r columnar.Row, m *model.Machine, out *Reconciled) bool {
	is := s.machines.Get(r)
	same := sameFacts(&is, m)
	if same && is.PricePerHour == m.PricePerHour && is.InterruptionProbability == m.InterruptionProbability {
		return false
	}
	var err error
	if same { // what changes most, and costs least
		err = s.changing(r, func() error { return s.machines.SetPrice(r, m.PricePerHour, m.InterruptionProbability) })
	} else {
		next := *m
		next.Cluster = is.Cluster
		next.Assigned, next.Reservation, next.IdleSince = is.Assigned, is.Reservation, is.IdleSince
		err = s.put(&next)
	}
	if err != nil {
		s.refuse(err, out)
		return false
	}
	return true
}

// sameFacts compares what is the provider's to say, apart from the price.
func sameFacts(a, b *model.Machine) bool {
	return a.CapacityType == b.CapacityType && a.Host == b.Host && a.InstanceType == b.InstanceType && a.Zone == b.Zone &&
		a.LastError == b.LastError && a.Resources.Equal(b.Resources) && a.Allocatable.Equal(b.Allocatable) && maps.Equal(a.Labels, b.Labels)
}

// refuse counts a record that is not taken over; the last good one stays.
func (s *Shard) refuse(err error, out *Reconciled) {
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
}
