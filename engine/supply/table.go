package supply

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

const (
	// MachinesMax is the most machines that one table may hold.
	MachinesMax = 1 << 21
	// TextBytesMax is how much text of one kind (ids, names, label sets …) a
	// table may hold before it refuses further records. A dictionary may need
	// twice as much room, which leaves half of columnar.TextBytesMax.
	TextBytesMax = 1 << 30
	// ErrorBytesMax is how much of a machine's last error is kept.
	ErrorBytesMax = 4096
)

// errText is what a record is refused with when there is no room for it.
var errText = errors.New("the table holds as much text as it may; no more is accepted before machines are removed")

// Table holds the machines. It has one owner; it is not safe for concurrent
// use.
type Table struct {
	cols     columns
	ids      *ids
	names    held // clusters, groups, instance types
	hosts    hosts
	values   held // of attributes in use
	shapes   shapes
	labels   labelSets
	stamps   stamps
	keys     []keyColumn
	keyIDs   map[string]int // by key: its place in keys
	foldKeys int            // how many of these are of requirements of folds
	classes  classes
	matchers matchers
	index    index
	count    [model.NumStates]int
	// Few machines carry these.
	lastError    map[columnar.Row]string
	reservations map[columnar.Row]model.Reservation
	changes      changes
	numbering    Numbering
	verdicts     verdicts // nil = those of the process, once they are needed
	overgrown    bool     // a key has too many values to split classes any more
	digests      []uint64 // by row, see SetDigest; nil before the first
	text         []byte   // scratch
	lastType     uint32   // the instance type described last
	next         kind     // scratch: what the row that enters is made of, references taken
}

// New returns an empty table.
func New() *Table {
	t := &Table{
		ids: newIDs(), keyIDs: map[string]int{}, shapes: newShapes(), stamps: newStamps(),
		classes: newClasses(), matchers: newMatchers(), index: newIndex(),
		lastError: map[columnar.Row]string{}, reservations: map[columnar.Row]model.Reservation{},
	}
	t.cols.grow(1)
	t.changes.grow(1)
	return t
}

// Put inserts a machine or replaces its whole record, stamps and reservation
// included. A record that contradicts itself is refused with the error of
// model.Machine.Validate and leaves the last good one in place, and so is one
// that would pass a limit of the table.
// Cost: O(1), apart from the first use of a shape or label set.
func (t *Table) Put(m *model.Machine) error {
	_, err := t.PutRow(m)
	return err
}

// PutRow is Put and returns the machine's row.
func (t *Table) PutRow(m *model.Machine) (columnar.Row, error) {
	r, found := t.ids.find(m.ID)
	known := found && t.labels.same(t.cols.labels[r], m.Zone, m.Labels)
	var err error
	if known { // the labels have passed
		err = m.ValidateRest(false)
	} else {
		err = m.Validate(false)
	}
	if err != nil {
		return 0, err
	}
	return t.put(m, 0, known)
}

// PutShared is PutRow for a machine whose labels many share, as those of a listing:
// labels is a number that nobody has given to other labels, whatever table they are
// in, and for which they are known to be no longer than model.LabelsBytesMax. Labels
// that came with the same number a while ago are not compared again. The machine's
// names and resources are known to pass model.Machine.ValidateRest.
func (t *Table) PutShared(m *model.Machine, labels uint64) (columnar.Row, error) {
	if labels == 0 {
		return t.PutRow(m)
	}
	if err := m.ValidateFields(false); err != nil {
		return 0, err
	}
	return t.put(m, labels, false)
}

// put is PutShared for a machine that is valid; labels = 0: they have no number.
// With known set, the machine's row has its zone and labels already.
func (t *Table) put(m *model.Machine, labels uint64, known bool) (columnar.Row, error) {
	if t.ids.len() >= MachinesMax {
		if _, found := t.ids.find(m.ID); !found {
			return 0, fmt.Errorf("machine %q: the table holds %d machines; no more are accepted", m.ID, MachinesMax)
		}
	}
	if t.full() {
		return 0, fmt.Errorf("machine %q: %w", m.ID, errText)
	}
	shape := t.holdShape(m)
	r, found := t.ids.put(m.ID)
	if found {
		t.leave(r)
	} else {
		t.grow(int(r) + 1)
	}
	t.describe(m, shape)
	t.fill(r, m, labels, known)
	t.enter(r)
	if t.overgrown {
		t.resplit()
	}
	return r, nil
}

// holdShape takes a reference to what a machine is made of.
func (t *Table) holdShape(m *model.Machine) uint32 {
	layout := t.shapes.layout
	shape := t.shapes.hold(m.Resources, m.Allocatable)
	if t.shapes.layout != layout {
		t.renumbered(&t.numbering.Dims)
	}
	return shape
}

// settleDims brings the dimensions up to date with the names that machines offer.
func (t *Table) settleDims() {
	layout := t.shapes.layout
	t.shapes.settle()
	if t.shapes.layout != layout {
		t.renumbered(&t.numbering.Dims)
	}
}

// full reports whether a dictionary holds as much as it may.
func (t *Table) full() bool {
	return max(t.names.stored, t.hosts.stored(), t.values.stored, t.labels.names.stored, t.labels.keys.stored, t.shapes.names.stored) > TextBytesMax
}

// grow makes at least n rows exist in every column.
func (t *Table) grow(n int) {
	t.cols.grow(n)
	t.follow()
}

// GrowTo makes room for n machines in all, exactly, where a table that grows by
// itself has up to an eighth to spare.
func (t *Table) GrowTo(n int) {
	n = min(n, MachinesMax)
	t.ids.reserve(n)
	t.cols.growTo(n + 1)
	t.follow()
}

// follow makes what goes by rows as long as the columns.
func (t *Table) follow() {
	n := len(t.cols.state)
	t.changes.grow(n)
	if t.digests != nil && len(t.digests) < n {
		t.digests = extend(t.digests, n)
	}
	for i := range t.keys {
		if k := &t.keys[i]; k.values != nil && len(k.values) < n {
			k.values = extend(k.values, n)
		}
	}
}

// describe notes in t.next what a machine is made of. The reference to the
// shape is the caller's and goes over.
func (t *Table) describe(m *model.Machine, shape uint32) {
	k := &t.next
	k.shape, k.instanceType = shape, t.names.holdLike(&t.lastType, m.InstanceType)
	k.price, k.probability = m.PricePerHour+0, m.InterruptionProbability+0 // −0 becomes 0: they are one price
	k.values = k.values[:0]
	for i := range t.keys {
		v := uint32(0)
		if t.keys[i].splits {
			v = t.value(m, &t.keys[i])
		}
		k.values = append(k.values, v)
	}
}

// fill writes a machine's fields into its row, apart from what t.next says, and from
// zone and labels if they are known. The row is in no class and no index.
func (t *Table) fill(r columnar.Row, m *model.Machine, labels uint64, known bool) {
	c := &t.cols
	c.state[r], c.capacity[r] = m.State, m.CapacityType
	if !known {
		old := c.labels[r]
		c.labels[r] = t.labels.holdShared(labels, m.Zone, m.Labels)
		t.labels.release(old)
	}
	c.idleSince[r] = m.IdleSince
	t.names.swap(&c.cluster[r], m.Cluster)
	t.hosts.set(&c.host[r], m.ID, m.Host)
	t.hosts.tidy(c.host)
	t.setAssigned(r, m.Assigned)
	for i := range t.keys {
		if k := &t.keys[i]; k.values != nil {
			old := k.values[r]
			k.values[r] = t.value(m, k)
			t.values.release(old)
		}
	}
	t.setError(r, m.LastError)
	t.setReservation(r, m.Reservation)
}

// setAssigned stamps a row. Buckets beyond the ladder, which no checked record
// has, count as its end.
func (t *Table) setAssigned(r columnar.Row, a model.Assignment) {
	c := &t.cols
	t.stamps.swap(&c.stamp[r], stamp{a.Fingerprint, a.Priority})
	c.interruption[r], c.reclamation[r] = min(a.Interruption, model.BucketPinned), min(a.Reclamation, model.BucketPinned)
	t.names.swap(&c.group[r], a.Group)
}

func (t *Table) setReservation(r columnar.Row, res model.Reservation) {
	if res.Active() {
		t.reservations[r] = res
	} else if len(t.reservations) > 0 {
		delete(t.reservations, r)
	}
}

func (t *Table) setError(r columnar.Row, text string) {
	if text == "" {
		if len(t.lastError) > 0 {
			delete(t.lastError, r)
		}
		return
	}
	if len(text) > ErrorBytesMax {
		text = strings.ToValidUTF8(text[:ErrorBytesMax], "") // a cut character goes
	}
	t.lastError[r] = strings.Clone(text) // it may be part of a listing
}

// note remembers that a row changed.
func (t *Table) note(r columnar.Row) {
	t.changes.note(r)
	if t.digests != nil {
		t.digests[r] = 0
	}
}

// enter puts a filled row into the class of t.next, the indexes and the counts,
// and notes that it changed.
func (t *Table) enter(r columnar.Row) {
	t.note(r)
	t.count[t.cols.state[r]]++
	id := t.classOf(&t.next)
	t.releaseKind(&t.next)
	t.classes.list[id].count++
	t.cols.class[r] = id
	t.countValues(r, 1)
	t.indexRow(r, true)
}

// leave takes a row out of its class, the indexes and the counts.
func (t *Table) leave(r columnar.Row) {
	t.count[t.cols.state[r]]--
	t.indexRow(r, false)
	t.countValues(r, -1)
	t.dropFromClass(t.cols.class[r])
	t.cols.class[r] = 0
}

// Remove takes a machine out of the table; it reports whether there was one.
func (t *Table) Remove(id string) bool {
	r, ok := t.ids.find(id)
	if !ok {
		return false
	}
	t.leave(r)
	t.fill(r, &model.Machine{}, 0, false)
	t.ids.remove(r)
	t.note(r)
	return true
}
