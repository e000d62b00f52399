package engine

import "slices"

// Machines of gangs that are lost anyway are taken one by one: members of broken gangs, and the
// remainder of gangs that plans broke. They may be as many as the fleet. A scope keeps them as
// units sorted by key. A taken machine does not come back within a pass, so a cursor skips the
// taken ones at the front. Whether the need at work may have a unit is checked only when its
// turn comes. Between tenants keys depend on the tenant, so the units are listed anew for each
// selection; see listBroken and listRest.

// sunkList is the machines of lost gangs of a scope, by key.
type sunkList struct {
	units  []unit
	at     int    // units before are taken
	broken bool   // members of broken gangs are listed
	fresh  []unit // scratch: units to be merged
}

// reset empties a list.
func (x *sunkList) reset() { x.units, x.at, x.broken = x.units[:0], 0, false }

// sunkIn returns the units of lost gangs in a scope, without the taken ones at the front. All
// are of a priority that needs of the kind may take; mayHaveSunk checks the rest.
func (l *worker) sunkIn(x *unitScope, k *kind) []unit {
	s := &x.sunk
	if len(x.broken) == 0 && len(x.rest) == 0 && len(l.e.store.gangs.rest) == 0 {
		return nil
	}
	s.fresh = s.fresh[:0]
	if !s.broken {
		s.broken = true
		for _, r := range x.broken {
			s.fresh = append(s.fresh, l.single(r, classSunk, k.priority))
		}
	}
	rest := x.rest // of a domain: what was dealt to it
	if x.value == 0 {
		rest = l.e.store.gangs.rest
	}
	for _, r := range rest[x.restSeen:] {
		if l.mayTake(l.e.store.priority[r], k.priority) && (x.value != 0 || l.matches(l.s.View.Class[r], k.matcher)) {
			u := l.single(r, classSunk, k.priority)
			u.remainder = true
			s.fresh = append(s.fresh, u)
		}
	}
	x.restSeen = len(rest)
	for s.at < len(s.units) && l.isUnitGone(&s.units[s.at]) {
		s.at++
	}
	if len(s.fresh) > 0 {
		s.merge()
	}
	return s.units[s.at:]
}

// merge sorts new units into those that are left.
func (x *sunkList) merge() {
	x.units = append(slices.Delete(x.units, 0, x.at), x.fresh...)
	x.at = 0
	slices.SortFunc(x.units, func(a, b unit) int { return a.key.compare(&b.key) })
}

// isUnitGone reports whether no need may take a machine of a lost gang any more.
func (l *worker) isUnitGone(u *unit) bool {
	return l.takenBy(u.row) != noNeed || !u.remainder && l.victimOf.Has(uint32(u.row))
}

// mayHaveSunk reports whether the need at work may have a machine of a lost gang.
func (s *selection) mayHaveSunk(u *unit) bool {
	switch {
	case s.waits || s.isUnitGone(u) || !s.isOpen(u.row) || !s.isHere(u.row):
		return false
	case u.remainder:
		return true
	}
	t := &s.e.store.gangs
	return s.stateInTurn(&t.list[t.of[u.row]-1]) == gangBroken
}

// nextSunk returns the first machine of a lost gang that is not in the plan and has a dimension
// of the mask; nil when there is none.
func (s *selection) nextSunk(mask uint64) *unit {
	for ; s.sunkAt < len(s.sunk); s.sunkAt++ {
		u := &s.sunk[s.sunkAt]
		if s.classMask[s.s.View.Class[u.row]]&mask != 0 && !s.inPlan.Has(uint32(u.row)) && s.mayHaveSunk(u) {
			return u
		}
	}
	return nil
}

// sunkBefore appends the units of lost gangs that may replace u: not in the plan, with a
// dimension of the mask and a key below limit; up to most.
func (s *selection) sunkBefore(list []unit, limit *unitKey, u *unit, mask uint64, most int) []unit {
	for added := 0; added < most; s.sunkAt++ {
		v := s.nextSunk(mask)
		if v == nil || v.key.compare(limit) >= 0 {
			break
		}
		if v.row != u.row {
			list = append(list, *v)
			added++
		}
	}
	return list
}
