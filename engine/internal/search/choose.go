package search

import (
	"slices"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/spread"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// substitutionsMax is how many substitutions a plan tries at most.
const substitutionsMax = 64

// selection chooses units for one need in one scope. A worker has one, and reuses it.
type selection struct {
	worker     *Worker
	need       int32
	cluster    int32 // of the need; victims.AnyCluster = of none
	k          *state.Kind
	scope      *victims.UnitScope
	planFailed bool  // a plan of the need has failed: it may preempt nothing for now
	keys       []int // key columns that hard spread constrains

	want []int64 // what the units must cover
	left []int64 // what is still missing of it
	// lacks is the dimensions in which left is positive, a bit each.
	lacks   uint64
	listing unitListing
	reader  unitReader
	picks   pickedUnits
	evenly  skewMemory
	given   givenUnits
	memory  selectionMemory
}

// unitListing is the units of gangs that a selection chooses from, beside the victim groups of its scope.
type unitListing struct {
	extra  []units.Unit // units of one machine that belongs to a gang; by key
	sunk   []units.Unit // units of one machine of a lost gang; by key, see SunkIn
	wholes []units.Unit // whole gangs; by key without the ROI
	gangs  units.WholeIndex
	listed bool // extra and wholes hold the units of all gangs
	// How many gangs and lists of gangs were read of those that are not all listed, and the lists. all: all units of the
	// lists are listed, not only those that can matter.
	read  int
	lists []openList
	all   bool
	// fresh: nothing has been chosen in this turn since the units were listed.
	fresh bool
	turn  uint32
}

// unitReader is the read positions of the choice, and the ends of what it reads.
type unitReader struct {
	victimGroupAt, victimGroupTo int
	outside                      reuse.Cursors // by victim group: machines before are in the plan or not available
	cursors                      reuse.Cursors // by victim group, beyond outside: machines before were listed
	extraAt, extraTo             int
	sunkAt                       int
	bandAt, wholeTo              int // of wholes: the first of the band at work
}

// pickedUnits is what the choice has come to.
type pickedUnits struct {
	chosen    []units.Unit
	reprieved []units.Unit   // chosen and then dropped; only with Explain
	instead   units.Unit     // replacement of a chosen unit that is being tried
	ofGangs   bool           // a gang's machine has been chosen as a unit of its own
	inPlan    bitmap.Dense   // machines of the chosen units
	marked    []columnar.Row // the rows set in inPlan
}

// skewMemory is the memory of walks under hard spread.
type skewMemory struct {
	frees         [2][]freeOfKind
	ownFree, used []columnar.Row
	firsts        reuse.Cursors // by victim group: machines before are not available
	tuples        [2][]uint32
}

// givenUnits is what reclaim between tenants chooses from.
type givenUnits struct {
	ledger   tenancy.Ledger
	byTenant []tenantUnits
	term     int64 // of the tenant at work, as keys have it; see Ledger.Term
}

// selectionMemory is scratch.
type selectionMemory struct {
	order            []int32  // gangs
	walk             []walked // of dry runs
	rows             []columnar.Row
	candidateDomains []candidateDomain
	proposals        []proposal
	had              []units.BoundUnit // machines that could be freed
	lost             bitmap.Dense      // empty between two uses
	gentle           []units.Unit      // units that may replace a chosen one
	spare            []columnar.Row
}

// selectFor prepares the choice of units for a need. It keeps want, without a copy.
func (l *Worker) selectFor(need int32, k *state.Kind, scope *victims.UnitScope, want []int64) *selection {
	s := &l.sel
	s.need, s.cluster, s.planFailed = need, l.p.ClusterOf(need), l.p.backsOff(need)
	return l.selectUnits(k, scope, want)
}

// selectAny is selectFor for no need in particular, whichever cluster asks. Callers list the gangs that they want.
func (l *Worker) selectAny(k *state.Kind, scope *victims.UnitScope) *selection {
	s := &l.sel
	s.need, s.cluster, s.planFailed = ranks.None, victims.AnyCluster, false
	l.selectUnits(k, scope, l.Finding.Vecs.Take(l.p.Dims))
	s.listing.listed = true
	return s
}

// selectUnits is selectFor for the need and cluster that the selection holds.
func (l *Worker) selectUnits(k *state.Kind, scope *victims.UnitScope, want []int64) *selection {
	s := &l.sel
	s.worker, s.k, s.scope, s.want = l, k, scope, want
	s.keys = spread.AppendKeys(s.keys[:0], l.p.Snap.Supply, k.Spread)
	if s.picks.inPlan.Top() == 0 || s.picks.inPlan.Top() < l.p.Snap.Supply.RowMax() {
		s.picks.inPlan.Grow(l.p.Snap.Supply.RowMax())
	}
	s.listing.extra, s.listing.wholes = s.listing.extra[:0], s.listing.wholes[:0]
	s.listing.read, s.listing.lists, s.listing.all = 0, s.listing.lists[:0], l.p.Told.Explains(s.need)
	s.listing.gangs.Reset(s.worker.p.Dims)
	scope.SortGroups(l.p.Snap.IDPlaces())
	s.unmark()
	if s.listing.listed, s.listing.sunk = s.worker.p.Tenants.Reclaiming, nil; s.worker.p.Tenants.Reclaiming {
		s.listBroken()
		s.listRest()
		s.listGangs()
		s.dealByTenant()
	} else {
		s.listing.sunk = scope.SunkIn(&l.Worker, k)
	}
	s.rewind()
	s.listing.fresh, s.listing.turn = true, l.p.st.Gangs.Turn
	return s
}

// selectAgain is selectFor, except that it reuses the units if they were listed last for the
// same need, scope and vector.
func (l *Worker) selectAgain(need int32, k *state.Kind, scope *victims.UnitScope, want []int64) *selection {
	s := &l.sel
	if s.listing.fresh && s.listing.turn == l.p.st.Gangs.Turn && s.need == need && s.k == k && s.scope == scope && &s.want[0] == &want[0] {
		return s
	}
	return l.selectFor(need, k, scope, want)
}

// sortGangs lists the units of all gangs, by key, unless that was done.
func (s *selection) sortGangs() {
	if s.listing.read > 0 {
		s.listing.all = true
		for s.listMoreGangs(nil) {
		}
		had := len(s.listing.wholes)
		for i := range s.listing.lists {
			s.listing.readList(s, i)
		}
		if len(s.listing.wholes) > had {
			s.orderGangs()
		}
		return
	}
	if s.listing.listed {
		return
	}
	s.listing.listed = true
	s.listGangs()
	s.orderGangs()
}

// orderGangs sorts the units of gangs that are listed, and restarts reading them.
func (s *selection) orderGangs() {
	slices.SortFunc(s.listing.extra, func(a, b units.Unit) int { return a.Key.Compare(&b.Key) })
	for i := range s.listing.wholes {
		s.listing.wholes[i].Key.Roi = 0
	}
	s.sortWholes(func(a, b units.Unit) int { return a.Key.Compare(&b.Key) })
	s.listing.gangs.Group(s.listing.wholes)
	s.reader.extraAt, s.reader.extraTo, s.reader.bandAt, s.reader.wholeTo = 0, len(s.listing.extra), 0, len(s.listing.wholes)
}

// rewind restarts the choice.
func (s *selection) rewind() {
	s.left = append(s.left[:0], s.want...)
	s.lacks = cycle.PositiveDims(s.left)
	s.picks.chosen, s.picks.reprieved = s.picks.chosen[:0], s.picks.reprieved[:0]
	s.unmark()
	s.rewindSingles()
	s.reader.bandAt, s.reader.wholeTo = 0, len(s.listing.wholes)
	if s.given.term = 0; s.worker.p.Tenants.Reclaiming {
		s.rewindTenants()
	}
	s.listing.gangs.At, s.picks.ofGangs = 0, false
}

// unmark forgets which machines are in the plan.
func (s *selection) unmark() {
	for _, r := range s.picks.marked {
		s.picks.inPlan.Clear(uint32(r))
	}
	s.picks.marked = s.picks.marked[:0]
}

func (s *selection) rewindSingles() {
	s.rewindListing()
	s.reader.outside.Rewind(len(s.scope.VictimGroups))
}

// mark records a machine of a chosen unit.
func (s *selection) mark(r columnar.Row) {
	if !s.picks.inPlan.Has(uint32(r)) {
		s.picks.inPlan.Set(uint32(r))
		s.picks.marked = append(s.picks.marked, r)
	}
}

// isFree reports whether a machine is no victim yet, and open.
func (s *selection) isFree(r columnar.Row) bool {
	return !s.worker.p.Preempted.VictimOf.Has(uint32(r)) && s.isOpen(r)
}

// isOpen reports whether the need may take a machine as far as plans and reservations go: no
// plan counts on it, it belongs to another cluster and is not reserved.
func (s *selection) isOpen(r columnar.Row) bool {
	return !s.worker.p.Reserved.Live(r) && s.worker.p.Promised.TakenBy(r) == ranks.None && s.isOfAnother(r)
}

// isOfAnother reports whether a machine belongs to another cluster than the need does.
func (s *selection) isOfAnother(r columnar.Row) bool {
	return s.worker.p.Snap.ClusterOf[s.worker.p.Snap.View.Cluster[r]] != s.cluster
}

// isFreeOf is isFree for a machine of an alike. One that drains, or was acquired, must be there for what the alike says.
func (s *selection) isFreeOf(a *units.Alike, r columnar.Row) bool {
	// What drains for the need although its reservation has ended is in flight for it. Only in a second turn, between tenants, may
	// it be there for all as well.
	if a.Leaving && s.worker.p.Tenants.Reclaiming && s.worker.p.Reserved.WasHeldFor(r, s.need) {
		return false
	}
	// An acquired machine is in no cluster, which victims.AnyCluster would take for its own.
	return s.worker.p.IsThere(a, r) && (a.Acquired || s.isOfAnother(r))
}

// isHere reports whether the need could use a machine and it lies in the scope.
func (s *selection) isHere(r columnar.Row) bool {
	if !s.k.AcceptsClass(s.worker.p.Snap.View.Class[r]) {
		return false
	}
	value, ok := s.worker.p.Cell(s.k.Matcher, r)
	return ok && (s.scope.Value == 0 || value == s.scope.Value) && s.isPlaced(r)
}

// isPlaced reports whether a machine has every key that hard spread constrains.
func (s *selection) isPlaced(r columnar.Row) bool {
	return spread.HasAll(s.worker.p.Snap.Supply, r, s.keys)
}

// gain adds what the need could use of a unit.
func (s *selection) gain(sum []int64, u *units.Unit) {
	if u.Row != columnar.None {
		columnar.SatAdd(sum, s.worker.p.Vec(u.Row))
		return
	}
	columnar.SatAdd(sum, s.listing.gangs.Shapes[u.Shape].Local)
}

// members calls f for the machines of a unit, by id.
func (s *selection) members(u *units.Unit, f func(columnar.Row)) {
	if u.Row != columnar.None {
		f(u.Row)
		return
	}
	for _, r := range s.worker.p.st.Gangs.List[u.Gang].Members {
		if !s.worker.p.Preempted.VictimOf.Has(uint32(r)) {
			f(r)
		}
	}
}

// head returns the index of the victim group with the first machine, by id, of the tier at work
// that is available and has a dimension of the mask; false when the tier has none.
func (s *selection) head(mask uint64) (at int, ok bool) {
	victimGroups := s.scope.VictimGroups
	tier := victimGroups[s.reader.victimGroupAt].Tier
	best := ^uint32(0)
	for i := s.scope.NextLive(s.reader.victimGroupAt); i < s.reader.victimGroupTo && victimGroups[i].Tier == tier; i = s.scope.NextLive(i + 1) {
		f := &victimGroups[i]
		if f.First > best {
			break // sorted by first: the groups behind start no lower
		}
		if !s.isOffered(i, mask) {
			continue
		}
		if s.worker.p.Tenants.Reclaiming && !s.admitsClass(f.Giver(), f.Class) {
			continue
		}
		if r := s.headOf(i); r != columnar.None && s.worker.p.Snap.IDRank(r) < best {
			best, at, ok = s.worker.p.Snap.IDRank(r), i, true
		}
	}
	return at, ok
}

// isOffered reports whether the need may have machines of a victim group and these have a
// dimension of the mask, judged by what all machines of the group share.
func (s *selection) isOffered(at int, mask uint64) bool {
	f := &s.scope.VictimGroups[at]
	return s.worker.p.ClassMask[f.Class]&mask != 0 && s.k.AcceptsClass(f.Class) && !s.isBarred(f)
}

// isBarred reports whether a victim group is hidden from a need whose plan has failed: while it
// waits, it neither preempts nor counts on machines that drain for others.
func (s *selection) isBarred(f *units.VictimGroup) bool {
	return s.planFailed && (!f.Excess || f.Leaving)
}

// headOf advances to a victim group's first machine that is not in the plan and that the need
// may have, while listing to the first beyond those listed; None = there is none.
func (s *selection) headOf(i int) columnar.Row {
	f, c, listing := &s.scope.VictimGroups[i], s.headAt(i), s.reader.cursors.IsSet(i)
	if !listing && s.reader.outside.IsSet(i) && c < len(f.Rows) && !s.picks.inPlan.Has(uint32(f.Rows[c])) {
		return f.Rows[c] // unchanged since it was found
	}
	if victims.IsShut(&s.worker.p.Pass, f) || !s.worker.p.HasLeft(f) {
		return columnar.None
	}
	for c = max(c, s.worker.FirstOpen(f.Alike, s.cluster)); c < len(f.Rows) && (s.picks.inPlan.Has(uint32(f.Rows[c])) || !s.isFreeOf(f.Alike, f.Rows[c]) || !s.isPlaced(f.Rows[c])); c++ {
		s.worker.Figures.Probes++
	}
	if listing {
		s.reader.cursors.Set(i, c)
	} else {
		s.reader.outside.Set(i, c)
	}
	if c == len(f.Rows) {
		victims.NoteShut(&s.worker.Worker, f)
		return columnar.None
	}
	return f.Rows[c]
}

// nextVictimGroup returns the index of the victim group whose head is the next unit without a
// gang; false when none is left.
func (s *selection) nextVictimGroup(mask uint64) (at int, ok bool) {
	for s.reader.victimGroupAt < s.reader.victimGroupTo || s.moreVictimGroups() {
		if at, ok := s.head(mask); ok {
			return at, true
		}
		victimGroups := s.scope.VictimGroups
		for tier := victimGroups[s.reader.victimGroupAt].Tier; s.reader.victimGroupAt < s.reader.victimGroupTo && victimGroups[s.reader.victimGroupAt].Tier == tier; {
			s.reader.victimGroupAt = s.scope.NextLive(s.reader.victimGroupAt + 1)
		}
	}
	return 0, false
}

// moreVictimGroups extends the scope's list of victim groups; false when it is complete.
func (s *selection) moreVictimGroups() bool {
	if !s.scope.Extend(&s.worker.p.Pass) {
		return false
	}
	s.reader.victimGroupTo = len(s.scope.VictimGroups)
	s.reader.cursors.Grow(s.reader.victimGroupTo)
	s.reader.outside.Grow(s.reader.victimGroupTo)
	s.evenly.firsts.Grow(s.reader.victimGroupTo)
	return true
}

// headAt returns the index of a victim group's head.
func (s *selection) headAt(at int) int { return max(s.reader.cursors.At(at), s.reader.outside.At(at)) }

// ofVictimGroup makes a unit of the head of a victim group.
func (s *selection) ofVictimGroup(at int) units.Unit {
	f := &s.scope.VictimGroups[at]
	r := f.Rows[s.headAt(at)]
	u := units.Unit{Row: r, Gang: -1, Level: f.Level, Giver: f.Giver(), Key: units.Key{
		Paid: !f.Excess, Tenant: s.given.term, Band: f.Band, Class: units.ClassPlain, Score: -f.Score, Cluster: -1, ID: s.worker.p.Snap.IDRank(r),
	}}
	if f.Excess {
		u.Key.Class = units.ClassExcess
		u.Spared = s.spares(f)
	}
	return u
}

// nextSingle returns the unit of one machine with the smallest key that has a dimension of the
// mask.
func (s *selection) nextSingle(mask uint64) (u units.Unit, ok bool) {
	for s.reader.extraAt < s.reader.extraTo {
		x := &s.listing.extra[s.reader.extraAt]
		if r := x.Row; s.worker.p.ClassMask[s.worker.p.Snap.View.Class[r]]&mask != 0 && !s.picks.inPlan.Has(uint32(r)) && (!s.worker.p.Tenants.Reclaiming || s.admitsUnit(x)) {
			x.Key.Tenant = s.given.term
			break
		}
		s.reader.extraAt++
	}
	at, ok := s.nextVictimGroup(mask)
	if ok {
		u = s.ofVictimGroup(at)
	}
	if x := s.nextSunk(mask); x != nil && (!ok || x.Key.Compare(&u.Key) < 0) {
		u, ok = *x, true
	}
	if s.reader.extraAt < s.reader.extraTo && (!ok || s.listing.extra[s.reader.extraAt].Key.Compare(&u.Key) < 0) {
		return s.listing.extra[s.reader.extraAt], true
	}
	return u, ok
}

// choose takes units until nothing is missing, each time the one with the smallest key among
// those that have something of what is missing. It reports whether everything is covered. gangs
// permits whole gangs.
func (s *selection) choose(gangs bool) bool {
	s.listing.fresh = false
	if s.worker.p.Tenants.Reclaiming {
		return s.chooseByTenant(gangs)
	}
	for s.lacks != 0 {
		u, ok := s.nextSingle(s.lacks)
		w := -1
		if band, some := s.listing.gangs.Band(); gangs && some && !(ok && (!u.Key.Paid || u.Key.Band <= band)) {
			w = s.nextWhole() // it may have a smaller key than the single unit
		}
		var least *units.Key
		switch {
		case w >= 0 && (!ok || s.listing.wholes[w].Key.Compare(&u.Key) < 0):
			least = &s.listing.wholes[w].Key
		case ok:
			w, least = -1, &u.Key
		}
		switch {
		case s.listMoreGangs(least): // another may go before
		case w >= 0:
			s.takeWhole(w)
		case ok:
			s.take(&u)
		default:
			return false
		}
	}
	return true
}

// take adds a unit of one machine to the plan.
func (s *selection) take(u *units.Unit) {
	s.mark(u.Row)
	s.picks.chosen = append(s.picks.chosen, *u)
	columnar.SubClamp(s.left, s.worker.p.Vec(u.Row))
	s.lacks = cycle.PositiveDims(s.left)
	s.picks.ofGangs = s.picks.ofGangs || u.Gang >= 0
	if u.Key.Class == units.ClassElastic {
		s.addUpAgain(u.Gang)
	}
}

// addUpAgain recomputes what a gang would give after one of its members was taken.
func (s *selection) addUpAgain(gang int32) {
	for i := range s.listing.wholes {
		if u := &s.listing.wholes[i]; u.Gang == gang && u.Local != nil {
			if !u.Apart {
				u.Apart, u.Local, u.Global = true, s.worker.Finding.Vecs.Take(s.worker.p.Dims), s.worker.Finding.Vecs.Take(s.worker.p.Dims)
				s.listing.gangs.Odd = append(s.listing.gangs.Odd, int32(i))
			}
			s.addUp(u, &s.worker.p.st.Gangs.List[gang])
		}
	}
}

// takeWhole adds a whole gang to the plan; it replaces units of its members that were chosen.
func (s *selection) takeWhole(at int) {
	u := s.listing.wholes[at]
	if s.picks.ofGangs {
		s.dropMembers(u.Gang)
	}
	s.picks.chosen = append(s.picks.chosen, u)
	s.members(&u, s.mark)
	s.gainOf(&u, s.left)
	s.lacks = cycle.PositiveDims(s.left)
	s.listing.wholes[at].Apart, s.listing.wholes[at].Local = true, nil
	if u.List > 0 {
		had := len(s.listing.wholes)
		s.listing.lists[u.List-1].taken++
		if s.listing.readList(s, int(u.List-1)); len(s.listing.wholes) > had {
			s.orderGangs()
		}
	}
}

// dropMembers removes the chosen machines of a gang from the plan. A remainder, which another
// plan has broken off, is not part of the whole gang and may be chosen again.
func (s *selection) dropMembers(gang int32) {
	kept := s.picks.chosen[:0]
	copy(s.left, s.want)
	for i := range s.picks.chosen {
		switch u := &s.picks.chosen[i]; {
		case u.Gang != gang:
			s.gainOf(u, s.left)
			kept = append(kept, *u)
		case u.Remainder:
			s.picks.inPlan.Clear(uint32(u.Row))
			s.reader.extraAt, s.reader.sunkAt = 0, 0
			for j := range s.given.byTenant {
				s.given.byTenant[j].extraAt = s.given.byTenant[j].extraFrom
			}
		}
	}
	s.picks.chosen = kept
}

// gainOf subtracts from what is missing what the need could use of a unit.
func (s *selection) gainOf(u *units.Unit, missing []int64) {
	if u.Row != columnar.None {
		columnar.SubClamp(missing, s.worker.p.Vec(u.Row))
		return
	}
	columnar.SubClamp(missing, s.listing.gangs.Shapes[u.Shape].Local)
}
