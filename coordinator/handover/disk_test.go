package handover

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// errCrashed is what a process that is gone would hear, were there one.
var errCrashed = errors.New("the process has crashed")

// The keys under which a shard remembers what is its own.
const (
	keyDomain   = "d"
	keyGiven    = "g"
	keyReceived = "r"
	keyAdoption = "a"
)

type entry struct {
	key   string
	value []byte
}

// disk is what outlives a process of a shard: what is certainly on it, and
// after that, in order, what may or may not be when the process crashes.
type disk struct {
	kept map[string][]byte
	tail []entry
}

func newDisk() *disk { return &disk{kept: map[string][]byte{}} }

func put(m map[string][]byte, e entry) {
	if len(e.value) == 0 {
		delete(m, e.key)
	} else {
		m[e.key] = e.value
	}
}

// sync makes certain what was uncertain.
func (d *disk) sync() {
	for _, e := range d.tail {
		put(d.kept, e)
	}
	d.tail = nil
}

// mayOwn tells whether a process could find that a machine is its own, on any
// state of the disk that a crash now may leave.
func (d *disk) mayOwn(id, zone string) bool {
	view := maps.Clone(d.kept)
	if owns(view, id, zone) {
		return true
	}
	for _, e := range d.tail {
		if put(view, e); owns(view, id, zone) {
			return true
		}
	}
	return false
}

func owns(view map[string][]byte, id, zone string) bool {
	if _, gone := view[keyGiven+id]; gone {
		return false
	}
	if _, got := view[keyReceived+id]; got {
		return true
	}
	_, ours := view[keyDomain+model.KeyZone+"\x00"+zone]
	return ours
}

// memory is the way of one process to its disk.
type memory struct {
	of   *process
	live map[string][]byte
	at   uint64
}

// Set implements shard.Memory. What says who owns a machine is a point to crash
// at.
func (m *memory) Set(key string, value []byte) uint64 {
	if m.of.dead || bytes.Equal(m.live[key], value) {
		return 0
	}
	e := entry{key, bytes.Clone(value)}
	put(m.live, e)
	m.of.disk.tail = append(m.of.disk.tail, e)
	m.at++
	if slices.Contains([]string{keyDomain, keyGiven, keyReceived, keyAdoption}, key[:1]) {
		what := "remembers "
		if len(value) == 0 {
			what = "forgets "
		}
		m.of.point(what + key[:1])
	}
	return m.at
}

// Durable implements shard.Memory.
func (m *memory) Durable(context.Context, uint64) error {
	if m.of.dead {
		return errCrashed
	}
	if len(m.of.disk.tail) > 0 {
		m.of.disk.sync()
		m.of.point("is on disk")
	}
	if m.of.dead {
		return errCrashed
	}
	return nil
}

// All implements shard.Memory.
func (m *memory) All(visit func(string, []byte)) {
	for _, k := range slices.Sorted(maps.Keys(m.live)) {
		visit(k, m.live[k])
	}
}

// calls is the way of one process to the provider.
type calls struct {
	shard.Provider
	of *process
}

// call makes one that changes a machine. The shard must be sure that the machine
// is its own, and may crash before it has gone out and before the answer is in.
func (c *calls) call(op shard.Op, machine string, do func() (shard.Record, error)) (shard.Record, error) {
	p := c.of
	if !p.dead && !owns(p.memory.live, machine, p.region.zones[machine]) {
		p.region.t.Fatalf("%s: %s of machine %s, which is not its own", p.id, op, machine)
	}
	p.point("calls " + op.String())
	if p.dead {
		return shard.Record{}, errors.Join(shard.ErrUnsent, errCrashed)
	}
	r, err := do()
	p.point("has called " + op.String())
	if p.dead {
		return shard.Record{}, errors.Join(shard.ErrUncertain, errCrashed)
	}
	return r, err
}

// Create implements shard.Provider.
func (c *calls) Create(ctx context.Context, r shard.CreateRequest) (shard.Record, error) {
	return c.call(shard.OpCreate, r.Machine, func() (shard.Record, error) { return c.Provider.Create(ctx, r) })
}

// Configure implements shard.Provider.
func (c *calls) Configure(ctx context.Context, r shard.ConfigureRequest) (shard.Record, error) {
	return c.call(shard.OpConfigure, r.Machine, func() (shard.Record, error) { return c.Provider.Configure(ctx, r) })
}

// Drain implements shard.Provider.
func (c *calls) Drain(ctx context.Context, r shard.DrainRequest) (shard.Record, error) {
	return c.call(shard.OpDrain, r.Machine, func() (shard.Record, error) { return c.Provider.Drain(ctx, r) })
}

// Delete implements shard.Provider.
func (c *calls) Delete(ctx context.Context, r shard.DeleteRequest) (shard.Record, error) {
	return c.call(shard.OpDelete, r.Machine, func() (shard.Record, error) { return c.Provider.Delete(ctx, r) })
}
