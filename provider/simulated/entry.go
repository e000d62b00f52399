package simulated

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Entry is everything that a fleet knows of one machine: what Restore needs to
// go on where another fleet was.
type Entry struct {
	// Slot numbers the machine, from 0. It stays while the machine is in the
	// fleet, and may then be another's. Restore does not read it.
	Slot     int
	Machine  model.Machine
	Metadata map[string]string // shared; must not be modified
	Revision uint64            // of the last change, ≥ 1; no two machines share one
	// Op is the transition that began last, OpAny when none did; Transition is
	// its number.
	Op         shard.Op
	Transition uint64
	Due        int64 // when the transition under way ends, Unix nanoseconds; 0 = none is
	Doomed     bool  // it ends in Failed
}

// Operation names the transition of an entry: calls that ask for the same work
// get the same name.
func (e *Entry) Operation() string {
	return fmt.Sprintf("%s-%d", e.Op, e.Transition)
}

// Counters are what a fleet has counted beside its entries.
type Counters struct {
	Instance   uint64 // tells its cursors from other fleets'
	Revision   uint64 // of the last change
	Forgotten  uint64 // of the last removal: older cursors get everything
	Transition uint64 // number of the last transition
}

// Counters returns the fleet's counters.
func (f *Fleet) Counters() Counters {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := Counters{Instance: f.instance, Revision: f.revision, Forgotten: f.forgotten, Transition: f.transition}
	if n := len(f.tombstones); n > 0 {
		c.Forgotten = f.tombstones[n-1].revision
	}
	return c
}

// Restore returns a fleet that goes on where another was: transitions under way
// end when they would have, cursors stay good. cfg.Machines is not read. The
// error names every entry that is refused.
func Restore(cfg Config, entries []Entry, was Counters) (*Fleet, error) {
	cfg.Machines = nil
	f, err := New(cfg)
	if err != nil {
		return nil, err
	}
	f.instance, f.revision, f.forgotten, f.transition = was.Instance, was.Revision, was.Forgotten, was.Transition
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.Revision < b.Revision {
			return -1
		}
		return 1
	})
	var faults []error
	last := uint64(0)
	f.entries = make([]entry, 0, len(entries))
	for k := range entries {
		e := &entries[k]
		if err := f.putBack(e, last); err != nil {
			faults = append(faults, fmt.Errorf("machine %q: %w", e.Machine.ID, err))
			continue
		}
		last = e.Revision
	}
	return f, errors.Join(faults...)
}

// putBack adds an entry behind those of lower revisions.
func (f *Fleet) putBack(e *Entry, last uint64) error {
	switch _, there := f.byID[e.Machine.ID]; {
	case there:
		return errors.New("is there twice")
	case e.Revision <= last || e.Revision > f.revision:
		return fmt.Errorf("revision %d must be above the last machine's %d, and at most the fleet's %d", e.Revision, last, f.revision)
	case e.Transition > f.transition || int(e.Op) >= shard.NumOps:
		return fmt.Errorf("%s is no transition of this fleet, which has begun %d", e.Operation(), f.transition)
	}
	if err := e.Machine.Validate(true); err != nil {
		return err
	}
	i := int32(len(f.entries))
	f.entries = append(f.entries, entry{
		machine: e.Machine, metadata: e.Metadata, revision: e.Revision, prev: none, next: f.newest,
		started: e.Transition, due: e.Due, op: e.Op, doomed: e.Doomed, live: true,
	})
	if f.newest != none {
		f.entries[f.newest].prev = i
	}
	f.newest = i
	f.byID[e.Machine.ID] = i
	if op, ok := underWay(e.Machine.State); ok {
		f.scheduleAt(i, op, e.Due)
	}
	return nil
}

// Changed calls yield with every machine that changed since a revision, newest
// change first, until it returns false. The entry is used again for the next
// one.
func (f *Fleet) Changed(since uint64, yield func(*Entry) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var e Entry
	for i := f.newest; i != none && f.entries[i].revision > since; i = f.entries[i].next {
		if e = f.entry(i); !yield(&e) {
			return
		}
	}
}

// Entry returns what the fleet knows of one machine.
func (f *Fleet) Entry(id string) (Entry, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.byID[id]
	if !ok {
		return Entry{}, false
	}
	return f.entry(i), true
}

func (f *Fleet) entry(i int32) Entry {
	e := &f.entries[i]
	return Entry{
		Slot: int(i), Machine: e.machine, Metadata: e.metadata, Revision: e.revision,
		Op: e.op, Transition: e.started, Due: e.due, Doomed: e.doomed,
	}
}

// Cursor returns the cursor of what the fleet is now.
func (f *Fleet) Cursor() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.encodeRevision()
}

// CursorAfter returns the cursor of a listing that went only as far as a revision: what
// changed after it has yet to be listed. It stays good until a machine is removed.
func (f *Fleet) CursorAfter(revision uint64) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, f.instance), revision)
	return binary.BigEndian.AppendUint64(b, f.revision)
}

// Since returns the revision of a cursor, and whether what changed since then
// is all that a listing has to say: not of an empty, foreign or too old one, nor
// when a machine was removed since the cursor was given out.
func (f *Fleet) Since(cursor []byte) (uint64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, given, ok := f.decodeRevision(cursor)
	if n := len(f.tombstones); ok && n > 0 && given < f.tombstones[n-1].revision {
		return 0, false
	}
	return r, ok
}
