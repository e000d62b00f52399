package store

import (
	"context"
	"fmt"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider"
	"github.com/tonnage/tonnage/shard/provider/epoch"
	"github.com/tonnage/tonnage/shard/provider/wire"
)

// Call is one of the four calls that change a machine.
type Call struct {
	Op       shard.Op
	Machine  string
	Cluster  string            // Configure only
	Metadata map[string]string // Configure only; must not be changed afterwards
	// Shard and Token say who calls; all zero bypasses the fence.
	Shard string
	Token epoch.Token
	// WholeShard has the epoch be no lower than any that passed for the shard, whatever the
	// machine; else the fence is that of the machine alone.
	WholeShard bool
	// Invalid is what is wrong with the other arguments, nil = nothing. It refuses
	// the call after the token and the machine's id were looked at.
	Invalid error
}

// Answer is what a call returns.
type Answer struct {
	Operation string
	Machine   []byte // bigfleet.v1alpha1.Machine; must not be changed
}

// Do carries out a call. The error wraps shard.ErrFenced, provider.ErrNotFound,
// provider.ErrPosition, provider.ErrInjected, c.Invalid, ErrFull, ErrBroken, ErrClosed
// or ctx's; only with the last the call may be carried out all the same.
func (s *Store) Do(ctx context.Context, c *Call) (Answer, error) {
	var out Answer
	err := s.submit(ctx, func(s *Store) error {
		e, err := s.carryOut(ctx, c)
		if err != nil {
			return err
		}
		value, n := appendEntry(nil, &e)
		out = Answer{Operation: e.Operation(), Machine: wire.MachineOf(value[:n])}
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	return out, nil
}

func (s *Store) carryOut(ctx context.Context, c *Call) (provider.Entry, error) {
	if err := ctx.Err(); err != nil { // the caller has gone, and will not know
		return provider.Entry{}, err
	}
	if err := s.admit(c); err != nil {
		return provider.Entry{}, err
	}
	if _, ok := s.fleet.Entry(c.Machine); !ok {
		return provider.Entry{}, fmt.Errorf("%s machine %q: %w", c.Op, c.Machine, provider.ErrNotFound)
	}
	if c.Invalid != nil {
		return provider.Entry{}, c.Invalid
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
		return provider.Entry{}, err
	}
	e, _ := s.fleet.Entry(c.Machine)
	return e, nil
}

// admit lets calls pass that are newer than all that passed before, and notes
// that they did.
func (s *Store) admit(c *Call) error {
	if c.Shard == "" && c.Token == (epoch.Token{}) {
		return nil
	}
	key := markKey{c.Shard, c.Machine}
	last, known := s.marks[key]
	t := c.Token
	if known && (t.Epoch < last.Epoch || t.Epoch == last.Epoch && t.Sequence <= last.Sequence) {
		return fmt.Errorf("%s machine %q for shard %q with epoch %d, sequence %d, which is not newer than epoch %d, sequence %d: %w",
			c.Op, c.Machine, c.Shard, t.Epoch, t.Sequence, last.Epoch, last.Sequence, shard.ErrFenced)
	}
	if newest := s.epochs[c.Shard]; c.WholeShard && t.Epoch < newest {
		return fmt.Errorf("%s machine %q for shard %q with epoch %d, of which epoch %d has been seen: %w", c.Op, c.Machine, c.Shard, t.Epoch, newest, shard.ErrFenced)
	}
	if !known && len(s.marks) >= MarksMax {
		return ErrFull
	}
	s.mark(key, t)
	s.fresh[key] = t
	return nil
}

// mark notes that a token has passed.
func (s *Store) mark(key markKey, t epoch.Token) {
	s.marks[key] = t
	s.epochs[key.shard] = max(s.epochs[key.shard], t.Epoch)
}

// ListFilter says what to list.
type ListFilter struct {
	Since  []byte        // a cursor; empty, foreign or too old lists everything
	States []model.State // empty = all
	Max    int           // records at most, 0 = all
}

// List returns a bigfleet.v1alpha1.MachineList, and whether it is everything
// there is, but for the filter. A list that Max cuts off holds the machines that
// changed first, and its cursor goes on behind them.
func (s *Store) List(f ListFilter) (msg []byte, full bool, err error) {
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
	s.fleet.Changed(since, func(e *provider.Entry) bool {
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
		return nil, fmt.Errorf("get machine %q: %w", id, provider.ErrNotFound)
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
		return ErrClosed
	default:
		return nil
	}
}
