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
func (p *pass) meet(need int32, offered int) {
	if p.tenants.reclaiming && offered == 0 {
		return
	}
	ended := p.searchEnded()
	p.candidates.met.pairs++
	p.candidates.met.units += offered
	if !ended && p.searchEnded() {
		p.candidates.met.endedAt, p.candidates.met.tenants = p.rankOf[need], p.tenants.reclaiming
	}
}

// isCut reports whether the exhausted budget has cost a need that is short one of its turns.
func (p *pass) isCut(need int32) bool {
	n := &p.lines[need]
	if !p.searchEnded() || !p.kindOf(need).Same || n.Status&(state.IsSatisfied|state.IsParked|state.IsAwaiting) != 0 {
		return false
	}
	later := p.rankOf[need] > p.candidates.met.endedAt
	if p.tenants.shares == nil || p.tenants.shares.Of[n.Cluster] == tenancy.None {
		return later && !p.candidates.met.tenants
	}
	return later || !p.candidates.met.tenants
}

// searchEnded reports whether the budget of the cycle is spent: Same-Needs make no more plans.
func (p *pass) searchEnded() bool {
	return p.candidates.met.pairs >= p.e.opts.SearchPairs || p.candidates.met.units >= p.e.opts.SearchUnits
}

// couldCover reports whether all units together cover what is missing, and how many machines
// are offered. Between tenants a machine counts as offered only if it belongs to another tenant
// and the taker, with this machine alone, stays within its share.
func (s *selection) couldCover() (covers bool, offered int) {
	sum := s.worker.search.vecs.Take(s.worker.p.dims)
	s.eachMachine(func(r columnar.Row, level int64) {
		class := s.worker.p.s.View.Class[r]
		columnar.SatAdd(sum, s.worker.p.vector(class))
		if !s.worker.p.tenants.reclaiming || level != math.MinInt64 && !s.worker.p.preempted.victimOf.Has(uint32(r)) && !s.worker.p.tenants.shares.IsFull(class) {
			offered++ // between tenants: neither excess nor broken off its gang by a plan already
		}
	})
	return columnar.Covers(sum, s.want), offered
}
