package shard

import (
	"fmt"
	"log/slog"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

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

// witness is told what machines go through.
type witness interface {
	// available says that a machine is Idle or Speculative now.
	available(machine string)
	// drained says how long a drain took, in nanoseconds.
	drained(instanceType string, nanos int64)
	// bound says that a machine was bound for demand of a cluster.
	bound(cluster string, fingerprint uint64)
	// planFailed says that a drain failed, and with it all that was planned for the owner.
	planFailed(owner model.Owner)
}

// inventory is the machines of the shard: the table, and all that goes with a change of
// one machine: what is remembered of it, who is told, and what is summed up.
type inventory struct {
	table     *supply.Table
	pace      *pace
	inFlight  *inFlight
	witness   witness
	operators Operators // nil = nobody is told
	log       *slog.Logger

	tally   tally
	drains  map[string]drain // under way
	adopted rowSet           // bound machines whose stamp the provider has not been told
	prices  uint64           // how often the price of a machine has changed
	ignored int              // names of resources beyond those supported, at the last cycle
	history *history.History

	memory     Memory         // nil = nothing outlives the process
	release    engine.Release // of what idle clocks are worth remembering
	recalled   map[string]recollection
	remembered uint64 // version of the table that was kept
	scratch    []byte
}

// changing runs a change of one row and keeps the tally right.
func (v *inventory) changing(r columnar.Row, change func() error) error {
	before := v.table.Brief(r)
	if err := change(); err != nil {
		return err
	}
	after := v.table.Brief(r)
	v.tally.sub(&before)
	v.tally.add(&after)
	return nil
}

// remove takes a machine out, with everything that is remembered of it.
func (v *inventory) remove(r columnar.Row) {
	m := v.table.Brief(r)
	v.tally.sub(&m)
	delete(v.drains, m.ID)
	v.adopted.remove(r)
	delete(v.inFlight.unsure, m.ID)
	v.history.Disturbed(m.Cluster)
	v.table.Remove(m.ID)
}

// dropQuietly forgets a machine that goes on under another shard: its cluster is
// told nothing.
func (v *inventory) dropQuietly(r columnar.Row) {
	if v.memory != nil {
		v.memory.Set(memoryMachine+v.table.ID(r), nil)
	}
	v.remove(r)
}

// stamp sets what a machine is assigned to.
func (v *inventory) stamp(r columnar.Row, a model.Assignment) {
	_ = v.changing(r, func() error {
		v.table.Stamp(r, a)
		return nil
	})
}

// move makes a legal transition and everything that belongs to it: the
// deadlines of reservations, what drains and acquisitions took, who may be
// glad of the machine.
func (v *inventory) move(r columnar.Row, to model.State, cluster string) error {
	from, before, res := v.table.State(r), v.table.Cluster(r), v.table.Reservation(r)
	err := v.changing(r, func() error { return v.table.Transition(r, to, cluster, v.pace.now) })
	if err != nil {
		return err
	}
	id := v.table.ID(r)
	if !to.Bound() {
		v.adopted.remove(r)
	}
	switch to {
	case model.Idle:
		v.arrivedIdle(r, id, from)
		v.witness.available(id)
	case model.Speculative:
		v.witness.available(id)
	case model.Configured:
		v.table.Reserve(r, model.Reservation{})
		v.witness.bound(v.table.Cluster(r), v.table.Assigned(r).Fingerprint)
	case model.Failed:
		v.history.Disturbed(before)
		delete(v.drains, id)
		if from == model.Draining {
			v.drainFailed(&res)
		}
	}
	v.tell(r, before)
	return nil
}

// arrivedIdle starts the clock of a reservation that outlives the transition.
func (v *inventory) arrivedIdle(r columnar.Row, id string, from model.State) {
	d, known := v.drains[id]
	delete(v.drains, id)
	res := v.table.Reservation(r)
	switch from {
	case model.Creating:
		res.Deadline = v.pace.now + CreatedHold
	case model.Draining:
		res.Deadline = v.pace.now + 2*int64(d.grace())*1e9
		if known && d.started != 0 {
			v.witness.drained(v.table.Brief(r).InstanceType, v.pace.now-d.started)
		}
	default:
		return
	}
	if res.Active() {
		v.table.Reserve(r, res)
	}
}

func (d drain) grace() int32 {
	if d.graceSeconds <= 0 {
		return graceDefaultSeconds
	}
	return d.graceSeconds
}

// fail makes a machine Failed and says why.
func (v *inventory) fail(r columnar.Row, why error) error {
	if err := v.move(r, model.Failed, ""); err != nil {
		return fmt.Errorf("after %q: %w", why.Error(), err)
	}
	v.table.SetError(r, why.Error())
	v.tell(r, "") // once more, with the reason
	return nil
}

// noteIgnored logs that machines offer more resources than decisions take account
// of, when the number of these has changed.
func (v *inventory) noteIgnored() {
	names := v.table.Ignored()
	if len(names) == v.ignored {
		return
	}
	if v.ignored = len(names); v.ignored > 0 {
		v.log.Warn("machines offer more resources than are supported; the first by name count, the others are ignored",
			"ignored", len(names), "first", names[0], "supported", model.OfferedNamesMax)
	} else {
		v.log.Info("machines offer no more resources than are supported", "supported", model.OfferedNamesMax)
	}
}

// count returns the number of machines in each state.
func (v *inventory) count() (out [model.NumStates]int) {
	for st := range out {
		out[st] = v.table.Count(model.State(st))
	}
	return out
}
