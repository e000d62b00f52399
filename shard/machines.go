package shard

import (
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// AddedMax is how many machines that became available the shard remembers for
// parked gangs; beyond it, every gang is tried again.
const AddedMax = 4096

// CreatedHold is how long a machine that was created for a Need stays its own
// after it turned Idle, in nanoseconds.
const CreatedHold = int64(600e9)

// graceDefaultSeconds is the grace of a drain whose own is not known any more.
const graceDefaultSeconds = 600

// drain is what the shard remembers of a machine that is being drained.
type drain struct {
	started      int64 // Unix nanoseconds, 0 = before this process
	graceSeconds int32
}

// changing runs a change of one row and keeps the tally right.
func (s *Shard) changing(r columnar.Row, change func() error) error {
	before := s.machines.Brief(r)
	if err := change(); err != nil {
		return err
	}
	after := s.machines.Brief(r)
	s.tally.sub(&before)
	s.tally.add(&after)
	return nil
}

// remove takes a machine out, with everything that is remembered of it.
func (s *Shard) remove(r columnar.Row) {
	m := s.machines.Brief(r)
	s.tally.sub(&m)
	delete(s.drains, m.ID)
	delete(s.unsure, m.ID)
	s.history.Disturbed(m.Cluster)
	s.machines.Remove(m.ID)
}

// stamp sets what a machine is assigned to.
func (s *Shard) stamp(r columnar.Row, a model.Assignment) {
	_ = s.changing(r, func() error {
		s.machines.Stamp(r, a)
		return nil
	})
}

// move makes a legal transition and everything that belongs to it: the
// deadlines of reservations, what drains and acquisitions took, who may be
// glad of the machine.
func (s *Shard) move(r columnar.Row, to model.State, cluster string) error {
	from, before, res := s.machines.State(r), s.machines.Cluster(r), s.machines.Reservation(r)
	err := s.changing(r, func() error { return s.machines.Transition(r, to, cluster, s.now) })
	if err != nil {
		return err
	}
	id := s.machines.ID(r)
	switch to {
	case model.Idle:
		s.arrivedIdle(r, id, from)
		s.noteAdded(id)
	case model.Speculative:
		s.noteAdded(id)
	case model.Configured:
		s.machines.Reserve(r, model.Reservation{})
		s.bound(s.machines.Cluster(r), s.machines.Assigned(r).Fingerprint)
	case model.Failed:
		s.history.Disturbed(before)
		delete(s.drains, id)
		if from == model.Draining {
			s.drainFailed(&res)
		}
	}
	s.tell(r, before)
	return nil
}

// arrivedIdle starts the clock of a reservation that outlives the transition.
func (s *Shard) arrivedIdle(r columnar.Row, id string, from model.State) {
	d, known := s.drains[id]
	delete(s.drains, id)
	res := s.machines.Reservation(r)
	switch from {
	case model.Creating:
		res.Deadline = s.now + CreatedHold
	case model.Draining:
		res.Deadline = s.now + 2*int64(d.grace())*1e9
		if known && d.started != 0 {
			s.drainTimes.observe(s.machines.Brief(r).InstanceType, s.now-d.started)
		}
	default:
		return
	}
	if res.Active() {
		s.machines.Reserve(r, res)
	}
}

func (d drain) grace() int32 {
	if d.graceSeconds <= 0 {
		return graceDefaultSeconds
	}
	return d.graceSeconds
}

// noteAdded remembers that a machine became available.
func (s *Shard) noteAdded(id string) {
	if len(s.added) < AddedMax {
		s.added = append(s.added, strings.Clone(id)) // it may be part of a listing
	} else {
		s.addedOverflow = true
	}
}

// failed makes a machine Failed and says why.
func (s *Shard) failed(r columnar.Row, why error) error {
	if err := s.move(r, model.Failed, ""); err != nil {
		return fmt.Errorf("after %q: %w", why.Error(), err)
	}
	s.machines.SetError(r, why.Error())
	s.tell(r, "") // once more, with the reason
	return nil
}
