package engine

import "github.com/tonnage/tonnage/columnar"

// The search for plans has a budget, in units that the contract knows: pairs of a
// Same-Need and a domain in which everything together covers it, and the machines of others
// that could be freed there. Both are counted for every such domain, whichever of them are
// looked at further, and whatever an implementation has to look at to find them: so where a
// search ends depends on the snapshot alone. What a Need without Same is offered is not
// counted: it may be offered the whole fleet, of which all but the first few are never
// looked at.

// searchCount is what the search has met in a cycle.
type searchCount struct {
	pairs int // of a Same-Need and a domain that covers it
	units int // machines of others that could be freed in these
}

// meet counts a pair with the machines that are offered in it. Between tenants only
// what another tenant may give counts: a domain without that is no pair.
func (l *lane) meet(offered int) {
	if l.reclaiming && offered == 0 {
		return
	}
	l.met.pairs++
	l.met.units += offered
}

// searchEnded reports whether the search has met so much in this cycle that Same-Needs make
// no more plans.
func (p *pass) searchEnded() bool {
	return p.met.pairs >= p.e.opts.SearchPairs || p.met.units >= p.e.opts.SearchUnits
}

// couldCover reports whether all units together cover what is missing, and how many
// machines are offered.
func (s *selection) couldCover() (covers bool, offered int) {
	sum := s.vecs.take(s.dims)
	s.eachMachine(func(r columnar.Row, _ int64) {
		columnar.SatAdd(sum, s.vec(r))
		offered++
	})
	if covers = columnar.Covers(sum, s.want); covers && s.reclaiming {
		offered = s.countAdmitted()
	}
	return covers, offered
}

// countAdmitted counts the machines that other tenants could give: those of units that the
// ledger admits by themselves.
func (s *selection) countAdmitted() (n int) {
	for i := range s.scope.flavours {
		f := &s.scope.flavours[i]
		if f.excess || !s.k.acceptsClass(f.class) || s.isBarred(f) || !s.offered(f) || !s.admitsClass(f.giver(), f.class) {
			continue
		}
		for _, r := range f.rows[f.at:] {
			if s.isFree(r) && s.isPlaced(r) {
				n++
			}
		}
	}
	for i := range s.extra {
		if u := &s.extra[i]; u.giver != noTenant && s.admitsUnit(u) {
			s.mark(u.row)
			n++
		}
	}
	for i := range s.wholes {
		if u := &s.wholes[i]; s.admitsUnit(u) {
			s.members(u, func(r columnar.Row) {
				if !s.inPlan.Has(uint32(r)) && s.isHere(r) {
					n++
				}
			})
		}
	}
	s.unmark()
	return n
}
