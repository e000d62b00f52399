package supply

import (
	"iter"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// View is the columns that a cycle reads, by row. It is valid until the next
// change of the table and must not be modified. Clusters and groups are name
// numbers, 0 = empty; see NameID.
type View struct {
	State        []model.State
	Capacity     []model.CapacityType
	Interruption []model.Bucket
	Reclamation  []model.Bucket
	Cluster      []uint32
	Group        []uint32
	Class        []uint32
	IdleSince    []int64
	stamp        []uint32 // see Fingerprint and Priority
	stamps       *stamps
}

// Fingerprint returns the fingerprint of a machine's stamp.
func (v *View) Fingerprint(r columnar.Row) uint64 { return v.stamps.list[v.stamp[r]].fingerprint }

// Priority returns the priority of a machine's stamp.
func (v *View) Priority(r columnar.Row) int32 { return v.stamps.list[v.stamp[r]].priority }

// View returns the table's columns.
func (t *Table) View() View {
	c := &t.cols
	return View{
		State: c.state, Capacity: c.capacity, Interruption: c.interruption, Reclamation: c.reclamation,
		Cluster: c.cluster, Group: c.group, Class: c.class,
		IdleSince: c.idleSince, stamp: c.stamp, stamps: &t.stamps,
	}
}

// NameID returns the number of a cluster or group name; ok is false when no
// machine carries it.
func (t *Table) NameID(name string) (id uint32, ok bool) { return t.names.lookup(name) }

// Name returns the name of a number that a machine carries.
func (t *Table) Name(id uint32) string { return t.names.text(id) }

// NameIDMax is one more than the largest name number in use.
func (t *Table) NameIDMax() int { return t.names.max() }

// Reservations iterates over the reserved machines, in no order.
func (t *Table) Reservations() iter.Seq2[columnar.Row, model.Reservation] {
	return func(yield func(columnar.Row, model.Reservation) bool) {
		for r, res := range t.reservations {
			if !yield(r, res) {
				return
			}
		}
	}
}

// Departs is model.Machine.Departs for the machine in a row.
func (t *Table) Departs(r columnar.Row) bool {
	if len(t.reservations) == 0 || t.cols.state[r] != model.Configured {
		return false
	}
	res, held := t.reservations[r]
	return held && res.CountsOnExcess(t.Cluster(r))
}

// ReservationCount returns how many machines carry a reservation.
func (t *Table) ReservationCount() int { return len(t.reservations) }
