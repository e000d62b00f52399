package rails

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

// PlanLen returns how many actions from the first on are one plan of preemption;
// any other action is one by itself.
func PlanLen(actions []engine.Action) int {
	n := 1
	for actions[0].Plan != 0 && n < len(actions) && actions[n].Plan == actions[0].Plan {
		n++
	}
	return n
}

// Holdings are what the plans of a cycle reserve, by machine.
type Holdings struct {
	Plan *engine.Plan
	at   map[columnar.Row]int
}

// Of returns what a machine that is preempted is held for; nothing when only its
// gang goes.
func (h *Holdings) Of(r columnar.Row) model.Reservation {
	if h.at == nil {
		h.at = make(map[columnar.Row]int, len(h.Plan.Reservations))
		for i := range h.Plan.Reservations {
			h.at[h.Plan.Reservations[i].Machine] = i
		}
	}
	i, held := h.at[r]
	if !held {
		return model.Reservation{}
	}
	return h.Plan.Reservations[i].Reservation
}

// AddPlans adds the plans of actions to those that are refused.
func AddPlans(plans map[uint64]bool, actions []engine.Action) map[uint64]bool {
	for i := range actions {
		if id := actions[i].Plan; id != 0 {
			if plans == nil {
				plans = map[uint64]bool{}
			}
			plans[id] = true
		}
	}
	return plans
}
