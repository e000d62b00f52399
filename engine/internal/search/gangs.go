package search

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// listBroken lists, between tenants, the members of broken gangs. Otherwise SunkIn does.
func (s *selection) listBroken() {
	t := &s.worker.p.st.Gangs
	for _, r := range s.scope.Broken {
		if !s.planFailed && s.isFree(r) && s.isHere(r) && s.worker.p.Tenants.MayGive(t.List[t.Of[r]-1].Cluster) && s.worker.p.StateOf(&t.List[t.Of[r]-1]) == units.GangBroken {
			s.listing.extra = append(s.listing.extra, s.worker.Single(r, units.ClassSunk, s.k.Priority))
		}
	}
}

// listRest lists, between tenants, the remainder of gangs that a plan broke and did not use.
func (s *selection) listRest() {
	if s.planFailed {
		return
	}
	for _, r := range s.scope.RestIn(&s.worker.Worker, s.k) {
		if s.worker.p.Tenants.MayTake(s.worker.p.st.Priority[r], s.k.Priority) && s.worker.p.Tenants.MayGive(s.worker.p.Snap.ClusterOf[s.worker.p.Snap.View.Cluster[r]]) && s.isHere(r) && s.isOpen(r) {
			u := s.worker.Single(r, units.ClassSunk, s.k.Priority)
			u.Remainder, u.Giver = true, tenancy.None
			s.listing.extra = append(s.listing.extra, u)
		}
	}
}

// listGangs lists the units of the gangs in the scope.
func (s *selection) listGangs() {
	for _, at := range s.scope.Gangs {
		s.listGang(at)
	}
}

// openList is a list of gangs that is read as far as a choice can go.
type openList struct {
	of     *victims.WholeList
	at     int // the index of the next gang
	listed int // units
	taken  int // of these
}

// wholesAtOnce is how many more gangs of a list are read when some are missing.
const wholesAtOnce = 16

// readList lists the units of further gangs of a list, if fewer are listed than can matter: those that were taken, one that goes next, and those that are
// tried in the place of one. Under hard spread gangs of one list may offer different things.
func (x *unitListing) readList(s *selection, i int) {
	list := &x.lists[i]
	most := list.taken + substitutionsMax + 2
	switch {
	case x.all || len(s.keys) > 0:
		most = math.MaxInt
	case list.listed >= most:
		return
	case list.listed > 0:
		most += wholesAtOnce
	}
	for list.listed < most {
		gang, at, ok := list.of.Next(&s.worker.p.Pass, list.at)
		if list.at = at; !ok {
			return
		}
		had := len(x.wholes)
		s.listGang(gang)
		for j := range x.wholes[had:] {
			x.wholes[had+j].List = int32(i) + 1
		}
		list.at, list.listed = at+1, list.listed+len(x.wholes)-had
	}
}

// FewGangs is up to how many gangs of a domain are all listed when one may matter. Tests lower it.
var FewGangs = 64

// readNext lists the units of the next gang, or of a list of gangs, if one of them might go before a limit (nil = any); false if there is none.
func (x *unitListing) readNext(s *selection, limit *units.Key) bool {
	gang, list, ok := s.scope.NextGang(&s.worker.Worker, s.k, limit)
	switch {
	case !ok:
		return false
	case list != nil:
		x.lists = append(x.lists, openList{of: list})
		x.readList(s, len(x.lists)-1)
	default:
		s.listGang(gang)
	}
	x.read++
	return true
}

// listMoreGangs lists the units of further gangs of the scope: of those of which one might go before a limit, and of others up to as many
// as were read before; without a limit (nil) of as many as were read before, and of one at the least. It reports whether the choice has to be made again. Most needs of few
// machines find enough units that go before every gang, so their gangs are never listed.
func (s *selection) listMoreGangs(limit *units.Key) bool {
	x := &s.listing
	if x.listed = x.listed || s.planFailed; x.listed || limit != nil && !limit.Paid {
		return false
	}
	had := len(x.extra) + len(x.wholes)
	if x.read == 0 {
		if s.scope.Value != 0 && len(s.scope.Gangs) <= FewGangs {
			s.sortGangs()
			return len(x.extra)+len(x.wholes) > had
		}
		s.scope.ReadGangs(&s.worker.Worker, s.k)
	}
	before := x.read
	for limit != nil && x.readNext(s, limit) {
	}
	if limit != nil && x.read == before {
		return false
	}
	for x.read < max(2*before, 1) { // so that units are sorted again a few times at the most
		if !x.readNext(s, nil) {
			x.listed = true
			break
		}
	}
	if len(x.extra)+len(x.wholes) > had {
		s.orderGangs()
		return true
	}
	return limit == nil && !x.listed
}

// listGang lists the units of a gang.
func (s *selection) listGang(at int32) {
	g := &s.worker.p.st.Gangs.List[at]
	if s.planFailed || g.Cluster == s.cluster || !s.worker.p.Tenants.MayGive(g.Cluster) || s.worker.p.StateOf(g) != units.GangSound {
		return
	}
	if !slices.ContainsFunc(g.Members, func(r columnar.Row) bool { return s.isFree(r) && s.isHere(r) }) {
		return
	}
	for i := range g.Roles {
		if role := &g.Roles[i]; role.Surplus && s.worker.p.Tenants.MayTake(s.worker.p.KindOf(role.Need).Priority, s.k.Priority) {
			s.listSurplus(role)
		}
	}
	s.listWhole(at, g)
}

// listSurplus lists, one machine a unit, what a role has above its minimum: its machines that
// the preemptor could use, in reverse keep order, up to the first whose loss would break the
// minimum.
func (s *selection) listSurplus(role *units.GangRole) {
	rest := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	spare := s.memory.spare[:0]
	for n, r := s.worker.p.Claims.Walk(&s.worker.p.Lines[role.Need]); r != columnar.None; r = s.worker.p.Claims.Next(r, n) {
		if s.worker.p.Preempted.VictimOf.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(rest, s.worker.p.Vec(r))
		if s.isHere(r) {
			spare = append(spare, r)
		}
	}
	s.memory.spare = spare
	slices.SortFunc(spare, func(a, b columnar.Row) int {
		return cmp.Compare(s.worker.p.Snap.KeepKey(b), s.worker.p.Snap.KeepKey(a))
	})
	least := s.worker.Minimum(role.Need)
	for i, r := range spare {
		if slices.Contains(rest, math.MaxInt64) { // a saturated sum cannot be subtracted from
			s.sumOfOthers(rest, role.Need, spare[:i+1])
		} else {
			columnar.SubClamp(rest, s.worker.p.Vec(r))
		}
		if !columnar.Covers(rest, least) {
			return
		}
		u := s.worker.Single(r, units.ClassElastic, s.k.Priority)
		u.Key.Last = ^s.worker.p.Snap.KeepKey(r)
		s.listing.extra = append(s.listing.extra, u)
	}
}

// sumOfOthers sums up what a need has, without taken machines and without the rows in but.
func (s *selection) sumOfOthers(sum []int64, need int32, but []columnar.Row) {
	clear(sum)
	for n, r := s.worker.p.Claims.Walk(&s.worker.p.Lines[need]); r != columnar.None; r = s.worker.p.Claims.Next(r, n) {
		if !s.worker.p.Preempted.VictimOf.Has(uint32(r)) && !slices.Contains(but, r) {
			columnar.SatAdd(sum, s.worker.p.Vec(r))
		}
	}
}

// listWhole lists a gang as one unit, unless a member's priority is too high to be taken. The
// unit's level is the highest priority of its members, its score the least.
func (s *selection) listWhole(at int32, g *units.Gang) {
	u := units.Unit{Row: columnar.None, Gang: at, Giver: tenancy.None, Key: units.Key{Paid: true, Class: units.ClassWhole, Cluster: g.Cluster, Group: g.Group}}
	first := true
	for _, r := range g.Members {
		if s.worker.p.Preempted.VictimOf.Has(uint32(r)) {
			continue
		}
		level := s.worker.p.st.Priority[r]
		if !s.worker.p.Tenants.MayTake(level, s.k.Priority) {
			return
		}
		score := -s.worker.p.Score(r, s.k.Priority, level)
		if first {
			u.Level, u.Key.Score, u.Key.ID, first = level, score, s.worker.p.Snap.IDRank(r), false
		}
		u.Level, u.Key.Score = max(u.Level, level), max(u.Key.Score, score)
	}
	u.Key.Band = s.worker.p.KeyBand(-u.Key.Score)
	u.Local, u.Global = s.listing.gangs.Local, s.listing.gangs.Global
	s.addUp(&u, g)
	s.listing.gangs.ShapeOf(&u, &s.worker.Finding.Vecs)
	s.addEntries(&u, g)
	s.listing.wholes = append(s.listing.wholes, u)
}

// addUp sums up what a whole gang would give: global all its members, local those that the need
// could use here. Members that the plan has taken already are left out.
func (s *selection) addUp(u *units.Unit, g *units.Gang) {
	clear(u.Local)
	clear(u.Global)
	for _, r := range g.Members {
		if s.worker.p.Preempted.VictimOf.Has(uint32(r)) || s.picks.inPlan.Has(uint32(r)) {
			continue
		}
		columnar.SatAdd(u.Global, s.worker.p.Vec(r))
		if s.isHere(r) {
			columnar.SatAdd(u.Local, s.worker.p.Vec(r))
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
	if s.listing.read > 0 {
		return // not all are listed
	}
	t := &s.worker.p.st.Gangs
	t.Round++
	s.memory.order = s.memory.order[:0]
	for i := range s.listing.wholes {
		at := s.listing.wholes[i].Gang
		t.List[at].Round = t.Round
		s.memory.order = append(s.memory.order, at)
	}
	for _, at := range s.scope.Gangs {
		if t.List[at].Round != t.Round {
			s.memory.order = append(s.memory.order, at)
		}
	}
	copy(s.scope.Gangs, s.memory.order)
}

// mayHaveSunk reports whether the need at work may have a machine of a lost gang.
func (s *selection) mayHaveSunk(u *units.Unit) bool {
	switch {
	case s.planFailed || s.worker.p.IsUnitGone(u) || !s.isOpen(u.Row) || !s.isHere(u.Row):
		return false
	case u.Remainder:
		return true
	}
	t := &s.worker.p.st.Gangs
	return s.worker.p.StateInTurn(&t.List[t.Of[u.Row]-1]) == units.GangBroken
}

// nextSunk returns the first machine of a lost gang that is not in the plan and has a dimension
// of the mask; nil when there is none.
func (s *selection) nextSunk(mask uint64) *units.Unit {
	for ; s.reader.sunkAt < len(s.listing.sunk); s.reader.sunkAt++ {
		u := &s.listing.sunk[s.reader.sunkAt]
		if s.worker.p.ClassMask[s.worker.p.Snap.View.Class[u.Row]]&mask != 0 && !s.picks.inPlan.Has(uint32(u.Row)) && s.mayHaveSunk(u) {
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
