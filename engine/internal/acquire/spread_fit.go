package acquire

import (
	"math"
	"math/bits"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// acquireSpreadFit acquires under hard spread with AcquireFit: Idle machines, then Speculative ones. Each
// step takes, among the machines that the skew allows, the one that costs least for what it covers of what is
// missing; among equals the first in the order of acquiring. Machines that are held for lower ranks
// come last. The Need has already taken those of its own held machines that help it; its other held machines are
// counted when the minima are found.
func (l *Worker) acquireSpreadFit(need int32, k *state.Kind) {
	f := l.fitterOf()
	if t := l.p.Stock.Layouts[k.Number]; t != nil {
		if !f.acquireOnly(need, k) {
			f.acquireTuples(t, need, k)
		}
		return
	}
	l.Acquiring.Spread.Start(l.p.Snap.Supply, k.Spread)
	if f.acquireOnly(need, k) {
		return
	}
	for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		l.Acquiring.Spread.Count(r)
	}
	blocked := false
	for stage := range l.p.Stock.Free {
		if l.Lacks == 0 {
			return
		}
		f.stage = stage
		f.floor(need, k)
		for l.Lacks != 0 {
			r := f.nextSpread(k)
			if r == columnar.None {
				break
			}
			l.ClaimFree(r, need, stage)
			l.Acquiring.Spread.Count(r)
		}
		blocked = blocked || f.anyPlaced(k)
	}
	if l.Lacks != 0 && blocked {
		l.p.noteSkewed(need)
	}
}

// acquireTuples is acquireSpreadFit where classes determine the constrained keys.
func (f *fitter) acquireTuples(t *tupleLayout, need int32, k *state.Kind) {
	l, x := f.l, &f.l.Acquiring.even
	x.start(t)
	for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		x.count(l.p, t, r)
	}
	blocked := false
	for stage := range l.p.Stock.Free {
		if l.Lacks == 0 {
			return
		}
		if !l.p.anyOf(k, stage) {
			continue // then no tuple has one
		}
		f.stage = stage
		t.markPresent(l, need, k, stage)
		for l.Lacks != 0 {
			f.markAllowed(t)
			r := f.bestHelping(k, f.allowed, nil).row
			if r == columnar.None {
				r = f.bestLower(k, func(r columnar.Row) bool { return t.allows(l.p.Snap.View.Class[r], f.allowed) })
			}
			if r == columnar.None {
				break
			}
			l.ClaimFree(r, need, stage)
			x.countTuple(t.tuples[t.tupleOf(l.p, r)].at)
		}
		blocked = blocked || f.anyPlaced(k)
	}
	if l.Lacks != 0 && blocked {
		l.p.noteSkewed(need)
	}
}

// allows reports whether machines of a class have all constrained keys and are in one of the allowed tuples; nil = all are allowed.
// Without a layout that is known of no class, and all are.
func (t *tupleLayout) allows(class uint32, allowed []bool) bool {
	if t == nil {
		return true
	}
	i := t.of[class] - 1
	return i >= 0 && (allowed == nil || allowed[i])
}

// markAllowed notes which tuples the skew permits one more machine of.
func (f *fitter) markAllowed(t *tupleLayout) {
	f.allowed = reuse.Resize(f.allowed, len(t.tuples))
	for i := range t.tuples {
		f.allowed[i] = f.l.Acquiring.even.allows(t, t.tuples[i].at)
	}
}

// eachPlaced calls visit for the available machines of the stage that have all constrained keys, until it returns
// false: those of a class that are not held, then those held for lower ranks. Of a class whose machines agree in
// the keys, only the first is visited.
func (f *fitter) eachPlaced(k *state.Kind, visit func(columnar.Row) bool) {
	x, goesOn := &f.l.p.Stock.Free[f.stage], true
	for _, c := range k.Classes {
		if x.Has(c) && !f.eachOfClass(c, k, visit) {
			return
		}
	}
	f.eachLower(k, func(r columnar.Row) { goesOn = goesOn && (!f.isPlaced(k, r) || visit(r)) })
}

// eachLower calls visit for the available machines of the stage that are held for lower ranks; where classes determine the
// constrained keys, for the first of each class.
func (f *fitter) eachLower(k *state.Kind, visit func(columnar.Row)) {
	lower := &f.l.p.Reserved.Lower
	if f.l.p.Stock.Layouts[k.Number] != nil {
		lower.EachFirst(k, f.stage, f.l.p.Taken, visit)
		return
	}
	lower.Each(k, f.stage, f.l.p.Taken, visit)
}

// isPlaced reports whether a machine has all constrained keys.
func (f *fitter) isPlaced(k *state.Kind, r columnar.Row) bool {
	if t := f.l.p.Stock.Layouts[k.Number]; t != nil {
		return t.tupleOf(f.l.p, r) >= 0
	}
	return f.l.Acquiring.Spread.IsPlaced(r)
}

// eachOfClass is eachPlaced for the machines of a class that are not held.
func (f *fitter) eachOfClass(class uint32, k *state.Kind, visit func(columnar.Row) bool) bool {
	x := &f.l.p.Stock.Free[f.stage]
	if t := f.l.p.Stock.Layouts[k.Number]; t != nil {
		f.l.Figures.Probes++
		return t.of[class] == 0 || visit(x.Head(class)) // the others are in the same place
	}
	for _, r := range x.Rest(class) {
		if !f.isOpen(r) {
			continue
		}
		if f.l.Figures.Probes++; f.l.Acquiring.Spread.IsPlaced(r) && !visit(r) {
			return false
		}
	}
	return true
}

// floor notes the values that have a candidate now: they count for the minimum.
func (f *fitter) floor(need int32, k *state.Kind) {
	sc := &f.l.Acquiring.Spread
	sc.ClearFloor()
	f.eachPlaced(k, func(r columnar.Row) bool {
		sc.FloorAt(r)
		return true
	})
	for _, r := range f.l.p.Reserved.Of(need) {
		if f.l.p.FreeReserved(r, k) && sc.IsPlaced(r) && f.l.p.StageOf(r) == f.stage {
			sc.FloorAt(r)
		}
	}
}

// offered is a candidate of a step: what it costs for what it covers, and its place in the order of
// acquiring.
type offered struct {
	row   columnar.Row
	owner uint64 // of a machine that is held: its owner's place
	ratio float64
	key   uint64
}

func (a *offered) before(b *offered) bool {
	switch {
	case b.row == columnar.None:
		return true
	case a.owner != b.owner:
		return a.owner < b.owner
	case a.ratio != b.ratio:
		return a.ratio < b.ratio
	}
	return a.key < b.key
}

// nextSpread returns the machine that the next step takes; None if there is none.
func (f *fitter) nextSpread(k *state.Kind) columnar.Row {
	if r := f.bestHelping(k, nil, f.allowsAt).row; r != columnar.None {
		return r
	}
	return f.bestLower(k, func(r columnar.Row) bool { return f.isPlaced(k, r) && f.allowsAt(r) })
}

// bestLower returns the first of the machines that help and are held for lower ranks, of those that the skew allows: that of the
// lowest owner, then the one that costs least for what it covers, then the first in keep order. None if there is none.
func (f *fitter) bestLower(k *state.Kind, allows func(columnar.Row) bool) columnar.Row {
	l, best := f.l, offered{}
	f.eachLower(k, func(r columnar.Row) {
		l.Figures.Probes++
		if !l.Helps(r) || !allows(r) {
			return
		}
		x := offered{r, uint64(l.p.Reserved.Lower.Owner(r)), f.costPerCover(l.p.Snap.View.Class[r], k), l.p.Snap.KeepKey(r)}
		if x.before(&best) {
			best = x
		}
	})
	return best.row
}

// bestHelping returns the first of the machines that are not held, that help, and that the skew admits: where classes
// determine the constrained keys those of allowed tuples, else those that allowsAt admits; nil = all. A machine
// covers at most one part of each row, so where machines cost more than the best one does for all rows, the
// search ends. It leaves in tied the classes of which one does as well, up to the place in the order.
func (f *fitter) bestHelping(k *state.Kind, allowed []bool, allowsAt func(columnar.Row) bool) (best offered) {
	l, x := f.l, &f.l.p.Stock.Free[f.stage]
	t := l.p.Stock.Layouts[k.Number]
	costs, rows := l.p.Costs(k, f.stage), float64(bits.OnesCount64(l.Lacks))
	f.tied = f.tied[:0]
	ladder := f.l.p.Stock.Ladders[k.Number][f.stage]
	if ladder.Epoch != l.p.Stock.Epoch {
		ladder.Epoch = l.p.Stock.Epoch
		ladder.Reopen()
	}
	for i := ladder.Low; i < len(ladder.Steps); i++ {
		step := &ladder.Steps[i]
		if best.row != columnar.None && f.l.p.CostIn(step.Classes[0], k, f.stage) > best.ratio*rows*(1+costSlack) {
			break
		}
		for _, c := range step.Classes[:step.Live] {
			if !x.Has(c) || l.p.ClassMask[c]&l.Lacks == 0 || !k.AcceptsClass(c) || !t.allows(c, allowed) {
				continue
			}
			ratio, rank := f.costPerCover(c, k), uint64(costs[c])<<32
			if best.row != columnar.None && (best.ratio < ratio || best.ratio == ratio && best.key < rank) {
				continue
			}
			f.eachOfClass(c, k, func(r columnar.Row) bool {
				if allowsAt != nil && !allowsAt(r) {
					return true
				}
				if best.row == columnar.None || ratio != best.ratio || rank != best.key>>32<<32 {
					f.tied = f.tied[:0] // it is better than all before
				}
				f.tied = append(f.tied, fitPick{class: c, rank: costs[c]})
				if o := (offered{r, 0, ratio, rank | uint64(x.Place.Of(r))}); o.before(&best) {
					best = o
				}
				return false // later ones of the class cost as much
			})
		}
	}
	return best
}

// costSlack is more than the relative error of a cost for what is covered.
const costSlack = 1e-9

// acquireOnly acquires one machine for a Need without any if that covers everything. The skew permits any
// first machine, so nothing has to be counted.
func (f *fitter) acquireOnly(need int32, k *state.Kind) bool {
	l := f.l
	if l.p.Lines[need].Tail != columnar.None {
		return false
	}
	for stage := range l.p.Stock.Free {
		f.stage = stage
		best := f.bestOnly(need, k)
		if best != columnar.None && columnar.Covers(l.p.Vec(best), l.Missing) {
			l.ClaimFree(best, need, stage)
			return true
		}
		if best != columnar.None || l.p.anyOf(k, stage) {
			return false
		}
	}
	return false
}

// bestOnly returns the first machine that helps, as bestHelping does, for a Need that has none; None when none does. Where classes
// determine the constrained keys it is kept: the best classes are the same until none of them has machines, or another one has
// machines again.
func (f *fitter) bestOnly(need int32, k *state.Kind) columnar.Row {
	l, m := f.l, &f.memo
	key := fitKey{l.p.Lines[need].Kind, int8(f.stage), onlyOffers}
	keeps := l.p.Stock.Layouts[k.Number] != nil
	if keeps {
		if e := m.find(key, l.Missing); e != nil {
			if c, ok := f.firstClass(m.picks[e.picks[0]:e.picks[1]]); ok {
				return l.p.Free[f.stage].Head(c)
			}
		}
	}
	best := f.bestHelping(k, nil, nil)
	if keeps && best.row != columnar.None {
		if e := m.add(key, l.Missing, 0); e != nil {
			m.picks = append(m.picks, f.tied...)
			m.end(e)
		}
	}
	return best.row
}

// firstClass returns the class, of some that cost the same, whose next machine comes first; ok is false when none has machines.
func (f *fitter) firstClass(picks []fitPick) (class uint32, ok bool) {
	x := &f.l.p.Free[f.stage]
	first := uint32(free.Exhausted)
	for i := range picks {
		if at := x.Key[picks[i].class]; at < first {
			class, first, ok = picks[i].class, at, true
		}
	}
	return class, ok
}

// costPerCover returns what a machine of a class costs for the parts that it covers of what is missing.
func (f *fitter) costPerCover(class uint32, k *state.Kind) float64 {
	l := f.l
	cost := l.p.CostIn(class, k, f.stage)
	if cost == 0 || math.IsInf(cost, 1) {
		return cost
	}
	v, covered := l.p.Vector(class), 0.0
	for _, d := range f.byName {
		if m := l.Missing[d]; m > 0 {
			covered += float64(min(v[d], m)) / float64(m)
		}
	}
	return cost / covered
}

// anyPlaced reports whether a machine was left that has something of what is missing. Only the skew can have
// forbidden it.
func (f *fitter) anyPlaced(k *state.Kind) bool {
	l := f.l
	if l.Lacks == 0 {
		return false
	}
	found := false
	f.eachPlaced(k, func(r columnar.Row) bool {
		found = found || l.Helps(r)
		return !found
	})
	return found
}
