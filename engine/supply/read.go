package supply

import (
	"iter"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Lookup returns the row of a machine.
func (t *Table) Lookup(id string) (columnar.Row, bool) { return t.ids.find(id) }

// LookupAll stores the row of each machine, 0 where there is none, in rows,
// which must be as long as ids. For many it takes half as long as Lookup.
func (t *Table) LookupAll(rows []columnar.Row, ids []string) { t.ids.findAll(rows, ids) }

// Membership returns a number that changes whenever a machine is added or
// removed: until then, rows are the machines' they were.
func (t *Table) Membership() uint64 { return t.ids.sequence }

// SetDigest notes what a machine's record was last taken over from; the next
// change of the row forgets it. 0 is nothing. Eight bytes a row, from the first
// call on.
func (t *Table) SetDigest(r columnar.Row, digest uint64) {
	if t.digests == nil {
		t.digests = make([]uint64, len(t.cols.state))
	}
	t.digests[r] = digest
}

// Digest returns what SetDigest noted, 0 if the row has changed since.
func (t *Table) Digest(r columnar.Row) uint64 {
	if int(r) >= len(t.digests) {
		return 0
	}
	return t.digests[r]
}

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
// in the row. Its vectors are shared and must not be modified. It makes a map of the labels
// and the text of a host.
func (t *Table) Get(r columnar.Row) model.Machine {
	if !t.Has(r) {
		return model.Machine{}
	}
	c, k, id := &t.cols, t.kindOf(r), t.ID(r)
	return model.Machine{
		ID: id, State: c.state[r], CapacityType: c.capacity[r], Host: t.hosts.text(c.host[r], id),
		Cluster: t.names.text(c.cluster[r]), InstanceType: t.names.text(k.instanceType), Zone: t.labels.zone(c.labels[r]),
		Resources: t.shapes.res[k.shape], Allocatable: t.shapes.alloc[k.shape], Labels: t.labels.labels(c.labels[r]),
		PricePerHour: k.price, InterruptionProbability: k.probability, LastError: t.lastError[r],
		Assigned: t.Assigned(r), IdleSince: c.idleSince[r], Reservation: t.reservations[r],
	}
}

// Brief is Get without what costs memory to make or takes reading: host, labels
// and zone.
func (t *Table) Brief(r columnar.Row) model.Machine {
	if !t.Has(r) {
		return model.Machine{}
	}
	c, k := &t.cols, t.kindOf(r)
	return model.Machine{
		ID: t.ID(r), State: c.state[r], CapacityType: c.capacity[r],
		Cluster: t.names.text(c.cluster[r]), InstanceType: t.names.text(k.instanceType),
		Resources: t.shapes.res[k.shape], Allocatable: t.shapes.alloc[k.shape],
		PricePerHour: k.price, InterruptionProbability: k.probability, LastError: t.lastError[r],
		Assigned: t.Assigned(r), IdleSince: c.idleSince[r], Reservation: t.reservations[r],
	}
}

// SameFacts reports whether a machine's record agrees with m in what is its
// provider's to say while the state stays, apart from the price: capacity type,
// host, instance type, zone, labels, resources and last error.
func (t *Table) SameFacts(r columnar.Row, m *model.Machine) bool {
	if !t.Has(r) {
		return false
	}
	c, k := &t.cols, t.kindOf(r)
	return c.capacity[r] == m.CapacityType && t.names.text(k.instanceType) == m.InstanceType &&
		t.hosts.is(c.host[r], t.ID(r), m.Host) && t.labels.same(c.labels[r], m.Zone, m.Labels) &&
		(len(t.lastError) == 0 && m.LastError == "" || t.lastError[r] == m.LastError) &&
		t.shapes.res[k.shape].Equal(m.Resources) && t.shapes.alloc[k.shape].Equal(m.Allocatable)
}

// SamePrice reports whether a machine costs this and is interrupted as likely.
func (t *Table) SamePrice(r columnar.Row, pricePerHour, interruptionProbability float64) bool {
	k := t.kindOf(r)
	return k.price == pricePerHour && k.probability == interruptionProbability
}

// State returns a machine's state, unspecified when there is none in the row.
func (t *Table) State(r columnar.Row) model.State {
	if int(r) >= len(t.cols.state) {
		return model.StateUnspecified
	}
	return t.cols.state[r]
}

// AnyLateBound reports whether some machine, whatever its state, has model.LabelLateBound.
func (t *Table) AnyLateBound() bool { return t.labels.lateBounds > 0 }

// IsLateBound is model.Machine.IsLateBound for the machine in a row.
func (t *Table) IsLateBound(r columnar.Row) bool {
	return t.labels.lateBounds > 0 && t.cols.state[r] == model.Idle && t.labels.lateBound[t.cols.labels[r]]
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
	s := t.stamps.list[c.stamp[r]]
	return model.Assignment{
		Priority: s.priority, Interruption: c.interruption[r], Reclamation: c.reclamation[r],
		Fingerprint: s.fingerprint, Group: t.names.text(c.group[r]),
	}
}

// Price returns what a machine costs per hour, in dollars.
func (t *Table) Price(r columnar.Row) float64 { return t.kindOf(r).price }

// Reservation returns a machine's reservation, the zero value when it has none.
func (t *Table) Reservation(r columnar.Row) model.Reservation { return t.reservations[r] }

// Dims returns the names of the resource dimensions in the order of vectors.
// Valid until the next change; do not modify.
func (t *Table) Dims() []string { return t.shapes.dims }

// Offered returns the resource names that machines offered at the last Use,
// sorted, without those of Ignored. Valid until the next change; do not modify.
func (t *Table) Offered() []string { return t.shapes.offered }

// Largest returns, of every resource that machines offered at the last Use, the largest
// amount that one has, by name. O(different shapes of machines).
func (t *Table) Largest() []model.Amount { return t.shapes.largest() }

// ShapeSequence changes when Largest may.
func (t *Table) ShapeSequence() uint64 { return t.shapes.came + t.shapes.layout }

// Ignored returns the resource names beyond model.OfferedNamesMax that machines
// offered at the last Use, sorted: decisions take no account of them. Valid
// until the next change; do not modify.
func (t *Table) Ignored() []string { return t.shapes.ignored }
