package engine

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
)

// The search for plans has a budget, counted in two quantities of the contract: pairs of a
// Same-Need and a domain in which everything together covers it, and the machines of others
// that could be freed there. Both are counted for every such domain, also for those that are
// not looked at further, and no matter what an implementation has to scan to find them. So the
// point at which a search ends depends on the snapshot alone. What a Need without Same is
// offered is not counted: that may be the whole fleet, of which the engine reads only the first
// few machines.

// searchCount is what the search has counted in a cycle.
type searchCount struct {
	pairs int // of a Same-Need and a domain that covers it
	units int // machines of others that could be freed in these domains
	// endedAt is the rank of the need at which the budget ran out. tenants says that this was
	// in the need's second turn, reclaim between tenants.
	endedAt int32
	tenants bool
}

// meet counts one pair and the machines offered in it. Between tenants a domain that offers no
// machine is no pair.
func (l *worker) meet(need int32, offered int) {
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

// isCut reports whether the exhausted budget has cost a need that is short one of its turns.
func (p *pass) isCut(need int32) bool {
	n := &p.lines[need]
	if !p.searchEnded() || !p.kindOf(need).Same || n.Status&(state.IsSatisfied|state.IsParked|state.IsAwaiting) != 0 {
		return false
	}
	later := p.rankOf[need] > p.met.endedAt
	if p.tenancy == nil || p.tenancy.Of[n.Cluster] == tenancy.None {
		return later && !p.met.tenants
	}
	return later || !p.met.tenants
}

// searchEnded reports whether the budget of the cycle is spent: Same-Needs make no more plans.
func (p *pass) searchEnded() bool {
	return p.met.pairs >= p.e.opts.SearchPairs || p.met.units >= p.e.opts.SearchUnits
}

// couldCover reports whether all units together cover what is missing, and how many machines
// are offered. Between tenants a machine counts as offered only if it belongs to another tenant
// and the taker, with this machine alone, stays within its share.
func (s *selection) couldCover() (covers bool, offered int) {
	sum := s.vecs.Take(s.dims)
	s.eachMachine(func(r columnar.Row, level int64) {
		class := s.s.View.Class[r]
		columnar.SatAdd(sum, s.vector(class))
		if !s.reclaiming || level != math.MinInt64 && !s.victimOf.Has(uint32(r)) && !s.tenancy.IsFull(class) {
			offered++ // between tenants: neither excess nor broken off its gang by a plan already
		}
	})
	return columnar.Covers(sum, s.want), offered
}
