package engine

import (
	"slices"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// substitutionsMax bounds how many substitutions a plan tries.
const substitutionsMax = 64

// selection chooses units for one need in one scope.
type selection struct {
	*lane
	need    int32
	cluster int32 // of the need; anyCluster
	k       *kind
	scope   *unitScope
	waits   bool  // a plan of the need has failed: it may preempt nobody for now
	keys    []int // key columns that hard spread constrains

	want   []int64 // what the units are chosen for
	left   []int64 // what is still missing of it
	lacks  uint64
	extra  []unit // of one machine, and of gangs; by key
	sunk   []unit // of one machine, of lost gangs; see sunkIn
	wholes []unit // by key, but for the ROI
	gangs  wholeIndex
	listed bool // extra and wholes have what could be taken of gangs
	// fresh: in this turn nothing has been chosen since the units were listed.
	fresh bool
	turn  uint32
	order []int32 // scratch: gangs
	// ofGangs: a machine of a gang has been chosen by itself.
	ofGangs bool
	chosen  []unit
	// Chosen first, and not taken after all; only with Explain.
	reprieved []unit
	walk      []walked // scratch of dry runs
	rows      []columnar.Row
	grounds   []ground
	instead   unit // that may take the place of a chosen one
	proposals []proposal
	had       []groundUnit // could be freed
	inPlan    bitmap.Dense // machines of the chosen units
	marked    []columnar.Row
	gentle    []unit // what may be put in the place of a unit
	spare     []columnar.Row

	// Memory of walks under hard spread.
	frees         [2][]freeOfKind
	ownFree, used []columnar.Row
	firsts        cursors // by flavour: those before are not to be had
	tuples        [2][]uint32

	// Where choosing has got to, and where what it looks at ends.
	flavourAt, flavourTo int
	outside              cursors // by flavour: those before are in the plan, or not to be had
	cursors              cursors // by flavour: those before have been looked at beyond that
	extraAt, extraTo     int
	sunkAt               int
	bandAt, wholeTo      int // of wholes: the first of the band at work

	// Reclaim between tenants.
	ledger ledger
	lots   []lot
	term   int64 // of the lot at work
}

// selectFor prepares the choice of units for a need; want is kept.
func (l *lane) selectFor(need int32, k *kind, scope *unitScope, want []int64) *selection {
	s := &l.sel
	s.need, s.cluster, s.waits = need, l.lines[need].cluster, l.backsOff(need)
	return l.selectUnits(k, scope, want)
}

// anyCluster is the cluster of nobody: all machines are others'.
const anyCluster int32 = -1

// selectUnits is selectFor for whom the selection names.
func (l *lane) selectUnits(k *kind, scope *unitScope, want []int64) *selection {
	s := &l.sel
	s.lane, s.k, s.scope, s.want, s.keys = l, k, scope, want, s.keys[:0]
	for i := range k.spread {
		s.keys = append(s.keys, l.s.Supply.Key(k.spread[i].Key))
	}
	if s.inPlan.Top() == 0 || s.inPlan.Top() < l.s.Supply.RowMax() {
		s.inPlan.Grow(l.s.Supply.RowMax())
	}
	s.extra, s.wholes = s.extra[:0], s.wholes[:0]
	s.gangs.reset(s.dims)
	scope.order(l.s.IDRank)
	s.unmark()
	if s.listed, s.sunk = s.reclaiming, nil; s.reclaiming {
		s.listBroken()
		s.listRest()
		s.listGangs()
		s.dealLots()
	} else if s.sunk = l.sunkIn(scope, k); scope.value != 0 {
		s.sortGangs()
	}
	s.rewind()
	s.fresh, s.turn = true, l.e.store.gangs.turn
	return s
}

// selectAgain is selectFor for who may have listed the same units last.
func (l *lane) selectAgain(need int32, k *kind, scope *unitScope, want []int64) *selection {
	s := &l.sel
	if s.fresh && s.turn == l.e.store.gangs.turn && s.need == need && s.k == k && s.scope == scope && &s.want[0] == &want[0] {
		return s
	}
	return l.selectFor(need, k, scope, want)
}

// sortGangs lists what could be taken of gangs, by key, unless that was done.
func (s *selection) sortGangs() {
	if s.listed {
		return
	}
	s.listed = true
	s.listGangs()
	slices.SortFunc(s.extra, func(a, b unit) int { return a.key.compare(&b.key) })
	s.sortWholes(func(a, b unit) int { return a.key.compare(&b.key) })
	s.gangs.group(s.wholes)
	s.extraAt, s.extraTo, s.bandAt, s.wholeTo = 0, len(s.extra), 0, len(s.wholes)
}

// needsGangs lists what could be taken of gangs if some of that might go before
// the next unit of one machine, if there is one; false when nothing was listed.
// Most needs that want a part find enough that goes before every gang.
func (s *selection) needsGangs(u *unit, ok bool) bool {
	if s.listed || ok && (!u.key.paid || u.key.band <= s.leastOfGangs()) {
		return false
	}
	s.sortGangs()
	return true
}

// rewind begins to choose anew.
func (s *selection) rewind() {
	s.left = append(s.left[:0], s.want...)
	s.lacks = positive(s.left)
	s.chosen, s.reprieved = s.chosen[:0], s.reprieved[:0]
	s.unmark()
	s.rewindSingles()
	s.bandAt, s.wholeTo = 0, len(s.wholes)
	if s.term = 0; s.reclaiming {
		s.rewindLots()
	}
	s.gangs.at, s.ofGangs = 0, false
}

// unmark forgets whose machines are in the plan.
func (s *selection) unmark() {
	for _, r := range s.marked {
		s.inPlan.Clear(uint32(r))
	}
	s.marked = s.marked[:0]
}

func (s *selection) rewindSingles() {
	s.rewindListing()
	s.outside.rewind(len(s.scope.flavours))
}

// mark notes a machine of a chosen unit.
func (s *selection) mark(r columnar.Row) {
	if !s.inPlan.Has(uint32(r)) {
		s.inPlan.Set(uint32(r))
		s.marked = append(s.marked, r)
	}
}

// isFree reports whether a machine is nobody's yet that could be a unit for
// the need, as far as plans and reservations go.
func (s *selection) isFree(r columnar.Row) bool {
	return !s.victimOf.Has(uint32(r)) && s.isOpen(r)
}

func (s *selection) isOpen(r columnar.Row) bool {
	switch {
	case s.takenBy(r) != noNeed || s.s.ClusterOf[s.s.View.Cluster[r]] == s.cluster:
		return false
	case s.s.View.State[r] == model.Draining:
		return !s.reserved.isVoided(r)
	}
	return !s.reserved.live(r)
}

// isHere reports whether the need could use a machine in the scope.
func (s *selection) isHere(r columnar.Row) bool {
	if !s.k.acceptsClass(s.s.View.Class[r]) {
		return false
	}
	value, ok := s.site(s.k.matcher, r)
	return ok && (s.scope.value == 0 || value == s.scope.value) && s.isPlaced(r)
}

// isPlaced reports whether a machine has every key that hard spread constrains.
func (s *selection) isPlaced(r columnar.Row) bool {
	for _, key := range s.keys {
		if s.s.Supply.Values(key)[r] == 0 {
			return false
		}
	}
	return true
}

// single makes a unit of one machine for needs of a priority.
func (l *lane) single(r columnar.Row, class unitClass, priority int32) unit {
	level := l.e.store.priority[r]
	score := l.score(r, priority, level)
	u := unit{row: r, gang: -1, level: level, giver: l.giverOf(r), key: unitKey{
		paid: true, band: l.keyBand(score), class: class, score: -score, cluster: -1, id: l.s.IDRank[r],
	}}
	if g := l.gangOf(r); g != 0 {
		u.gang = g - 1
		x := &l.e.store.gangs.list[g-1]
		u.key.cluster, u.key.group = x.cluster, x.group
	}
	return u
}

// gain adds what the need could use of a unit.
func (s *selection) gain(sum []int64, u *unit) {
	if u.row != columnar.None {
		columnar.SatAdd(sum, s.vec(u.row))
		return
	}
	columnar.SatAdd(sum, s.gangs.shapes[u.shape].local)
}

// members calls f for the machines of a unit, by id.
func (s *selection) members(u *unit, f func(columnar.Row)) {
	if u.row != columnar.None {
		f(u.row)
		return
	}
	for _, r := range s.e.store.gangs.list[u.gang].members {
		if !s.victimOf.Has(uint32(r)) {
			f(r)
		}
	}
}

// head returns the first machine, by id, of the tier at work that nobody has
// taken and that has something of the mask; false when the tier has none.
func (s *selection) head(mask uint64) (at int, ok bool) {
	flavours := s.scope.flavours
	tier := flavours[s.flavourAt].tier
	best := ^uint32(0)
	for i := s.scope.live(s.flavourAt); i < s.flavourTo && flavours[i].tier == tier; i = s.scope.live(i + 1) {
		f := &flavours[i]
		if f.first > best {
			break // nor will those behind have a smaller id
		}
		if !s.isOffered(i, mask) {
			continue
		}
		if s.reclaiming && !s.admitsClass(f.giver(), f.class) {
			continue
		}
		if r := s.headOf(i); r != columnar.None && s.s.IDRank[r] < best {
			best, at, ok = s.s.IDRank[r], i, true
		}
	}
	return at, ok
}

// isOffered reports whether the need may have machines of a flavour, as far as that goes
// for all of them, that have something of the mask.
func (s *selection) isOffered(at int, mask uint64) bool {
	f := &s.scope.flavours[at]
	return s.classMask[f.class]&mask != 0 && s.k.acceptsClass(f.class) && !s.isBarred(f)
}

// isBarred reports whether a flavour is not there for a need whose plan has failed: it
// waits before it preempts, and before it counts on what drains.
func (s *selection) isBarred(f *flavour) bool { return s.waits && (!f.excess || f.leaving) }

// headOf moves on to a flavour's first machine that is not in the plan and that
// the need may have, or to one behind those that are listed; None = there is none.
func (s *selection) headOf(i int) columnar.Row {
	f, c, listing := &s.scope.flavours[i], s.headAt(i), s.cursors.isSet(i)
	if !listing && s.outside.isSet(i) && c < len(f.rows) && !s.inPlan.Has(uint32(f.rows[c])) {
		return f.rows[c] // as it was found
	}
	if !s.hasLeft(f) {
		return columnar.None
	}
	for c = max(c, f.at); c < len(f.rows) && (s.inPlan.Has(uint32(f.rows[c])) || !s.isFree(f.rows[c]) || !s.isPlaced(f.rows[c])); c++ {
		s.probes++
	}
	if listing {
		s.cursors.set(i, c)
	} else {
		s.outside.set(i, c)
	}
	if c == len(f.rows) {
		return columnar.None
	}
	return f.rows[c]
}

// nextFlavour returns the flavour whose head is the next unit of no gang; false
// when there is none left.
func (s *selection) nextFlavour(mask uint64) (at int, ok bool) {
	for s.flavourAt < s.flavourTo || s.moreFlavours() {
		if at, ok := s.head(mask); ok {
			return at, true
		}
		flavours := s.scope.flavours
		for tier := flavours[s.flavourAt].tier; s.flavourAt < s.flavourTo && flavours[s.flavourAt].tier == tier; {
			s.flavourAt = s.scope.live(s.flavourAt + 1)
		}
	}
	return 0, false
}

// moreFlavours has the scope list more flavours, if there are more.
func (s *selection) moreFlavours() bool {
	if !s.extend(s.scope) {
		return false
	}
	s.flavourTo = len(s.scope.flavours)
	s.cursors.grow(s.flavourTo)
	s.outside.grow(s.flavourTo)
	return true
}

// headAt returns the place of a flavour's head.
func (s *selection) headAt(at int) int { return max(s.cursors.at(at), s.outside.at(at)) }

// ofFlavour makes a unit of the head of a flavour.
func (s *selection) ofFlavour(at int) unit {
	f := &s.scope.flavours[at]
	r := f.rows[s.headAt(at)]
	u := unit{row: r, gang: -1, level: f.level, giver: f.giver(), key: unitKey{
		paid: !f.excess, tenant: s.term, band: f.band, class: classPlain, score: -f.score, cluster: -1, id: s.s.IDRank[r],
	}}
	if f.excess {
		u.key.class = classExcess
		u.spared = s.spares(f)
	}
	return u
}

// nextSingle returns the unit of one machine with the smallest key that has
// something of the mask.
func (s *selection) nextSingle(mask uint64) (u unit, ok bool) {
	for s.extraAt < s.extraTo {
		x := &s.extra[s.extraAt]
		if r := x.row; s.classMask[s.s.View.Class[r]]&mask != 0 && !s.inPlan.Has(uint32(r)) && (!s.reclaiming || s.admitsUnit(x)) {
			x.key.tenant = s.term
			break
		}
		s.extraAt++
	}
	at, ok := s.nextFlavour(mask)
	if ok {
		u = s.ofFlavour(at)
	}
	if x := s.nextSunk(mask); x != nil && (!ok || x.key.compare(&u.key) < 0) {
		u, ok = *x, true
	}
	if s.extraAt < s.extraTo && (!ok || s.extra[s.extraAt].key.compare(&u.key) < 0) {
		return s.extra[s.extraAt], true
	}
	return u, ok
}

// choose takes, until nothing is missing, the unit with the smallest key of
// those that have something still missing, and reports whether all is covered.
func (s *selection) choose(gangs bool) bool {
	s.fresh = false
	if s.reclaiming {
		return s.chooseOfLots(gangs)
	}
	for s.lacks != 0 {
		u, ok := s.nextSingle(s.lacks)
		if s.needsGangs(&u, ok) {
			continue
		}
		w := -1
		if band, some := s.gangs.band(); gangs && some && !(ok && (!u.key.paid || u.key.band <= band)) {
			w = s.nextWhole() // it may go before the single one
		}
		switch {
		case w >= 0 && (!ok || s.wholes[w].key.compare(&u.key) < 0):
			s.takeWhole(w)
		case ok:
			s.take(&u)
		default:
			return false
		}
	}
	return true
}

// take adds a unit of one machine.
func (s *selection) take(u *unit) {
	s.mark(u.row)
	s.chosen = append(s.chosen, *u)
	columnar.SubClamp(s.left, s.vec(u.row))
	s.lacks = positive(s.left)
	s.ofGangs = s.ofGangs || u.gang >= 0
	if u.key.class == classElastic {
		s.addUpAgain(u.gang)
	}
}

// addUpAgain forms anew what a gang would give: one of its members is taken.
func (s *selection) addUpAgain(gang int32) {
	for i := range s.wholes {
		if u := &s.wholes[i]; u.gang == gang && u.local != nil {
			if !u.apart {
				u.apart, u.local, u.global = true, s.vecs.take(s.dims), s.vecs.take(s.dims)
				s.gangs.odd = append(s.gangs.odd, int32(i))
			}
			s.addUp(u, &s.e.store.gangs.list[gang])
		}
	}
}

// takeWhole adds a whole gang; it takes in what was chosen of its members.
func (s *selection) takeWhole(at int) {
	u := s.wholes[at]
	if s.ofGangs {
		s.dropMembers(u.gang)
	}
	s.chosen = append(s.chosen, u)
	s.members(&u, s.mark)
	s.gainOf(&u, s.left)
	s.lacks = positive(s.left)
	s.wholes[at].apart, s.wholes[at].local = true, nil
}

// dropMembers takes the chosen machines of a gang out again. What another plan
// has broken off it is not part of the whole, and may be chosen anew.
func (s *selection) dropMembers(gang int32) {
	kept := s.chosen[:0]
	copy(s.left, s.want)
	for i := range s.chosen {
		switch u := &s.chosen[i]; {
		case u.gang != gang:
			s.gainOf(u, s.left)
			kept = append(kept, *u)
		case u.remainder:
			s.inPlan.Clear(uint32(u.row))
			s.extraAt, s.sunkAt = 0, 0
			for j := range s.lots {
				s.lots[j].extraAt = s.lots[j].extraFrom
			}
		}
	}
	s.chosen = kept
}

// gainOf takes off what is missing what the need could use of a unit.
func (s *selection) gainOf(u *unit, missing []int64) {
	if u.row != columnar.None {
		columnar.SubClamp(missing, s.vec(u.row))
		return
	}
	columnar.SubClamp(missing, s.gangs.shapes[u.shape].local)
}
