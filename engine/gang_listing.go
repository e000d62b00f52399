package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
)

// listBroken lists, between tenants, the members of broken gangs. Otherwise sunkIn does.
func (s *selection) listBroken() {
	t := &s.e.store.gangs
	for _, r := range s.scope.broken {
		if !s.waits && s.isFree(r) && s.isHere(r) && s.mayGive(t.list[t.of[r]-1].cluster) && s.stateOf(&t.list[t.of[r]-1]) == gangBroken {
			s.extra = append(s.extra, s.single(r, classSunk, s.k.priority))
		}
	}
}

// listRest lists, between tenants, the remainder of gangs that a plan broke and did not use.
func (s *selection) listRest() {
	if s.waits {
		return
	}
	for _, r := range s.restIn(s.scope, s.k) {
		if s.mayTake(s.e.store.priority[r], s.k.priority) && s.mayGive(s.s.ClusterOf[s.s.View.Cluster[r]]) && s.isHere(r) && s.isOpen(r) {
			u := s.single(r, classSunk, s.k.priority)
			u.remainder, u.giver = true, noTenant
			s.extra = append(s.extra, u)
		}
	}
}

// listGangs lists the units of the gangs in the scope.
func (s *selection) listGangs() {
	t := &s.e.store.gangs
	for _, at := range s.scope.gangs {
		g := &t.list[at]
		if s.waits || g.cluster == s.cluster || !s.mayGive(g.cluster) || s.stateOf(g) != gangSound {
			continue
		}
		if !slices.ContainsFunc(g.members, func(r columnar.Row) bool { return s.isFree(r) && s.isHere(r) }) {
			continue
		}
		for i := range g.roles {
			if role := &g.roles[i]; role.surplus && s.mayTake(s.kindOf(role.need).priority, s.k.priority) {
				s.listSurplus(role)
			}
		}
		s.listWhole(at, g)
	}
}

// listSurplus lists, one machine a unit, what a role has above its minimum: its machines that
// the preemptor could use, in reverse keep order, up to the first whose loss would break the
// minimum.
func (s *selection) listSurplus(role *gangRole) {
	rest := s.vecs.take(s.dims)
	spare := s.spare[:0]
	for r := s.lines[role.need].head; r != columnar.None; r = s.held[r].next {
		if s.victimOf.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(rest, s.vec(r))
		if s.isHere(r) {
			spare = append(spare, r)
		}
	}
	s.spare = spare
	slices.SortFunc(spare, func(a, b columnar.Row) int { return cmp.Compare(s.s.KeepKey(b), s.s.KeepKey(a)) })
	least := s.minimum(role.need)
	for i, r := range spare {
		if slices.Contains(rest, math.MaxInt64) { // a saturated sum cannot be subtracted from
			s.sumOfOthers(rest, role.need, spare[:i+1])
		} else {
			columnar.SubClamp(rest, s.vec(r))
		}
		if !columnar.Covers(rest, least) {
			return
		}
		u := s.single(r, classElastic, s.k.priority)
		u.key.last = ^s.s.KeepKey(r)
		s.extra = append(s.extra, u)
	}
}

// sumOfOthers sums up what a need has, without taken machines and without the rows in but.
func (s *selection) sumOfOthers(sum []int64, need int32, but []columnar.Row) {
	clear(sum)
	for r := s.lines[need].head; r != columnar.None; r = s.held[r].next {
		if !s.victimOf.Has(uint32(r)) && !slices.Contains(but, r) {
			columnar.SatAdd(sum, s.vec(r))
		}
	}
}

// listWhole lists a gang as one unit, unless a member's priority is too high to be taken. The
// unit's level is the highest priority of its members, its score the least.
func (s *selection) listWhole(at int32, g *gang) {
	u := unit{row: columnar.None, gang: at, giver: noTenant, key: unitKey{paid: true, class: classWhole, cluster: g.cluster, group: g.group}}
	first := true
	for _, r := range g.members {
		if s.victimOf.Has(uint32(r)) {
			continue
		}
		level := s.e.store.priority[r]
		if !s.mayTake(level, s.k.priority) {
			return
		}
		score := -s.score(r, s.k.priority, level)
		if first {
			u.level, u.key.score, u.key.id, first = level, score, s.s.IDRank[r], false
		}
		u.level, u.key.score = max(u.level, level), max(u.key.score, score)
	}
	u.key.band = s.keyBand(-u.key.score)
	u.local, u.global = s.gangs.local, s.gangs.global
	s.addUp(&u, g)
	s.gangs.shapeOf(&u, &s.vecs)
	s.addEntries(&u, g)
	s.wholes = append(s.wholes, u)
}

// addUp sums up what a whole gang would give: global all its members, local those that the need
// could use here. Members that the plan has taken already are left out.
func (s *selection) addUp(u *unit, g *gang) {
	clear(u.local)
	clear(u.global)
	for _, r := range g.members {
		if s.victimOf.Has(uint32(r)) || s.inPlan.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(u.global, s.vec(r))
		if s.isHere(r) {
			columnar.SatAdd(u.local, s.vec(r))
		}
	}
}

// sortWholes sorts the whole gangs, and reorders the scope's list of gangs in the same way: the
// next need's order is nearly the same, so its sort is nearly done.
func (s *selection) sortWholes(compare func(a, b unit) int) {
	if slices.IsSortedFunc(s.wholes, compare) {
		return
	}
	slices.SortFunc(s.wholes, compare)
	t := &s.e.store.gangs
	t.round++
	s.order = s.order[:0]
	for i := range s.wholes {
		at := s.wholes[i].gang
		t.list[at].round = t.round
		s.order = append(s.order, at)
	}
	for _, at := range s.scope.gangs {
		if t.list[at].round != t.round {
			s.order = append(s.order, at)
		}
	}
	copy(s.scope.gangs, s.order)
}
