package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// prospect is a gang with a band that no unit of it goes before, nor one of a
// gentler class in that band itself.
type prospect struct {
	band float64
	gang int32
}

// leastOfGangs returns a band such that units of one machine up to it go before
// all that could be taken of the scope's gangs.
func (s *selection) leastOfGangs() float64 {
	x, list := s.scope, s.e.store.gangs.list
	if len(x.prospects) < len(x.gangs) {
		s.listProspects()
	}
	for ; x.prospectAt < len(x.prospects); x.prospectAt++ {
		p := &x.prospects[x.prospectAt]
		if slices.ContainsFunc(list[p.gang].members, func(r columnar.Row) bool { return !s.victimOf.Has(uint32(r)) }) {
			return p.band
		}
	}
	return math.Inf(1)
}

// listProspects puts the scope's gangs in the order of the best that can be had of them. A
// gang with nothing above its minimum goes as a whole or not at all, by the least of its members:
// nothing is taken of it before. One that has more may come to be without that member, and goes by
// the best of them.
func (s *selection) listProspects() {
	x, t := s.scope, &s.e.store.gangs
	for _, at := range x.gangs {
		g := &t.list[at]
		best, least := math.Inf(-1), math.Inf(1)
		for _, r := range g.members {
			score := s.score(r, s.k.priority, s.e.store.priority[r])
			best, least = max(best, score), min(least, score)
		}
		band := s.band(least)
		if slices.ContainsFunc(g.roles, func(role gangRole) bool { return role.surplus }) {
			band = math.Nextafter(s.band(best), math.Inf(-1)) // single members are of a gentler class
		}
		x.prospects = append(x.prospects, prospect{band, at})
	}
	slices.SortFunc(x.prospects, func(a, b prospect) int { return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.gang, b.gang)) })
}
