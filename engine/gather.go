package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// batchNeeds is how many needs are gathered at a time: enough for their
	// misses to overlap.
	batchNeeds = 128
	// batchesAhead is how far gathering may be ahead of deciding.
	batchesAhead = 32
)

// gatherMin is from how many needs on, of those that acquire something, another
// worker gathers: with fewer, handing over takes longer than it spares. Tests lower it.
var gatherMin = 1 << 16

// batch is needs whose turn comes next.
type batch struct {
	need, rank [batchNeeds]int32
	n          int
}

// gatherer walks over the needs whose turn may come to something, in rank order.
type gatherer struct {
	*pass
	rank    int
	ahead   bool   // of another worker, who changes what is left
	shares  shares // of the worker, where there are several
	worker  uint8
	touched uint64 // keeps the compiler from dropping reads
}

// fill gathers the next batch; it is empty when there are no more needs.
func (g *gatherer) fill(b *batch) {
	b.n = 0
	for g.rank = nextMark(g.asking, g.rank); g.rank < len(g.asking) && b.n < batchNeeds; g.rank = nextMark(g.asking, g.rank+1) {
		kind := g.kindAt[g.rank]
		if g.shares.workers > 1 && g.shares.kind[kind] != g.worker || g.isIdle(g.rank, kind, g.ahead) {
			continue
		}
		b.need[b.n], b.rank[b.n] = g.order[g.rank], int32(g.rank)
		b.n++
	}
	g.touch(b)
}

// touch reads the lines of a batch, and the numbers of what the needs want, for
// whoever decides. The loop is short enough for many misses to be under way at once.
func (g *gatherer) touch(b *batch) {
	for _, need := range b.need[:b.n] {
		g.touched += uint64(g.lines[need].cluster) + uint64(g.aggregates[need]) // never written meanwhile
	}
}

// acquirePending gives each need that lacks something its turn, if there is
// anything that it could acquire, or be told; another worker gathers ahead. While a
// plan holds Idle machines that may turn free, what is passed over hangs on what
// happens before.
func (l *worker) acquirePending() {
	if l.e.crew.size() == 1 || l.shares.turns < gatherMin || l.reserved.breakable {
		l.acquireShare()
		return
	}
	r := l.newRing()
	l.e.crew.run(func(worker int) {
		switch worker {
		case 0:
			r.drain(l.acquireBatch)
		case 1:
			r.produce()
		}
	})
}

// acquireShare gives the needs of the worker's share their turns, gathering for
// itself.
func (l *worker) acquireShare() { l.acquireShareAnd(func() {}) }

// acquireShareAnd is acquireShare that does something else before each batch.
func (l *worker) acquireShareAnd(first func()) {
	g, b := l.gathers(), &l.pending
	for g.fill(b); b.n > 0; g.fill(b) {
		first()
		l.acquireBatch(b)
	}
}

// gathers puts the worker's gatherer at the first need.
func (l *worker) gathers() *gatherer {
	l.gatherer = gatherer{pass: l.pass, shares: l.shares, worker: l.number}
	return &l.gatherer
}

// newRing returns a ring of the needs of the worker's share.
func (l *worker) newRing() *ring {
	g := l.gathers()
	g.ahead = true
	r := &ring{fill: g.fill}
	return r
}

// ring hands batches from the worker that gathers to the one that decides, in
// order. The one that decides does not wait for the other, which may not have a
// processor just now: it fills the next batch itself then. Nor does the other
// sleep when it is far ahead: a batch is done with sooner than it would wake.
type ring struct {
	mu       sync.Mutex // of who fills
	fill     func(*batch)
	batches  [batchesAhead]batch
	produced atomic.Int64 // batches that are full
	consumed atomic.Int64 // of these, those that are done with
	over     atomic.Bool
}

// pour fills batches until all is over.
func (r *ring) produce() {
	for !r.over.Load() {
		if r.produced.Load()-r.consumed.Load() == batchesAhead {
			runtime.Gosched()
			continue
		}
		r.mu.Lock()
		r.produceOne()
		r.mu.Unlock()
	}
}

// topUp fills batches until there is no room for more.
func (r *ring) topUp() {
	for r.produced.Load()-r.consumed.Load() < batchesAhead && !r.over.Load() {
		r.mu.Lock()
		r.produceOne()
		r.mu.Unlock()
	}
}

// produceOne fills the next batch, if there is room for it. The caller holds mu.
func (r *ring) produceOne() {
	i := r.produced.Load()
	if i-r.consumed.Load() < batchesAhead {
		r.fill(&r.batches[i%batchesAhead])
		r.produced.Store(i + 1)
	}
}

// drain takes batches until one is empty.
func (r *ring) drain(take func(*batch)) {
	defer r.over.Store(true)
	for i := int64(0); ; i++ {
		for r.produced.Load() == i {
			if !r.mu.TryLock() {
				runtime.Gosched()
				continue
			}
			if r.produced.Load() == i {
				r.produceOne()
			}
			r.mu.Unlock()
		}
		b := &r.batches[i%batchesAhead]
		if b.n == 0 {
			return
		}
		take(b)
		r.consumed.Store(i + 1)
	}
}
