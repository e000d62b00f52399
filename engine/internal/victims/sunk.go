package victims

import (
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Machines of gangs that are lost anyway are taken one by one: members of broken gangs, and the
// remainder of gangs that plans broke. They may be as many as the fleet. A scope keeps them as
// units sorted by key. A taken machine does not come back within a pass, so a cursor skips the
// taken ones at the front. Whether the need at work may have a unit is checked only when its
// turn comes. Between tenants keys depend on the tenant, so the units are listed anew for each
// selection; see selection.listBroken and listRest of package search.

// SunkIn returns the units of lost gangs in a scope, without the taken ones at the front. All
// are of a priority that needs of the kind may take; selection.mayHaveSunk of package search checks the rest.
func (x *UnitScope) SunkIn(l *Worker, k *state.Kind) []units.Unit {
	s := &x.sunk
	if len(x.Broken) == 0 && len(x.Rest) == 0 && len(l.p.st.Gangs.Rest) == 0 {
		return nil
	}
	s.Fresh = s.Fresh[:0]
	if !s.Broken {
		s.Broken = true
		for _, r := range x.Broken {
			s.Fresh = append(s.Fresh, l.Single(r, units.ClassSunk, k.Priority))
		}
	}
	rest := x.Rest // of a domain: what was dealt to it
	if x.Value == 0 {
		rest = l.p.st.Gangs.Rest
	}
	for _, r := range rest[x.restSeen:] {
		if l.p.Tenants.MayTake(l.p.st.Priority[r], k.Priority) && (x.Value != 0 || l.p.Snap.Classes[l.p.Snap.View.Class[r]].Matches(k.Matcher)) {
			u := l.Single(r, units.ClassSunk, k.Priority)
			u.Remainder = true
			s.Fresh = append(s.Fresh, u)
		}
	}
	x.restSeen = len(rest)
	for s.At < len(s.Units) && l.p.IsUnitGone(&s.Units[s.At]) {
		s.At++
	}
	if len(s.Fresh) > 0 {
		s.Merge()
	}
	return s.Units[s.At:]
}

// IsUnitGone reports whether no need may take a machine of a lost gang any more.
func (p *Pass) IsUnitGone(u *units.Unit) bool {
	return p.Promised.TakenBy(u.Row) != ranks.None || !u.Remainder && p.Preempted.VictimOf.Has(uint32(u.Row))
}
