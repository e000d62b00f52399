package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// phase1 attributes machines to one Need: credit, then acquire.
func (p *pass) phase1(n *need) {
	credit := p.creditCandidates(n)
	idle := p.idleCandidates(n)
	speculative := p.speculativeCandidates(n)
	if same := n.Profile.Same(); same != nil {
		if !p.settleDomain(n, credit, idle, speculative) {
			idle, speculative = nil, nil
		}
		inside := func(m *model.Machine) bool { return valueOf(m, same.Key) == n.domain }
		credit, idle, speculative = filter(credit, inside), filter(idle, inside), filter(speculative, inside)
	}
	isHeld := func(m *model.Machine) bool { return p.reservedFor(n, m) }
	var held []*model.Machine
	if !n.Parked {
		held = filter(idle, isHeld)
	}
	p.credit(n, credit, held)
	idle = filter(idle, func(m *model.Machine) bool { return !slices.Contains(n.idle, m) })
	switch {
	case n.Parked:
	case len(n.hardSpread()) > 0:
		p.acquireSpread(n, idle, speculative)
	default:
		isLower := func(m *model.Machine) bool { _, held := p.holds[m]; return held }
		n.idle = append(n.idle, p.acquireStage(n, filter(idle, func(m *model.Machine) bool { return !isLower(m) }))...)
		lower, left := walk(filter(idle, isLower), n.deficit)
		n.idle, n.deficit = append(n.idle, lower...), left
		n.speculative = p.acquireStage(n, speculative)
	}
	if !n.Parked {
		n.giveBackSuperfluous()
	}
	for _, m := range n.claims() {
		p.claimedBy[m] = n
		p.voidFor(n, m)
	}
	if n.deficit.IsZero() {
		n.couldCover = true
	}
}

// giveBackSuperfluous: a Need that is covered gives back, the last picked first,
// what it acquired and is still covered without; under hard spread only what leaves the
// others even. What it was credited it keeps.
func (n *need) giveBackSuperfluous() {
	if !n.deficit.IsZero() {
		return
	}
	s := newSkew(n)
	for _, m := range n.claims() {
		s.count(m)
	}
	kept := slices.Concat(n.idle, n.speculative)
	for _, m := range slices.Backward(slices.Clone(kept)) {
		if rest := without(kept, m); sum(slices.Concat(n.credited, rest)).Covers(n.Aggregate) && s.staysEven(m) {
			kept = rest
		}
	}
	isKept := func(m *model.Machine) bool { return slices.Contains(kept, m) }
	n.idle, n.speculative = filter(n.idle, isKept), filter(n.speculative, isKept)
}

// carriesStamp: the stamps equal this Need's fingerprint and group.
func carriesStamp(n *model.Need, m *model.Machine) bool {
	return m.Assigned.Fingerprint == n.Profile.Fingerprint() && m.Assigned.Group == n.Group
}

// own: of a folded Need the fold's stamp alone makes a machine its own.
func own(n *need, m *model.Machine) bool { return carriesStamp(&n.Need, m) }

// countsFor: bound to the Need's cluster, or being created for exactly this
// Need, or for a member of the fold that it is.
func countsFor(n *need, m *model.Machine) bool {
	switch m.State {
	case model.Configured, model.Configuring:
		return m.Cluster == n.Cluster && !m.Departs()
	case model.Creating:
		return createdFor(&n.Need, m) || slices.ContainsFunc(n.members, func(row *model.Need) bool { return createdFor(row, m) })
	}
	return false
}

// createdFor: the machine is being created for exactly this Need.
func createdFor(n *model.Need, m *model.Machine) bool {
	return m.State == model.Creating && m.Reservation.Owner.Cluster == n.Cluster && carriesStamp(n, m)
}

// stamp is what a bound machine says of whom it serves.
type stamp struct {
	cluster     string
	fingerprint uint64
	group       string
}

// findOwners finds the last Need in rank order of every stamp. A fold answers for
// its own stamp and for those of its members.
func (p *pass) findOwners() {
	p.owners = map[stamp]*need{}
	for _, n := range p.needs {
		p.owners[stamp{n.Cluster, n.Profile.Fingerprint(), n.Group}] = n
		for _, row := range n.rows {
			r := &p.in.Needs[row]
			p.owners[stamp{r.Cluster, r.Profile.Fingerprint(), r.Group}] = n
		}
	}
}

// lowerOwner returns the Need that has the machine by its stamp, if that ranks
// below the given one.
func (p *pass) lowerOwner(n *need, m *model.Machine) *need {
	o := p.owners[stamp{n.Cluster, m.Assigned.Fingerprint, m.Assigned.Group}]
	if o == nil || o.rank <= n.rank {
		return nil
	}
	return o
}

// The groups of the walk over what a Need is credited. What is Idle and held for
// the Need stands between those that nobody ranked below it has and the others.
const (
	creditOwn = iota
	creditUnowned
	creditLower
)

func (p *pass) creditGroup(n *need, m *model.Machine) int {
	switch {
	case own(n, m):
		return creditOwn
	case p.lowerOwner(n, m) == nil:
		return creditUnowned
	}
	return creditLower
}

// creditOrder: own machines, those that no Need ranked below has, then those of
// lower Needs, the lowest first; within each by state and keep order.
func (p *pass) creditOrder(n *need) func(a, b *model.Machine) int {
	return func(a, b *model.Machine) int {
		x, y := p.creditGroup(n, a), p.creditGroup(n, b)
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
		if x == creditLower {
			if c := cmp.Compare(p.lowerOwner(n, b).rank, p.lowerOwner(n, a).rank); c != 0 {
				return c
			}
		}
		return byState(a, b)
	}
}

// creditCandidates are the unclaimed machines that count for the Need, in the
// order of the walk.
func (p *pass) creditCandidates(n *need) []*model.Machine {
	ms := filter(slices.Concat(p.bound[n.Cluster], p.creating), func(m *model.Machine) bool {
		return p.claimedBy[m] == nil && countsFor(n, m) && usable(n, m)
	})
	slices.SortFunc(ms, p.creditOrder(n))
	return ms
}

// credit claims what counts for the Need; between what nobody below it has and what
// lower Needs have it acquires what is Idle and held for it. One that is parked takes what
// lower Needs have only if that covers it.
func (p *pass) credit(n *need, credit, held []*model.Machine) {
	lower := func(m *model.Machine) bool { return p.creditGroup(n, m) == creditLower }
	n.credited, n.deficit = walk(filter(credit, func(m *model.Machine) bool { return !lower(m) }), n.deficit)
	n.idle, n.deficit = walk(held, n.deficit)
	fromLower, left := walk(filter(credit, lower), n.deficit)
	if n.Parked && !left.IsZero() {
		return // it waits for something else: what lower Needs have would not end that
	}
	n.credited, n.deficit = append(n.credited, fromLower...), left
}

// free: unclaimed, usable, counted on by no plan of this cycle, and not reserved
// for a Need of equal or higher rank.
func (p *pass) free(n *need, m *model.Machine) bool {
	return p.claimedBy[m] == nil && p.takenBy[m] == nil && p.mayTake(n, m) && usable(n, m)
}

// idleCandidates: those reserved for this Need, then those that nobody holds, then
// those reserved for lower ranks, of the lowest first; among equals by keep order.
func (p *pass) idleCandidates(n *need) []*model.Machine {
	ms := filter(p.idle, func(m *model.Machine) bool { return p.free(n, m) })
	slices.SortStableFunc(ms, func(a, b *model.Machine) int { return cmp.Compare(p.lateness(n, a), p.lateness(n, b)) })
	return ms
}

// lateness orders free machines by whom they are reserved for, whatever they cost.
func (p *pass) lateness(n *need, m *model.Machine) int {
	h, held := p.holds[m]
	switch {
	case p.reservedFor(n, m):
		return math.MinInt
	case !held:
		return math.MinInt + 1
	}
	return -p.placeOf(h)
}

// placeOf is where a reservation stands among the Needs, in halves of a rank: where
// its first owner does, or before the first Need that ranks no higher than its record.
func (p *pass) placeOf(h hold) int {
	if len(h.owners) > 0 {
		return 2 * h.owners[0].rank
	}
	above := 0
	for _, n := range p.needs {
		if aboveRecord(n, h.record) {
			above++
		}
	}
	return 2*above - 1
}

// speculativeCandidates by effective cost.
func (p *pass) speculativeCandidates(n *need) []*model.Machine {
	return filter(p.bySpeculativeCost(n.Profile.Interruption()), func(m *model.Machine) bool { return p.free(n, m) })
}
