package search

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
	Pairs int // of a Same-Need and a domain that covers it
	Units int // machines of others that could be freed in these domains
	// endedAt is the rank of the need at which the budget ran out. tenants says that this was
	// in the need's second turn, reclaim between tenants.
	endedAt int32
	tenants bool
}

// meet counts one pair and the machines offered in it. Between tenants a domain that offers no
// machine is no pair.
func (p *Pass) meet(need int32, offered int) {
	if p.Tenants.Reclaiming && offered == 0 {
		return
	}
	ended := p.SearchEnded()
	p.Searched.Pairs++
	p.Searched.Units += offered
	if !ended && p.SearchEnded() {
		p.Searched.endedAt, p.Searched.tenants = p.RankOf[need], p.Tenants.Reclaiming
	}
}

// LostTurnToBudget reports whether the exhausted budget has cost a need that is short one of its turns.
func (p *Pass) LostTurnToBudget(need int32) bool {
	n := &p.Lines[need]
	if !p.SearchEnded() || !p.KindOf(need).Same || n.Status&(state.IsSatisfied|state.IsParked|state.IsAwaiting) != 0 {
		return false
	}
	later := p.RankOf[need] > p.Searched.endedAt
	if p.Tenants.Shares == nil || p.Tenants.Shares.Of[p.ClusterOf(need)] == tenancy.None {
		return later && !p.Searched.tenants
	}
	return later || !p.Searched.tenants
}

// SearchEnded reports whether the budget of the cycle is spent: Same-Needs make no more plans.
func (p *Pass) SearchEnded() bool {
	return p.Searched.Pairs >= p.Opts.SearchPairs || p.Searched.Units >= p.Opts.SearchUnits
}

// couldCover reports whether all units together cover what is missing, how many machines
// are offered, and whether the units have any machine. Between tenants a machine counts as offered only if it belongs to another tenant
// and the taker, with this machine alone, stays within its share.
func (s *selection) couldCover() (covers bool, offered int, some bool) {
	sum := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	s.eachMachine(nil, func(r columnar.Row, level int64) {
		class := s.worker.p.Snap.View.Class[r]
		some = true
		columnar.SatAdd(sum, s.worker.p.Vector(class))
		if !s.worker.p.Tenants.Reclaiming || level != math.MinInt64 && !s.worker.p.Preempted.VictimOf.Has(uint32(r)) && !s.worker.p.Tenants.Shares.IsFull(class) {
			offered++ // between tenants: neither excess nor broken off its gang by a plan already
		}
	})
	return columnar.Covers(sum, s.want), offered, some
}
