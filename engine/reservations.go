package engine

import (
	"cmp"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// reservations resolves, once per cycle, for whom machines are held. A live
// reservation is one whose owner is in the demand, or may yet be because its
// cluster has not reported; it has not passed its deadline, unless the machine
// is still draining, which stops the clock.
type reservations struct {
	// members are, by live reserved machine, the needs that own it, by rank:
	// several rows may agree in cluster, profile and group. Empty = the owner's
	// cluster has not reported.
	members map[columnar.Row][]int32
	// rows are each owner's machines in keep order.
	rows map[int32][]columnar.Row
	// blocks say from which place in the order on an Idle machine is no
	// longer a candidate for others; ascending.
	blocks    []block
	nextBlock int
}

type block struct {
	from int32
	row  columnar.Row
}

// indexReservations finds the live reservations and their owners.
func (p *pass) indexReservations() reservations {
	x := reservations{members: map[columnar.Row][]int32{}, rows: map[int32][]columnar.Row{}}
	if p.s.Supply.ReservationCount() == 0 {
		return x
	}
	owners := p.ownersOf(p.reservedOwners())
	for r, res := range p.s.Supply.Reservations() {
		if !p.mayHold(r, res) {
			continue
		}
		members := owners[res.Owner]
		if len(members) == 0 && p.s.Demand.Reported(res.Owner.Cluster) {
			continue
		}
		x.members[r] = members
		for _, n := range members {
			x.rows[n] = append(x.rows[n], r)
		}
		if p.s.View.State[r] == model.Idle {
			x.blocks = append(x.blocks, block{p.heldFrom(res, members), r})
		}
	}
	for _, rows := range x.rows {
		p.sortKeep(rows)
	}
	slices.SortFunc(x.blocks, func(a, b block) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.row, b.row))
	})
	return x
}

func (p *pass) sortKeep(rows []columnar.Row) {
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(p.s.Keep[a], p.s.Keep[b]) })
}

// mayHold reports whether the reservation holds as far as the machine goes.
func (p *pass) mayHold(r columnar.Row, res model.Reservation) bool {
	switch p.s.View.State[r] {
	case model.Draining:
		return true
	case model.Idle, model.Configured, model.Creating:
		return res.Deadline == 0 || p.s.Now <= res.Deadline
	}
	return false
}

// heldFrom returns the place in the order from which on others do not see the
// machine: right after its first owner, or, before the owner's cluster has
// reported, after the last need that ranks above the record.
func (p *pass) heldFrom(res model.Reservation, members []int32) int32 {
	if len(members) > 0 {
		return members[0] + 1
	}
	record := worth(res.Priority, res.Interruption, res.Reclamation)
	return int32(sort.Search(len(p.needs), func(i int) bool {
		n := p.needs[i].profile
		return worth(n.Priority(), n.Interruption(), n.Reclamation()) >= record
	}))
}

// reservedOwners returns who is named by any reservation.
func (p *pass) reservedOwners() map[model.Owner]bool {
	out := map[model.Owner]bool{}
	for _, res := range p.s.Supply.Reservations() {
		out[res.Owner] = true
	}
	return out
}

// ownersOf returns the needs of each owner, by rank. A row that is part of a
// fold stands for the fold; a fold answers to its own name too, where no row
// has that name.
func (p *pass) ownersOf(wanted map[model.Owner]bool) map[model.Owner][]int32 {
	clusters := map[string]bool{}
	for o := range wanted {
		clusters[o.Cluster] = true
	}
	out := map[model.Owner][]int32{}
	for i, ref := range p.f.rows {
		if !clusters[ref.block.Cluster()] {
			continue
		}
		profile := p.s.Demand.Profile(ref.block.Profile(int(ref.row)))
		o := model.Owner{Cluster: ref.block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: ref.block.Group(int(ref.row))}
		if wanted[o] {
			out[o] = append(out[o], p.rankOf[p.f.of[i]])
		}
	}
	byRow := make(map[model.Owner]bool, len(out))
	for o := range out {
		byRow[o] = true
	}
	for i := range p.needs {
		n := &p.needs[i]
		o := model.Owner{Cluster: p.s.Clusters[n.cluster], Fingerprint: n.profile.Fingerprint()}
		if n.folded && wanted[o] && !byRow[o] {
			out[o] = append(out[o], int32(i))
		}
	}
	for o, members := range out {
		slices.Sort(members)
		out[o] = slices.Compact(members)
	}
	return out
}

// blockUpTo withdraws, before a need's turn, what is reserved for those ranked
// above it.
func (p *pass) blockUpTo(need int) {
	x := &p.reserved
	for x.nextBlock < len(x.blocks) && int(x.blocks[x.nextBlock].from) <= need {
		p.take(x.blocks[x.nextBlock].row)
		x.nextBlock++
	}
}

// live reports whether a machine is held for somebody.
func (x *reservations) live(r columnar.Row) bool {
	_, ok := x.members[r]
	return ok
}

// ownedBy reports whether a machine is held for this need.
func (x *reservations) ownedBy(r columnar.Row, need int) bool {
	return slices.Contains(x.members[r], int32(need))
}
