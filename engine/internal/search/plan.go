package search

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/victims"
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

// PlanFor makes a need's plan: all or nothing for a Same-Need, possibly partial for others.
func (l *Worker) PlanFor(need int32, k *state.Kind) {
	l.Visit(need)
	l.p.Preempted.Awaited = l.p.Preempted.Awaited[:0]
	l.p.st.Gangs.Turn++
	l.Finding.Vecs.Empty()
	switch {
	case k.Same:
		l.planWhole(need, k)
	case len(k.Spread) > 0:
		l.planSpread(need, k)
	default:
		l.planPlain(need, k)
	}
}

// backsOff reports whether a plan of the need has failed, so that it must wait before it
// preempts again.
func (p *Pass) backsOff(need int32) bool {
	if len(p.Input.BackingOff) == 0 {
		return false
	}
	backs := false
	p.EachRow(need, func(src *state.Source, i int) {
		profile := p.Snap.Demand.Profile(src.Block.Profile(i))
		backs = backs || p.Input.BackingOff[model.Owner{
			Cluster: src.Block.Cluster(), Fingerprint: profile.WithoutSame().Fingerprint(), Group: src.Block.Group(i),
		}]
	})
	return backs
}

// planPlain plans for a need without Same or hard spread: it counts what is in flight, then
// what has turned free, then takes victims until nothing is missing. A partial plan is of use,
// but breaks no gang.
func (l *Worker) planPlain(need int32, k *state.Kind) {
	l.Resume(need)
	arriving := l.p.CountInFlight(need, k, 0, l.Missing) + len(l.subUsedBefore(need))
	used := l.walkFreed(need, k, l.Missing)
	l.Lacks = cycle.PositiveDims(l.Missing)
	pool := l.UnitsFor(k)
	if l.Lacks == 0 && len(used) == 0 {
		l.p.Lines[need].Status |= state.IsAwaiting
		l.carryOut(need, k, &proposal{}) // reserves again what still drains of its voided plan
		return
	}
	s := l.selectFor(need, k, &pool.Anywhere, l.CopyForPlan(l.Missing))
	if s.any() {
		l.p.Lines[need].Status |= state.HasCandidates
	}
	if !s.minimal() {
		s.part()
	}
	free := len(used)
	used = s.useFreed(append(s.evenly.used[:0], used...), s.want)
	s.evenly.used = used
	missing := s.worker.CopyForPlan(s.want)
	for _, r := range used[free:] {
		columnar.SubClamp(missing, l.p.Vec(r))
	}
	if columnar.IsZero(missing) && arriving+len(used) > 0 {
		l.p.Lines[need].Status |= state.IsAwaiting
	}
	l.carryOut(need, k, &proposal{units: s.picks.chosen, used: used, missing: s.want, reprieved: s.picks.reprieved})
}

// walkFreed subtracts from what a plain need misses the machines that plans of this cycle have
// put back, in the order of acquiring, and returns them.
func (l *Worker) walkFreed(need int32, k *state.Kind, missing []int64) (used []columnar.Row) {
	if len(l.p.Preempted.WithheldBy) == 0 && l.p.Reserved.Voided() == 0 {
		return nil // nothing was put back: what is free now did not help in phase 1
	}
	used = l.Rows[:0]
	for _, r := range l.p.Reserved.Of(need) {
		if l.p.FreeReserved(r, k) && l.p.Promised.TakenBy(r) == ranks.None && columnar.Helps(l.p.Vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
	for stage := range l.p.Stock.Free {
		for _, x := range l.FreeInOrder(k, stage) {
			if r := x.Row; !l.p.Reserved.OwnedBy(r, need) && columnar.Helps(l.p.Vec(r), missing) {
				used = append(used, r)
				columnar.SubClamp(missing, l.p.Vec(r))
			}
		}
	}
	l.Rows = used
	return used
}

// useFreed appends the machines of the chosen units that phase 1 would take, in keep order.
func (s *selection) useFreed(used []columnar.Row, want []int64) []columnar.Row {
	freed := s.freed()
	missing := s.worker.CopyForPlan(want)
	for _, r := range freed {
		if columnar.Helps(s.worker.p.Vec(r), missing) {
			used = append(used, r)
			columnar.SubClamp(missing, s.worker.p.Vec(r))
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
	holds.SortKeep(s.worker.p.Snap, rows)
	s.memory.rows = rows
	return rows
}

// any reports whether the scope has anything to preempt for the need.
func (s *selection) any() bool {
	if len(s.listing.extra)+len(s.listing.wholes) > 0 || slices.ContainsFunc(s.listing.sunk, func(u units.Unit) bool { return s.mayHaveSunk(&u) }) {
		return true
	}
	if s.worker.p.Tenants.Reclaiming {
		return s.anyOffered()
	}
	s.rewindSingles()
	defer s.rewindSingles()
	for i := s.scope.NextLive(s.reader.victimGroupAt); i < s.reader.victimGroupTo || s.moreVictimGroups(); i = s.scope.NextLive(i + 1) {
		if s.isOffered(i, ^uint64(0)) && !s.isLeftToPhase3(i) && s.headOf(i) != columnar.None {
			return true
		}
	}
	for len(s.listing.extra)+len(s.listing.wholes) == 0 && s.listMoreGangs(nil) {
	}
	return len(s.listing.extra)+len(s.listing.wholes) > 0
}

// isLeftToPhase3 reports whether a victim group is excess that this plan would not preempt:
// phase 3 reclaims it. Where clusters have shrunk, thousands of victim groups are.
func (s *selection) isLeftToPhase3(at int) bool {
	f := &s.scope.VictimGroups[at]
	return f.Excess && s.spares(f)
}

// costOf sums up what the chosen units destroy.
func (s *selection) costOf() units.PlanCost {
	c := units.PlanCost{Band: math.Inf(-1)}
	destroyed := s.worker.Finding.Vecs.Take(s.worker.p.Dims)
	for i := range s.picks.chosen {
		u := &s.picks.chosen[i]
		s.members(u, func(r columnar.Row) { c.Grace = max(c.Grace, s.graceOf(u, r)) })
		if u.Key.Class == units.ClassExcess {
			continue
		}
		c.Paid = true
		c.Band = max(c.Band, s.worker.p.Band(-u.Key.Score))
		if u.Key.Class == units.ClassWhole {
			c.Gangs++
		}
		if !u.Remainder {
			s.members(u, func(r columnar.Row) {
				c.Machines++
				columnar.SatAdd(destroyed, s.worker.p.Vec(r))
			})
		}
	}
	want := s.worker.p.Aggregate(s.need)
	c.Destroyed = exact.CostSteps(destroyed, want)
	return c
}

// graceOf returns the grace of a unit's member, in seconds.
func (s *selection) graceOf(u *units.Unit, r columnar.Row) int32 {
	if u.Spared {
		return victims.GraceFull
	}
	return victims.GraceFor(max(int64(s.k.Priority)-int64(s.worker.p.st.Priority[r]), 0))
}

// carryOut takes the plan's units, and reserves what the need uses of them and of what is free.
// The unused rest of a broken gang is offered to other plans; it stays bound if none uses it.
func (l *Worker) carryOut(need int32, k *state.Kind, x *proposal) {
	if len(x.units)+len(x.used)+len(l.p.Preempted.Awaited) == 0 {
		return
	}
	s := &l.sel
	l.noteUnits(need, x)
	l.p.noteGiven(need, x)
	grace, had := int32(0), len(l.p.st.Gangs.Rest)
	for i := range x.units {
		u := &x.units[i]
		s.members(u, func(r columnar.Row) { grace = max(grace, s.graceOf(u, r)) })
	}
	for i := range x.units {
		if u := &x.units[i]; !u.Spared {
			l.p.Lines[need].Status |= state.HasPlan | state.HasOwnPlan
			l.takeUnit(s, u, need, k)
		}
	}
	for _, r := range x.used {
		l.CountOn(r, need)
	}
	l.p.Tenants.NoteUsed(x.used, need)
	l.keepRest(had)
	for _, r := range l.p.Preempted.Awaited {
		if !l.p.Tenants.Reclaiming || !slices.Contains(l.p.Preempted.Planned, victims.Planned{Row: r, Need: need}) {
			l.p.plan(r, need)
		}
	}
	l.p.Preempted.Plans = append(l.p.Preempted.Plans, victims.GangPlan{Need: need, Grace: grace, Domain: l.p.Candidates.DomainOf(x.value)})
}

// keepRest drops from the list of unused gang members, from index from on, those that the plan
// uses. What remains may serve other plans.
func (l *Worker) keepRest(from int) {
	rest := &l.p.st.Gangs.Rest
	kept := (*rest)[:from]
	for _, r := range (*rest)[from:] {
		if l.p.Promised.TakenBy(r) == ranks.None {
			kept = append(kept, r)
		}
	}
	if *rest = kept; len(kept) > from {
		l.Finding.MoreUnits++
	}
}

// takeUnit makes the machines of a unit the need's victims.
func (l *Worker) takeUnit(s *selection, u *units.Unit, need int32, k *state.Kind) {
	rows := s.memory.rows[:0]
	s.members(u, func(r columnar.Row) { rows = append(rows, r) })
	s.memory.rows = rows
	for _, r := range rows {
		apart := l.p.Preempted.VictimOf.Has(uint32(r))
		if apart {
			l.p.Preempted.DropVictim(r)
		} else {
			l.p.st.Gangs.Rest = append(l.p.st.Gangs.Rest, r)
		}
		l.p.Preempted.VictimOf.Set(uint32(r))
		gap := int64(k.Priority) - int64(l.p.st.Priority[r])
		l.p.Preempted.Victims = append(l.p.Preempted.Victims, victims.Victim{Row: r, Need: need, Grace: victims.GraceFor(gap)})
		l.LogTaken(r, apart)
		l.p.Tenants.NoteMoved(r)
	}
}

// CountOn records that a plan counts on a machine. It voids reservations of other owners on it,
// reserves it where a reservation is needed, and hides it from other needs.
func (l *Worker) CountOn(r columnar.Row, need int32) {
	l.NoteTaker(r, need)
	if !l.p.IsGivenUp(r) && !l.p.Preempted.Spared.Has(uint32(r)) {
		l.VoidFor(need, r)
	}
	switch l.p.Snap.View.State[r] {
	case model.Idle:
		l.TakeAcquired(r, need)
		l.p.plan(r, need)
		l.withdraw(r)
	case model.Speculative:
		l.withdraw(r)
	case model.Draining:
		l.p.Lines[need].Status |= state.CountsOnDrain
		l.Finding.Lost = append(l.Finding.Lost, r)
		l.p.plan(r, need)
	case model.Configured:
		l.LogTaken(r, l.p.Preempted.VictimOf.Has(uint32(r))) // a victim of this plan was logged when it was taken
		if l.p.Snap.ClusterOf[l.p.Snap.View.Cluster[r]] != l.p.ClusterOf(need) {
			l.p.plan(r, need)
		}
	}
}

// plan reserves a machine for a need.
func (p *Pass) plan(r columnar.Row, need int32) {
	p.Preempted.Planned = append(p.Preempted.Planned, victims.Planned{Row: r, Need: need})
	p.Lines[need].Status |= state.HasPlan | state.HasOwnPlan
}

// withdraw hides a free machine from other needs until the next cycle.
func (l *Worker) withdraw(r columnar.Row) {
	if l.p.Taken[r] {
		return
	}
	l.MarkTaken(r)
	l.Undone = append(l.Undone, r)
}
