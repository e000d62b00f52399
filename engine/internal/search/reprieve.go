package search

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// minimal chooses units that cover what is missing, and drops what is not needed; false when
// they cannot cover everything.
func (s *selection) minimal() bool {
	if !s.choose(true) {
		return false
	}
	s.reprieve()
	s.substitute()
	return true
}

// part chooses what can be freed without breaking a gang. It need not cover everything.
func (s *selection) part() {
	s.rewind()
	s.choose(false)
	s.reprieve()
}

// reprieve walks back from the unit chosen last and drops each unit whose removal changes
// nothing in how much of what is missing is freed.
func (s *selection) reprieve() {
	freed := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	for i := range s.picks.chosen {
		s.gain(freed, &s.picks.chosen[i])
	}
	rest := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	for i := len(s.picks.chosen) - 1; i >= 0; i-- {
		s.sumWithout(rest, freed, i)
		if victims.CoversAsMuch(rest, freed, s.want) {
			copy(freed, rest)
			s.noteReprieved(i)
			s.picks.chosen = slices.Delete(s.picks.chosen, i, i+1)
			s.forgetOutside()
		}
	}
	s.markChosen()
}

// noteReprieved records, for Explain, a chosen unit that is dropped.
func (s *selection) noteReprieved(i int) {
	if s.worker.p.Told.Explains(s.need) {
		s.picks.reprieved = append(s.picks.reprieved, s.picks.chosen[i])
	}
}

// sumWithout sums up what the chosen units give without unit i. A saturated sum cannot be
// subtracted from, so it is computed anew.
func (s *selection) sumWithout(rest, freed []int64, i int) {
	clear(rest)
	if !slices.Contains(freed, math.MaxInt64) {
		gain := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
		s.gain(gain, &s.picks.chosen[i])
		copy(rest, freed)
		columnar.SubClamp(rest, gain)
		return
	}
	for j := range s.picks.chosen {
		if j != i {
			s.gain(rest, &s.picks.chosen[j])
		}
	}
}

// markChosen marks the machines of the chosen units, and no others.
func (s *selection) markChosen() {
	s.unmark()
	for i := range s.picks.chosen {
		s.members(&s.picks.chosen[i], s.mark)
	}
}

// substitute walks once over the chosen units, from the last back. It replaces each by the
// gentlest unit outside the plan that is gentler and covers what only this unit covers. Gentler
// means a smaller key, measured on that part. At most substitutionsMax candidates are tried.
func (s *selection) substitute() {
	freed, rest := s.worker.Finding.Vecs.Take(s.worker.p.Dims), s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	for i := range s.picks.chosen {
		s.gain(freed, &s.picks.chosen[i])
	}
	if s.worker.p.Tenants.Reclaiming {
		s.balance()
	}
	tries, least := 0, s.leastOutside()
	for i := len(s.picks.chosen) - 1; i >= 0; i-- {
		u := s.picks.chosen[i]
		if u.Row != columnar.None && !s.worker.p.Tenants.Reclaiming && u.Key.Compare(&least) <= 0 {
			continue // no unit outside is gentler
		}
		s.sumWithout(rest, freed, i)
		s.members(&u, func(r columnar.Row) { s.picks.inPlan.Clear(uint32(r)) })
		if s.worker.p.Tenants.Reclaiming {
			s.strike(&u)
			s.findTerms()
		}
		stays := &u
		for _, s.picks.instead = range s.gentler(&u, rest, substitutionsMax+1-tries) {
			if tries++; tries > substitutionsMax {
				break
			}
			with := s.worker.CopyForPlan(rest)
			if s.gain(with, &s.picks.instead); columnar.Covers(with, s.want) {
				s.noteReprieved(i)
				s.picks.chosen = append(slices.Delete(s.picks.chosen, i, i+1), s.picks.instead)
				copy(freed, with)
				s.forgetOutside() // the groups that it was chosen from have one machine more
				stays = &s.picks.instead
				break
			}
		}
		s.members(stays, s.mark)
		if s.worker.p.Tenants.Reclaiming {
			s.enter(stays)
		} else if stays != &u {
			least = s.leastOutside() // the rest of a gang may have a smaller key now
		}
		if tries > substitutionsMax {
			return
		}
	}
}

// leastOutside returns a lower bound of the keys of all units that may replace a chosen unit of
// one machine. Most chosen units have a key no larger, and so need no search.
func (s *selection) leastOutside() units.Key {
	least := units.Key{Paid: true, Band: math.Inf(1)}
	if s.worker.p.Tenants.Reclaiming {
		return least // keys differ from one giver to the next
	}
	for i := range s.listing.extra {
		if !s.picks.inPlan.Has(uint32(s.listing.extra[i].Row)) {
			least = s.listing.extra[i].Key
			break
		}
	}
	s.rewindListing()
	if u := s.nextSunk(cycle.PositiveDims(s.want)); u != nil && u.Key.Compare(&least) < 0 {
		least = u.Key
	}
	if band, some := s.listing.gangs.Least(); some && band < least.Band {
		least = units.Key{Paid: true, Band: band, Class: units.ClassWhole}
	}
	if at, ok := s.nextVictimGroup(cycle.PositiveDims(s.want)); ok {
		if u := s.ofVictimGroup(at); u.Key.Compare(&least) < 0 {
			least = u.Key
		}
	}
	return least
}

// rewindListing restarts the listing of units outside the plan.
func (s *selection) rewindListing() {
	s.reader.victimGroupAt, s.reader.victimGroupTo, s.reader.extraAt, s.reader.extraTo, s.reader.sunkAt = 0, len(s.scope.VictimGroups), 0, len(s.listing.extra), 0
	s.reader.cursors.Rewind(len(s.scope.VictimGroups))
}

// gentler lists, by key, the units that may replace u: they share no machine with the plan,
// have something of what only u covers, and have a smaller key. It may list more than tries.
func (s *selection) gentler(u *units.Unit, rest []int64, tries int) []units.Unit {
	only := s.worker.CopyForPlan(s.want)
	columnar.SubClamp(only, rest)
	mask := cycle.PositiveDims(only)
	limit := u.Key
	if limit.Class == units.ClassWhole {
		limit.Roi = s.roiOfAll(u.Shape, only)
	}
	if s.worker.p.Tenants.Reclaiming {
		limit.Tenant = s.given.ledger.Term(u.Giver)
	}
	list := s.singlesBefore(&limit, u, mask, tries)
	if s.worker.p.Tenants.Reclaiming {
		list = s.wholesAdmitted(list, &limit, u, only)
	} else {
		list = s.wholesBefore(list, &limit, u, only, tries)
	}
	s.memory.gentle = list
	slices.SortFunc(list, func(a, b units.Unit) int { return a.Key.Compare(&b.Key) })
	return list
}

// singlesBefore lists the units of one machine that are not in the plan, have a dimension of
// the mask and have a key below limit: up to most of each sort.
func (s *selection) singlesBefore(limit *units.Key, u *units.Unit, mask uint64, most int) []units.Unit {
	s.rewindListing()
	if !s.worker.p.Tenants.Reclaiming {
		return s.addSinglesBefore(s.memory.gentle[:0], limit, u, mask, most)
	}
	list := s.memory.gentle[:0]
	for i := range s.given.byTenant {
		b := s.given.byTenant[i]
		b.victimGroupAt, b.extraAt, b.wholeAt = b.victimGroupFrom, b.extraFrom, b.wholeFrom
		s.openTenantUnits(&b)
		list = s.addSinglesBefore(list, limit, u, mask, most)
	}
	return list
}

// addSinglesBefore is singlesBefore for the tenant at work.
func (s *selection) addSinglesBefore(list []units.Unit, limit *units.Key, u *units.Unit, mask uint64, most int) []units.Unit {
	from := len(list)
	for i := s.reader.extraAt; i < s.reader.extraTo; i++ {
		v := &s.listing.extra[i]
		if v.Key.Tenant = s.given.term; v.Key.Compare(limit) >= 0 || len(list)-from == most {
			break
		}
		if v.Row != u.Row && !s.picks.inPlan.Has(uint32(v.Row)) && s.worker.p.ClassMask[s.worker.p.Snap.View.Class[v.Row]]&mask != 0 && s.mayEnter(v) {
			list = append(list, *v)
		}
	}
	list = s.sunkBefore(list, limit, u, mask, most)
	for range most {
		at, ok := s.nextVictimGroup(mask)
		if !ok {
			break
		}
		f := &s.scope.VictimGroups[at]
		v := s.ofVictimGroup(at)
		if v.Key.Compare(limit) >= 0 {
			break
		}
		c := s.headAt(at)
		s.reader.cursors.Set(at, c+1)
		if f.Rows[c] != u.Row {
			list = append(list, v)
		}
	}
	return list
}
