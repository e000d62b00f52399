package order

import (
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// AuditOrder audits a part of the rank order: it checks that each Need ranks after the one before it, and that the columns that
// belong to the order agree with it. O(places).
func (p *Pass) AuditOrder() {
	from, to := p.Audit.Range(len(p.Order))
	if from == to {
		return
	}
	equal, before := true, int32(-1) // the rank slot of the Need before
	if from > 0 {
		before = p.rankSlotOf(p.Order[from-1])
	}
	for rank := from; rank < to; rank++ {
		need := p.Order[rank]
		slot := p.rankSlotOf(need)
		equal = equal && int(p.RankOf[need]) == rank && p.KindAt[rank] == p.Lines[need].Kind &&
			p.st.RankSlots[slot] == need && (before < 0 || p.compareRankSlots(before, slot) < 0)
		before = slot
	}
	p.Audit.Note(equal)
}

// auditLines looks up again the kinds of all rows of the cluster at work, except folded ones, and compares.
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
