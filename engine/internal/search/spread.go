package search

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// planSpread simulates what phase 1 would do under hard spread once the victims are free. Each
// step takes, among what the skew allows, a free machine if there is one, else the best unit.
// No unit is dropped afterwards: without one, the skew could forbid the others.
func (l *Worker) planSpread(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	l.Resume(need)
	flying := l.InFlightFor(need, k)
	l.p.CountInFlight(need, k, 0, l.Missing)
	flying = append(flying, l.subUsedBefore(need)...)
	pool := l.UnitsFor(k)
	s := l.selectFor(need, k, &pool.Anywhere, l.CopyForPlan(l.Missing))
	if s.any() {
		n.Status |= state.HasCandidates
	}
	used := s.underSkew(flying, true)
	if s.lacks != 0 && (len(s.listing.wholes) > 0 || s.worker.p.Tenants.Reclaiming) {
		s.rewind() // again without whole gangs: none is broken for a part
		used = s.underSkew(flying, false)
	}
	if s.lacks == 0 && len(s.picks.chosen)+len(flying)+len(used) > 0 {
		n.Status |= state.IsAwaiting
	}
	l.carryOut(need, k, &proposal{units: s.picks.chosen, used: used, missing: s.want})
}

// skewWalk is the state of one simulated walk under hard spread.
type skewWalk struct {
	sel  *selection
	own  []columnar.Row  // free machines that are held for the need, in keep order
	free [2][]freeOfKind // Idle, Speculative
	used []columnar.Row
	// uniform: the classes determine the constrained keys. So all machines of a class lie in
	// one domain, and the first stands for all.
	uniform bool
}

// freeOfKind is the free machines of a class, in the order of acquiring. Machines before at are
// not available.
type freeOfKind struct {
	class uint32
	rows  []columnar.Row
	at    int
	lower bool // machines held for lower ranks; false = those held for none
}

// underSkew takes machines and units until nothing is missing, or the skew permits none.
func (s *selection) underSkew(flying []columnar.Row, gangs bool) (used []columnar.Row) {
	w := skewWalk{sel: s, uniform: true, used: s.evenly.used[:0], own: s.evenly.ownFree[:0]}
	for stage := range w.free {
		w.free[stage] = s.evenly.frees[stage][:0]
	}
	sc := &s.worker.Acquiring.Spread
	s.worker.Acquiring.Spread.Start(s.worker.p.Snap.Supply, s.k.Spread)
	for _, key := range s.keys {
		w.uniform = w.uniform && s.worker.p.Snap.Supply.Splits(key)
	}
	for n, r := s.worker.p.Claims.Walk(&s.worker.p.Lines[s.need]); r != columnar.None; r = s.worker.p.Claims.Next(r, n) {
		sc.Count(r)
	}
	for _, r := range flying {
		sc.Count(r)
	}
	s.evenly.firsts.Rewind(len(s.scope.VictimGroups))
	w.listFree()
	w.layFloor()
	for s.lacks != 0 && (w.takeFree(0) || w.takeFree(1) || w.takeUnit(gangs)) {
	}
	s.evenly.used, s.evenly.ownFree, s.evenly.frees = w.used, w.own, w.free
	return w.used
}

// listFree lists what the need could acquire.
func (w *skewWalk) listFree() {
	for _, r := range w.sel.worker.p.Reserved.Of(w.sel.need) {
		if w.sel.worker.p.FreeReserved(r, w.sel.k) && w.sel.worker.p.Promised.TakenBy(r) == ranks.None {
			w.own = append(w.own, r)
		}
	}
	for stage := range w.free {
		pool := &w.sel.worker.p.Stock.Free[stage]
		for _, c := range w.sel.k.Classes {
			if pool.Has(c) {
				w.free[stage] = append(w.free[stage], freeOfKind{class: c, rows: pool.Rest(c)})
			}
		}
	}
	for stage, list := range w.sel.worker.p.Reserved.Lower.Classes {
		for i := range list {
			if x := &list[i]; w.sel.k.AcceptsClass(x.Class) && w.sel.worker.p.Reserved.Lower.Head(x, w.sel.worker.p.Taken) {
				w.free[stage] = append(w.free[stage], freeOfKind{class: x.Class, rows: x.Rows[x.At:], lower: true})
			}
		}
	}
}

// next advances to a class's first available machine; false when there is none.
func (w *skewWalk) next(f *freeOfKind) bool {
	for f.at < len(f.rows) && !w.isOffered(f, f.rows[f.at]) {
		w.sel.worker.Figures.Probes++
		f.at++
	}
	return f.at < len(f.rows)
}

// isOffered reports whether a free machine of a list is untaken and not in the plan. What is
// held for the need is listed in own instead.
func (w *skewWalk) isOffered(f *freeOfKind, r columnar.Row) bool {
	return !w.sel.worker.p.Taken[r] && w.sel.worker.p.Reserved.Lower.Has(r) == f.lower && !w.sel.picks.inPlan.Has(uint32(r)) && !w.sel.worker.p.Reserved.OwnedBy(r, w.sel.need)
}

// layFloor takes the minimum of counts over the values that have a candidate or a machine of
// the need now.
func (w *skewWalk) layFloor() {
	sc := &w.sel.worker.Acquiring.Spread
	note := func(r columnar.Row) {
		if w.sel.isPlaced(r) {
			sc.FloorAt(r)
		}
	}
	for _, r := range w.own {
		note(r)
	}
	for stage := range w.free {
		for i := range w.free[stage] {
			f := &w.free[stage][i]
			for more := w.next(f); more; more = !w.uniform && w.next(f) {
				note(f.rows[f.at])
				if !w.uniform {
					f.at++
				}
			}
			if !w.uniform {
				f.at = 0
			}
		}
	}
	if w.uniform {
		w.eachFirst(note)
		if !w.floorFull() {
			w.sel.eachOfGangs(func(r columnar.Row, _ int64) { note(r) })
		}
	} else {
		for w.sel.moreVictimGroups() {
		}
		w.sel.eachMachine(nil, func(r columnar.Row, _ int64) { note(r) })
	}
	sc.FloorAtOwn()
}

// eachFirst calls f for the first machine of each victim group that the need could have. It
// stops when all values count.
func (w *skewWalk) eachFirst(f func(columnar.Row)) {
	for i := w.sel.scope.NextLive(0); !w.floorFull() && (i < len(w.sel.scope.VictimGroups) || w.sel.moreVictimGroups()); i = w.sel.scope.NextLive(i + 1) {
		x := &w.sel.scope.VictimGroups[i]
		if w.sel.k.AcceptsClass(x.Class) && !w.sel.isBarred(x) && w.sel.offered(x) && w.first(i) {
			f(x.Rows[w.sel.evenly.firsts.At(i)])
		}
	}
}

// floorFull reports whether all values that a candidate may have count already.
func (w *skewWalk) floorFull() bool {
	t := w.sel.worker.p.Stock.Layouts[w.sel.k.Number]
	if t == nil {
		return false
	}
	for i := range t.Values {
		if len(w.sel.worker.Acquiring.Spread.Floor[i]) < len(t.Values[i]) {
			return false
		}
	}
	return true
}

// first advances to a victim group's first machine that the need may have; false when there is
// none.
func (w *skewWalk) first(i int) bool {
	f := &w.sel.scope.VictimGroups[i]
	if victims.IsShut(&w.sel.worker.p.Pass, f) || !w.sel.worker.p.HasLeft(f) {
		return false
	}
	c := max(w.sel.evenly.firsts.At(i), w.sel.worker.FirstOpen(f.Alike, w.sel.cluster))
	for c < len(f.Rows) && (w.sel.picks.inPlan.Has(uint32(f.Rows[c])) || !w.sel.isFreeOf(f.Alike, f.Rows[c])) {
		w.sel.worker.Figures.Probes++
		c++
	}
	if w.sel.evenly.firsts.Set(i, c); c < len(f.Rows) {
		return true
	}
	victims.NoteShut(&w.sel.worker.Worker, f)
	return false
}

// allows reports whether the skew permits a machine.
func (w *skewWalk) allows(r columnar.Row) bool {
	return w.sel.isPlaced(r) && w.sel.worker.Acquiring.Spread.Allows(w.values(0, r))
}

// values returns a machine's values of the constrained keys. It uses one of two buffers, so the
// result is valid until the next call with the same buffer.
func (w *skewWalk) values(list int, r columnar.Row) []uint32 {
	out := w.sel.evenly.tuples[list][:0]
	for _, key := range w.sel.keys {
		out = append(out, w.sel.worker.p.Snap.Supply.Values(key)[r])
	}
	w.sel.evenly.tuples[list] = out
	return out
}

// takeFree takes the next free machine of a stage, in the order of phase 1: what is held for
// the need, then by price, then by the values of the tuple.
func (w *skewWalk) takeFree(stage int) bool {
	best := columnar.None
	for _, r := range w.own {
		if w.sel.worker.p.StageOf(r) == stage && !w.sel.picks.inPlan.Has(uint32(r)) && w.helpsLeft(r) && w.sel.isPlaced(r) && (best == columnar.None || w.goesBefore(r, best, true, true, stage)) {
			best = r
		}
	}
	own := best != columnar.None
	for i := range w.free[stage] {
		if own {
			break
		}
		if r := w.headOf(&w.free[stage][i], stage); r != columnar.None && (best == columnar.None || w.goesBefore(r, best, false, false, stage)) {
			best = r
		}
	}
	if best == columnar.None {
		return false
	}
	w.sel.mark(best)
	w.step(best)
	return true
}

// headOf returns the first machine of a class that the skew allows and that has something of
// what is missing.
func (w *skewWalk) headOf(f *freeOfKind, stage int) columnar.Row {
	if w.sel.worker.p.ClassMask[f.class]&w.sel.lacks == 0 || !w.next(f) {
		return columnar.None
	}
	if w.uniform {
		if r := f.rows[f.at]; w.allows(r) {
			return r
		}
		return columnar.None
	}
	best := columnar.None
	for _, r := range f.rows[f.at:] {
		if w.isOffered(f, r) && w.allows(r) && (best == columnar.None || w.goesBefore(r, best, false, false, stage)) {
			best = r
		}
	}
	return best
}

// goesBefore reports whether a free machine goes before another of its stage.
func (w *skewWalk) goesBefore(a, b columnar.Row, ownA, ownB bool, stage int) bool {
	va, vb := w.values(0, a), w.values(1, b)
	if slices.Equal(va, vb) {
		return w.acquireKey(a, stage) < w.acquireKey(b, stage)
	}
	return w.sel.worker.p.CompareHeads(w.sel.k, a, b, ownA, ownB, va, vb) < 0
}

// acquireKey is a free machine's key in the order of acquiring.
func (w *skewWalk) acquireKey(r columnar.Row, stage int) uint64 {
	if w.sel.worker.p.Reserved.Lower.Has(r) {
		return w.sel.worker.p.Reserved.Lower.Key(r)
	}
	return uint64(w.sel.worker.p.Costs(w.sel.k, stage)[w.sel.worker.p.Snap.View.Class[r]])<<32 | uint64(w.sel.worker.p.Stock.Free[stage].Place.Of(r))
}

func (w *skewWalk) helpsLeft(r columnar.Row) bool {
	return w.sel.worker.p.ClassMask[w.sel.worker.p.Snap.View.Class[r]]&w.sel.lacks != 0
}

// step counts a machine as the need's.
func (w *skewWalk) step(r columnar.Row) {
	w.sel.worker.Acquiring.Spread.Count(r)
	w.used = append(w.used, r)
	columnar.SubClamp(w.sel.left, w.sel.worker.p.Vec(r))
	w.sel.lacks = cycle.PositiveDims(w.sel.left)
}

// takeUnit takes the unit with the smallest key that has a machine which the skew allows and
// which has something of what is missing.
func (w *skewWalk) takeUnit(gangs bool) bool {
	best, ok := w.bestUnit(gangs)
	if !ok {
		return false
	}
	if best.Key.Class == units.ClassWhole {
		w.sel.picks.chosen = slices.DeleteFunc(w.sel.picks.chosen, func(o units.Unit) bool { return o.Gang == best.Gang })
	}
	w.sel.picks.chosen = append(w.sel.picks.chosen, best)
	rows := w.sel.memory.rows[:0]
	w.sel.members(&best, func(r columnar.Row) { rows = append(rows, r) })
	w.sel.memory.rows = rows
	for _, r := range rows {
		w.sel.mark(r)
		if w.sel.isHere(r) && !slices.Contains(w.used, r) && w.helpsLeft(r) && w.allows(r) {
			w.step(r)
		}
	}
	if best.Gang >= 0 {
		w.sel.addUpAgain(best.Gang)
	}
	if w.sel.worker.p.Tenants.Reclaiming {
		w.sel.balance()
	}
	return true
}

// bestUnit returns the unit with the smallest key that the skew allows and, between tenants,
// the ledger admits.
func (w *skewWalk) bestUnit(gangs bool) (best units.Unit, ok bool) {
	if !w.sel.worker.p.Tenants.Reclaiming {
		return w.bestOfTenant(gangs)
	}
	for i := range w.sel.given.byTenant {
		w.sel.openTenantUnits(&w.sel.given.byTenant[i])
		if u, found := w.bestOfTenant(gangs); found && (!ok || u.Key.Compare(&best.Key) < 0) {
			best, ok = u, true
		}
	}
	return best, ok
}

func (w *skewWalk) bestOfTenant(gangs bool) (best units.Unit, ok bool) {
	best, ok = w.bestVictimGroup()
	for i := w.sel.reader.extraAt; i < w.sel.reader.extraTo; i++ {
		u := &w.sel.listing.extra[i]
		if w.sel.picks.inPlan.Has(uint32(u.Row)) || !w.helpsLeft(u.Row) || !w.allows(u.Row) || !w.sel.mayEnter(u) {
			continue
		}
		if u.Key.Tenant = w.sel.given.term; !ok || u.Key.Compare(&best.Key) < 0 {
			best, ok = *u, true
		}
		break // sorted by key
	}
	if u := w.bestSunk(); u != nil && (!ok || u.Key.Compare(&best.Key) < 0) {
		best, ok = *u, true
	}
	var least *units.Key
	if ok {
		least = &best.Key
	}
	if w.sel.listMoreGangs(least) {
		return w.bestOfTenant(gangs)
	}
	for i := w.sel.reader.bandAt; i < w.sel.reader.wholeTo; i++ {
		u := &w.sel.listing.wholes[i]
		if !gangs || !w.allowsAny(u) || !w.sel.mayEnter(u) {
			continue
		}
		u.Key.Roi, u.Key.Tenant = -exact.ROISteps(u.Local, u.Global, w.sel.left), w.sel.given.term
		if !ok || u.Key.Compare(&best.Key) < 0 {
			best, ok = *u, true
		}
	}
	return best, ok
}

// bestSunk returns the first machine of a lost gang that the skew allows; nil when there is
// none.
func (w *skewWalk) bestSunk() *units.Unit {
	for i := range w.sel.listing.sunk {
		u := &w.sel.listing.sunk[i]
		if !w.sel.picks.inPlan.Has(uint32(u.Row)) && w.helpsLeft(u.Row) && w.allows(u.Row) && w.sel.mayHaveSunk(u) {
			return u
		}
	}
	return nil
}

// allowsAny reports whether a whole gang has a machine that the need could take now.
func (w *skewWalk) allowsAny(u *units.Unit) bool {
	found := false
	w.sel.members(u, func(r columnar.Row) {
		found = found || !w.sel.picks.inPlan.Has(uint32(r)) && w.sel.isHere(r) && w.helpsLeft(r) && w.allows(r)
	})
	return found
}

// bestVictimGroup returns the first unit without a gang whose machine the skew allows.
func (w *skewWalk) bestVictimGroup() (u units.Unit, ok bool) {
	tier := int32(0) // of the unit that was found; settle lists no tier in part, so once a unit is found no more need be listed
	for i := w.sel.scope.NextLive(w.sel.reader.victimGroupAt); i < w.sel.reader.victimGroupTo || !ok && w.sel.moreVictimGroups(); i = w.sel.scope.NextLive(i + 1) {
		f := &w.sel.scope.VictimGroups[i]
		if ok && f.Tier != tier {
			break
		}
		if w.sel.worker.p.ClassMask[f.Class]&w.sel.lacks == 0 || !w.sel.k.AcceptsClass(f.Class) || w.sel.isBarred(f) {
			continue
		}
		if w.sel.worker.p.Tenants.Reclaiming && !w.sel.admitsClass(f.Giver(), f.Class) {
			continue
		}
		if !w.first(i) {
			continue
		}
		first := w.sel.evenly.firsts.At(i)
		for at := first; at < len(f.Rows); at++ {
			r := f.Rows[at]
			if at > first {
				w.sel.worker.Figures.Probes++
				if w.sel.picks.inPlan.Has(uint32(r)) || !w.sel.isFreeOf(f.Alike, r) {
					continue
				}
			}
			if w.allows(r) {
				w.sel.reader.cursors.Set(i, at)
				if x := w.sel.ofVictimGroup(i); !ok || x.Key.Compare(&u.Key) < 0 {
					u, ok, tier = x, true, f.Tier
				}
				break
			}
			if w.uniform {
				break
			}
		}
	}
	return u, ok
}
