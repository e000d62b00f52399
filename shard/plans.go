package shard

import (
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

// PlanMachinesMax is how many machines a plan may preempt. A larger one is
// never carried out: there would be no bound to the queue.
const PlanMachinesMax = 1 << 14

// planOf returns how many actions from the first on are one plan of preemption;
// any other action is one by itself.
func planOf(actions []engine.Action) int {
	n := 1
	for actions[0].Plan != 0 && n < len(actions) && actions[n].Plan == actions[0].Plan {
		n++
	}
	return n
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
