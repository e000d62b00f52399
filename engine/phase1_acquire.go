package engine

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/model"
)

// Acquire is the second half of phase 1: Needs that lack something claim free machines, in rank order.
// That order makes the answer unique. Workers divide the walk only by components of kinds that share no
// machines (components.go). Where one component is nearly everything, one worker decides. Its
// bottleneck is cache misses, since lines lie in the order of clusters, not of ranks; so another worker
// prefetches the lines that come next (components.go). Needs whose kind has no machines left, which are
// most, are skipped without a look at their lines.

// acquisition is a free machine that a Need has claimed.
type acquisition struct {
	row  columnar.Row
	need int32
}

// acquireBatch gives the Needs of a batch their turns. It returns early when a turn has revived kinds
// that the gatherer skipped: gathering resumes right after that Need.
func (l *worker) acquireBatch(b *workers.Batch) {
	for _, need := range b.Need[:b.N] { // independent reads: many cache misses overlap
		l.acquiring.reads += uint64(l.p.lines[need].Status) + uint64(l.p.aggregates[need])
	}
	for i, need := range b.Need[:b.N] {
		if rank := b.Rank[i]; l.p.isIdle(int(rank), l.p.kindAt[rank], false) || l.p.lines[need].Is(state.IsSatisfied) {
			continue
		}
		l.blockUpTo(b.Rank[i])
		l.takeTurn(need, b.Rank[i])
		if l.acquiring.revived {
			l.acquiring.revived, l.acquiring.gatherer.rank = false, int(b.Rank[i])+1
			return
		}
	}
}

// timedEvery is the sampling interval of timed proposals: reading a clock costs about as much as a
// short walk.
const timedEvery = 64

// takeTurn gives a Need its turn. The first worker times every timedEvery-th one.
func (l *worker) takeTurn(need, rank int32) {
	l.figures.counts.Proposals++
	if l.number != 0 || l.p.in.Clock == nil || l.figures.counts.Proposals%timedEvery != 0 {
		l.acquireOne(need, rank)
		return
	}
	began := l.p.in.Clock()
	l.acquireOne(need, rank)
	mode := ProposeOneByOne
	if l.p.kindOf(need).Same {
		mode = ProposeWhole
	}
	l.figures.counts.Timed[mode]++
	l.figures.counts.TimedNanos[mode] += l.p.in.Clock() - began
}

// isIdle reports whether the turn of the Need at a place in the order certainly comes to nothing: no
// free machine is left for its kind, nothing is held for it, and its cluster has no spare for it if its
// credit waits. gathers says that the caller runs ahead of the deciding worker: it does not read the
// spares, which change.
func (p *pass) isIdle(rank int, kind uint32, gathers bool) bool {
	return p.isSpent(kind) && !p.special[rank] && (!p.waits[rank] || !gathers && p.hasNoSpares(p.order[rank], kind))
}

// markSpecial marks the Needs whose turn may matter although their kind has no free machine left.
func (p *pass) markSpecial() {
	a, n := p.e.arena, len(p.order)
	p.special, p.waits, p.gained = alloc.Make[bool](a, n), alloc.Make[bool](a, n), alloc.Make[bool](a, n)
	for need := range p.reserved.Needs() {
		p.special[p.rankOf[need]] = true
	}
	for c := range p.e.store.clusters {
		for _, need := range p.e.store.clusters[c].uncredited {
			p.waits[p.rankOf[need]] = true
		}
	}
}

func (l *worker) acquireOne(need, rank int32) {
	n := &l.p.lines[need]
	k := &l.p.kinds[n.Kind]
	l.visit(need)
	if n.Is(state.IsUncredited) {
		l.catchUp(need, rank, k)
		return
	}
	may := !k.Same || n.Domain != 0 || l.chooseFree(need, k)
	l.resume(need)
	if may && n.Status&state.SitsOut == 0 {
		l.acquire(need, k)
	}
	l.voidTaken(need)
	l.finishTurn(need, rank)
	if l.lacks != 0 && !l.p.anyFree(k) {
		l.p.spend(n.Kind)
	}
}

// anyFree reports whether a free machine is left that could serve a kind. From turn to turn the answer
// changes only from true to false, unless a reservation is voided; see revive.
func (p *pass) anyFree(k *state.Kind) bool {
	return p.any(p.ladders[k.Number][0], k, 0) || p.any(p.ladders[k.Number][1], k, 1) || p.anyLower(k)
}

// acquire claims free machines in this order: Idle ones that are held for the Need, other Idle ones,
// Idle ones that are held for lower ranks, Speculative and late-bound ones, late-bound ones that are
// held for lower ranks. Then it gives back what is superfluous.
func (l *worker) acquire(need int32, k *state.Kind) {
	if l.lacks != 0 {
		l.acquireHeld(need, k)
		switch {
		case len(k.Spread) == 0:
			for stage := range l.p.free {
				l.acquireStage(need, k, stage)
				l.acquireLower(need, k, stage)
			}
		case l.p.e.opts.Acquire == AcquireFit:
			l.acquireSpreadFit(need, k)
		default:
			l.acquireSpread(need, k, l.p.reserved.Of(need))
		}
	}
	l.giveBackSuperfluous(need, k)
}

// acquireHeld claims the Idle machines that are held for the Need.
func (l *worker) acquireHeld(need int32, k *state.Kind) {
	for _, r := range l.p.reserved.Of(need) {
		if l.canTakeHeld(r, need, k) {
			l.acquired(r, need, 0)
		}
	}
}

// acquireStage claims machines of a stage (0 = Idle, 1 = Speculative) that are not held, by the rule of
// acquisition; with AcquireCheapest the cheapest first.
func (l *worker) acquireStage(need int32, k *state.Kind, stage int) {
	if l.p.e.opts.Acquire == AcquireFit {
		l.acquireFit(need, k, stage)
		return
	}
	if k.Same {
		l.acquireInDomain(need, k, stage)
		return
	}
	x := l.p.ladders[k.Number][stage]
	for l.lacks != 0 {
		c, ok := l.p.nextClass(x, k, stage, l.lacks)
		if !ok {
			break
		}
		l.figures.probes++
		l.acquireHead(c, need, stage)
	}
}

// acquired claims a free machine of a stage and subtracts what it covers.
func (l *worker) acquired(r columnar.Row, need int32, stage int) {
	l.subtract(l.p.s.View.Class[r])
	l.pick(r, need, stage)
}

// pick is acquired without the subtraction, for a machine that was subtracted before.
func (l *worker) pick(r columnar.Row, need int32, stage int) {
	l.noteAcquired(r, need, stage)
	if !l.p.taken[r] {
		l.p.taken[r] = true
		l.p.free[l.p.stageOf(r)].Took(r, l.p.s.View.Class[r], l.p.taken) // a held machine may be of the other stage
		l.acquiring.domains.Take(r)
	}
}

// acquireHead claims the first free machine of a class: acquired without a search for the machine's
// place.
func (l *worker) acquireHead(class uint32, need int32, stage int) {
	x := &l.p.free[stage]
	r := x.Head(class)
	l.subtract(class)
	l.noteAcquired(r, need, stage)
	l.p.taken[r] = true
	x.TakeHead(class, l.p.taken)
	l.acquiring.domains.Take(r)
}

func (l *worker) noteAcquired(r columnar.Row, need int32, stage int) {
	n := &l.p.lines[need]
	l.p.claims.Acquire(r, need, n)
	l.sharing.together.clusters[n.Cluster>>6] |= 1 << (n.Cluster & 63)
	l.acquiring.acquisitions[stage] = append(l.acquiring.acquisitions[stage], acquisition{r, need})
}

// canTakeHeld reports whether the Need at work can acquire a machine that is held for it, and gains by
// it.
func (l *worker) canTakeHeld(r columnar.Row, need int32, k *state.Kind) bool {
	return l.p.freeReserved(r, k) && l.p.inDomain(r, need) && l.helps(r)
}

// freeReserved reports whether a machine that is held for a Need of this kind is Idle, accepted and
// unclaimed.
func (p *pass) freeReserved(r columnar.Row, k *state.Kind) bool {
	// Test the class first: the claim of a machine that the kind does not accept may be another
	// worker's to write.
	return p.s.View.State[r] == model.Idle && p.accepts(r, k) && !p.claimed(r)
}

// domainsFor returns the index of a matcher's Same key, built when it is first needed in a cycle.
// Machines that are taken by then are not counted.
func (l *worker) domainsFor(matcher uint32) *domains.Index {
	key := l.p.s.Supply.SameKey(matcher)
	d := l.acquiring.domains.At(key)
	if d.Stale {
		d.Build(l.p.s, l.arena, l.p.dims, key, l.p.taken, l.has, &l.acquiring.byText)
	}
	return d
}

// acquireInDomain claims free machines of a stage in the Need's domain, cheapest first.
func (l *worker) acquireInDomain(need int32, k *state.Kind, stage int) {
	d := l.domainsFor(k.Matcher)
	shelves := l.p.shelvesOf(d, need, k)
	for l.lacks != 0 {
		r := l.nextOnShelves(d, shelves, k, stage)
		if r == columnar.None {
			return
		}
		l.acquired(r, need, stage)
	}
}

// nextOnShelves returns the cheapest available machine of a stage, on shelves, that helps the Need at
// work; None if there is none.
func (l *worker) nextOnShelves(d *domains.Index, shelves []uint32, k *state.Kind, stage int) columnar.Row {
	cost := l.p.costs(k, stage)
	best, bestKey := columnar.None, ^uint64(0)
	for _, i := range shelves {
		sh := &d.Shelves[i]
		if sh.Stage != stage || sh.Left == 0 || l.p.classMask[sh.Class]&l.lacks == 0 || !k.AcceptsClass(sh.Class) {
			continue
		}
		for int(sh.At) < len(sh.Rows) && (l.p.taken[sh.Rows[sh.At]] || l.p.reserved.Lower.Has(sh.Rows[sh.At])) {
			sh.At++
		}
		if int(sh.At) == len(sh.Rows) {
			continue // all that is left is held for others
		}
		l.figures.probes++
		r := sh.Rows[sh.At]
		if key := uint64(cost[sh.Class])<<32 | uint64(l.p.free[stage].Place[r]); key < bestKey {
			best, bestKey = r, key
		}
	}
	return best
}
