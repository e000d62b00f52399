package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/holds"
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
func (x *preempted) takenBy(r columnar.Row) int32 {
	if x.taker == nil {
		return order.None
	}
	return x.taker[r] - 1
}

// planFor makes a need's plan: all or nothing for a Same-Need, possibly partial for others.
func (l *worker) planFor(need int32, k *state.Kind) {
	l.visit(need)
	l.p.preempted.awaited = l.p.preempted.awaited[:0]
	l.p.e.store.gangs.turn++
	l.search.vecs.Empty()
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
	x := l.search.vecs.Take(l.p.dims)
	copy(x, v)
	return x
}

// backsOff reports whether a plan of the need has failed, so that it must wait before it
// preempts again.
func (p *pass) backsOff(need int32) bool {
	if len(p.in.BackingOff) == 0 {
		return false
	}
	backs := false
	p.eachRow(need, func(src *state.Source, i int) {
		profile := p.s.Demand.Profile(src.Block.Profile(i))
		backs = backs || p.in.BackingOff[model.Owner{
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
	arriving := l.p.countInFlight(need, k, 0, l.missing) + len(l.subUsedBefore(need))
	used := l.walkFreed(need, k, l.missing)
	l.lacks = positive(l.missing)
	pool := l.unitsFor(k)
	if l.lacks == 0 && len(used) == 0 {
		l.p.lines[need].Status |= state.IsAwaiting
		l.carryOut(need, k, &proposal{}) // reserves again what still drains of its voided plan
		return
	}
	s := l.selectFor(need, k, &pool.anywhere, l.copyOf(l.missing))
	if s.any() {
		l.p.lines[need].Status |= state.HasCandidates
	}
	if !s.minimal() {
		s.part()
	}
	free := len(used)
	used = s.useFreed(append(s.evenly.used[:0], used...), s.want)
	s.evenly.used = used
	missing := s.worker.copyOf(s.want)
	for _, r := range used[free:] {
		columnar.SubClamp(missing, l.p.vec(r))
	}
	if columnar.IsZero(missing) && arriving+len(used) > 0 {
		l.p.lines[need].Status |= state.IsAwaiting
	}
	l.carryOut(need, k, &proposal{units: s.picks.chosen, used: used, missing: s.want, reprieved: s.picks.reprieved})
}

// walkFreed subtracts from what a plain need misses the machines that plans of this cycle have
// put back, in the order of acquiring, and returns them.
func (l *worker) walkFreed(need int32, k *state.Kind, missing []int64) (used []columnar.Row) {
	if len(l.p.preempted.withheldBy) == 0 && l.p.reserved.Voided() == 0 {
		return nil // nothing was put back: what is free now did not help in phase 1
	}
	used = l.used[:0]
	for _, r := range l.p.reserved.Of(need) {
		if l.p.freeReserved(r, k) && l.p.preempted.takenBy(r) == order.None && columnar.Helps(l.p.vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, l.p.vec(r))
		}
	}
	for stage := range l.p.stock.free {
		for _, x := range l.freeInOrder(k, stage) {
			if r := x.row; !l.p.reserved.OwnedBy(r, need) && columnar.Helps(l.p.vec(r), missing) {
				used = append(used, r)
				columnar.SubClamp(missing, l.p.vec(r))
			}
		}
	}
	l.used = used
	return used
}

// useFreed appends the machines of the chosen units that phase 1 would take, in keep order.
func (s *selection) useFreed(used []columnar.Row, want []int64) []columnar.Row {
	freed := s.freed()
	missing := s.worker.copyOf(want)
	for _, r := range freed {
		if columnar.Helps(s.worker.p.vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, s.worker.p.vec(r))
		}
	}
	return used
}

// freed lists the machines of the chosen units that the need could use, in keep order.
func (s *selection) freed() []columnar.Row {
	rows := s.memory.rows[:0]
	for i := range s.picks.chosen {
		u := &s.picks.chosen[i]
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
	holds.SortKeep(s.worker.p.s, rows)
	s.memory.rows = rows
	return rows
}

// any reports whether the scope has anything to preempt for the need.
func (s *selection) any() bool {
	if len(s.listing.extra)+len(s.listing.wholes) > 0 || slices.ContainsFunc(s.listing.sunk, func(u units.Unit) bool { return s.mayHaveSunk(&u) }) {
		return true
	}
	if s.worker.p.tenants.reclaiming {
		return s.anyOffered()
	}
	s.rewindSingles()
	defer s.rewindSingles()
	for i := s.scope.live(s.reader.victimGroupAt); i < s.reader.victimGroupTo || s.moreVictimGroups(); i = s.scope.live(i + 1) {
		if s.isOffered(i, ^uint64(0)) && !s.isLeftToPhase3(i) && s.headOf(i) != columnar.None {
			return true
		}
	}
	s.sortGangs()
	return len(s.listing.extra)+len(s.listing.wholes) > 0
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
	destroyed := s.worker.search.vecs.Take(s.worker.p.dims)
	for i := range s.picks.chosen {
		u := &s.picks.chosen[i]
		s.members(u, func(r columnar.Row) { c.Grace = max(c.Grace, s.graceOf(u, r)) })
		if u.Key.Class == units.ClassExcess {
			continue
		}
		c.Paid = true
		c.Band = max(c.Band, s.worker.p.band(-u.Key.Score))
		if u.Key.Class == units.ClassWhole {
			c.Gangs++
		}
		if !u.Remainder {
			s.members(u, func(r columnar.Row) {
				c.Machines++
				columnar.SatAdd(destroyed, s.worker.p.vec(r))
			})
		}
	}
	want := s.worker.p.aggregate(s.need)
	c.Destroyed = exact.CostSteps(destroyed, want)
	return c
}

// graceOf returns the grace of a unit's member, in seconds.
func (s *selection) graceOf(u *units.Unit, r columnar.Row) int32 {
	if u.Spared {
		return graceFull
	}
	return graceFor(max(int64(s.k.Priority)-int64(s.worker.p.e.store.priority[r]), 0))
}

// carryOut takes the plan's units, and reserves what the need uses of them and of what is free.
// The unused rest of a broken gang is offered to other plans; it stays bound if none uses it.
func (l *worker) carryOut(need int32, k *state.Kind, x *proposal) {
	if len(x.units)+len(x.used)+len(l.p.preempted.awaited) == 0 {
		return
	}
	s := &l.search.sel
	l.noteUnits(need, x)
	l.p.noteGiven(x)
	grace, had := int32(0), len(l.p.e.store.gangs.rest)
	for i := range x.units {
		u := &x.units[i]
		s.members(u, func(r columnar.Row) { grace = max(grace, s.graceOf(u, r)) })
	}
	for i := range x.units {
		if u := &x.units[i]; !u.Spared {
			l.p.lines[need].Status |= state.HasPlan | state.HasOwnPlan
			l.takeUnit(s, u, need, k)
		}
	}
	for _, r := range x.used {
		l.use(r, need)
	}
	l.p.tenants.noteUsed(x.used, need)
	l.keepRest(had)
	for _, r := range l.p.preempted.awaited {
		if !l.p.tenants.reclaiming || !slices.Contains(l.p.preempted.planned, planned{r, need}) {
			l.p.plan(r, need)
		}
	}
	l.p.preempted.plans = append(l.p.preempted.plans, gangPlan{need: need, grace: grace, domain: l.p.candidates.domainOf(x.value)})
}

// keepRest drops from the list of unused gang members, from index from on, those that the plan
// uses. What remains may serve other plans.
func (l *worker) keepRest(from int) {
	rest := &l.p.e.store.gangs.rest
	kept := (*rest)[:from]
	for _, r := range (*rest)[from:] {
		if l.p.preempted.takenBy(r) == order.None {
			kept = append(kept, r)
		}
	}
	if *rest = kept; len(kept) > from {
		l.search.moreUnits++
	}
}

// takeUnit makes the machines of a unit the need's victims.
func (l *worker) takeUnit(s *selection, u *units.Unit, need int32, k *state.Kind) {
	rows := s.memory.rows[:0]
	s.members(u, func(r columnar.Row) { rows = append(rows, r) })
	s.memory.rows = rows
	for _, r := range rows {
		apart := l.p.preempted.victimOf.Has(uint32(r))
		if apart {
			l.p.preempted.dropVictim(r)
		} else {
			l.p.e.store.gangs.rest = append(l.p.e.store.gangs.rest, r)
		}
		l.p.preempted.victimOf.Set(uint32(r))
		gap := int64(k.Priority) - int64(l.p.e.store.priority[r])
		l.p.preempted.victims = append(l.p.preempted.victims, victim{row: r, need: need, grace: graceFor(gap)})
		l.lose(r, apart)
		l.p.tenants.noteMoved(r)
	}
}

// dropVictim voids a machine's entry in the plan that broke its gang: another plan uses it.
func (x *preempted) dropVictim(r columnar.Row) {
	for i := range x.victims {
		if v := &x.victims[i]; v.row == r && v.need != order.None {
			v.need = order.None
			x.regiven = true
			return
		}
	}
}

// noteTaker records whose plan counts on a machine.
func (l *worker) noteTaker(r columnar.Row, need int32) {
	if l.p.preempted.taker == nil {
		l.p.preempted.taker = alloc.Make[int32](l.p.e.arena, l.p.s.Supply.RowMax())
	}
	l.p.preempted.taker[r] = need + 1
	l.p.tenants.noteMoved(r)
}

// use records that a plan counts on a machine. It voids reservations of other owners on it,
// reserves it where a reservation is needed, and hides it from other needs.
func (l *worker) use(r columnar.Row, need int32) {
	l.noteTaker(r, need)
	if !l.p.isGivenUp(r) && !l.p.preempted.spared.Has(uint32(r)) {
		l.voidFor(need, r)
	}
	switch l.p.s.View.State[r] {
	case model.Idle:
		l.takeAcquired(r, need)
		l.p.plan(r, need)
		l.withdraw(r)
	case model.Speculative:
		l.withdraw(r)
	case model.Draining:
		l.p.lines[need].Status |= state.CountsOnDrain
		l.search.lost = append(l.search.lost, r)
		l.p.plan(r, need)
	case model.Configured:
		l.lose(r, l.p.preempted.victimOf.Has(uint32(r))) // a victim of this plan was logged when it was taken
		if l.p.s.ClusterOf[l.p.s.View.Cluster[r]] != l.p.lines[need].Cluster {
			l.p.plan(r, need)
		}
	}
}

// plan reserves a machine for a need.
func (p *pass) plan(r columnar.Row, need int32) {
	p.preempted.planned = append(p.preempted.planned, planned{r, need})
	p.lines[need].Status |= state.HasPlan | state.HasOwnPlan
}

// withdraw hides a free machine from other needs until the next cycle.
func (l *worker) withdraw(r columnar.Row) {
	if l.p.taken[r] {
		return
	}
	l.take(r)
	l.undone = append(l.undone, r)
}

// settleVictims removes the entries that dropVictim has voided.
func (x *preempted) settleVictims() {
	if x.regiven {
		x.victims = slices.DeleteFunc(x.victims, func(v victim) bool { return v.need == order.None })
	}
}
