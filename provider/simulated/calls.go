package simulated

import (
	"context"
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/stamps"
)

// Create starts turning a quota slot into a machine.
func (f *Fleet) Create(_ context.Context, req shard.CreateRequest) (shard.Record, error) {
	return f.call(shard.OpCreate, req.Machine, func(e *entry) { e.metadata = req.Metadata })
}

// Configure starts binding an idle machine to a cluster.
func (f *Fleet) Configure(_ context.Context, req shard.ConfigureRequest) (shard.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Cluster == "" {
		return shard.Record{}, fmt.Errorf("configure machine %q: without a cluster: %w", req.Machine, ErrPosition)
	}
	if i, ok := f.byID[req.Machine]; ok {
		if m := &f.entries[i].machine; m.State.Bound() && m.Cluster != req.Cluster {
			return shard.Record{}, fmt.Errorf("configure machine %q for cluster %q: it is bound to %q: %w", m.ID, req.Cluster, m.Cluster, ErrPosition)
		}
	}
	return f.locked(shard.OpConfigure, req.Machine, func(e *entry) {
		e.machine.Cluster = req.Cluster
		e.metadata = req.Metadata
	})
}

// Drain starts taking a machine out of its cluster.
func (f *Fleet) Drain(_ context.Context, req shard.DrainRequest) (shard.Record, error) {
	return f.call(shard.OpDrain, req.Machine, func(e *entry) {
		if req.Metadata != nil {
			e.metadata = req.Metadata
		}
	})
}

// Delete starts giving an idle machine back.
func (f *Fleet) Delete(_ context.Context, req shard.DeleteRequest) (shard.Record, error) {
	return f.call(shard.OpDelete, req.Machine, func(*entry) {})
}

func (f *Fleet) call(op shard.Op, id string, accept func(*entry)) (shard.Record, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.locked(op, id, accept)
}

// locked starts a transition; accept notes what the call brought with it.
func (f *Fleet) locked(op shard.Op, id string, accept func(*entry)) (shard.Record, error) {
	i, ok := f.byID[id]
	if !ok {
		return shard.Record{}, fmt.Errorf("%s machine %q: %w", op, id, ErrNotFound)
	}
	e, t := &f.entries[i], transitions[op]
	switch {
	case e.repeats(op):
		return f.record(i), nil
	case e.machine.State != t.from:
		return shard.Record{}, fmt.Errorf("%s machine %q in state %s: %w", op, id, e.machine.State, ErrPosition)
	}
	fails, late := f.fails(op, id)
	if fails && !late {
		f.fail(i, op.String()+": "+ErrInjected.Error())
		return shard.Record{}, fmt.Errorf("%s machine %q: %w", op, id, ErrInjected)
	}
	e.op, e.doomed = op, fails
	e.machine.State = t.during
	e.machine.IdleSince = 0
	accept(e)
	f.touch(i)
	if nanos := f.begin(i, op); nanos > 0 {
		f.schedule(i, op, nanos)
	} else {
		f.complete(i, op, f.now)
	}
	return f.record(i), nil
}

// repeats tells whether a call asks for what the last one asked for, and which
// is under way or done. Of a machine to which nothing was done here only the
// state is known.
func (e *entry) repeats(op shard.Op) bool {
	t := transitions[op]
	return e.machine.State == t.during || e.machine.State == t.to && (e.op == op || e.op == shard.OpAny)
}

// fail makes a machine Failed.
func (f *Fleet) fail(i int32, why string) {
	e := &f.entries[i]
	e.due, e.doomed = 0, false
	e.machine.State = model.Failed
	e.machine.LastError = why
	e.machine.IdleSince = 0
	e.metadata = nil
	f.touch(i)
}

// complete ends a transition.
func (f *Fleet) complete(i int32, op shard.Op, at int64) {
	e := &f.entries[i]
	switch {
	case e.doomed:
		f.fail(i, op.String()+": "+ErrInjected.Error())
		return
	case op == shard.OpConfigure && e.machine.Cluster == "":
		f.fail(i, "Configure: for no cluster")
		return
	}
	e.due = 0
	e.machine.State = transitions[op].to
	switch op {
	case shard.OpCreate:
		e.machine.Host = hostOf(e.machine.ID)
		e.machine.IdleSince = at
	case shard.OpDrain:
		e.machine.Cluster = ""
		e.machine.IdleSince = at
		e.metadata = ownKeys(e.metadata)
	case shard.OpDelete:
		e.machine.Host = ""
		e.metadata = nil
	}
	f.touch(i)
}

// ownKeys keeps, of a drained machine's metadata, the reservation.
func ownKeys(metadata map[string]string) map[string]string {
	var out map[string]string
	for k, v := range metadata {
		if !strings.HasPrefix(k, stamps.ReservationPrefix) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[k] = v
	}
	return out
}
