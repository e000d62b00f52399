package reference

import (
	"cmp"
	"maps"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// hold is a live reservation.
type hold struct {
	// owners are the Needs that may call the machine their own, in rank order;
	// none when the owner's cluster has not reported and the rank on the
	// record stands in for it.
	owners []*need
	record model.Reservation
}

// findHolds settles, at the start of the cycle, which reservations are live:
// not past their deadline (a Draining machine's does not expire, and with one of
// an owner's plans none of them does), and with an owner in the demand or in a cluster
// that has not reported yet.
func (p *pass) findHolds() {
	p.holds = map[*model.Machine]hold{}
	owners := p.ownersByIdentity()
	for _, m := range p.machines {
		r := m.Reservation
		if !r.Active() || !carriesReservation(m.State) || p.expired(m) {
			continue
		}
		if os := owners[r.Owner]; len(os) > 0 || !p.in.Reported[r.Owner.Cluster] {
			p.holds[m] = hold{owners: os, record: r}
		}
	}
}

func carriesReservation(s model.State) bool {
	return s == model.Idle || s == model.Draining || s == model.Configured || s == model.Creating
}

func (p *pass) expired(m *model.Machine) bool {
	if !p.late(m) {
		return false
	}
	r := m.Reservation
	return !p.ofPlan(hold{record: r}) || !slices.ContainsFunc(p.machines, func(other *model.Machine) bool {
		o := other.Reservation
		return p.ofPlan(hold{record: o}) && o.Owner == r.Owner && carriesReservation(other.State) && !p.late(other)
	})
}

// late: the machine itself is past the deadline.
func (p *pass) late(m *model.Machine) bool {
	d := m.Reservation.Deadline
	return d != 0 && p.in.Now > d && m.State != model.Draining
}

// ownersByIdentity finds the Needs behind each identity: those that hold a row
// of that identity, folded or not, and the folds that have it as their own.
func (p *pass) ownersByIdentity() map[model.Owner][]*need {
	owners := map[model.Owner][]*need{}
	add := func(id model.Owner, n *need) {
		if !slices.Contains(owners[id], n) {
			owners[id] = append(owners[id], n)
		}
	}
	for _, n := range p.needs {
		for _, row := range n.rows {
			add(p.in.Needs[row].Owner(), n)
		}
		add(n.Owner(), n)
	}
	return owners
}

// reservedFor: the machine is held for this Need.
func (p *pass) reservedFor(n *need, m *model.Machine) bool {
	return slices.Contains(p.holds[m].owners, n)
}

// mayTake: the machine is not reserved, or reserved for this Need, or for one
// of strictly lower rank. Of an owner that has not reported only the rank on
// the record is known, and only that is compared. What a tenant's plan holds is
// lost to higher priority alone: else whoever gave it takes it back.
func (p *pass) mayTake(n *need, m *model.Machine) bool {
	h, held := p.holds[m]
	switch {
	case !held || p.reservedFor(n, m):
		return true
	case p.ofPlan(h) && p.tenantOf(h.record.Owner.Cluster) != nil:
		return n.Profile.Priority() > p.priorityOfHold(h)
	case len(h.owners) > 0:
		return n.rank < h.owners[0].rank
	}
	return aboveRecord(n, h.record)
}

// aboveRecord: the Need ranks above whoever the record names, as far as it tells.
func aboveRecord(n *need, r model.Reservation) bool {
	return cmp.Or(
		cmp.Compare(n.Profile.Priority(), r.Priority),
		cmp.Compare(n.Profile.Interruption(), r.Interruption),
		cmp.Compare(n.Profile.Reclamation(), r.Reclamation),
	) > 0
}

// priorityOfHold is the first owner's, or the record's.
func (p *pass) priorityOfHold(h hold) int32 {
	if len(h.owners) > 0 {
		return h.owners[0].Profile.Priority()
	}
	return h.record.Priority
}

// ended lists the machines whose reservation is over: no longer live; the
// owner was satisfied without the machine; or another Need took it. A bound
// victim on its way out is still attributed to the Need that it serves: that
// takes nothing from the preemptor.
func (p *pass) ended() []string {
	var ids []string
	for _, m := range p.machines {
		if m.Reservation.Active() && p.reservationOver(m) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (p *pass) reservationOver(m *model.Machine) bool {
	if _, void := p.voided[m]; void {
		return true
	}
	h, live := p.holds[m]
	if !live {
		return p.in.Reported[m.Reservation.Owner.Cluster] || p.expired(m)
	}
	claimer := p.claimedBy[m]
	if claimer != nil && slices.Contains(h.owners, claimer) {
		return false
	}
	if claimer != nil && m.State != model.Configured {
		return true
	}
	if p.unneeded(h, m) {
		return true
	}
	// Rows of one identity share their reservations: while one of them is
	// short, the machine is still wanted.
	wanted := func(n *need) bool { return !n.deficit.IsZero() }
	return len(h.owners) > 0 && !slices.ContainsFunc(h.owners, wanted)
}

// ofPlan: the reservation is part of a plan of preemption, which ends as a
// whole.
func (p *pass) ofPlan(h hold) bool { return p.in.Options.Victims == VictimsGang && h.record.Plan != 0 }

// voidFor: when the Need takes a machine that is reserved for another, that one's
// reservation ends at once, with or without a plan: its owner is not pinned any
// more, and the other machines are free for everybody. What is being created for
// the owner goes on being that.
func (p *pass) voidFor(n *need, m *model.Machine) {
	if h, held := p.holds[m]; held && !p.reservedFor(n, m) && (m.State == model.Idle || p.takenBy[m] == n) {
		p.void(h.record.Owner, func(m *model.Machine, _ hold) bool { return m.State != model.Creating })
	}
}

func (p *pass) void(owner model.Owner, of func(*model.Machine, hold) bool) {
	for m, h := range p.holds {
		if h.record.Owner == owner && of(m, h) {
			p.voided[m] = h
			delete(p.holds, m)
		}
	}
}

// voidAll ends all that is held for a Need which a higher rank has taken something from, but for what is being created.
func (p *pass) voidAll(n *need) {
	for m, h := range maps.Clone(p.holds) {
		if p.reservedFor(n, m) {
			p.void(h.record.Owner, func(m *model.Machine, _ hold) bool { return m.State != model.Creating })
		}
	}
}

// voidLost ends the plans of a Need whose domain cannot cover it any more,
// whatever is preempted there. It plans anew in the next cycle.
func (p *pass) voidLost(n *need) {
	for m, h := range maps.Clone(p.holds) {
		if p.ofPlan(h) && p.reservedFor(n, m) {
			p.void(h.record.Owner, func(_ *model.Machine, h hold) bool { return p.ofPlan(h) })
		}
	}
}

// holdsBack: a Same-Need with a plan acquires nothing while the drain of one of
// the plan's machines is not acknowledged; a Draining machine's is.
func (p *pass) holdsBack(n *need) bool {
	for m, h := range p.holds {
		if p.ofPlan(h) && p.reservedFor(n, m) && m.State == model.Configured && m.Cluster != n.Cluster && n.AllOrNothing() {
			return true
		}
	}
	return false
}

// unneeded: the owners' deficits are covered without this machine of their
// plan, which is on its way.
func (p *pass) unneeded(h hold, m *model.Machine) bool {
	if !p.ofPlan(h) || len(h.owners) == 0 || p.countedFor[m] != nil {
		return false
	}
	return !slices.ContainsFunc(h.owners, func(n *need) bool {
		awaitsAll := n.covered && len(n.victims)+len(n.reserved) == 0
		return !leaving(n, m) || !n.deficit.IsZero() && !awaitsAll
	})
}
