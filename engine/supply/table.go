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
	names    held // clusters, groups, instance types, zones
	hosts    held
	values   held // of attributes in use
	shapes   shapes
	labels   labelSets
	keys     []keyColumn
	keyIDs   map[string]int // by key: its place in keys
	classes  classes
	matchers matchers
	index    index
	count    [model.NumStates]int
	// Few machines carry these.
	lastError    map[columnar.Row]string
	reservations map[columnar.Row]model.Reservation
	version      uint64
	overgrown    bool   // a key has too many values to split classes any more
	text         []byte // scratch
}

// New returns an empty table.
func New() *Table {
	t := &Table{
		ids: newIDs(), keyIDs: map[string]int{}, shapes: newShapes(), labels: newLabelSets(),
		classes: newClasses(), matchers: newMatchers(), index: newIndex(),
		lastError: map[columnar.Row]string{}, reservations: map[columnar.Row]model.Reservation{},
	}
	t.cols.grow(1)
	return t
}

// Put inserts a machine or replaces its whole record, stamps and reservation
// included. A record that contradicts itself is refused with the error of
// model.Machine.Validate and leaves the last good one in place, and so is one
// that would pass a limit of the table.
// Cost: O(1), apart from the first use of a shape or label set.
func (t *Table) Put(m *model.Machine) error {
	if err := m.Validate(false); err != nil {
		return err
	}
	r, found := t.ids.find(m.ID)
	if !found && t.ids.len() >= MachinesMax {
		return fmt.Errorf("machine %q: the table holds %d machines; no more are accepted", m.ID, MachinesMax)
	}
	if t.full() {
		return fmt.Errorf("machine %q: %w", m.ID, errText)
	}
	shape, err := t.shapes.hold(m.Resources, m.Allocatable)
	if err != nil {
		return fmt.Errorf("machine %q: %w", m.ID, err)
	}
	if found {
		t.leave(r)
	} else {
		r = t.ids.add(m.ID)
		t.growTo(r)
	}
	t.fill(r, m, shape)
	t.enter(r)
	if t.overgrown {
		t.resplit()
	}
	return nil
}

// full reports whether a dictionary holds as much as it may.
func (t *Table) full() bool {
	return max(t.names.stored, t.hosts.stored, t.values.stored, t.labels.names.stored, t.shapes.names.stored) > TextBytesMax
}

// growTo makes the row exist in every column.
func (t *Table) growTo(r columnar.Row) {
	t.cols.grow(int(r) + 1)
	for i := range t.keys {
		if k := &t.keys[i]; k.live() && len(k.values) < len(t.cols.state) {
			k.values = extend(k.values, len(t.cols.state))
		}
	}
}

// fill writes a machine's fields into its row. The row is in no index.
func (t *Table) fill(r columnar.Row, m *model.Machine, shape uint32) {
	c := &t.cols
	c.state[r], c.capacity[r] = m.State, m.CapacityType
	t.shapes.release(c.shape[r])
	c.shape[r] = shape
	labels := t.labels.hold(m.Labels)
	t.labels.release(c.labels[r])
	c.labels[r] = labels
	c.price[r] = m.PricePerHour + 0 // −0 becomes 0: they are one price
	c.probability[r] = m.InterruptionProbability + 0
	c.idleSince[r] = m.IdleSince
	t.names.swap(&c.cluster[r], m.Cluster)
	t.names.swap(&c.instanceType[r], m.InstanceType)
	t.names.swap(&c.zone[r], m.Zone)
	t.hosts.swap(&c.host[r], m.Host)
	t.setAssigned(r, m.Assigned)
	for i := range t.keys {
		if k := &t.keys[i]; k.live() {
			t.setValue(k, r, t.value(m, k.key))
		}
	}
	t.setError(r, m.LastError)
	t.setReservation(r, m.Reservation)
}

// setAssigned stamps a row. Buckets beyond the ladder, which no checked record
// has, count as its end.
func (t *Table) setAssigned(r columnar.Row, a model.Assignment) {
	c := &t.cols
	c.priority[r], c.fingerprint[r] = a.Priority, a.Fingerprint
	c.interruption[r], c.reclamation[r] = min(a.Interruption, model.BucketPinned), min(a.Reclamation, model.BucketPinned)
	t.names.swap(&c.group[r], a.Group)
}

func (t *Table) setReservation(r columnar.Row, res model.Reservation) {
	if res.Active() {
		t.reservations[r] = res
	} else {
		delete(t.reservations, r)
	}
}

func (t *Table) setError(r columnar.Row, text string) {
	if text == "" {
		delete(t.lastError, r)
		return
	}
	if len(text) > ErrorBytesMax {
		text = strings.ToValidUTF8(text[:ErrorBytesMax], "") // a cut character goes
	}
	t.lastError[r] = text
}

// enter puts a filled row into its class, the indexes and the counts.
func (t *Table) enter(r columnar.Row) {
	t.version++
	t.count[t.cols.state[r]]++
	t.cols.class[r] = t.classOf(r)
	t.indexRow(r, true)
}

// leave takes a row out of its class, the indexes and the counts.
func (t *Table) leave(r columnar.Row) {
	t.version++
	t.count[t.cols.state[r]]--
	t.indexRow(r, false)
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
	t.fill(r, &model.Machine{}, 0)
	t.ids.remove(r)
	return true
}
