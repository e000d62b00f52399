package preempt

import (
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// spreadPlan is one tuple of a hard-spread need in phase 2: what is free there, and what could
// be preempted.
type spreadPlan struct {
	values []uint32
	// own is the free machines that are held for the need.
	own     []columnar.Row
	free    [2][]columnar.Row   // Idle, Speculative; in the order of acquiring
	victims []victims.Candidate // in the order of victims, also those that are not eligible
}

// preemptSpread takes only victims that phase 1 could use afterwards, with victims one by one.
// Each step takes, among the tuples that the skew allows, a free machine if there is one, else
// the best victim. The minimum also counts domains in which the need already has machines.
func (l *Worker) preemptSpread(need int32, k *state.Kind) {
	n := &l.p.Lines[need]
	l.Finding.Vecs.Empty()
	l.Resume(need)
	l.Acquiring.Spread.Start(l.p.Snap.Supply, k.Spread)
	sc := &l.Acquiring.Spread
	for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		sc.Count(r)
	}
	flying := l.InFlightFor(need, k)
	for _, r := range flying {
		sc.Count(r)
	}
	l.p.CountInFlight(need, k, 0, l.Missing)
	if l.Lacks = cycle.PositiveDims(l.Missing); l.Lacks == 0 {
		n.Status |= state.IsAwaiting
		return
	}
	plans := l.spreadPlans(need, k)
	sc.FloorAtTuples()
	sc.FloorAtOwn()
	var chosen []victims.Candidate
	for l.Lacks != 0 {
		r, v := l.nextSpread(need, k, plans)
		if r == columnar.None {
			break
		}
		if v != nil {
			chosen = append(chosen, *v)
		}
		l.Subtract(l.p.Snap.View.Class[r])
		sc.Count(r)
	}
	// Free machines alone are nothing to wait for.
	if l.Lacks == 0 && len(chosen)+len(flying) > 0 {
		n.Status |= state.IsAwaiting
	}
	l.MakeVictims(chosen, need, k)
}

// spreadPlans groups what is free and what could be preempted into tuples. The plans have the
// indices of l.Acquiring.Spread.Tuples.
func (l *Worker) spreadPlans(need int32, k *state.Kind) []spreadPlan {
	sc := &l.Acquiring.Spread
	dealt := victims.ByTuple(&l.Worker.Worker, k, sc.Keys(), sc.TupleOf)
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
	for _, r := range l.p.Reserved.Of(need) {
		if l.p.FreeReserved(r, k) {
			if plan := planOf(r); plan != nil {
				plan.own = append(plan.own, r)
				plan.free[l.p.StageOf(r)] = append(plan.free[l.p.StageOf(r)], r)
			}
		}
	}
	for stage := range l.p.Stock.Free {
		for _, x := range l.FreeInOrder(k, stage) {
			r := x.Row
			if l.p.Reserved.OwnedBy(r, need) {
				continue
			}
			if plan := planOf(r); plan != nil {
				plan.free[stage] = append(plan.free[stage], r)
			}
		}
	}
	for _, list := range dealt {
		for len(list) > 0 && !l.p.Eligible(&list[0], need, k) {
			l.Figures.Probes++
			list = list[1:]
		}
		if len(list) > 0 {
			l.p.Lines[need].Status |= state.HasCandidates
			planOf(list[0].Row).victims = list
		}
	}
	return plans
}

// nextSpread removes the next machine from the plans: a free one, or a victim.
func (l *Worker) nextSpread(need int32, k *state.Kind, plans []spreadPlan) (columnar.Row, *victims.Candidate) {
	for stage := range 2 {
		best := -1
		for i := range plans {
			pl := &plans[i]
			pl.free[stage] = l.dropUseless(pl.free[stage])
			if len(pl.free[stage]) == 0 || !l.Acquiring.Spread.Allows(pl.values) && !slices.Contains(pl.own, pl.free[stage][0]) {
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
		for len(pl.victims) > 0 && (!l.Helps(pl.victims[0].Row) || !l.p.Eligible(&pl.victims[0], need, k)) {
			l.Figures.Probes++
			pl.victims = pl.victims[1:]
		}
		if len(pl.victims) == 0 || !l.Acquiring.Spread.Allows(pl.values) {
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
	return v.Row, v
}

func (p *Pass) comparePlans(k *state.Kind, a, b *spreadPlan, stage int) int {
	x, y := a.free[stage][0], b.free[stage][0]
	return p.CompareHeads(k, x, y, slices.Contains(a.own, x), slices.Contains(b.own, y), a.values, b.values)
}

// dropUseless drops heads that have nothing of what is missing.
func (l *Worker) dropUseless(rows []columnar.Row) []columnar.Row {
	for len(rows) > 0 && !l.Helps(rows[0]) {
		rows = rows[1:]
	}
	return rows
}

// beforeAsVictim is the order of victims: excess, score, id.
func (p *Pass) beforeAsVictim(a, b *victims.Candidate) bool {
	switch {
	case a.Excess != b.Excess:
		return a.Excess
	case a.Score != b.Score:
		return a.Score > b.Score
	}
	return p.Snap.IDRank(a.Row) < p.Snap.IDRank(b.Row)
}
