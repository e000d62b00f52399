package snapshot

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// Audit reports whether the snapshot agrees with the tables about the rows from one to below another: each machine has the right
// places in the orders, and the list where it belongs has it. O(rows · log machines of a list).
func (b *Builder) Audit(from, to int) bool {
	for r := columnar.Row(max(from, 1)); int(r) < to; r++ {
		if !b.auditRow(r) {
			return false
		}
	}
	return true
}

func (b *Builder) auditRow(r columnar.Row) bool {
	s := &b.snap
	state, class := s.View.State[r], s.View.Class[r]
	if state == model.StateUnspecified {
		return b.was[r] == 0
	}
	rank := s.IDRank(r)
	if int(rank) >= len(s.Order) || s.Order[rank] != r || s.Keep[r] != keepOf(s.View.Reclamation[r], rank) {
		return false
	}
	if s.Supply.IsLateBound(r) {
		state = model.Speculative
	}
	switch state {
	case model.Idle:
		return b.was[r] == inIdle|class && has(s.Idle.At(int(class)), r, func(x columnar.Row) uint32 { return s.Keep[x] })
	case model.Speculative:
		return b.was[r] == inSpeculative|class && has(s.Speculative.At(int(class)), r, s.IDRank)
	case model.Configured, model.Configuring:
		c := s.ClusterOf[s.View.Cluster[r]]
		if c < 0 || s.Supply.Departs(r) {
			return b.was[r] == 0
		}
		return b.was[r] == boundAs(state, c) && s.hasBound(c, r, state)
	case model.Creating:
		c := s.ClusterByName(s.Supply.Reservation(r).Owner.Cluster)
		if c < 0 {
			return b.was[r] == 0
		}
		return b.was[r] == inCluster|asCreating|place(c) && s.hasBound(c, r, state)
	}
	return b.was[r] == 0
}

// has reports whether a list that is sorted by a number has a row.
func has(rows []columnar.Row, r columnar.Row, place func(columnar.Row) uint32) bool {
	at, ok := slices.BinarySearchFunc(rows, place(r), func(x columnar.Row, want uint32) int { return cmp.Compare(place(x), want) })
	return ok && rows[at] == r
}

// hasBound reports whether a cluster's list has a machine among those of its state, and says of it what the tables say.
func (s *Snapshot) hasBound(cluster int32, r columnar.Row, state model.State) bool {
	list, from := s.BoundOf(int(cluster)), s.CreatingFrom(int(cluster))
	switch state {
	case model.Configured:
		list = list[:s.Configured(int(cluster))]
	case model.Configuring:
		list = list[s.Configured(int(cluster)):from]
	default:
		list = list[from:]
	}
	at, ok := slices.BinarySearchFunc(list, s.KeepKey(r), func(x Bound, want uint64) int { return cmp.Compare(s.KeepKey(x.Row), want) })
	return ok && list[at].Row == r && list[at].Fingerprint == s.View.Fingerprint(r) && list[at].Class == s.View.Class[r] && list[at].Group == s.View.Group[r]
}
