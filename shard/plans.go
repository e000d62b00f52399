package shard

import (
	"sync"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// A plan of preemption is carried out whole or not at all: a gang that loses a
// part of its machines is broken for nothing. What it reserves is stamped when it
// is accepted, and not before.
//
// A plan ends when one of its drains fails. Its machines are then free for
// anybody, and its owner preempts nobody for a while: the same drain would be
// tried again, and fail again.

const (
	// PlanMachinesMax is how many machines a plan may preempt. A larger one is
	// never carried out: there would be no bound to the queue.
	PlanMachinesMax = 1 << 14

	// The cycles for which an owner preempts nobody after its plans have failed
	// once, and at the most; every failure doubles them.
	backOffCyclesMin = 1
	backOffCyclesMax = 64
	// backOffForget is after how many cycles without a failure the next is the
	// first again.
	backOffForget = 2 * backOffCyclesMax
	// BackingOffMax bounds how many owners are remembered.
	BackingOffMax = 1 << 14
)

// backOff is how long an owner waits.
type backOff struct {
	cycles uint64 // that the last failure costs
	until  uint64 // number of the first cycle in which it may preempt again
}

// backOffs are the owners whose plans have failed lately.
type backOffs struct {
	owners  map[model.Owner]backOff
	waiting map[model.Owner]bool // of this cycle
}

// failed notes that a plan of the owner has failed, which the given cycle is the
// first to see: it waits that one out too. Drains of one plan that fail before
// the same cycle count once.
func (b *backOffs) failed(owner model.Owner, cycle uint64) {
	if b.owners == nil {
		b.owners = map[model.Owner]backOff{}
	}
	x, known := b.owners[owner]
	switch {
	case known && x.until == cycle+x.cycles+1:
		return
	case !known && len(b.owners) >= BackingOffMax:
		return
	}
	x.cycles = min(max(2*x.cycles, backOffCyclesMin), backOffCyclesMax)
	x.until = cycle + x.cycles + 1
	b.owners[owner] = x
}

// in returns who backs off in a cycle, nil for nobody, and forgets what is long
// ago.
func (b *backOffs) in(cycle uint64) map[model.Owner]bool {
	if len(b.owners) == 0 {
		return nil
	}
	if b.waiting == nil {
		b.waiting = map[model.Owner]bool{}
	}
	clear(b.waiting)
	for owner, x := range b.owners {
		switch {
		case cycle < x.until:
			b.waiting[owner] = true
		case cycle >= x.until+backOffForget:
			delete(b.owners, owner)
		}
	}
	return b.waiting
}

// drainFailed ends the plan that a machine was drained for. All that is planned for an
// owner is one plan: what it planned in one cycle adds to what it had planned before.
func (s *Shard) drainFailed(res *model.Reservation) {
	if res.Plan == 0 {
		return
	}
	sees := s.cycles
	if s.settledCycle == s.cycles {
		sees++ // this one has decided already
	}
	s.backOffs.failed(res.Owner, sees)
	s.metrics.plansFailed.Inc()
	var rest []columnar.Row
	for r, other := range s.machines.Reservations() {
		if other.Plan != 0 && other.Owner == res.Owner {
			rest = append(rest, r)
		}
	}
	for _, r := range rest {
		s.machines.Reserve(r, model.Reservation{})
		s.remember(r)
	}
	s.log.Warn("a drain failed, and with it the plan that it was part of", "cluster", res.Owner.Cluster, "group", res.Owner.Group, "machines", len(rest))
}

// planOf returns how many actions from the first on are one plan of preemption;
// any other action is one by itself.
func planOf(actions []engine.Action) int {
	n := 1
	for actions[0].Plan != 0 && n < len(actions) && actions[n].Plan == actions[0].Plan {
		n++
	}
	return n
}

// room tells whether so many calls that belong together may wait now. A plan
// that is larger than the queue is let in alone.
func (s *Shard) room(calls int) bool {
	if s.cfg.Concurrency == 0 {
		return true
	}
	waiting := len(s.queue)
	return waiting+calls <= s.queueMax || waiting == 0 && calls <= PlanMachinesMax
}

// startable tells whether all actions may start now: no machine is busy or has
// moved on.
func (s *Shard) startable(actions []engine.Action) bool {
	for i := range actions {
		a := &actions[i]
		if _, busy := s.inFlight[s.machines.ID(a.Machine)]; busy || s.machines.State(a.Machine) != requires[a.Kind] {
			return false
		}
	}
	return true
}

// holdings are what the plans of a cycle reserve, by machine.
type holdings struct {
	plan *engine.Plan
	at   map[columnar.Row]int
}

// of returns what a machine that is preempted is held for; nothing when only its
// gang goes.
func (h *holdings) of(r columnar.Row) model.Reservation {
	if h.at == nil {
		h.at = make(map[columnar.Row]int, len(h.plan.Reservations))
		for i := range h.plan.Reservations {
			h.at[h.plan.Reservations[i].Machine] = i
		}
	}
	i, held := h.at[r]
	if !held {
		return model.Reservation{}
	}
	return h.plan.Reservations[i].Reservation
}

// stillDrains returns for whom plans of a cycle reserve machines that drain
// already: their plan has ended in the same cycle, and its owner counts on them
// anew. They are stamped whether the new plan is accepted or not, since the next
// cycle will count on them too.
func (s *Shard) stillDrains(plan *engine.Plan) map[columnar.Row]model.Reservation {
	var out map[columnar.Row]model.Reservation
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		if !s.machines.Has(x.Machine) || s.machines.State(x.Machine) != model.Draining || s.machines.Reservation(x.Machine).Owner != x.Reservation.Owner {
			continue
		}
		if out == nil {
			out = map[columnar.Row]model.Reservation{}
		}
		out[x.Machine] = x.Reservation
	}
	return out
}

// reserve stamps what plans reserve beside the machines that they preempt: Idle
// ones, those that are reclaimed anyway, and those that drained before. refused are
// the plans that were not accepted.
func (s *Shard) reserve(plan *engine.Plan, refused map[uint64]bool) {
	began := sync.OnceValue(func() map[columnar.Row]bool { return drainedBy(plan) })
	for i := range plan.Reservations {
		x := &plan.Reservations[i]
		if refused[x.Reservation.Plan] || !s.machines.Has(x.Machine) || s.machines.Reservation(x.Machine).Plan == x.Reservation.Plan {
			continue
		}
		switch s.machines.State(x.Machine) {
		case model.Idle, model.Configured:
		case model.Draining:
			if began()[x.Machine] {
				continue // it was stamped when it began
			}
		default:
			continue
		}
		s.machines.Reserve(x.Machine, x.Reservation)
		s.remember(x.Machine)
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
