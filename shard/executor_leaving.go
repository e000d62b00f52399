package shard

import (
	"fmt"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ownership"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Machines in use that another shard is to have. They are drained like victims
// of preemption, and held meanwhile under the name of the move in place of a
// Need's: no cluster answers to it, so that the hold lasts as one does whose
// cluster has not reported, and survives a restart as every reservation does.
// Nothing else is remembered of a drain: the coordinator asks until machines are
// given.

// leavingGraceSeconds is the grace of such a drain.
const leavingGraceSeconds = inventory.GraceDefaultSeconds

// drainAway begins drains that can begin, and counts machines that are on their
// way, or wait until they can be drained, and those that are ready to be given.
func (e *executor) drainAway(move string, machines []string, priority int32) (pending, ready int, err error) {
	if at := e.rails.Halted(); at != rails.Execute {
		return 0, 0, fmt.Errorf("nothing is drained: the shard does not act (%s)", at)
	}
	for _, id := range machines {
		r, there := e.inventory.Table.Lookup(id)
		if !there {
			continue
		}
		leaves := ownership.Leaves(e.inventory.Table, r, move)
		switch state := e.inventory.Table.State(r); {
		case leaves && (state == model.Draining || e.inFlight.Busy(id)):
			pending++
		case leaves && state == model.Idle:
			ready++
		case state == model.Configured && !e.inFlight.Busy(id) && !e.inventory.Table.Reservation(r).Active() && e.inventory.Table.Assigned(r).Priority < priority:
			if e.beginLeaving(r, move, priority) {
				pending++
			}
		}
	}
	return pending, ready, nil
}

// beginLeaving starts one drain, or has it wait where there is no room now, no budget is left
// or the machine is doubted; false says that it is not to be drained.
func (e *executor) beginLeaving(r columnar.Row, move string, priority int32) bool {
	id := e.inventory.Table.ID(r)
	if e.cfg.Concurrency > 0 && len(e.queue) >= cap(e.queue) || e.reconciler.doubts.missed(id) {
		return true
	}
	job := &call{kind: engine.Preempt, machine: id, grace: leavingGraceSeconds, priority: priority, before: e.inventory.StandingOf(r), began: e.pace.Now}
	a := engine.Action{Kind: engine.Preempt, Machine: r, Need: -1, GraceSeconds: leavingGraceSeconds, PreemptorPriority: priority}
	if !e.rails.AllowsDrain(a) {
		return true
	}
	if err := e.beginDrain(job, &a, ownership.LeavingFor(move, priority)); err != nil {
		e.log.Error("the machine cannot be drained for another shard", "machine", id, "error", err)
		e.rails.NotBegun([]engine.Action{a})
		return false
	}
	job.durable = e.inventory.Remember(r)
	return e.handOver(job) == nil
}
