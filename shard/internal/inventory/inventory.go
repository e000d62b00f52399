// Package inventory is the machines of a shard, and all that goes with a change of one.
package inventory

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/history"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/pace"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

// CreatedHold is how long a machine that was created for a Need stays its own
// after it turned Idle, in nanoseconds.
const CreatedHold = int64(600e9)

// GraceDefaultSeconds is the grace of a drain whose own is not known any more.
const GraceDefaultSeconds = 600

// drain is what the shard remembers of a machine that is being drained.
type drain struct {
	started      int64 // Unix nanoseconds, 0 = before this process
	graceSeconds int32
}

// Witness is told what machines go through.
type witness interface {
	// Available says that a machine is free now: it is Idle or Speculative, or was Idle and held for a
	// Need until now. Or that it is Configured and serves a lower priority than before.
	Available(machine string)
	// Drained says how long a drain took, in nanoseconds.
	Drained(instanceType string, nanos int64)
	// Bound says that a machine was bound for demand of a cluster: it is Configured now.
	Bound(machine, cluster string, fingerprint uint64)
	// PlanFailed says that a drain failed, and with it all that was planned for the owner.
	PlanFailed(owner model.Owner)
}

// Listener gets the changes of machines, for the operators of their clusters. Its methods never
// block, and never call the shard.
type Listener interface {
	// Connected tells whether anybody of the cluster listens.
	Connected(cluster string) bool
	// NodeState queues the news of one machine.
	NodeState(u NodeState)
}

// Inventory is the machines of the shard: the table, and all that goes with a change of
// one machine: what is remembered of it, who is told, and what is summed up.
type Inventory struct {
	Table    *supply.Table
	pace     *pace.Pace
	inFlight *InFlight
	witness  witness
	listener Listener // nil = nobody is told
	// countedFor is what a machine with such a stamp is counted for.
	countedFor func(model.Assignment) string
	log        *slog.Logger

	Tally   tally.Machines
	drains  map[string]drain // under way
	adopted columnar.RowSet  // bound machines whose stamp the provider has not been told
	grouped columnar.RowSet  // bound machines of which an operator was told that they are counted for a group
	rowed   columnar.RowSet  // and for a row; it was told of others that nobody can tell
	prices  uint64           // how often the price of a machine has changed
	ignored int              // names of resources beyond those supported, at the last cycle
	History *history.History

	memory     memory.Memory  // nil = nothing outlives the process
	release    engine.Release // of what idle clocks are worth remembering
	recalled   map[string]recollection
	remembered uint64 // version of the table that was kept
	scratch    []byte
}

// Deps is what an inventory needs and tells.
type Deps struct {
	Table    *supply.Table
	Pace     *pace.Pace
	InFlight *InFlight
	Witness  witness
	Listener Listener // nil = nobody is told
	// CountedFor is the value of model.LabelCountedFor of a bound machine with such a stamp.
	CountedFor func(model.Assignment) string
	Memory     memory.Memory // nil = nothing outlives the process
	Release    engine.Release
	Log        *slog.Logger
}

// New returns an inventory around a table, which nobody else may change.
func New(d *Deps) *Inventory {
	return &Inventory{
		Table: d.Table, pace: d.Pace, inFlight: d.InFlight, witness: d.Witness, listener: d.Listener, countedFor: d.CountedFor, log: d.Log,
		drains: map[string]drain{}, History: history.New(d.Table),
		memory: d.Memory, release: d.Release, recalled: map[string]recollection{},
	}
}

// Changing runs a change of one row and keeps the tally right.
func (v *Inventory) Changing(r columnar.Row, change func() error) error {
	before, wasSlot := v.Table.Brief(r), v.Table.IsLateBound(r)
	if err := change(); err != nil {
		return err
	}
	after := v.Table.Brief(r)
	v.Tally.Sub(&before, wasSlot)
	v.Tally.Add(&after, v.Table.IsLateBound(r))
	return nil
}

// Put takes in a machine that is not in the table, tells of it, and returns its row. labels is
// that of supply.Table.PutShared.
func (v *Inventory) Put(m *model.Machine, labels uint64) (columnar.Row, error) {
	r, err := v.Table.PutShared(m, labels)
	if err != nil {
		return columnar.None, err
	}
	v.Tally.Add(m, m.IsLateBound())
	if m.State == model.Idle || m.State == model.Speculative {
		v.witness.Available(m.ID)
	}
	v.Tell(r, "")
	return r, nil
}

// Adopts notes that a bound machine has a stamp which the provider has not been told.
func (v *Inventory) Adopts(r columnar.Row) { v.adopted.Add(r) }

// IsAdopted tells whether the provider has not been told the stamp of a machine.
func (v *Inventory) IsAdopted(r columnar.Row) bool { return v.adopted.Has(r) }

// PriceChanges notes that the price of a machine changes.
func (v *Inventory) PriceChanges() { v.prices++ }

// PriceVersion is another number whenever a price has changed.
func (v *Inventory) PriceVersion() uint64 { return v.prices }

// DrainBegins notes that a machine is being drained from now on.
func (v *Inventory) DrainBegins(machine string, graceSeconds int32) {
	v.drains[machine] = drain{started: v.pace.Now, graceSeconds: graceSeconds}
}

// KnowGrace notes the grace of a drain that began before this process; 0 = nobody knows it.
func (v *Inventory) KnowGrace(machine string, graceSeconds int32) {
	if d, known := v.drains[machine]; graceSeconds != 0 || !known {
		v.drains[strings.Clone(machine)] = drain{started: d.started, graceSeconds: graceSeconds}
	}
}

// Remove takes a machine out, with everything that is remembered of it.
func (v *Inventory) Remove(r columnar.Row) {
	m := v.Table.Brief(r)
	v.Tally.Sub(&m, v.Table.IsLateBound(r))
	delete(v.drains, m.ID)
	v.adopted.Remove(r)
	v.toldCount(r, "")
	v.inFlight.Certain(m.ID)
	v.History.Disturbed(m.Cluster)
	v.Table.Remove(m.ID)
}

// DropQuietly forgets a machine that goes on under another shard: its cluster is
// told nothing.
func (v *Inventory) DropQuietly(r columnar.Row) {
	if v.memory != nil {
		v.memory.Set(memory.Machine+v.Table.ID(r), nil)
	}
	v.Remove(r)
}

// Stamp sets what a machine is assigned to, and tells the operator of its cluster if it is counted for something else now.
func (v *Inventory) Stamp(r columnar.Row, a model.Assignment) {
	_ = v.Changing(r, func() error {
		v.Table.Stamp(r, a)
		return nil
	})
	v.recount(r)
}

// Move makes a legal transition and everything that belongs to it: the
// deadlines of reservations, what drains and acquisitions took, who may be
// glad of the machine.
func (v *Inventory) Move(r columnar.Row, to model.State, cluster string) error {
	from, before, res := v.Table.State(r), v.Table.Cluster(r), v.Table.Reservation(r)
	err := v.Changing(r, func() error { return v.Table.Transition(r, to, cluster, v.pace.Now) })
	if err != nil {
		return err
	}
	id := v.Table.ID(r)
	if !to.Bound() {
		v.adopted.Remove(r)
		v.toldCount(r, "")
	}
	switch to {
	case model.Idle:
		v.arrivedIdle(r, id, from)
		v.witness.Available(id)
	case model.Speculative:
		v.witness.Available(id)
	case model.Configured:
		v.Table.Reserve(r, model.Reservation{})
		v.witness.Bound(id, v.Table.Cluster(r), v.Table.Assigned(r).Fingerprint)
	case model.Failed:
		v.History.Disturbed(before)
		delete(v.drains, id)
		if from == model.Draining {
			v.drainFailed(&res)
		}
	}
	v.Tell(r, before)
	return nil
}

// arrivedIdle starts the clock of a reservation that outlives the transition.
func (v *Inventory) arrivedIdle(r columnar.Row, id string, from model.State) {
	d, known := v.drains[id]
	delete(v.drains, id)
	res := v.Table.Reservation(r)
	switch from {
	case model.Creating:
		res.Deadline = v.pace.Now + CreatedHold
	case model.Draining:
		res.Deadline = v.pace.Now + 2*int64(d.grace())*1e9
		if known && d.started != 0 {
			v.witness.Drained(v.Table.Brief(r).InstanceType, v.pace.Now-d.started)
		}
	default:
		return
	}
	if res.Active() {
		v.Table.Reserve(r, res)
	}
}

func (d drain) grace() int32 {
	if d.graceSeconds <= 0 {
		return GraceDefaultSeconds
	}
	return d.graceSeconds
}

// Fail makes a machine Failed and says why.
func (v *Inventory) Fail(r columnar.Row, why error) error {
	if err := v.Move(r, model.Failed, ""); err != nil {
		return fmt.Errorf("after %q: %w", why.Error(), err)
	}
	v.Table.SetError(r, why.Error())
	v.Tell(r, "") // once more, with the reason
	return nil
}

// NoteIgnored logs that machines offer more resources than decisions take account
// of, when the number of these has changed.
func (v *Inventory) NoteIgnored() {
	names := v.Table.Ignored()
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

// Count returns the number of machines in each state.
func (v *Inventory) Count() (out [model.NumStates]int) {
	for st := range out {
		out[st] = v.Table.Count(model.State(st))
	}
	return out
}
