package shard

import (
	"context"
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// Machines in use that another shard is to have. They are drained like victims
// of preemption, and held meanwhile under the name of the move in place of a
// Need's: no cluster answers to it, so that the hold lasts as one does whose
// cluster has not reported, and survives a restart as every reservation does.
// Nothing else is remembered of a drain: the coordinator asks until machines are
// given.

// leavingPrefix begins the name under which machines are held for a move.
const leavingPrefix = "move:"

// leavingGraceSeconds is the grace of such a drain.
const leavingGraceSeconds = graceDefaultSeconds

func leavingFor(move string, priority int32) model.Reservation {
	return model.Reservation{
		Owner: model.Owner{Cluster: leavingPrefix + move}, Priority: priority,
		Interruption: model.Bucket(model.NumBuckets - 1), Reclamation: model.Bucket(model.NumBuckets - 1),
	}
}

// DrainAway begins to drain machines whose work has a lower priority than the
// given one, and gives them away, as Release does, all at once when the last one
// is Idle: call it until HandOvers mentions the move. nil says that drains are
// under way or machines were given; an error that wraps ErrInvalid, that none of
// the machines can be.
func (s *Shard) DrainAway(ctx context.Context, move string, machines []string, priority int32) error {
	if err := checkMove(move, ""); err != nil {
		return err
	}
	s.mu.Lock()
	given := len(s.givenBy(move)) > 0
	var pending, ready int
	var err error
	if !given {
		pending, ready, err = s.drainAway(move, machines, priority)
	}
	if err == nil && !given && pending == 0 && ready > 0 {
		_, err = s.release(move, "", machines, func(r columnar.Row) bool {
			return s.machines.State(r) == model.Idle && s.leaves(r, move)
		})
		given = err == nil
	}
	s.mu.Unlock()
	switch {
	case err != nil:
		return err
	case given:
		return s.ownershipKept(ctx)
	case pending == 0:
		return errNothing
	}
	return nil
}

func (s *Shard) leaves(r columnar.Row, move string) bool {
	return s.machines.Reservation(r).Owner.Cluster == leavingPrefix+move
}

// leftBehind tells whether a reservation is the hold of a move by which machines
// have come to this shard, or come back to it. Providers that keep reservations
// give it out with the machine.
func (s *Shard) leftBehind(machine string, r *model.Reservation) bool {
	move, held := strings.CutPrefix(r.Owner.Cluster, leavingPrefix)
	if !held {
		return false
	}
	by := func(instruction string) bool {
		of, _, _ := strings.Cut(instruction, "/")
		return of == move
	}
	if by(s.received[machine]) {
		return true
	}
	for id := range s.adoptions { // one that came home is not among the received
		if by(id) {
			return true
		}
	}
	return false
}

// drainAway begins drains that can begin, and counts machines that are on their
// way and those that are ready to be given.
func (s *Shard) drainAway(move string, machines []string, priority int32) (pending, ready int, err error) {
	if at := s.halted(); at != Execute {
		return 0, 0, fmt.Errorf("nothing is drained: the shard does not act (%s)", at)
	}
	for _, id := range machines {
		r, there := s.machines.Lookup(id)
		if !there {
			continue
		}
		leaves := s.leaves(r, move)
		switch state := s.machines.State(r); {
		case leaves && (state == model.Draining || s.busy(id)):
			pending++
		case leaves && state == model.Idle:
			ready++
		case state == model.Configured && !s.busy(id) && !s.machines.Reservation(r).Active() && s.machines.Assigned(r).Priority < priority:
			if s.beginLeaving(r, move, priority) {
				pending++
			}
		}
	}
	return pending, ready, nil
}

// beginLeaving starts one drain; false says that there is no room now, or that
// the machine is not to be drained.
func (s *Shard) beginLeaving(r columnar.Row, move string, priority int32) bool {
	if s.cfg.Concurrency > 0 && len(s.queue) >= cap(s.queue) {
		return false
	}
	id := s.machines.ID(r)
	job := &call{kind: engine.Preempt, machine: id, grace: leavingGraceSeconds, priority: priority, before: s.standingOf(r)}
	a := engine.Action{Kind: engine.Preempt, Machine: r, Need: -1, GraceSeconds: leavingGraceSeconds, PreemptorPriority: priority}
	if err := s.beginDrain(job, &a, leavingFor(move, priority)); err != nil {
		s.log.Error("the machine cannot be drained for another shard", "machine", id, "error", err)
		return false
	}
	job.durable = s.remember(r)
	if s.cfg.Concurrency == 0 {
		return s.make(job) == nil
	}
	s.inFlight[id] = engine.Preempt
	s.queue <- job
	return true
}
