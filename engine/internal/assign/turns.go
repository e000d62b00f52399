package assign

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// The turns are the second half of phase 1: Needs that lack something claim free machines, in rank order. That order
// makes the answer unique. Workers divide the walk only by components of kinds that share no machines
// (components.go). Where one component is nearly everything, one worker decides. Its bottleneck is cache misses,
// since lines lie in the order of clusters, not of ranks; so it reads the lines of a batch of Needs before their turns.
// Needs whose kind has no machines left, which are most, are skipped without a look at their lines.

// batchNeeds is how many Needs are gathered at a time: enough for their cache misses to overlap.
const batchNeeds = 128

// Walk visits, in rank order, the Needs whose turn may come to something, batch by batch.
type Walk struct {
	Need, Rank [batchNeeds]int32 // of the batch
	N          int               // how many it has
	p          *Pass
	next       int              // the place in the order to go on from
	shares     acquire.Division // where there are several: the walk visits the kinds of one worker
	worker     uint8
	reads      uint64 // keeps the compiler from dropping reads
}

// NewWalk returns a walk over the Needs of a worker's share.
func NewWalk(l *Worker) Walk { return Walk{p: l.p, shares: l.Acquiring.Shares, worker: l.Number} }

// Gather gathers the next batch, and reads what its turns read: many cache misses overlap. false ends the walk.
func (w *Walk) Gather() bool {
	w.N = 0
	for ; w.N < batchNeeds; w.next++ {
		rank, ok := w.p.asking.Next(uint32(w.next))
		if !ok {
			w.next = len(w.p.Order)
			break
		}
		w.next = int(rank)
		kind := w.p.KindAt[w.next]
		if w.shares.Workers > 1 && w.shares.Kind[kind] != w.worker || w.p.IsTurnIdle(w.next, kind) {
			continue
		}
		w.Need[w.N], w.Rank[w.N] = w.p.Order[w.next], int32(w.next)
		w.N++
	}
	for _, need := range w.Need[:w.N] {
		w.reads += w.p.Touch(need)
	}
	return w.N > 0
}

// acquireShare gives the Needs of the worker's share their turns.
func (l *Worker) acquireShare() {
	l.walk = NewWalk(l)
	for l.walk.Gather() {
		l.acquireBatch()
	}
}

// acquireBatch gives the Needs of a batch their turns. It returns early when a turn has revived kinds
// that the walk skipped: gathering resumes right after that Need.
func (l *Worker) acquireBatch() {
	w := &l.walk
	for i, need := range w.Need[:w.N] {
		rank := w.Rank[i]
		if l.p.IsTurnIdle(int(rank), l.p.KindAt[rank]) || l.p.Lines[need].Is(state.IsSatisfied) {
			continue
		}
		l.BlockUpTo(rank)
		l.TakeTurn(need, rank)
		if l.Acquiring.Revived {
			l.Acquiring.Revived, w.next = false, int(rank)+1
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
// credit waits.
func (p *Pass) IsTurnIdle(rank int, kind uint32) bool {
	return p.Spent[kind] && !p.Special.Has(uint32(rank)) && (!p.waits.Has(uint32(rank)) || p.hasNoSpares(p.Order[rank], kind))
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
		l.p.Spent[n.Kind] = true
	}
}

// FinishTurn is Finish at the Need's turn after credit.
func (l *Worker) FinishTurn(need, rank int32) {
	if l.Finish(need); l.Lacks == 0 {
		l.p.Shortage.Gained[rank] = true
	}
}
