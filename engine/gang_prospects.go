package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// prospect is a gang with a lower bound of the bands of its units: no unit of the gang goes
// before band, and none of a gentler class within that band.
type prospect struct {
	band float64
	gang int32
}

// leastOfGangs returns a band with this property: a unit of one machine whose band is no larger
// goes before every unit of the scope's gangs. It lets most choices skip gangs altogether.
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

// listProspects sorts the scope's gangs by the best unit that can be had of each. A gang with
// nothing above its minimum is taken as a whole or not at all. Its score is the least of its
// members'. Once a surplus machine leaves a gang, the rest may be without the member that
// bounded the score; so a gang with a surplus counts with the best of its members.
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
			band = math.Nextafter(s.band(best), math.Inf(-1)) // surplus is of a gentler class
		}
		x.prospects = append(x.prospects, prospect{band, at})
	}
	slices.SortFunc(x.prospects, func(a, b prospect) int { return cmp.Or(cmp.Compare(a.band, b.band), cmp.Compare(a.gang, b.gang)) })
}
