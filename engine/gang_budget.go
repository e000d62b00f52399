package engine

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
)

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
	// Of the need with which the budget was met: its place in the order, and that it
	// was its second turn.
	endedAt int32
	tenants bool
}

// meet counts a pair with the machines that are offered in it. Between tenants a domain
// without any is no pair.
func (l *lane) meet(need int32, offered int) {
	if l.reclaiming && offered == 0 {
		return
	}
	ended := l.searchEnded()
	l.met.pairs++
	l.met.units += offered
	if !ended && l.searchEnded() {
		l.met.endedAt, l.met.tenants = l.rankOf[need], l.reclaiming
	}
}

// isCut reports whether a need that is short was not looked at, in one of its turns, since
// the search had ended.
func (p *pass) isCut(need int32) bool {
	n := &p.lines[need]
	if !p.searchEnded() || !p.kindOf(need).same || n.status&(isSatisfied|isParked|isAwaiting) != 0 {
		return false
	}
	later := p.rankOf[need] > p.met.endedAt
	if p.tenancy == nil || p.tenancy.of[n.cluster] == noTenant {
		return later && !p.met.tenants
	}
	return later || !p.met.tenants
}

// searchEnded reports whether the search has met so much in this cycle that Same-Needs make
// no more plans.
func (p *pass) searchEnded() bool {
	return p.met.pairs >= p.e.opts.SearchPairs || p.met.units >= p.e.opts.SearchUnits
}

// couldCover reports whether all units together cover what is missing, and how many
// machines are offered: between tenants those of other tenants of which each alone would
// leave the taker within its share.
func (s *selection) couldCover() (covers bool, offered int) {
	sum := s.vecs.take(s.dims)
	if s.reclaiming {
		s.tenancy.isFull(s.k, len(s.s.Classes))
	}
	s.eachMachine(func(r columnar.Row, level int64) {
		class := s.s.View.Class[r]
		columnar.SatAdd(sum, s.vector(class))
		if !s.reclaiming || level != math.MinInt64 && !s.victimOf.Has(uint32(r)) && !s.tenancy.full[class] {
			offered++ // neither excess nor what a plan has broken already
		}
	})
	return columnar.Covers(sum, s.want), offered
}
