package supply

import (
	"fmt"
	"iter"
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// MachinesMax is the most machines that one table may hold.
const MachinesMax = 1 << 22

// columns are the machine fields by row; row 0 is never used.
type columns struct {
	state        []model.State
	capacity     []model.CapacityType
	interruption []model.Bucket
	reclamation  []model.Bucket
	cluster      []uint32 // names
	instanceType []uint32 // names
	zone         []uint32 // names
	group        []uint32 // names
	host         []uint32 // names
	shape        []uint32 // shapes
	labels       []uint32 // label sets
	class        []uint32 // classes
	priority     []int32
	price        []float64
	probability  []float64
	fingerprint  []uint64
	idleSince    []int64
}

// Table holds the machines. It has one owner; it is not safe for concurrent
// use.
type Table struct {
	cols     columns
	rows     rowsByID
	names    interner
	values   interner
	shapes   shapes
	labels   labelSets
	keys     []keyColumn
	classes  classes
	matchers matchers
	index    index
	count    [model.NumStates]int
	// Few machines carry these.
	lastError    map[columnar.Row]string
	reservations map[columnar.Row]model.Reservation
	version      uint64
}

// New returns an empty table.
func New() *Table {
	t := &Table{
		rows: newRowsByID(), names: newInterner(), values: newInterner(), shapes: newShapes(), labels: newLabelSets(),
		classes: newClasses(), matchers: newMatchers(), index: newIndex(),
		lastError: map[columnar.Row]string{}, reservations: map[columnar.Row]model.Reservation{},
	}
	t.cols.grow(1)
	return t
}

func (c *columns) grow(n int) {
	c.state = extend(c.state, n)
	c.capacity = extend(c.capacity, n)
	c.interruption = extend(c.interruption, n)
	c.reclamation = extend(c.reclamation, n)
	c.cluster = extend(c.cluster, n)
	c.instanceType = extend(c.instanceType, n)
	c.zone = extend(c.zone, n)
	c.group = extend(c.group, n)
	c.host = extend(c.host, n)
	c.shape = extend(c.shape, n)
	c.labels = extend(c.labels, n)
	c.class = extend(c.class, n)
	c.priority = extend(c.priority, n)
	c.price = extend(c.price, n)
	c.probability = extend(c.probability, n)
	c.fingerprint = extend(c.fingerprint, n)
	c.idleSince = extend(c.idleSince, n)
}

// extend lengthens a column to n zeroed elements, doubling its room.
func extend[T any](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	if n <= cap(s) {
		return s[:n]
	}
	out := make([]T, n, max(n, 2*cap(s), 64))
	copy(out, s)
	return out
}

// Put inserts a machine or replaces its whole record, index and reservation
// included. A record that contradicts itself is refused with the error of
// model.Machine.Validate and leaves the last good one in place.
// Cost: O(1), apart from the first use of a shape or label set.
func (t *Table) Put(m *model.Machine) error {
	if err := m.Validate(false); err != nil {
		return err
	}
	shape, err := t.shapes.hold(m.Resources, m.Allocatable)
	if err != nil {
		return fmt.Errorf("machine %q: %w", m.ID, err)
	}
	r, found := t.rows.find(m.ID)
	if found {
		t.leave(r)
		t.shapes.names.release(t.cols.shape[r])
		t.labels.release(t.cols.labels[r])
	} else {
		if t.rows.len() >= MachinesMax {
			t.shapes.names.release(shape)
			return fmt.Errorf("machine %q: the table holds %d machines; no more are accepted", m.ID, MachinesMax)
		}
		r = t.rows.add(m.ID)
		t.cols.grow(int(r) + 1)
		for i := range t.keys {
			t.keys[i].values = extend(t.keys[i].values, int(r)+1)
		}
	}
	t.fill(r, m, shape)
	t.enter(r)
	return nil
}

// fill writes a machine's fields into its row. The row is in no index.
func (t *Table) fill(r columnar.Row, m *model.Machine, shape uint32) {
	c := &t.cols
	c.state[r], c.capacity[r] = m.State, m.CapacityType
	c.shape[r] = shape
	c.labels[r] = t.labels.hold(m.Labels)
	c.price[r] = m.PricePerHour + 0 // −0 becomes 0: they are one price
	c.probability[r] = m.InterruptionProbability + 0
	c.idleSince[r] = m.IdleSince
	t.names.swap(&c.cluster[r], m.Cluster)
	t.names.swap(&c.instanceType[r], m.InstanceType)
	t.names.swap(&c.zone[r], m.Zone)
	t.names.swap(&c.host[r], m.Host)
	t.setAssigned(r, m.Assigned)
	for i := range t.keys {
		k := &t.keys[i]
		old := k.values[r]
		k.values[r] = t.value(m, k.key)
		t.values.release(old)
	}
	delete(t.lastError, r)
	if m.LastError != "" {
		t.lastError[r] = m.LastError
	}
	t.setReservation(r, m.Reservation)
}

func (t *Table) setAssigned(r columnar.Row, a model.Assignment) {
	c := &t.cols
	c.priority[r], c.interruption[r], c.reclamation[r], c.fingerprint[r] = a.Priority, a.Interruption, a.Reclamation, a.Fingerprint
	t.names.swap(&c.group[r], a.Group)
}

func (t *Table) setReservation(r columnar.Row, res model.Reservation) {
	if res.Active() {
		t.reservations[r] = res
	} else {
		delete(t.reservations, r)
	}
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
	r, ok := t.rows.find(id)
	if !ok {
		return false
	}
	t.leave(r)
	c := &t.cols
	t.shapes.names.release(c.shape[r])
	t.labels.release(c.labels[r])
	c.shape[r], c.labels[r] = 0, 0
	for _, slot := range [...]*uint32{&c.cluster[r], &c.instanceType[r], &c.zone[r], &c.host[r], &c.group[r]} {
		t.names.swap(slot, "")
	}
	for i := range t.keys {
		t.values.release(t.keys[i].values[r])
		t.keys[i].values[r] = 0
	}
	c.state[r] = model.StateUnspecified
	delete(t.lastError, r)
	delete(t.reservations, r)
	t.rows.remove(r)
	return true
}

// Lookup returns the row of a machine.
func (t *Table) Lookup(id string) (columnar.Row, bool) { return t.rows.find(id) }

// ID returns the id of the machine in a row.
func (t *Table) ID(r columnar.Row) string { return t.rows.ids[r] }

// Len returns the number of machines.
func (t *Table) Len() int { return t.rows.len() }

// RowMax is one more than the largest row in use.
func (t *Table) RowMax() int { return len(t.cols.state) }

// Count returns the number of machines in a state.
func (t *Table) Count(s model.State) int { return t.count[s] }

// Version changes whenever a machine does.
func (t *Table) Version() uint64 { return t.version }

// All iterates over the rows in the order of the machines' ids, as bytes.
func (t *Table) All() iter.Seq[columnar.Row] {
	return func(yield func(columnar.Row) bool) {
		for _, r := range t.order() {
			if !yield(r) {
				return
			}
		}
	}
}

func (t *Table) order() []columnar.Row { return t.rows.sorted() }

// Order returns the rows in id order. Valid until a machine is added or
// removed; do not modify. O(1) unless that has happened since the last call.
func (t *Table) Order() []columnar.Row { return t.rows.sorted() }

// Get returns a copy of a machine's record. Its labels and vectors are shared
// and must not be modified.
func (t *Table) Get(r columnar.Row) model.Machine {
	c := &t.cols
	return model.Machine{
		ID: t.rows.ids[r], State: c.state[r], CapacityType: c.capacity[r], Host: t.names.strs[c.host[r]],
		Cluster: t.names.strs[c.cluster[r]], InstanceType: t.names.strs[c.instanceType[r]], Zone: t.names.strs[c.zone[r]],
		Resources: t.shapes.res[c.shape[r]], Allocatable: t.shapes.alloc[c.shape[r]], Labels: t.labels.sets[c.labels[r]],
		PricePerHour: c.price[r], InterruptionProbability: c.probability[r], LastError: t.lastError[r],
		Assigned: t.Assigned(r), IdleSince: c.idleSince[r], Reservation: t.reservations[r],
	}
}

// State returns a machine's state.
func (t *Table) State(r columnar.Row) model.State { return t.cols.state[r] }

// Cluster returns the cluster that a machine is bound to, or empty.
func (t *Table) Cluster(r columnar.Row) string { return t.names.strs[t.cols.cluster[r]] }

// Assigned returns what is stamped on a machine.
func (t *Table) Assigned(r columnar.Row) model.Assignment {
	c := &t.cols
	return model.Assignment{
		Priority: c.priority[r], Interruption: c.interruption[r], Reclamation: c.reclamation[r],
		Fingerprint: c.fingerprint[r], Group: t.names.strs[c.group[r]],
	}
}

// Reservation returns a machine's reservation, the zero value when it has none.
func (t *Table) Reservation(r columnar.Row) model.Reservation { return t.reservations[r] }

// Transition moves a machine to another state; illegal moves are refused. The
// cluster is set for Configuring and kept otherwise until the machine is Idle,
// Speculative or gone; stamps and reservation of what it did before end there
// too, but a reservation survives Draining → Idle and Creating → Idle. at is
// Unix nanoseconds and starts the idle clock on reaching Idle.
func (t *Table) Transition(r columnar.Row, to model.State, cluster string, at int64) error {
	c := &t.cols
	from := c.state[r]
	if !model.LegalMove(from, to) {
		return fmt.Errorf("machine %q: %s → %s is not a legal move", t.rows.ids[r], from, to)
	}
	if to == model.Configuring && cluster == "" {
		return fmt.Errorf("machine %q: Configuring needs a cluster", t.rows.ids[r])
	}
	t.indexRow(r, false)
	t.count[from]--
	t.count[to]++
	t.version++
	c.state[r] = to
	switch to {
	case model.Configuring:
		t.names.swap(&c.cluster[r], cluster)
	case model.Idle, model.Speculative:
		t.names.swap(&c.cluster[r], "")
		if from != model.Creating {
			t.setAssigned(r, model.Assignment{})
		}
		c.idleSince[r] = 0
		if to == model.Idle {
			c.idleSince[r] = at
		} else {
			t.names.swap(&c.host[r], "")
			delete(t.reservations, r)
		}
	case model.Deleting:
		t.setAssigned(r, model.Assignment{})
	case model.Failed:
		delete(t.reservations, r)
	}
	t.indexRow(r, true)
	return nil
}

// Stamp sets what a machine is assigned to.
func (t *Table) Stamp(r columnar.Row, a model.Assignment) {
	t.version++
	t.setAssigned(r, a)
}

// Reserve sets a machine's reservation; the zero value takes it off.
func (t *Table) Reserve(r columnar.Row, res model.Reservation) {
	t.version++
	t.setReservation(r, res)
}

// SetHost notes the host that a machine runs on.
func (t *Table) SetHost(r columnar.Row, host string) { t.names.swap(&t.cols.host[r], host) }

// SetError notes why a machine failed.
func (t *Table) SetError(r columnar.Row, text string) {
	delete(t.lastError, r)
	if text != "" {
		t.lastError[r] = text
	}
}

// SetPrice changes what a machine costs and how likely it is interrupted.
func (t *Table) SetPrice(r columnar.Row, pricePerHour, interruptionProbability float64) error {
	if !(pricePerHour >= 0) || math.IsInf(pricePerHour, 0) {
		return fmt.Errorf("machine %q: %w", t.rows.ids[r], model.ErrPrice)
	}
	if !(interruptionProbability >= 0 && interruptionProbability <= 1) {
		return fmt.Errorf("machine %q: %w", t.rows.ids[r], model.ErrProbability)
	}
	t.leave(r)
	t.cols.price[r], t.cols.probability[r] = pricePerHour+0, interruptionProbability+0
	t.enter(r)
	return nil
}

// Dims returns the names of the resource dimensions in the order of vectors.
func (t *Table) Dims() []string { return t.shapes.dims }
