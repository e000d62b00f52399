package engine

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// spreadPlan is one tuple of a hard-spread need in phase 2: what is free there, and what could
// be preempted.
type spreadPlan struct {
	values []uint32
	// own is the free machines that are held for the need.
	own     []columnar.Row
	free    [2][]columnar.Row // Idle, Speculative; in the order of acquiring
	victims []candidate       // in the order of victims
}

// preemptSpread takes only victims that phase 1 could use afterwards, with victims one by one.
// Each step takes, among the tuples that the skew allows, a free machine if there is one, else
// the best victim. The minimum also counts domains in which the need already has machines.
func (l *worker) preemptSpread(need int32, k *state.Kind) {
	n := &l.p.lines[need]
	l.search.vecs.Empty()
	l.resume(need)
	l.acquiring.spread.Start(l.p.s.Supply, k.Spread)
	sc := &l.acquiring.spread
	for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
		sc.Count(r)
	}
	flying := l.inFlightFor(need, k)
	for _, r := range flying {
		sc.Count(r)
	}
	l.p.countInFlight(need, k, 0, l.missing)
	if l.lacks = positive(l.missing); l.lacks == 0 {
		n.Status |= state.IsAwaiting
		return
	}
	plans := l.spreadPlans(need, k)
	sc.FloorAtTuples()
	sc.FloorAtOwn()
	var chosen []candidate
	for l.lacks != 0 {
		r, v := l.nextSpread(k, plans)
		if r == columnar.None {
			break
		}
		if v != nil {
			chosen = append(chosen, *v)
		}
		l.subtract(l.p.s.View.Class[r])
		sc.Count(r)
	}
	// Free machines alone are nothing to wait for.
	if l.lacks == 0 && len(chosen)+len(flying) > 0 {
		n.Status |= state.IsAwaiting
	}
	l.commit(chosen, need, k)
}

// inFlightFor returns the machines that countInFlight would use for the need.
func (l *worker) inFlightFor(need int32, k *state.Kind) []columnar.Row {
	if !l.p.reserved.Had(need) {
		return nil
	}
	missing := l.copyOf(l.missing)
	var out []columnar.Row
	for r := range l.p.onTheirWay(need) {
		if l.p.arrives(r, need, k) && columnar.Helps(l.p.vec(r), missing) {
			out = append(out, r)
			columnar.SubClamp(missing, l.p.vec(r))
		}
	}
	return out
}

// spreadPlans groups what is free and what could be preempted into tuples. The plans have the
// indices of l.spread.tuples.
func (l *worker) spreadPlans(need int32, k *state.Kind) []spreadPlan {
	sc := &l.acquiring.spread
	sc.ClearTuples()
	var plans []spreadPlan
	planOf := func(r columnar.Row) *spreadPlan {
		at := sc.TupleOf(r)
		if at < 0 {
			return nil
		}
		for len(plans) < len(sc.Tuples) {
			plans = append(plans, spreadPlan{values: sc.Tuples[len(plans)].Values})
		}
		return &plans[at]
	}
	for _, r := range l.p.reserved.Of(need) {
		if l.p.freeReserved(r, k) {
			if plan := planOf(r); plan != nil {
				plan.own = append(plan.own, r)
				plan.free[l.p.stageOf(r)] = append(plan.free[l.p.stageOf(r)], r)
			}
		}
	}
	for stage := range l.p.stock.free {
		for _, x := range l.freeInOrder(k, stage) {
			r := x.row
			if l.p.reserved.OwnedBy(r, need) {
				continue
			}
			if plan := planOf(r); plan != nil {
				plan.free[stage] = append(plan.free[stage], r)
			}
		}
	}
	for _, c := range l.p.candidates.poolOf[k.Number].list {
		if l.p.eligible(&c, need, k) {
			if plan := planOf(c.row); plan != nil {
				l.p.lines[need].Status |= state.HasCandidates
				plan.victims = append(plan.victims, c)
			}
		}
	}
	return plans
}

// nextSpread removes the next machine from the plans: a free one, or a victim.
func (l *worker) nextSpread(k *state.Kind, plans []spreadPlan) (columnar.Row, *candidate) {
	for stage := range 2 {
		best := -1
		for i := range plans {
			pl := &plans[i]
			pl.free[stage] = l.dropUseless(pl.free[stage])
			if len(pl.free[stage]) == 0 || !l.acquiring.spread.Allows(pl.values) && !slices.Contains(pl.own, pl.free[stage][0]) {
				continue
			}
			if best < 0 || l.p.comparePlans(k, pl, &plans[best], stage) < 0 {
				best = i
			}
		}
		if best >= 0 {
			r := plans[best].free[stage][0]
			plans[best].free[stage] = plans[best].free[stage][1:]
			return r, nil
		}
	}
	best := -1
	for i := range plans {
		pl := &plans[i]
		for len(pl.victims) > 0 && !l.helps(pl.victims[0].row) {
			pl.victims = pl.victims[1:]
		}
		if len(pl.victims) == 0 || !l.acquiring.spread.Allows(pl.values) {
			continue
		}
		if best < 0 || l.p.beforeAsVictim(&pl.victims[0], &plans[best].victims[0]) {
			best = i
		}
	}
	if best < 0 {
		return columnar.None, nil
	}
	v := &plans[best].victims[0]
	plans[best].victims = plans[best].victims[1:]
	return v.row, v
}

func (p *pass) comparePlans(k *state.Kind, a, b *spreadPlan, stage int) int {
	x, y := a.free[stage][0], b.free[stage][0]
	return p.compareHeads(k, x, y, slices.Contains(a.own, x), slices.Contains(b.own, y), a.values, b.values)
}

// dropUseless drops heads that have nothing of what is missing.
func (l *worker) dropUseless(rows []columnar.Row) []columnar.Row {
	for len(rows) > 0 && !l.helps(rows[0]) {
		rows = rows[1:]
	}
	return rows
}

// beforeAsVictim is the order of victims: excess, score, id.
func (fl *fleet) beforeAsVictim(a, b *candidate) bool {
	switch {
	case a.excess != b.excess:
		return a.excess
	case a.score != b.score:
		return a.score > b.score
	}
	return fl.s.IDRank[a.row] < fl.s.IDRank[b.row]
}
