package provider

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/wire"
	"github.com/tonnage/tonnage/shard"
)

// none marks the end of the list of changes.
const none = -1

// row is one listed machine or slot.
type row struct {
	id       string
	offer    *offer
	rec      *record // nil = a slot that was never anything else
	listed   []byte  // the record of listings; nil = made of the offer's body
	withheld bool    // a slot for which the limits leave no room
	place    int     // in offer.free, −1 = it is no slot
	kept     int     // in table.kept, −1 = it has no record

	revision   uint64
	prev, next int32 // in the order of changes, newest first

	// Of the rounds; nothing of it is kept over a restart.
	busy       bool   // a verb is under way
	erased     uint64 // the newest generation whose Delete the driver has accepted
	askedRound uint64 // the newest round that had begun when the driver accepted a verb
	missing    int    // rounds in a row, after askedRound, in which it was not observed
	tries      int    // verbs that ended in a transient error, in a row
	retry      time.Time
	trouble    string // the last transient error
	blob       []byte // of the Configure under way
}

// table is all rows in the order of their last change.
type table struct {
	rows     []row
	byID     map[string]int32
	unused   []int32 // places of rows
	kept     []int32 // rows that have a record, in no order
	newest   int32
	revision uint64
	removed  uint64 // revision of the last removal
	instance uint64 // tells cursors of this process from others
	states   [model.NumStates]int
}

func newTable(instance uint64) *table {
	return &table{byID: map[string]int32{}, newest: none, instance: instance}
}

// add adds a row and returns its place.
func (t *table) add(x row) int32 {
	var i int32
	if n := len(t.unused); n > 0 {
		i, t.unused = t.unused[n-1], t.unused[:n-1]
	} else {
		i = int32(len(t.rows))
		t.rows = append(t.rows, row{})
	}
	x.prev, x.next, x.place, x.kept = none, none, none, none
	t.rows[i] = x
	if x.rec != nil {
		t.keep(i)
	}
	t.byID[x.id] = i
	t.states[t.state(&t.rows[i])]++
	t.touch(i)
	return i
}

// keep notes that a row has a record.
func (t *table) keep(i int32) {
	t.rows[i].kept = len(t.kept)
	t.kept = append(t.kept, i)
}

// touch gives a row the next revision.
func (t *table) touch(i int32) {
	t.revision++
	x := &t.rows[i]
	x.revision = t.revision
	if t.newest == i {
		return
	}
	t.unlink(i)
	x.prev, x.next = none, t.newest
	if t.newest != none {
		t.rows[t.newest].prev = i
	}
	t.newest = i
}

func (t *table) unlink(i int32) {
	x := &t.rows[i]
	if x.prev != none {
		t.rows[x.prev].next = x.next
	} else if t.newest == i {
		t.newest = x.next
	}
	if x.next != none {
		t.rows[x.next].prev = x.prev
	}
	x.prev, x.next = none, none
}

// remove takes a row out.
func (t *table) remove(i int32) {
	t.states[t.state(&t.rows[i])]--
	t.unlink(i)
	if k := t.rows[i].kept; k != none {
		last := t.kept[len(t.kept)-1]
		t.kept[k], t.rows[last].kept = last, k
		t.kept = t.kept[:len(t.kept)-1]
	}
	delete(t.byID, t.rows[i].id)
	t.rows[i] = row{}
	t.unused = append(t.unused, i)
	t.revision++
	t.removed = t.revision
}

// state returns what a row is listed as.
func (t *table) state(x *row) model.State {
	if x.rec != nil && !x.rec.free() {
		return x.rec.State
	}
	return x.freeKind().state()
}

// list appends the record of a row.
func (t *table) list(dst []byte, x *row) []byte {
	if x.listed != nil {
		return append(dst, x.listed...)
	}
	return wire.AppendRecordOf(dst, x.id, x.offer.bodies[x.freeKind()])
}

// cursor returns the cursor of a listing that went as far as a revision.
func (t *table) cursor(revision uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, t.instance)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, revision), t.revision)
}

// since returns the revision of a cursor, and whether what changed since then is all
// that a listing has to say: not of a foreign one, nor when something was removed.
func (t *table) since(cursor []byte) (uint64, bool) {
	if len(cursor) != 24 || binary.BigEndian.Uint64(cursor) != t.instance {
		return 0, false
	}
	revision, given := binary.BigEndian.Uint64(cursor[8:]), binary.BigEndian.Uint64(cursor[16:])
	if revision > given || given > t.revision || given < t.removed {
		return 0, false
	}
	return revision, true
}

// List implements calls.Backend.
func (p *Provider) List(f calls.ListFilter) (msg []byte, full bool, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.closed(); err != nil {
		return nil, false, err
	}
	t := p.table
	var wanted [model.NumStates]bool
	for i := range wanted {
		wanted[i] = len(f.States) == 0
	}
	for _, s := range f.States {
		wanted[s] = true
	}
	since, incremental := t.since(f.Since)
	if !incremental {
		since = 0
	}
	var listed []int32 // newest first
	for i := t.newest; i != none && t.rows[i].revision > since; i = t.rows[i].next {
		if wanted[t.state(&t.rows[i])] {
			listed = append(listed, i)
		}
	}
	cursor := t.cursor(t.revision)
	if over := len(listed) - f.Max; f.Max > 0 && over > 0 {
		listed = listed[over:]
		cursor = t.cursor(t.rows[listed[0]].revision)
	}
	size := len(cursor) + 8
	for _, i := range listed {
		size += t.rows[i].size()
	}
	msg = make([]byte, 0, size)
	for _, i := range listed {
		msg = t.list(msg, &t.rows[i])
	}
	return wire.AppendRevision(msg, cursor), !incremental, nil
}

// size returns about how long the record is.
func (x *row) size() int {
	if x.listed != nil {
		return len(x.listed)
	}
	return len(x.id) + len(x.offer.bodies[x.freeKind()]) + 12
}

// Get implements calls.Backend.
func (p *Provider) Get(id string) ([]byte, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if err := p.closed(); err != nil {
		return nil, err
	}
	i, ok := p.table.byID[id]
	if !ok {
		return nil, fmt.Errorf("get machine %q: %w", id, calls.ErrNotFound)
	}
	return wire.MachineOf(p.table.list(nil, &p.table.rows[i])), nil
}

// States implements calls.Backend.
func (p *Provider) States() [model.NumStates]int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.table.states
}

// relist makes the record of a row anew, after its machine or its offer has changed. was is the
// state that it was listed as.
func (t *table) relist(i int32, was model.State) {
	x := &t.rows[i]
	x.listed = nil
	if x.rec != nil && (!x.rec.free() || x.rec.Host != "") { // a slot of an owned host has labels of its own
		out := shard.Record{Machine: x.rec.listedAs(x.offer)}
		if out.Machine.Cluster != "" {
			out.Metadata = x.rec.Metadata
		}
		x.listed = wire.AppendRecord(nil, &out)
	}
	t.states[was]--
	t.states[t.state(x)]++
	t.touch(i)
}
