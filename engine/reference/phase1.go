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
		held = filter(slices.Concat(idle, speculative), isHeld)
		slices.SortFunc(held, keepOrder)
	}
	p.credit(n, credit, held)
	isLeft := func(m *model.Machine) bool { return !slices.Contains(n.idle, m) }
	idle, speculative = filter(idle, isLeft), filter(speculative, isLeft)
	switch {
	case n.Parked:
	case len(n.hardSpread()) > 0:
		p.acquireSpread(n, idle, speculative)
	default:
		n.idle = append(n.idle, p.acquireStageThenLower(n, idle)...)
		n.speculative = p.acquireStageThenLower(n, speculative)
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

// acquireStageThenLower acquires what nobody holds by the rule of acquisition, then what is held for lower ranks.
func (p *pass) acquireStageThenLower(n *need, candidates []*model.Machine) []*model.Machine {
	isHeld := func(m *model.Machine) bool { _, held := p.holds[m]; return held }
	took := p.acquireStage(n, filter(candidates, func(m *model.Machine) bool { return !isHeld(m) }))
	lower, left := walk(filter(candidates, isHeld), n.deficit)
	n.deficit = left
	return append(took, lower...)
}

// giveBackSuperfluous: a Need gives back, the last picked first, what it acquired and
// would lack no more without; under hard spread only what leaves the others even. What
// it was credited it keeps.
func (n *need) giveBackSuperfluous() {
	s := newSkew(n)
	for _, m := range n.claims() {
		s.count(m)
	}
	kept := slices.Concat(n.idle, n.speculative)
	for _, m := range slices.Backward(slices.Clone(kept)) {
		rest := without(kept, m)
		if n.deficit.Covers(n.Aggregate.Sub(sum(slices.Concat(n.credited, rest)))) && s.staysEven(m) {
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

// leavesToEqual: a Need without Same is credited no bound machine of a lower Need that has its priority, that can use
// the machine, and that wants something that it has and of which the first wants nothing.
func (p *pass) leavesToEqual(n *need, m *model.Machine) bool {
	o := p.lowerOwner(n, m)
	return n.Profile.Same() == nil && m.State != model.Creating && !own(n, m) && o != nil && o.Profile.Priority() == n.Profile.Priority() && usable(o, m) &&
		slices.ContainsFunc(o.Aggregate, func(w model.Amount) bool {
			return n.Aggregate.Get(w.Name) == 0 && m.EffectiveAllocatable().Get(w.Name) > 0
		})
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

// sharesStamp: a row that ranks below the Need has the same stamp, and so the same machines are own ones
// of both.
func (p *pass) sharesStamp(n *need) bool {
	return p.owners[stamp{n.Cluster, n.Profile.Fingerprint(), n.Group}].rank > n.rank
}

// plainTwinsBelow are the rows that rank below the Need and have its stamp, where neither it nor they are folds or
// have Same.
func (p *pass) plainTwinsBelow(n *need) []*need {
	var below []*need
	plain := func(o *need) bool { return !o.fold && o.Profile.Same() == nil }
	for _, o := range p.needs {
		if plain(n) && plain(o) && o.rank > n.rank && o.stamp() == n.stamp() {
			below = append(below, o)
		}
	}
	return below
}

// bestFit takes machines until nothing is missing: each time of those that the fewest rows below can use the one that
// exceeds what is missing the least of those that cover it, or where none does the one that has the most of it; of equal
// ones the first. It leaves what is superfluous then, the last taken first.
func (p *pass) bestFit(n *need) func(ms []*model.Machine, missing model.Resources) (took []*model.Machine, left model.Resources) {
	below := p.plainTwinsBelow(n)
	users := func(m *model.Machine) (count int) {
		for _, o := range below {
			if usable(o, m) {
				count++
			}
		}
		return count
	}
	return func(ms []*model.Machine, missing model.Resources) (took []*model.Machine, left model.Resources) {
		wanted := missing
		for !missing.IsZero() {
			var best *model.Machine
			for _, m := range ms {
				if !useful(m, missing) || slices.Contains(took, m) {
					continue
				}
				if best == nil || users(m) < users(best) || users(m) == users(best) && fitsBetter(m, best, missing) {
					best = m
				}
			}
			if best == nil {
				break
			}
			took, missing = append(took, best), missing.Sub(best.EffectiveAllocatable())
		}
		for _, m := range slices.Backward(slices.Clone(took)) {
			if rest := without(took, m); missing.Covers(wanted.Sub(sum(rest))) {
				took = rest
			}
		}
		return took, missing
	}
}

func fitsBetter(a, b *model.Machine, missing model.Resources) bool {
	x, y := a.EffectiveAllocatable(), b.EffectiveAllocatable()
	switch covers := x.Covers(missing); {
	case covers != y.Covers(missing):
		return covers
	case covers:
		return score(x, missing, false).Cmp(score(y, missing, false)) < 0
	}
	return score(x, missing, true).Cmp(score(y, missing, true)) > 0
}

// giveBackTogether: once all Needs have had their turns, rows of one stamp divide what they have as the next
// cycle does when all of it is bound, and give back what they have acquired and no row needs then.
func (p *pass) giveBackTogether() {
	byStamp := map[stampOf][]*need{}
	for _, n := range p.needs {
		byStamp[n.stamp()] = append(byStamp[n.stamp()], n)
	}
	for _, rows := range byStamp {
		if len(rows) > 1 && !slices.ContainsFunc(rows, func(n *need) bool {
			return n.fold || n.Profile.Same() != nil || n.Parked
		}) {
			p.divideAnew(rows)
		}
	}
}

// divideAnew is giveBackTogether for the rows of one stamp. Unless each of them lacks as much then as it does, all
// stays as it is. What is not given back and no row needs stays with the row that has it.
func (p *pass) divideAnew(rows []*need) {
	idle, speculative := map[*model.Machine]bool{}, map[*model.Machine]bool{}
	var left []*model.Machine
	for _, n := range rows {
		for _, m := range n.idle {
			idle[m] = true
		}
		for _, m := range n.speculative {
			speculative[m] = true
		}
		left = append(left, n.claims()...)
	}
	slices.SortFunc(left, byStateThenFree)
	free := func(m *model.Machine) bool { return (idle[m] || speculative[m]) && !m.Reservation.Active() }
	shares := make([][]*model.Machine, len(rows))
	for i, n := range rows {
		take := p.bestFit(n)
		if i == len(rows)-1 {
			take = walk
		}
		took, missing := take(filter(left, func(m *model.Machine) bool { return usable(n, m) }), n.Aggregate)
		if !missing.Covers(n.deficit) || !n.deficit.Covers(missing) {
			return
		}
		for _, m := range slices.Backward(slices.Clone(took)) {
			if rest := without(took, m); free(m) && n.deficit.Covers(n.Aggregate.Sub(sum(rest))) {
				took = rest
			}
		}
		shares[i] = took
		left = filter(left, func(m *model.Machine) bool { return !slices.Contains(took, m) })
	}
	if !slices.ContainsFunc(left, free) {
		return
	}
	for i, n := range rows {
		has := slices.Concat(shares[i], filter(left, func(m *model.Machine) bool { return !free(m) && p.claimedBy[m] == n }))
		n.credited = filter(has, func(m *model.Machine) bool { return !idle[m] && !speculative[m] })
		n.idle = filter(has, func(m *model.Machine) bool { return idle[m] })
		n.speculative = filter(has, func(m *model.Machine) bool { return speculative[m] })
		for _, m := range shares[i] {
			p.claimedBy[m] = n
		}
	}
	for _, m := range filter(left, free) {
		delete(p.claimedBy, m)
		p.takenBy[m] = &need{} // nobody has it in this cycle
	}
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
		return p.claimedBy[m] == nil && countsFor(n, m) && usable(n, m) && !p.leavesToEqual(n, m)
	})
	slices.SortFunc(ms, p.creditOrder(n))
	return ms
}

// credit claims what counts for the Need; between what nobody below it has and what
// lower Needs have it acquires what is Idle and held for it. One that is parked takes what
// lower Needs have only if that covers it.
func (p *pass) credit(n *need, credit, held []*model.Machine) {
	lower := func(m *model.Machine) bool { return p.creditGroup(n, m) == creditLower }
	ours, take := filter(credit, func(m *model.Machine) bool { return own(n, m) }), walk
	if p.sharesStamp(n) {
		take = p.bestFit(n)
	}
	if len(p.plainTwinsBelow(n)) > 0 {
		ours = slices.Concat(ours, held) // as when they are bound
	}
	took, left := take(ours, n.deficit)
	isHeld := func(m *model.Machine) bool { return slices.Contains(held, m) }
	n.credited, n.idle, n.deficit = filter(took, func(m *model.Machine) bool { return !isHeld(m) }), filter(took, isHeld), left
	unowned, left := walk(filter(credit, func(m *model.Machine) bool { return !own(n, m) && !lower(m) }), n.deficit)
	n.credited, n.deficit = append(n.credited, unowned...), left
	more, left := walk(filter(held, func(m *model.Machine) bool { return !slices.Contains(n.idle, m) }), n.deficit)
	n.idle, n.deficit = append(n.idle, more...), left
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

// speculativeCandidates by effective cost; of the late-bound ones among them those that are reserved for this
// Need before all others, and those reserved for lower ranks behind, in the order of idleCandidates.
func (p *pass) speculativeCandidates(n *need) []*model.Machine {
	ms := filter(p.bySpeculativeCost(n.Profile.Interruption()), func(m *model.Machine) bool { return p.free(n, m) })
	p.sortByLateness(n, ms)
	return ms
}

// sortByLateness sorts machines by whom they are held for; those that are held for somebody are in keep order,
// the others stay as they are.
func (p *pass) sortByLateness(n *need, ms []*model.Machine) {
	slices.SortStableFunc(ms, func(a, b *model.Machine) int {
		if c := cmp.Compare(p.lateness(n, a), p.lateness(n, b)); c != 0 {
			return c
		}
		if _, held := p.holds[a]; held {
			return keepOrder(a, b)
		}
		return 0
	})
}
