package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// planSpread simulates what phase 1 would do under hard spread once the victims are free. Each
// step takes, among what the skew allows, a free machine if there is one, else the best unit.
// No unit is dropped afterwards: without one, the skew could forbid the others.
func (l *worker) planSpread(need int32, k *state.Kind) {
	n := &l.lines[need]
	l.resume(need)
	flying := l.inFlightFor(need, k)
	l.countInFlight(need, k, 0, l.missing)
	flying = append(flying, l.subUsedBefore(need)...)
	pool := l.unitsFor(k)
	s := l.selectFor(need, k, &pool.anywhere, l.copyOf(l.missing))
	if s.any() {
		n.Status |= state.HasCandidates
	}
	used := s.underSkew(flying, true)
	if s.lacks != 0 && (len(s.wholes) > 0 || s.reclaiming) {
		s.rewind() // again without whole gangs: none is broken for a part
		used = s.underSkew(flying, false)
	}
	if s.lacks == 0 && len(s.chosen)+len(flying)+len(used) > 0 {
		n.Status |= state.IsAwaiting
	}
	l.carryOut(need, k, &proposal{units: s.chosen, used: used, missing: s.want})
}

// skewWalk is the state of one simulated walk under hard spread.
type skewWalk struct {
	*selection
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
	w := skewWalk{selection: s, uniform: true, used: s.used[:0], own: s.ownFree[:0]}
	for stage := range w.free {
		w.free[stage] = s.frees[stage][:0]
	}
	sc := &s.spread
	s.spread.Start(s.s.Supply, s.k.Spread)
	for _, key := range s.keys {
		w.uniform = w.uniform && s.s.Supply.Splits(key)
	}
	for r := s.lines[s.need].Head; r != columnar.None; r = s.claims.Next(r) {
		sc.Count(r)
	}
	for _, r := range flying {
		sc.Count(r)
	}
	s.firsts.Rewind(len(s.scope.victimGroups))
	w.listFree()
	w.layFloor()
	for s.lacks != 0 && (w.takeFree(0) || w.takeFree(1) || w.takeUnit(gangs)) {
	}
	s.used, s.ownFree, s.frees = w.used, w.own, w.free
	return w.used
}

// listFree lists what the need could acquire.
func (w *skewWalk) listFree() {
	for _, r := range w.reserved.of(w.need) {
		if w.freeReserved(r, w.k) && w.takenBy(r) == order.None {
			w.own = append(w.own, r)
		}
	}
	for stage := range w.free {
		pool := &w.worker.free[stage]
		for _, c := range w.k.Classes {
			if pool.Has(c) {
				w.free[stage] = append(w.free[stage], freeOfKind{class: c, rows: pool.Rest(c)})
			}
		}
	}
	for stage, list := range w.reserved.lower.classes {
		for i := range list {
			if x := &list[i]; w.k.AcceptsClass(x.class) && w.headOfLower(x) {
				w.free[stage] = append(w.free[stage], freeOfKind{class: x.class, rows: x.rows[x.at:], lower: true})
			}
		}
	}
}

// next advances to a class's first available machine; false when there is none.
func (w *skewWalk) next(f *freeOfKind) bool {
	for f.at < len(f.rows) && !w.isOffered(f, f.rows[f.at]) {
		w.probes++
		f.at++
	}
	return f.at < len(f.rows)
}

// isOffered reports whether a free machine of a list is untaken and not in the plan. What is
// held for the need is listed in own instead.
func (w *skewWalk) isOffered(f *freeOfKind, r columnar.Row) bool {
	return !w.taken[r] && w.reserved.lower.has(r) == f.lower && !w.inPlan.Has(uint32(r)) && !w.reserved.ownedBy(r, w.need)
}

// layFloor takes the minimum of counts over the values that have a candidate or a machine of
// the need now.
func (w *skewWalk) layFloor() {
	sc := &w.spread
	note := func(r columnar.Row) {
		if w.isPlaced(r) {
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
			w.eachOfGangs(func(r columnar.Row, _ int64) { note(r) })
		}
	} else {
		w.eachMachine(func(r columnar.Row, _ int64) { note(r) })
	}
	sc.FloorAtOwn()
}

// eachFirst calls f for the first machine of each victim group that the need could have. It
// stops when all values count.
func (w *skewWalk) eachFirst(f func(columnar.Row)) {
	for i := w.scope.live(0); i < len(w.scope.victimGroups) && !w.floorFull(); i = w.scope.live(i + 1) {
		x := &w.scope.victimGroups[i]
		if w.k.AcceptsClass(x.Class) && !w.isBarred(x) && w.offered(x) && w.first(i) {
			f(x.Rows[w.firsts.At(i)])
		}
	}
}

// floorFull reports whether all values that a candidate may have count already.
func (w *skewWalk) floorFull() bool {
	t := w.layouts[w.k.Number]
	if t == nil {
		return false
	}
	for i := range t.values {
		if len(w.spread.Floor[i]) < len(t.values[i]) {
			return false
		}
	}
	return true
}

// first advances to a victim group's first machine that the need may have; false when there is
// none.
func (w *skewWalk) first(i int) bool {
	f := &w.scope.victimGroups[i]
	if !w.hasLeft(f) {
		return false
	}
	c := max(w.firsts.At(i), f.At)
	for c < len(f.Rows) && (w.inPlan.Has(uint32(f.Rows[c])) || !w.isFreeOf(f.Alike, f.Rows[c])) {
		w.probes++
		c++
	}
	w.firsts.Set(i, c)
	return c < len(f.Rows)
}

// allows reports whether the skew permits a machine.
func (w *skewWalk) allows(r columnar.Row) bool {
	return w.isPlaced(r) && w.spread.Allows(w.values(0, r))
}

// values returns a machine's values of the constrained keys. It uses one of two buffers, so the
// result is valid until the next call with the same buffer.
func (w *skewWalk) values(list int, r columnar.Row) []uint32 {
	out := w.tuples[list][:0]
	for _, key := range w.keys {
		out = append(out, w.s.Supply.Values(key)[r])
	}
	w.tuples[list] = out
	return out
}

// takeFree takes the next free machine of a stage, in the order of phase 1: what is held for
// the need, then by price, then by the values of the tuple.
func (w *skewWalk) takeFree(stage int) bool {
	best := columnar.None
	for _, r := range w.own {
		if w.stageOf(r) == stage && !w.inPlan.Has(uint32(r)) && w.helpsLeft(r) && w.isPlaced(r) && (best == columnar.None || w.goesBefore(r, best, true, true, stage)) {
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
	w.mark(best)
	w.step(best)
	return true
}

// headOf returns the first machine of a class that the skew allows and that has something of
// what is missing.
func (w *skewWalk) headOf(f *freeOfKind, stage int) columnar.Row {
	if w.classMask[f.class]&w.lacks == 0 || !w.next(f) {
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
	return w.compareHeads(w.k, a, b, ownA, ownB, va, vb) < 0
}

// acquireKey is a free machine's key in the order of acquiring.
func (w *skewWalk) acquireKey(r columnar.Row, stage int) uint64 {
	if w.reserved.lower.has(r) {
		return w.reserved.lower.key(r)
	}
	return uint64(w.costs(w.k, stage)[w.s.View.Class[r]])<<32 | uint64(w.worker.free[stage].Place[r])
}

func (w *skewWalk) helpsLeft(r columnar.Row) bool {
	return w.classMask[w.s.View.Class[r]]&w.lacks != 0
}

// step counts a machine as the need's.
func (w *skewWalk) step(r columnar.Row) {
	w.spread.Count(r)
	w.used = append(w.used, r)
	columnar.SubClamp(w.left, w.vec(r))
	w.lacks = positive(w.left)
}

// takeUnit takes the unit with the smallest key that has a machine which the skew allows and
// which has something of what is missing.
func (w *skewWalk) takeUnit(gangs bool) bool {
	best, ok := w.bestUnit(gangs)
	if !ok {
		return false
	}
	if best.Key.Class == units.ClassWhole {
		w.chosen = slices.DeleteFunc(w.chosen, func(o units.Unit) bool { return o.Gang == best.Gang })
	}
	w.chosen = append(w.chosen, best)
	rows := w.rows[:0]
	w.members(&best, func(r columnar.Row) { rows = append(rows, r) })
	w.rows = rows
	for _, r := range rows {
		w.mark(r)
		if w.isHere(r) && !slices.Contains(w.used, r) && w.helpsLeft(r) && w.allows(r) {
			w.step(r)
		}
	}
	if best.Gang >= 0 {
		w.addUpAgain(best.Gang)
	}
	if w.reclaiming {
		w.balance()
	}
	return true
}

// bestUnit returns the unit with the smallest key that the skew allows and, between tenants,
// the ledger admits.
func (w *skewWalk) bestUnit(gangs bool) (best units.Unit, ok bool) {
	if !w.reclaiming {
		return w.bestOfTenant(gangs)
	}
	for i := range w.unitsByTenant {
		w.openTenantUnits(&w.unitsByTenant[i])
		if u, found := w.bestOfTenant(gangs); found && (!ok || u.Key.Compare(&best.Key) < 0) {
			best, ok = u, true
		}
	}
	return best, ok
}

func (w *skewWalk) bestOfTenant(gangs bool) (best units.Unit, ok bool) {
	best, ok = w.bestVictimGroup()
	for i := w.extraAt; i < w.extraTo; i++ {
		u := &w.extra[i]
		if w.inPlan.Has(uint32(u.Row)) || !w.helpsLeft(u.Row) || !w.allows(u.Row) || !w.mayEnter(u) {
			continue
		}
		if u.Key.Tenant = w.term; !ok || u.Key.Compare(&best.Key) < 0 {
			best, ok = *u, true
		}
		break // sorted by key
	}
	if u := w.bestSunk(); u != nil && (!ok || u.Key.Compare(&best.Key) < 0) {
		best, ok = *u, true
	}
	if w.needsGangs(&best, ok) {
		return w.bestOfTenant(gangs)
	}
	for i := w.bandAt; i < w.wholeTo; i++ {
		u := &w.wholes[i]
		if !gangs || !w.allowsAny(u) || !w.mayEnter(u) {
			continue
		}
		u.Key.Roi, u.Key.Tenant = -exact.ROISteps(u.Local, u.Global, w.left), w.term
		if !ok || u.Key.Compare(&best.Key) < 0 {
			best, ok = *u, true
		}
	}
	return best, ok
}

// bestSunk returns the first machine of a lost gang that the skew allows; nil when there is
// none.
func (w *skewWalk) bestSunk() *units.Unit {
	for i := range w.sunk {
		u := &w.sunk[i]
		if !w.inPlan.Has(uint32(u.Row)) && w.helpsLeft(u.Row) && w.allows(u.Row) && w.mayHaveSunk(u) {
			return u
		}
	}
	return nil
}

// allowsAny reports whether a whole gang has a machine that the need could take now.
func (w *skewWalk) allowsAny(u *units.Unit) bool {
	found := false
	w.members(u, func(r columnar.Row) {
		found = found || !w.inPlan.Has(uint32(r)) && w.isHere(r) && w.helpsLeft(r) && w.allows(r)
	})
	return found
}

// bestVictimGroup returns the first unit without a gang whose machine the skew allows.
func (w *skewWalk) bestVictimGroup() (u units.Unit, ok bool) {
	victimGroups := w.scope.victimGroups
	tier := int32(0) // of the unit that was found
	for i := w.scope.live(w.victimGroupAt); i < w.victimGroupTo; i = w.scope.live(i + 1) {
		f := &victimGroups[i]
		if ok && f.Tier != tier {
			break
		}
		if w.classMask[f.Class]&w.lacks == 0 || !w.k.AcceptsClass(f.Class) || w.isBarred(f) {
			continue
		}
		if w.reclaiming && !w.admitsClass(f.Giver(), f.Class) {
			continue
		}
		if !w.first(i) {
			continue
		}
		first := w.firsts.At(i)
		for at := first; at < len(f.Rows); at++ {
			r := f.Rows[at]
			if at > first {
				w.probes++
				if w.inPlan.Has(uint32(r)) || !w.isFreeOf(f.Alike, r) {
					continue
				}
			}
			if w.allows(r) {
				w.cursors.Set(i, at)
				if x := w.ofVictimGroup(i); !ok || x.Key.Compare(&u.Key) < 0 {
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
