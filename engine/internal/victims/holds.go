package victims

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// VoidLost ends the plans of a Need whose domain can no longer cover it, whatever is preempted
// there.
func (l *Worker) VoidLost(need int32) {
	if !l.p.Reserved.Plans {
		return
	}
	for _, r := range slices.Clone(l.p.Reserved.Of(need)) {
		if !l.p.Reserved.Live(r) {
			continue
		}
		if res := l.p.Snap.Supply.Reservation(r); l.p.st.Holds.OfPlan(&res) {
			l.EndReservations(res.Owner, plan.PlanDomainLost)
		}
	}
}

// voidAll ends all that is held for a Need which a higher rank has taken something from.
func (l *Worker) voidAll(need int32) {
	for _, r := range slices.Clone(l.p.Reserved.Of(need)) {
		if l.p.Reserved.Live(r) {
			l.EndReservations(l.p.Snap.Supply.Reservation(r).Owner, plan.PlanRankLost)
		}
	}
}

// SpareDrains lets plans count on machines that drain for nobody any more, now that the Need at a
// rank has had its turn in phase 2: it waits for others that cover it, or all owners of a
// reservation that ended in this pass have had their turns and do not count on the machine.
// It reports whether there are any.
func (l *Worker) SpareDrains(rank int32) bool {
	before := l.Finding.MoreUnits
	spare := func(r columnar.Row) {
		if l.p.Promised.TakenBy(r) == ranks.None && !l.p.Preempted.Spared.Has(uint32(r)) {
			l.p.Preempted.Spared.Set(uint32(r))
			l.p.Preempted.SparedRows = alloc.Append(l.p.Arena, l.p.Preempted.SparedRows, r)
			l.Finding.MoreUnits++
		}
	}
	if rank != holds.NoRank {
		l.p.eachUnneeded(l.p.Order[rank], spare)
	}
	l.p.Reserved.Passed(rank, func(r columnar.Row) {
		if !l.p.Promised.Flying.Has(uint32(r)) {
			spare(r)
		}
	})
	return l.Finding.MoreUnits > before
}

// eachUnneeded calls f for the draining machines that no owner needs any more, once the Need has had its
// turn. Very many equal rows may share very many machines, so it looks at the machines only when no
// other owner is left that could need them.
func (p *Pass) eachUnneeded(need int32, f func(columnar.Row)) {
	rows := p.Reserved.Of(need)
	if len(rows) == 0 || !p.Reserved.IsMixed(need) && !p.isLastShort(need, p.Reserved.Members(rows[0])) {
		return
	}
	for _, r := range rows {
		members := p.Reserved.Members(r)
		if p.Snap.View.State[r] != model.Draining || !p.isLastShort(need, members) {
			continue
		}
		if res := p.Snap.Supply.Reservation(r); p.IsUnneeded(r, &res, members) {
			f(r)
		}
	}
}

// isLastShort reports whether a Need is the last in rank order, of some, that lacks something.
func (p *Pass) isLastShort(need int32, needs []int32) bool {
	for i := len(needs) - 1; i >= 0; i-- {
		if !p.Lines[needs[i]].Is(state.IsSatisfied) {
			return needs[i] == need
		}
	}
	return false
}

// IsFreeFor reports whether a free machine is unclaimed and not held for an owner ranked above
// a Need.
func (l *Worker) IsFreeFor(r columnar.Row, need int32) bool {
	return !l.p.Claimed(r) && l.p.Promised.TakenBy(r) == ranks.None && (!l.p.Taken[r] || l.p.Reserved.OwnedBy(r, need))
}

// IsUnneeded reports whether a plan's machine that is on its way is not needed: its owners are
// covered without it.
func (p *Pass) IsUnneeded(r columnar.Row, res *model.Reservation, members []int32) bool {
	if !p.st.Holds.OfPlan(res) || len(members) == 0 || p.Promised.Flying.Has(uint32(r)) {
		return false
	}
	return !slices.ContainsFunc(members, func(n int32) bool {
		leaving := p.Snap.View.State[r] == model.Draining ||
			p.Snap.View.State[r] == model.Configured && p.Snap.ClusterOf[p.Snap.View.Cluster[r]] != p.ClusterOf(n)
		awaitsAll := p.Lines[n].Is(state.IsAwaiting) && !p.Lines[n].Is(state.HasOwnPlan)
		return !leaving || !p.Lines[n].Is(state.IsSatisfied) && !awaitsAll
	})
}
