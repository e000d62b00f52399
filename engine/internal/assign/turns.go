package assign

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
)

// The turns are the second half of phase 1: Needs that lack something claim free machines, in rank order. That order
// makes the answer unique. Workers divide the walk only by components of kinds that share no machines
// (components.go). Where one component is nearly everything, one worker decides. Its bottleneck is cache misses,
// since lines lie in the order of clusters, not of ranks; so another worker prefetches the lines that come next.
// Needs whose kind has no machines left, which are most, are skipped without a look at their lines.

// acquireBatch gives the Needs of a batch their turns. It returns early when a turn has revived kinds
// that the gatherer skipped: gathering resumes right after that Need.
func (l *Worker) acquireBatch(b *workers.Batch) {
	for _, need := range b.Need[:b.N] { // independent reads: many cache misses overlap
		l.walk.reads += l.p.Touch(need)
	}
	for i, need := range b.Need[:b.N] {
		if rank := b.Rank[i]; l.p.IsTurnIdle(int(rank), l.p.KindAt[rank], false) || l.p.Lines[need].Is(state.IsSatisfied) {
			continue
		}
		l.BlockUpTo(b.Rank[i])
		l.TakeTurn(need, b.Rank[i])
		if l.Acquiring.Revived {
			l.Acquiring.Revived, l.walk.gatherer.rank = false, int(b.Rank[i])+1
			return
		}
	}
}

// timedEvery is the sampling interval of timed proposals: reading a clock costs about as much as a
// short walk.
const timedEvery = 64

// TakeTurn gives a Need its turn. The first worker times every timedEvery-th one.
func (l *Worker) TakeTurn(need, rank int32) {
	l.Figures.Counts.Proposals++
	if l.Number != 0 || l.p.Input.Clock == nil || l.Figures.Counts.Proposals%timedEvery != 0 {
		l.acquireOne(need, rank)
		return
	}
	began := l.p.Input.Clock()
	l.acquireOne(need, rank)
	mode := plan.ProposeOneByOne
	if l.p.KindOf(need).Same {
		mode = plan.ProposeWhole
	}
	l.Figures.Counts.Timed[mode]++
	l.Figures.Counts.TimedNanos[mode] += l.p.Input.Clock() - began
}

// IsTurnIdle reports whether the turn of the Need at a place in the order certainly comes to nothing: no
// free machine is left for its kind, nothing is held for it, and its cluster has no spare for it if its
// credit waits. gathers says that the caller runs ahead of the deciding worker: it does not read the
// spares, which change.
func (p *Pass) IsTurnIdle(rank int, kind uint32, gathers bool) bool {
	return p.IsSpent(kind) && !p.Special.Has(uint32(rank)) && (!p.waits.Has(uint32(rank)) || !gathers && p.hasNoSpares(p.Order[rank], kind))
}

// markSpecial marks the Needs whose turn may matter although their kind has no free machine left.
func (p *Pass) markSpecial() {
	a, n := p.Arena, len(p.Order)
	p.Special, p.waits, p.Gained = bitmap.DenseIn(a, n), bitmap.DenseIn(a, n), alloc.Make[bool](a, n)
	for need := range p.Reserved.Needs() {
		p.Special.Set(uint32(p.RankOf[need]))
	}
	for c := range p.st.Clusters {
		for _, need := range p.st.Clusters[c].Uncredited {
			p.waits.Set(uint32(p.RankOf[need]))
		}
	}
}

func (l *Worker) acquireOne(need, rank int32) {
	n := &l.p.Lines[need]
	k := &l.p.Kinds[n.Kind]
	l.Visit(need)
	if n.Is(state.IsUncredited) {
		l.catchUp(need, rank, k)
		return
	}
	may := !k.Same || n.Domain != 0 || l.chooseFree(need, k)
	l.Resume(need)
	if may && n.Status&state.SitsOut == 0 {
		l.Acquire(need, k)
	}
	l.VoidTaken(need)
	l.FinishTurn(need, rank)
	if l.Lacks != 0 && !l.p.AnyFree(k) {
		l.p.Spend(n.Kind)
	}
}

// FinishTurn is Finish at the Need's turn after credit.
func (l *Worker) FinishTurn(need, rank int32) {
	if l.Finish(need); l.Lacks == 0 {
		l.p.Shortage.Gained[rank] = true
	}
}
