package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// spreadPlan is one tuple of a hard-spread need in phase 2: what is free
// there, and what could be preempted.
type spreadPlan struct {
	tuple
	free    [2][]columnar.Row // Idle, Speculative; in the order of acquiring
	victims []candidate       // in the order of victims
}

// preemptSpread takes only victims that phase 1 could use afterwards: step by
// step, among the tuples that the skew allows, a free machine if there is one,
// else the best victim. The minimum also looks at the domains where the need
// has machines already.
func (p *pass) preemptSpread(need int) {
	n := &p.needs[need]
	copy(p.missing, p.deficit(need))
	p.startSpread(n)
	sc := &p.scratch.spread
	for _, r := range p.claims[n.claimFrom:n.claimTo] {
		sc.count(p, r)
	}
	flying := p.inFlightFor(need)
	for _, r := range flying {
		sc.count(p, r)
	}
	p.countInFlight(need, 0, p.missing)
	if n.awaiting = columnar.IsZero(p.missing); n.awaiting {
		return
	}
	plans := p.spreadPlans(need)
	sc.floorAtTuples()
	for i := range sc.keys {
		for v, c := range sc.counts[i] {
			if c > 0 {
				sc.floor[i][v] = true
			}
		}
	}
	var chosen []candidate
	for !columnar.IsZero(p.missing) {
		r, v := p.nextSpread(n, plans)
		if r == columnar.None {
			break
		}
		if v != nil {
			chosen = append(chosen, *v)
		}
		columnar.SubClamp(p.missing, p.vec(r))
		sc.count(p, r)
	}
	// Free machines alone are nothing to wait for.
	n.awaiting = columnar.IsZero(p.missing) && len(chosen)+len(flying) > 0
	p.commit(chosen, need)
}

// inFlightFor returns the machines that countInFlight would use for the need.
func (p *pass) inFlightFor(need int) []columnar.Row {
	missing := slices.Clone(p.deficit(need))
	var out []columnar.Row
	for _, r := range p.reserved.rows[int32(need)] {
		if p.arrives(r, need) && columnar.Helps(p.vec(r), missing) {
			out = append(out, r)
			columnar.SubClamp(missing, p.vec(r))
		}
	}
	return out
}

// spreadPlans deals what is free and what could be preempted into tuples. The
// scratch's tuples are the same, in the same order.
func (p *pass) spreadPlans(need int) []spreadPlan {
	n := &p.needs[need]
	sc := &p.scratch.spread
	sc.clearTuples()
	var plans []spreadPlan
	planOf := func(r columnar.Row) *spreadPlan {
		t := sc.tupleOf(p, r)
		if t == nil {
			return nil
		}
		for len(plans) < len(sc.tuples) {
			plans = append(plans, spreadPlan{tuple: tuple{values: sc.tuples[len(plans)].values}})
		}
		return &plans[sc.byKey[string(sc.enc)]]
	}
	for _, r := range p.reserved.rows[int32(need)] {
		if p.freeReserved(r, need) {
			if plan := planOf(r); plan != nil {
				plan.own = append(plan.own, r)
				plan.free[0] = append(plan.free[0], r)
			}
		}
	}
	for stage, state := range [...]model.State{model.Idle, model.Speculative} {
		for _, r := range p.freeInOrder(need, state) {
			if p.reserved.ownedBy(r, need) {
				continue
			}
			if plan := planOf(r); plan != nil {
				plan.free[stage] = append(plan.free[stage], r)
			}
		}
	}
	for _, c := range p.victimPool(n).list {
		if p.eligible(&c, need) {
			if plan := planOf(c.row); plan != nil {
				n.found = true
				plan.victims = append(plan.victims, c)
			}
		}
	}
	return plans
}

// freeInOrder returns the free machines of a state that suit a need, in the
// order in which it would acquire them.
func (p *pass) freeInOrder(need int, state model.State) []columnar.Row {
	type keyed struct {
		key uint64
		row columnar.Row
	}
	var all []keyed
	p.classSources(need, state)
	for i := range p.sources {
		src := &p.sources[i]
		for _, r := range src.rows[src.at:] {
			if !p.taken.Has(uint32(r)) && p.suitsClass(p.s.View.Class[r], need) {
				all = append(all, keyed{p.key(src, r), r})
			}
		}
	}
	slices.SortFunc(all, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	rows := make([]columnar.Row, len(all))
	for i := range all {
		rows[i] = all[i].row
	}
	return rows
}

// nextSpread takes the next machine out of the plans: a free one, or a victim.
func (p *pass) nextSpread(n *ranked, plans []spreadPlan) (columnar.Row, *candidate) {
	for stage := range 2 {
		best := -1
		for i := range plans {
			pl := &plans[i]
			pl.free[stage] = p.dropUseless(pl.free[stage])
			if len(pl.free[stage]) == 0 || !p.scratch.spread.allows(pl.values) && !slices.Contains(pl.own, pl.free[stage][0]) {
				continue
			}
			if best < 0 || p.compareHeads(n, pl.free[stage][0], plans[best].free[stage][0], &pl.tuple, &plans[best].tuple) < 0 {
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
		for len(pl.victims) > 0 && !columnar.Helps(p.vec(pl.victims[0].row), p.missing) {
			pl.victims = pl.victims[1:]
		}
		if len(pl.victims) == 0 || !p.scratch.spread.allows(pl.values) {
			continue
		}
		if best < 0 || p.beforeAsVictim(&pl.victims[0], &plans[best].victims[0]) {
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

// dropUseless drops heads that hold nothing of what is missing.
func (p *pass) dropUseless(rows []columnar.Row) []columnar.Row {
	for len(rows) > 0 && !columnar.Helps(p.vec(rows[0]), p.missing) {
		rows = rows[1:]
	}
	return rows
}

// beforeAsVictim is the order of victims: excess, score, id.
func (p *pass) beforeAsVictim(a, b *candidate) bool {
	switch {
	case a.excess != b.excess:
		return a.excess
	case a.score != b.score:
		return a.score > b.score
	}
	return p.s.IDRank[a.row] < p.s.IDRank[b.row]
}
