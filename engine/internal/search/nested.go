package search

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// findInCells sets HasCandidates if the cells that a need would be planned for in hold anything
// to preempt.
func (l *Worker) findInCells(need int32, k *state.Kind, pool *victims.UnitPool, from, to int) {
	for i := to - 1; i >= from && !l.p.Lines[need].Is(state.HasCandidates); i-- {
		l.p.Candidates.Cut = l.p.CutFor(k, i)
		cells := l.p.Candidates.Cut.PoolIn(&l.p.Pass, pool)
		cells.InDomains(&l.Worker)
		l.findInScopes(need, k, cells)
	}
	l.p.Candidates.Cut = nil
}

// gatherIn withholds what a need acquired in phase 1 outside of the cell that its plan frees.
func (l *Worker) gatherIn(need int32, cell uint32) {
	n := &l.p.Lines[need]
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r) { // nothing was credited
		if l.p.Candidates.Cut.CellOf[r] != cell {
			n.Status |= state.IsWithheld
			l.WithholdMachine(r, need)
		}
	}
	l.p.Claims.Filter(need, n)
	if n.Is(state.IsWithheld) {
		l.p.Preempted.Withheld = append(l.p.Preempted.Withheld, need)
	}
}
