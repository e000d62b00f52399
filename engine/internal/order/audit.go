package order

import (
	"cmp"

	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// AuditOrder compares the rank order that is kept with what it is made of, at the places that are audited in this cycle: each Need
// comes after the one before it, and the columns that go with the order say the same as it. O(places).
func (p *Pass) AuditOrder() {
	from, to := p.Audit.Range(len(p.Order))
	if from == to {
		return
	}
	equal := true
	for rank := from; rank < to; rank++ {
		need := p.Order[rank]
		equal = equal && int(p.RankOf[need]) == rank && p.KindAt[rank] == p.Lines[need].Kind && !p.Lines[need].Is(state.IsMember) &&
			(rank == 0 || p.compareNeeds(p.Order[rank-1], need) < 0)
	}
	p.Audit.Note(equal)
}

// compareNeeds compares two Needs in rank order, by the slots on which they sit.
func (p *Pass) compareNeeds(a, b int32) int {
	slots, x, y := p.slots(), p.rankSlotOf(a), p.rankSlotOf(b)
	return cmp.Or(cmp.Compare(p.KindOf(a).Worth, p.KindOf(b).Worth), cmp.Compare(slots.Arrival(x), slots.Arrival(y)), cmp.Compare(x, y))
}

// auditLines compares the kinds of the lines of the cluster at work, folds aside, with what its rows say.
func auditLines(f *Folder) {
	equal := true
	profiles, units, aggregates := f.block.Profiles(), f.block.UnitIDs(), f.block.AggregateIDs()
	lines := f.p.Lines[f.base:][:f.block.Len()]
	for row := range lines {
		if n := &lines[row]; n.Status&(state.IsFold|state.IsMember) == 0 {
			mask := cycle.PositiveDims(f.p.Snap.Demand.Vector(aggregates[row]))
			equal = equal && n.Kind == f.kindOf(profiles[row], units[row], mask)
		}
	}
	f.p.Audit.Note(equal)
}
