package store

import (
	"context"
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
)

// Do carries out a call. The error wraps shard.ErrFenced, simulated.ErrNotFound,
// simulated.ErrPosition, simulated.ErrInjected, c.Invalid, ErrFull, ErrBroken, ErrClosed
// or ctx's; only with the last the call may be carried out all the same.
func (s *Store) Do(ctx context.Context, c *calls.Call) (calls.Answer, error) {
	var out calls.Answer
	err := s.submit(ctx, func(s *Store) error {
		e, err := s.carryOut(ctx, c)
		if err != nil {
			return err
		}
		value, n := appendEntry(nil, &e)
		out = calls.Answer{Operation: e.Operation(), Machine: wire.MachineOf(value[:n])}
		return nil
	})
	if err != nil {
		return calls.Answer{}, err
	}
	return out, nil
}

func (s *Store) carryOut(ctx context.Context, c *calls.Call) (simulated.Entry, error) {
	if err := ctx.Err(); err != nil { // the caller has gone, and will not know
		return simulated.Entry{}, err
	}
	if err := s.fence.Admit(c); err != nil {
		return simulated.Entry{}, err
	}
	if _, ok := s.fleet.Entry(c.Machine); !ok {
		return simulated.Entry{}, fmt.Errorf("%s machine %q: %w", c.Op, c.Machine, simulated.ErrNotFound)
	}
	if c.Invalid != nil {
		return simulated.Entry{}, c.Invalid
	}
	var err error
	switch c.Op {
	case shard.OpCreate:
		_, err = s.fleet.Create(ctx, shard.CreateRequest{Machine: c.Machine})
	case shard.OpConfigure:
		_, err = s.fleet.Configure(ctx, shard.ConfigureRequest{Machine: c.Machine, Cluster: c.Cluster, Metadata: c.Metadata})
	case shard.OpDrain:
		_, err = s.fleet.Drain(ctx, shard.DrainRequest{Machine: c.Machine})
	default:
		_, err = s.fleet.Delete(ctx, shard.DeleteRequest{Machine: c.Machine})
	}
	if err != nil {
		return simulated.Entry{}, err
	}
	e, _ := s.fleet.Entry(c.Machine)
	return e, nil
}

// List returns a bigfleet.v1alpha1.MachineList, and whether it is everything
// there is, but for the filter. A list that Max cuts off holds the machines that
// changed first, and its cursor goes on behind them.
func (s *Store) List(f calls.ListFilter) (msg []byte, full bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.closed(); err != nil {
		return nil, false, err
	}
	var wanted [model.NumStates]bool
	for i := range wanted {
		wanted[i] = len(f.States) == 0
	}
	for _, x := range f.States {
		wanted[x] = true
	}
	since, incremental := s.fleet.Since(f.Since)
	var listed []change // newest first
	if !incremental {
		listed = make([]change, 0, s.fleet.Len())
	}
	s.fleet.Changed(since, func(e *simulated.Entry) bool {
		if wanted[s.items[e.Slot].state] {
			listed = append(listed, change{e.Slot, e.Revision})
		}
		return true
	})
	cursor := s.fleet.Cursor()
	if over := len(listed) - f.Max; f.Max > 0 && over > 0 {
		listed = listed[over:]
		cursor = s.fleet.CursorAfter(listed[0].revision)
	}
	size := 0
	for _, c := range listed {
		size += len(s.items[c.slot].record)
	}
	msg = make([]byte, 0, size+len(cursor)+8)
	for _, c := range listed {
		msg = append(msg, s.items[c.slot].record...)
	}
	return wire.AppendRevision(msg, cursor), !incremental, nil
}

// change is a machine in the order of changes.
type change struct {
	slot     int
	revision uint64
}

// Get returns a bigfleet.v1alpha1.Machine, which must not be changed.
func (s *Store) Get(id string) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if err := s.closed(); err != nil {
		return nil, err
	}
	e, ok := s.fleet.Entry(id)
	if !ok {
		return nil, fmt.Errorf("get machine %q: %w", id, simulated.ErrNotFound)
	}
	return wire.MachineOf(s.items[e.Slot].record), nil
}

// closed says why nothing is answered any more, nil = it is.
func (s *Store) closed() error {
	if s.fault != nil {
		return s.fault
	}
	select {
	case <-s.stop:
		return calls.ErrClosed
	default:
		return nil
	}
}
