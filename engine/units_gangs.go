package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// listBroken lists, between tenants, the members of broken gangs. Otherwise sunkIn does.
func (s *selection) listBroken() {
	t := &s.worker.p.e.store.gangs
	for _, r := range s.scope.broken {
		if !s.planFailed && s.isFree(r) && s.isHere(r) && s.worker.p.tenants.mayGive(t.list[t.of[r]-1].Cluster) && s.worker.p.stateOf(&t.list[t.of[r]-1]) == units.GangBroken {
			s.listing.extra = append(s.listing.extra, s.worker.single(r, units.ClassSunk, s.k.Priority))
		}
	}
}

// listRest lists, between tenants, the remainder of gangs that a plan broke and did not use.
func (s *selection) listRest() {
	if s.planFailed {
		return
	}
	for _, r := range s.worker.restIn(s.scope, s.k) {
		if s.worker.p.tenants.mayTake(s.worker.p.e.store.priority[r], s.k.Priority) && s.worker.p.tenants.mayGive(s.worker.p.s.ClusterOf[s.worker.p.s.View.Cluster[r]]) && s.isHere(r) && s.isOpen(r) {
			u := s.worker.single(r, units.ClassSunk, s.k.Priority)
			u.Remainder, u.Giver = true, tenancy.None
			s.listing.extra = append(s.listing.extra, u)
		}
	}
}

// listGangs lists the units of the gangs in the scope.
func (s *selection) listGangs() {
	t := &s.worker.p.e.store.gangs
	for _, at := range s.scope.gangs {
		g := &t.list[at]
		if s.planFailed || g.Cluster == s.cluster || !s.worker.p.tenants.mayGive(g.Cluster) || s.worker.p.stateOf(g) != units.GangSound {
			continue
		}
		if !slices.ContainsFunc(g.Members, func(r columnar.Row) bool { return s.isFree(r) && s.isHere(r) }) {
			continue
		}
		for i := range g.Roles {
			if role := &g.Roles[i]; role.Surplus && s.worker.p.tenants.mayTake(s.worker.p.kindOf(role.Need).Priority, s.k.Priority) {
				s.listSurplus(role)
			}
		}
		s.listWhole(at, g)
	}
}

// listSurplus lists, one machine a unit, what a role has above its minimum: its machines that
// the preemptor could use, in reverse keep order, up to the first whose loss would break the
// minimum.
func (s *selection) listSurplus(role *units.GangRole) {
	rest := s.worker.search.vecs.Take(s.worker.p.dims)
	spare := s.memory.spare[:0]
	for r := s.worker.p.lines[role.Need].Head; r != columnar.None; r = s.worker.p.claims.Next(r) {
		if s.worker.p.preempted.victimOf.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(rest, s.worker.p.vec(r))
		if s.isHere(r) {
			spare = append(spare, r)
		}
	}
	s.memory.spare = spare
	slices.SortFunc(spare, func(a, b columnar.Row) int { return cmp.Compare(s.worker.p.s.KeepKey(b), s.worker.p.s.KeepKey(a)) })
	least := s.worker.minimum(role.Need)
	for i, r := range spare {
		if slices.Contains(rest, math.MaxInt64) { // a saturated sum cannot be subtracted from
			s.sumOfOthers(rest, role.Need, spare[:i+1])
		} else {
			columnar.SubClamp(rest, s.worker.p.vec(r))
		}
		if !columnar.Covers(rest, least) {
			return
		}
		u := s.worker.single(r, units.ClassElastic, s.k.Priority)
		u.Key.Last = ^s.worker.p.s.KeepKey(r)
		s.listing.extra = append(s.listing.extra, u)
	}
}

// sumOfOthers sums up what a need has, without taken machines and without the rows in but.
func (s *selection) sumOfOthers(sum []int64, need int32, but []columnar.Row) {
	clear(sum)
	for r := s.worker.p.lines[need].Head; r != columnar.None; r = s.worker.p.claims.Next(r) {
		if !s.worker.p.preempted.victimOf.Has(uint32(r)) && !slices.Contains(but, r) {
			columnar.SatAdd(sum, s.worker.p.vec(r))
		}
	}
}

// listWhole lists a gang as one unit, unless a member's priority is too high to be taken. The
// unit's level is the highest priority of its members, its score the least.
func (s *selection) listWhole(at int32, g *units.Gang) {
	u := units.Unit{Row: columnar.None, Gang: at, Giver: tenancy.None, Key: units.Key{Paid: true, Class: units.ClassWhole, Cluster: g.Cluster, Group: g.Group}}
	first := true
	for _, r := range g.Members {
		if s.worker.p.preempted.victimOf.Has(uint32(r)) {
			continue
		}
		level := s.worker.p.e.store.priority[r]
		if !s.worker.p.tenants.mayTake(level, s.k.Priority) {
			return
		}
		score := -s.worker.p.score(r, s.k.Priority, level)
		if first {
			u.Level, u.Key.Score, u.Key.ID, first = level, score, s.worker.p.s.IDRank[r], false
		}
		u.Level, u.Key.Score = max(u.Level, level), max(u.Key.Score, score)
	}
	u.Key.Band = s.worker.p.keyBand(-u.Key.Score)
	u.Local, u.Global = s.listing.gangs.Local, s.listing.gangs.Global
	s.addUp(&u, g)
	s.listing.gangs.ShapeOf(&u, &s.worker.search.vecs)
	s.addEntries(&u, g)
	s.listing.wholes = append(s.listing.wholes, u)
}

// addUp sums up what a whole gang would give: global all its members, local those that the need
// could use here. Members that the plan has taken already are left out.
func (s *selection) addUp(u *units.Unit, g *units.Gang) {
	clear(u.Local)
	clear(u.Global)
	for _, r := range g.Members {
		if s.worker.p.preempted.victimOf.Has(uint32(r)) || s.picks.inPlan.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(u.Global, s.worker.p.vec(r))
		if s.isHere(r) {
			columnar.SatAdd(u.Local, s.worker.p.vec(r))
		}
	}
}

// sortWholes sorts the whole gangs, and reorders the scope's list of gangs in the same way: the
// next need's order is nearly the same, so its sort is nearly done.
func (s *selection) sortWholes(compare func(a, b units.Unit) int) {
	if slices.IsSortedFunc(s.listing.wholes, compare) {
		return
	}
	slices.SortFunc(s.listing.wholes, compare)
	t := &s.worker.p.e.store.gangs
	t.round++
	s.memory.order = s.memory.order[:0]
	for i := range s.listing.wholes {
		at := s.listing.wholes[i].Gang
		t.list[at].Round = t.round
		s.memory.order = append(s.memory.order, at)
	}
	for _, at := range s.scope.gangs {
		if t.list[at].Round != t.round {
			s.memory.order = append(s.memory.order, at)
		}
	}
	copy(s.scope.gangs, s.memory.order)
}

// Machines of gangs that are lost anyway are taken one by one: members of broken gangs, and the
// remainder of gangs that plans broke. They may be as many as the fleet. A scope keeps them as
// units sorted by key. A taken machine does not come back within a pass, so a cursor skips the
// taken ones at the front. Whether the need at work may have a unit is checked only when its
// turn comes. Between tenants keys depend on the tenant, so the units are listed anew for each
// selection; see listBroken and listRest.

// sunkIn returns the units of lost gangs in a scope, without the taken ones at the front. All
// are of a priority that needs of the kind may take; mayHaveSunk checks the rest.
func (l *worker) sunkIn(x *unitScope, k *state.Kind) []units.Unit {
	s := &x.sunk
	if len(x.broken) == 0 && len(x.rest) == 0 && len(l.p.e.store.gangs.rest) == 0 {
		return nil
	}
	s.Fresh = s.Fresh[:0]
	if !s.Broken {
		s.Broken = true
		for _, r := range x.broken {
			s.Fresh = append(s.Fresh, l.single(r, units.ClassSunk, k.Priority))
		}
	}
	rest := x.rest // of a domain: what was dealt to it
	if x.value == 0 {
		rest = l.p.e.store.gangs.rest
	}
	for _, r := range rest[x.restSeen:] {
		if l.p.tenants.mayTake(l.p.e.store.priority[r], k.Priority) && (x.value != 0 || l.p.s.Classes[l.p.s.View.Class[r]].Matches(k.Matcher)) {
			u := l.single(r, units.ClassSunk, k.Priority)
			u.Remainder = true
			s.Fresh = append(s.Fresh, u)
		}
	}
	x.restSeen = len(rest)
	for s.At < len(s.Units) && l.p.preempted.isUnitGone(&s.Units[s.At]) {
		s.At++
	}
	if len(s.Fresh) > 0 {
		s.Merge()
	}
	return s.Units[s.At:]
}

// isUnitGone reports whether no need may take a machine of a lost gang any more.
func (x *preempted) isUnitGone(u *units.Unit) bool {
	return x.takenBy(u.Row) != order.None || !u.Remainder && x.victimOf.Has(uint32(u.Row))
}

// mayHaveSunk reports whether the need at work may have a machine of a lost gang.
func (s *selection) mayHaveSunk(u *units.Unit) bool {
	switch {
	case s.planFailed || s.worker.p.preempted.isUnitGone(u) || !s.isOpen(u.Row) || !s.isHere(u.Row):
		return false
	case u.Remainder:
		return true
	}
	t := &s.worker.p.e.store.gangs
	return s.worker.p.stateInTurn(&t.list[t.of[u.Row]-1]) == units.GangBroken
}

// nextSunk returns the first machine of a lost gang that is not in the plan and has a dimension
// of the mask; nil when there is none.
func (s *selection) nextSunk(mask uint64) *units.Unit {
	for ; s.reader.sunkAt < len(s.listing.sunk); s.reader.sunkAt++ {
		u := &s.listing.sunk[s.reader.sunkAt]
		if s.worker.p.classMask[s.worker.p.s.View.Class[u.Row]]&mask != 0 && !s.picks.inPlan.Has(uint32(u.Row)) && s.mayHaveSunk(u) {
			return u
		}
	}
	return nil
}

// sunkBefore appends the units of lost gangs that may replace u: not in the plan, with a
// dimension of the mask and a key below limit; up to most.
func (s *selection) sunkBefore(list []units.Unit, limit *units.Key, u *units.Unit, mask uint64, most int) []units.Unit {
	for added := 0; added < most; s.reader.sunkAt++ {
		v := s.nextSunk(mask)
		if v == nil || v.Key.Compare(limit) >= 0 {
			break
		}
		if v.Row != u.Row {
			list = append(list, *v)
			added++
		}
	}
	return list
}
