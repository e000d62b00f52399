package reference

import (
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// phase1 attributes machines to one Need: credit, then acquire.
func (p *pass) phase1(n *need) {
	credit := p.creditCandidates(n)
	idle := p.idleCandidates(n)
	speculative := p.speculativeCandidates(n)
	if same := n.Profile.Same(); same != nil {
		n.couldCover = anyCovers(n, totals(n, credit, idle, speculative))
		if n.Parked || p.holdsBack(n) {
			idle, speculative = nil, nil
		}
		n.domain = p.chooseDomain(n, totals(n, credit, idle, speculative))
		if _, pinned := p.pinnedDomain(n); pinned {
			n.couldCover = true // what is held for it has chosen: it waits, it is not stuck
		}
		inside := func(m *model.Machine) bool { return valueOf(m, same.Key) == n.domain }
		credit, idle, speculative = filter(credit, inside), filter(idle, inside), filter(speculative, inside)
	}
	n.credited, n.deficit = walk(credit, n.deficit)
	switch {
	case n.Parked:
	case len(n.hardSpread()) > 0:
		p.acquireSpread(n, idle, speculative)
	default:
		n.idle, n.deficit = walk(idle, n.deficit)
		n.speculative, n.deficit = walk(speculative, n.deficit)
	}
	for _, m := range n.claims() {
		p.claimedBy[m] = n
		p.voidFor(n, m)
	}
	if n.deficit.IsZero() {
		n.couldCover = true
	}
}

// own: the stamps equal this Need's fingerprint and group.
func own(n *need, m *model.Machine) bool {
	return m.Assigned.Fingerprint == n.Profile.Fingerprint() && m.Assigned.Group == n.Group
}

// countsFor: bound to the Need's cluster, or being created for exactly this
// Need.
func countsFor(n *need, m *model.Machine) bool {
	switch m.State {
	case model.Configured, model.Configuring:
		return m.Cluster == n.Cluster
	case model.Creating:
		return m.Reservation.Owner.Cluster == n.Cluster && own(n, m)
	}
	return false
}

// creditCandidates are the unclaimed machines that count for the Need, its own
// incumbents first over the whole walk.
func (p *pass) creditCandidates(n *need) []*model.Machine {
	ms := filter(slices.Concat(p.bound[n.Cluster], p.creating), func(m *model.Machine) bool {
		return p.claimedBy[m] == nil && countsFor(n, m) && usable(n, m)
	})
	slices.SortFunc(ms, creditOrder)
	return firstThose(ms, func(m *model.Machine) bool { return own(n, m) })
}

// free: unclaimed, usable, counted on by no plan of this cycle, and not reserved
// for a Need of equal or higher rank.
func (p *pass) free(n *need, m *model.Machine) bool {
	return p.claimedBy[m] == nil && p.takenBy[m] == nil && p.mayTake(n, m) && usable(n, m)
}

// idleCandidates: those reserved for this Need first, then all by keep order.
func (p *pass) idleCandidates(n *need) []*model.Machine {
	ms := filter(p.idle, func(m *model.Machine) bool { return p.free(n, m) })
	return firstThose(ms, func(m *model.Machine) bool { return p.reservedFor(n, m) })
}

// speculativeCandidates by effective cost.
func (p *pass) speculativeCandidates(n *need) []*model.Machine {
	return filter(p.bySpeculativeCost(n.Profile.Interruption()), func(m *model.Machine) bool { return p.free(n, m) })
}
