package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// proposal is a plan for one need in one domain (or cell), before it is carried out.
type proposal struct {
	value uint32
	units []units.Unit
	used  []columnar.Row // what the dry run takes of free machines and of victims
	cost  units.PlanCost
	found bool
	// For Explain: what is missing before any victim; units that were chosen and then dropped;
	// how many machines could be taken; why the proposal was rejected.
	missing    []int64
	reprieved  []units.Unit
	candidates int
	rejected   string
}

// gangPlan is the record of a plan that was carried out.
type gangPlan struct {
	need   int32
	grace  int32  // the longest, in seconds
	domain uint32 // 0 = none
}

// planned is a machine that a plan of this cycle reserves, and the need it is for.
type planned struct {
	row  columnar.Row
	need int32
}

// takenBy returns the need whose plan of this cycle counts on a machine; order.None = none.
func (p *pass) takenBy(r columnar.Row) int32 {
	if p.taker == nil {
		return order.None
	}
	return p.taker[r] - 1
}

// planFor makes a need's plan: all or nothing for a Same-Need, possibly partial for others.
func (l *worker) planFor(need int32, k *state.Kind) {
	l.visit(need)
	l.awaited = l.awaited[:0]
	l.e.store.gangs.turn++
	l.vecs.Empty()
	switch {
	case k.Same:
		l.planWhole(need, k)
	case len(k.Spread) > 0:
		l.planSpread(need, k)
	default:
		l.planPlain(need, k)
	}
}

// copyOf returns a copy of a vector that is valid until the next plan.
func (l *worker) copyOf(v []int64) []int64 {
	x := l.vecs.Take(l.dims)
	copy(x, v)
	return x
}

// backsOff reports whether a plan of the need has failed, so that it must wait before it
// preempts again.
func (l *worker) backsOff(need int32) bool {
	if len(l.in.BackingOff) == 0 {
		return false
	}
	backs := false
	l.eachRow(need, func(src *state.Source, i int) {
		profile := l.s.Demand.Profile(src.Block.Profile(i))
		backs = backs || l.in.BackingOff[model.Owner{
			Cluster: src.Block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: src.Block.Group(i),
		}]
	})
	return backs
}

// planPlain plans for a need without Same or hard spread: it counts what is in flight, then
// what has turned free, then takes victims until nothing is missing. A partial plan is of use,
// but breaks no gang.
func (l *worker) planPlain(need int32, k *state.Kind) {
	l.resume(need)
	arriving := l.countInFlight(need, k, 0, l.missing) + len(l.subUsedBefore(need))
	used := l.walkFreed(need, k, l.missing)
	l.lacks = positive(l.missing)
	pool := l.unitsFor(k)
	if l.lacks == 0 && len(used) == 0 {
		l.lines[need].Status |= state.IsAwaiting
		l.carryOut(need, k, &proposal{}) // reserves again what still drains of its voided plan
		return
	}
	s := l.selectFor(need, k, &pool.anywhere, l.copyOf(l.missing))
	if s.any() {
		l.lines[need].Status |= state.HasCandidates
	}
	if !s.minimal() {
		s.part()
	}
	free := len(used)
	used = s.useFreed(append(s.used[:0], used...), s.want)
	s.used = used
	missing := s.copyOf(s.want)
	for _, r := range used[free:] {
		columnar.SubClamp(missing, l.vec(r))
	}
	if columnar.IsZero(missing) && arriving+len(used) > 0 {
		l.lines[need].Status |= state.IsAwaiting
	}
	l.carryOut(need, k, &proposal{units: s.chosen, used: used, missing: s.want, reprieved: s.reprieved})
}

// walkFreed subtracts from what a plain need misses the machines that plans of this cycle have
// put back, in the order of acquiring, and returns them.
func (l *worker) walkFreed(need int32, k *state.Kind, missing []int64) (used []columnar.Row) {
	if len(l.withheldBy) == 0 && len(l.reserved.voided) == 0 {
		return nil // nothing was put back: what is free now did not help in phase 1
	}
	used = l.used[:0]
	for _, r := range l.reserved.of(need) {
		if l.freeReserved(r, k) && l.takenBy(r) == order.None && columnar.Helps(l.vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, l.vec(r))
		}
	}
	for stage := range l.free {
		for _, x := range l.freeInOrder(k, stage) {
			if r := x.row; !l.reserved.ownedBy(r, need) && columnar.Helps(l.vec(r), missing) {
				used = append(used, r)
				columnar.SubClamp(missing, l.vec(r))
			}
		}
	}
	l.used = used
	return used
}

// useFreed appends the machines of the chosen units that phase 1 would take, in keep order.
func (s *selection) useFreed(used []columnar.Row, want []int64) []columnar.Row {
	freed := s.freed()
	missing := s.copyOf(want)
	for _, r := range freed {
		if columnar.Helps(s.vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, s.vec(r))
		}
	}
	return used
}

// freed lists the machines of the chosen units that the need could use, in keep order.
func (s *selection) freed() []columnar.Row {
	rows := s.rows[:0]
	for i := range s.chosen {
		u := &s.chosen[i]
		if u.Row != columnar.None {
			rows = append(rows, u.Row)
			continue
		}
		s.members(u, func(r columnar.Row) {
			if s.isHere(r) {
				rows = append(rows, r)
			}
		})
	}
	s.sortKeep(rows)
	s.rows = rows
	return rows
}

// any reports whether the scope has anything to preempt for the need.
func (s *selection) any() bool {
	if len(s.extra)+len(s.wholes) > 0 || slices.ContainsFunc(s.sunk, func(u units.Unit) bool { return s.mayHaveSunk(&u) }) {
		return true
	}
	if s.reclaiming {
		return s.anyOffered()
	}
	s.rewindSingles()
	defer s.rewindSingles()
	for i := s.scope.live(s.victimGroupAt); i < s.victimGroupTo || s.moreVictimGroups(); i = s.scope.live(i + 1) {
		if s.isOffered(i, ^uint64(0)) && !s.isLeftToPhase3(i) && s.headOf(i) != columnar.None {
			return true
		}
	}
	s.sortGangs()
	return len(s.extra)+len(s.wholes) > 0
}

// isLeftToPhase3 reports whether a victim group is excess that this plan would not preempt:
// phase 3 reclaims it. Where clusters have shrunk, thousands of victim groups are.
func (s *selection) isLeftToPhase3(at int) bool {
	f := &s.scope.victimGroups[at]
	return f.Excess && s.spares(f)
}

// costOf sums up what the chosen units destroy.
func (s *selection) costOf() units.PlanCost {
	c := units.PlanCost{Band: math.Inf(-1)}
	destroyed := s.vecs.Take(s.dims)
	for i := range s.chosen {
		u := &s.chosen[i]
		s.members(u, func(r columnar.Row) { c.Grace = max(c.Grace, s.graceOf(u, r)) })
		if u.Key.Class == units.ClassExcess {
			continue
		}
		c.Paid = true
		c.Band = max(c.Band, s.band(-u.Key.Score))
		if u.Key.Class == units.ClassWhole {
			c.Gangs++
		}
		if !u.Remainder {
			s.members(u, func(r columnar.Row) {
				c.Machines++
				columnar.SatAdd(destroyed, s.vec(r))
			})
		}
	}
	want := s.aggregate(s.need)
	c.Destroyed = exact.CostSteps(destroyed, want)
	return c
}

// graceOf returns the grace of a unit's member, in seconds.
func (s *selection) graceOf(u *units.Unit, r columnar.Row) int32 {
	if u.Spared {
		return graceFull
	}
	return graceFor(max(int64(s.k.Priority)-int64(s.e.store.priority[r]), 0))
}

// carryOut takes the plan's units, and reserves what the need uses of them and of what is free.
// The unused rest of a broken gang is offered to other plans; it stays bound if none uses it.
func (l *worker) carryOut(need int32, k *state.Kind, x *proposal) {
	if len(x.units)+len(x.used)+len(l.awaited) == 0 {
		return
	}
	s := &l.sel
	l.noteUnits(need, x)
	l.noteGiven(x)
	grace, had := int32(0), len(l.e.store.gangs.rest)
	for i := range x.units {
		u := &x.units[i]
		s.members(u, func(r columnar.Row) { grace = max(grace, s.graceOf(u, r)) })
	}
	for i := range x.units {
		if u := &x.units[i]; !u.Spared {
			l.lines[need].Status |= state.HasPlan | state.HasOwnPlan
			l.takeUnit(s, u, need, k)
		}
	}
	for _, r := range x.used {
		l.use(r, need)
	}
	l.noteUsed(x.used, need)
	l.keepRest(had)
	for _, r := range l.awaited {
		if !l.reclaiming || !slices.Contains(l.planned, planned{r, need}) {
			l.plan(r, need)
		}
	}
	l.plans = append(l.plans, gangPlan{need: need, grace: grace, domain: l.domainOf(x.value)})
}

// keepRest drops from the list of unused gang members, from index from on, those that the plan
// uses. What remains may serve other plans.
func (l *worker) keepRest(from int) {
	rest := &l.e.store.gangs.rest
	kept := (*rest)[:from]
	for _, r := range (*rest)[from:] {
		if l.takenBy(r) == order.None {
			kept = append(kept, r)
		}
	}
	if *rest = kept; len(kept) > from {
		l.moreUnits++
	}
}

// takeUnit makes the machines of a unit the need's victims.
func (l *worker) takeUnit(s *selection, u *units.Unit, need int32, k *state.Kind) {
	rows := s.rows[:0]
	s.members(u, func(r columnar.Row) { rows = append(rows, r) })
	s.rows = rows
	for _, r := range rows {
		apart := l.victimOf.Has(uint32(r))
		if apart {
			l.dropVictim(r)
		} else {
			l.e.store.gangs.rest = append(l.e.store.gangs.rest, r)
		}
		l.victimOf.Set(uint32(r))
		gap := int64(k.Priority) - int64(l.e.store.priority[r])
		l.victims = append(l.victims, victim{row: r, need: need, grace: graceFor(gap)})
		l.lose(r, apart)
		l.noteMoved(r)
	}
}

// dropVictim voids a machine's entry in the plan that broke its gang: another plan uses it.
func (l *worker) dropVictim(r columnar.Row) {
	for i := range l.victims {
		if v := &l.victims[i]; v.row == r && v.need != order.None {
			v.need = order.None
			l.regiven = true
			return
		}
	}
}

// use records that a plan counts on a machine. It voids reservations of other owners on it,
// reserves it where a reservation is needed, and hides it from other needs.
func (l *worker) use(r columnar.Row, need int32) {
	if l.taker == nil {
		l.taker = alloc.Make[int32](l.e.arena, l.s.Supply.RowMax())
	}
	l.taker[r] = need + 1
	l.noteMoved(r)
	if !l.isGivenUp(r) && !l.spared.Has(uint32(r)) {
		l.voidFor(need, r)
	}
	switch l.s.View.State[r] {
	case model.Idle:
		l.plan(r, need)
		l.withdraw(r)
	case model.Speculative:
		l.withdraw(r)
	case model.Draining:
		l.lines[need].Status |= state.CountsOnDrain
		l.lost = append(l.lost, r)
		l.plan(r, need)
	case model.Configured:
		l.lose(r, l.victimOf.Has(uint32(r))) // a victim of this plan was logged when it was taken
		if l.s.ClusterOf[l.s.View.Cluster[r]] != l.lines[need].Cluster {
			l.plan(r, need)
		}
	}
}

// plan reserves a machine for a need.
func (l *worker) plan(r columnar.Row, need int32) {
	l.planned = append(l.planned, planned{r, need})
	l.lines[need].Status |= state.HasPlan | state.HasOwnPlan
}

// withdraw hides a free machine from other needs until the next cycle.
func (l *worker) withdraw(r columnar.Row) {
	if l.taken[r] {
		return
	}
	l.take(r)
	l.undone = append(l.undone, r)
}

// settleVictims removes the entries that dropVictim has voided.
func (l *worker) settleVictims() {
	if l.regiven {
		l.victims = slices.DeleteFunc(l.victims, func(v victim) bool { return v.need == order.None })
	}
}
