package simulated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/stamps"
)

// TombstonesMax is how many removals a fleet remembers for cursors.
const TombstonesMax = 1 << 16

// The errors of calls.
var (
	ErrNotFound = calls.ErrNotFound
	ErrPosition = calls.ErrPosition
	// ErrInjected is returned for a call that was told to fail.
	ErrInjected = errors.New("injected fault")
)

// Config is what a fleet is made with.
type Config struct {
	Machines  []model.Machine
	Latencies Latencies
	Faults    []Fault
	Seed      uint64
	Now       int64 // Unix nanoseconds
}

// none marks the end of the list of changes.
const none = -1

// entry is one machine with its place in the list of changes.
type entry struct {
	machine    model.Machine
	metadata   map[string]string
	revision   uint64
	prev, next int32
	// started numbers the transition under way; a pending completion with
	// another number is void.
	started uint64
	due     int64    // when the transition under way ends, 0 = none is
	op      shard.Op // of the transition that began last; OpAny = none since the machine is here
	doomed  bool     // the transition under way ends in Failed
	live    bool
}

type tombstone struct {
	id       string
	revision uint64
}

// Fleet is a provider whose machines live in memory. Safe for concurrent use.
type Fleet struct {
	mu         sync.Mutex
	entries    []entry
	byID       map[string]int32
	free       []int32
	newest     int32 // head of the list of changes
	revision   uint64
	instance   uint64 // tells cursors of this fleet from others
	tombstones []tombstone
	forgotten  uint64 // revision of the newest tombstone that was dropped
	pending    completions
	transition uint64
	now        int64
	latencies  Latencies
	faults     []fault
	rng        *rand.Rand
	encoder    stamps.Encoder
}

// New returns a fleet that holds the machines. Machines that should have a
// host and name none get one. Those in a transitional state complete it after
// the latency of that transition, counted from cfg.Now. The error names every
// machine that is refused.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{
		byID: make(map[string]int32, len(cfg.Machines)), newest: none, now: cfg.Now,
		latencies: cfg.Latencies, rng: rand.New(rand.NewPCG(cfg.Seed, 0x70726f7669646572)),
	}
	f.instance = f.rng.Uint64() | 1
	var faults []error
	if err := cfg.Latencies.Validate(); err != nil {
		faults = append(faults, err)
	}
	for i := range cfg.Faults {
		if err := f.addFault(cfg.Faults[i]); err != nil {
			faults = append(faults, fmt.Errorf("faults[%d]: %w", i, err))
		}
	}
	f.entries = make([]entry, 0, len(cfg.Machines))
	for i := range cfg.Machines {
		if err := f.put(&cfg.Machines[i]); err != nil {
			faults = append(faults, fmt.Errorf("machines[%d]: %w", i, err))
		}
	}
	return f, errors.Join(faults...)
}

// put adds a machine.
func (f *Fleet) put(m *model.Machine) error {
	if _, ok := f.byID[m.ID]; ok {
		return fmt.Errorf("machine %q is already there", m.ID)
	}
	if err := m.Validate(false); err != nil {
		return err
	}
	var i int32
	if n := len(f.free); n > 0 {
		i, f.free = f.free[n-1], f.free[:n-1]
	} else {
		i = int32(len(f.entries))
		f.entries = append(f.entries, entry{})
	}
	e := &f.entries[i]
	*e = entry{machine: *m, prev: none, next: none, live: true, started: e.started}
	// What the shard stamped travels as metadata, as it would with any provider.
	e.metadata = f.encoder.Encode(stamps.Echo{Assigned: m.Assigned, Reservation: m.Reservation})
	e.machine.Assigned, e.machine.Reservation = model.Assignment{}, model.Reservation{}
	if e.machine.Host == "" && hosted(m.State) {
		e.machine.Host = hostOf(m.ID)
	}
	f.byID[m.ID] = i
	f.touch(i)
	if op, ok := underWay(m.State); ok {
		e.op = op
		f.schedule(i, op, f.begin(i, op))
	}
	return nil
}

// hosted tells whether a machine in the state must have a host.
func hosted(s model.State) bool {
	switch s {
	case model.Idle, model.Configuring, model.Configured, model.Draining, model.Deleting:
		return true
	}
	return false
}

func hostOf(id string) string { return "host-" + id }

// touch gives the entry the next revision and moves it to the head of the list
// of changes.
func (f *Fleet) touch(i int32) {
	f.revision++
	e := &f.entries[i]
	e.revision = f.revision
	if f.newest == i {
		return
	}
	f.unlink(i)
	e.prev, e.next = none, f.newest
	if f.newest != none {
		f.entries[f.newest].prev = i
	}
	f.newest = i
}

func (f *Fleet) unlink(i int32) {
	e := &f.entries[i]
	if e.prev != none {
		f.entries[e.prev].next = e.next
	} else if f.newest == i {
		f.newest = e.next
	}
	if e.next != none {
		f.entries[e.next].prev = e.prev
	}
	e.prev, e.next = none, none
}

// List returns the machines that changed since a revision of this fleet,
// newest change first, or all of them.
func (f *Fleet) List(_ context.Context, req shard.ListRequest) (shard.ListResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, _, known := f.decodeRevision(req.SinceRevision)
	out := shard.ListResponse{Revision: f.encodeRevision(), Full: !known}
	if out.Full {
		out.Records = make([]shard.Record, 0, len(f.byID))
	}
	for i := f.newest; i != none && (!known || f.entries[i].revision > since); i = f.entries[i].next {
		out.Records = append(out.Records, f.record(i))
	}
	if known {
		for k := len(f.tombstones) - 1; k >= 0 && f.tombstones[k].revision > since; k-- {
			// The id may be in use again: then it is in Records.
			if _, back := f.byID[f.tombstones[k].id]; !back {
				out.Removed = append(out.Removed, f.tombstones[k].id)
			}
		}
	}
	return out, nil
}

func (f *Fleet) record(i int32) shard.Record {
	return shard.Record{Machine: f.entries[i].machine, Metadata: f.entries[i].metadata}
}

func (f *Fleet) encodeRevision() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, f.instance), f.revision)
}

// decodeRevision returns the revision of a cursor, the one at which the cursor was given
// out (a later one if the listing was cut off), and whether an incremental answer to
// it is possible.
func (f *Fleet) decodeRevision(b []byte) (revision, given uint64, ok bool) {
	if len(b) != 16 && len(b) != 24 || binary.BigEndian.Uint64(b) != f.instance {
		return 0, 0, false
	}
	revision = binary.BigEndian.Uint64(b[8:])
	given = revision
	if len(b) == 24 {
		given = binary.BigEndian.Uint64(b[16:])
	}
	return revision, given, revision <= given && given <= f.revision && given >= f.forgotten
}

// Get returns what the fleet says of one machine.
func (f *Fleet) Get(id string) (shard.Record, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.byID[id]
	if !ok {
		return shard.Record{}, false
	}
	return f.record(i), true
}

// Len returns the number of machines.
func (f *Fleet) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byID)
}
