package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// preempt is phase 2: for each unsatisfied need in rank order it looks for
// machines of lower priority in other clusters that would cover the rest. It
// binds nothing: a victim drains, and the need acquires it in a later cycle.
func (p *pass) preempt() {
	p.reopen()
	for i := range p.needs {
		n := &p.needs[i]
		if n.satisfied || n.parked {
			continue
		}
		p.blockUpTo(i)
		if p.nothingToPreempt(i) {
			continue
		}
		switch {
		case n.profile.Same() != nil:
			p.preemptSame(i)
		case len(n.hardSpread()) > 0:
			p.preemptSpread(i)
		default:
			p.preemptPlain(i)
		}
	}
}

// nothingToPreempt reports whether phase 2 can change nothing for a need: there
// is no victim for it, nothing drains for it, and no plan of this cycle has put
// machines back that phase 1 had not seen. Most needs that are short are so
// because supply is, and there are many of them then.
func (p *pass) nothingToPreempt(need int) bool {
	return len(p.victimPool(&p.needs[need]).list) == 0 && len(p.reserved.rows[int32(need)]) == 0 && len(p.withheldBy) == 0
}

// preemptPlain takes victims for whatever is missing; a part is of use too.
func (p *pass) preemptPlain(need int) {
	n := &p.needs[need]
	copy(p.missing, p.deficit(need))
	p.countInFlight(need, 0, p.missing)
	if n.awaiting = columnar.IsZero(p.missing); n.awaiting {
		return
	}
	missing := slices.Clone(p.missing)
	chosen, found := p.selectVictims(p.victimPool(n).list, need)
	n.found, n.awaiting = found, columnar.IsZero(p.missing)
	p.commit(p.giveBack(chosen, missing), need)
}

// countInFlight takes what drains for the need off what it misses, so that it
// is never preempted for twice, and notes it. With a domain only machines in
// there count. Needs of one identity use a machine up in rank order.
func (p *pass) countInFlight(need int, domain uint32, missing []int64) {
	n := &p.needs[need]
	for _, r := range p.reserved.rows[int32(need)] {
		if columnar.IsZero(missing) {
			return
		}
		if !p.arrives(r, need) || !columnar.Helps(p.vec(r), missing) {
			continue
		}
		if v, ok := p.s.Supply.Domain(n.matcher, r); !ok || domain != 0 && v != domain {
			continue
		}
		p.flying.Set(uint32(r))
		columnar.SatAdd(p.vector(p.vectors.inFlight, need), p.vec(r))
		columnar.SubClamp(missing, p.vec(r))
	}
}

// drainsFor reports whether a machine that is held for the need is on its way
// to it: draining, or about to because its preemption has been accepted.
func (p *pass) drainsFor(r columnar.Row, need int) bool {
	switch p.s.View.State[r] {
	case model.Draining:
	case model.Configured:
		if p.s.ClusterOf[p.s.View.Cluster[r]] == p.needs[need].cluster {
			return false
		}
	default:
		return false
	}
	return p.accepts(r, need)
}

// subInFlight takes off what countInFlight would use, without using it.
func (p *pass) subInFlight(need int, domain uint32, missing []int64) {
	for _, r := range p.reserved.rows[int32(need)] {
		if columnar.IsZero(missing) {
			return
		}
		if v, ok := p.s.Supply.Domain(p.needs[need].matcher, r); ok && v == domain && p.arrives(r, need) && columnar.Helps(p.vec(r), missing) {
			columnar.SubClamp(missing, p.vec(r))
		}
	}
}

// arrives reports whether a machine drains for the need and is not counted on
// by another need of its identity.
func (p *pass) arrives(r columnar.Row, need int) bool {
	return p.drainsFor(r, need) && !p.flying.Has(uint32(r))
}
