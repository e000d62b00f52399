package supply

import (
	"iter"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Lookup returns the row of a machine.
func (t *Table) Lookup(id string) (columnar.Row, bool) { return t.ids.find(id) }

// Has reports whether there is a machine in the row.
func (t *Table) Has(r columnar.Row) bool {
	return int(r) < len(t.cols.state) && t.cols.state[r] != model.StateUnspecified
}

// ID returns the id of the machine in a row, "" when there is none.
func (t *Table) ID(r columnar.Row) string {
	if !t.Has(r) {
		return ""
	}
	return t.ids.dict.String(uint32(r))
}

// Len returns the number of machines.
func (t *Table) Len() int { return t.ids.len() }

// RowMax is one more than the largest row that was ever in use.
func (t *Table) RowMax() int { return int(t.ids.dict.Top()) + 1 }

// Count returns the number of machines in a state.
func (t *Table) Count(s model.State) int {
	if int(s) >= len(t.count) {
		return 0
	}
	return t.count[s]
}

// Version changes whenever a machine does.
func (t *Table) Version() uint64 { return t.version }

// All iterates over the rows in the order of the machines' ids, as bytes.
func (t *Table) All() iter.Seq[columnar.Row] {
	return func(yield func(columnar.Row) bool) {
		for _, r := range t.Order() {
			if !yield(r) {
				return
			}
		}
	}
}

// Order returns the rows in id order. Valid until a machine is added or
// removed; do not modify. O(1) unless that has happened since the last call.
func (t *Table) Order() []columnar.Row { return t.ids.sorted(t.Has) }

// Get returns a copy of a machine's record, the zero value when there is none
// in the row. Its labels and vectors are shared and must not be modified.
func (t *Table) Get(r columnar.Row) model.Machine {
	if !t.Has(r) {
		return model.Machine{}
	}
	c := &t.cols
	return model.Machine{
		ID: t.ID(r), State: c.state[r], CapacityType: c.capacity[r], Host: t.hosts.text(c.host[r]),
		Cluster: t.names.text(c.cluster[r]), InstanceType: t.names.text(c.instanceType[r]), Zone: t.names.text(c.zone[r]),
		Resources: t.shapes.res[c.shape[r]], Allocatable: t.shapes.alloc[c.shape[r]], Labels: t.labels.sets[c.labels[r]],
		PricePerHour: c.price[r], InterruptionProbability: c.probability[r], LastError: t.lastError[r],
		Assigned: t.Assigned(r), IdleSince: c.idleSince[r], Reservation: t.reservations[r],
	}
}

// State returns a machine's state, unspecified when there is none in the row.
func (t *Table) State(r columnar.Row) model.State {
	if int(r) >= len(t.cols.state) {
		return model.StateUnspecified
	}
	return t.cols.state[r]
}

// Cluster returns the cluster that a machine is bound to, or empty.
func (t *Table) Cluster(r columnar.Row) string {
	if !t.Has(r) {
		return ""
	}
	return t.names.text(t.cols.cluster[r])
}

// Assigned returns what is stamped on a machine.
func (t *Table) Assigned(r columnar.Row) model.Assignment {
	if !t.Has(r) {
		return model.Assignment{}
	}
	c := &t.cols
	return model.Assignment{
		Priority: c.priority[r], Interruption: c.interruption[r], Reclamation: c.reclamation[r],
		Fingerprint: c.fingerprint[r], Group: t.names.text(c.group[r]),
	}
}

// Reservation returns a machine's reservation, the zero value when it has none.
func (t *Table) Reservation(r columnar.Row) model.Reservation { return t.reservations[r] }

// Dims returns the names of the resource dimensions in the order of vectors.
// Valid until the next change; do not modify.
func (t *Table) Dims() []string { return t.shapes.dims }
