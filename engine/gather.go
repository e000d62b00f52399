package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// batchNeeds is how many Needs are gathered at a time: enough for their cache misses to overlap.
	batchNeeds = 128
	// batchesAhead bounds the ring: how many batches gathering may be ahead of deciding.
	batchesAhead = 32
)

// gatherMin is the number of acquiring Needs from which on another worker gathers. With fewer, handing
// batches over costs more than it saves. Tests lower it.
var gatherMin = 1 << 16

// batch holds the Needs whose turns come next, in rank order.
type batch struct {
	need, rank [batchNeeds]int32
	n          int
}

// gatherer visits, in rank order, the Needs whose turn may come to something.
type gatherer struct {
	*pass
	rank    int    // the place in the order to go on from
	ahead   bool   // it runs on another worker, while the deciding one changes what is left
	shares  shares // of the worker's share of kinds, where there are several shares
	worker  uint8
	touched uint64 // keeps the compiler from dropping reads
}

// fill gathers the next batch; an empty batch ends the walk.
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

// touch prefetches the lines of a batch, and the numbers of the Needs' aggregates, for the worker that
// decides. The loop is short enough for many cache misses to be in flight at once.
func (g *gatherer) touch(b *batch) {
	for _, need := range b.need[:b.n] {
		g.touched += uint64(g.lines[need].cluster) + uint64(g.aggregates[need]) // never written meanwhile
	}
}

// acquirePending gives the Needs of the worker's share their turns; another worker gathers ahead. It
// gathers for itself if there are few turns, or while reservations are breakable: voiding one frees
// Idle machines, so which Needs may be skipped depends on the turns before.
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

// acquireShare gives the Needs of the worker's share their turns; the worker gathers for itself.
func (l *worker) acquireShare() { l.acquireShareAnd(func() {}) }

// acquireShareAnd is acquireShare that calls first before each batch.
func (l *worker) acquireShareAnd(first func()) {
	g, b := l.gathers(), &l.pending
	for g.fill(b); b.n > 0; g.fill(b) {
		first()
		l.acquireBatch(b)
	}
}

// gathers resets the worker's gatherer to the first Need.
func (l *worker) gathers() *gatherer {
	l.gatherer = gatherer{pass: l.pass, shares: l.shares, worker: l.number}
	return &l.gatherer
}

// newRing returns a ring over the Needs of the worker's share.
func (l *worker) newRing() *ring {
	g := l.gathers()
	g.ahead = true
	r := &ring{fill: g.fill}
	return r
}

// ring is a bounded ring of batches from the worker that gathers to the worker that decides, in order.
// Neither side sleeps. The decider does not wait for the gatherer, which may have no processor at the
// moment: it fills the next batch itself. The gatherer spins when the ring is full, since a batch is
// consumed sooner than a goroutine wakes.
type ring struct {
	mu       sync.Mutex // serializes fill
	fill     func(*batch)
	batches  [batchesAhead]batch
	produced atomic.Int64 // count of full batches
	consumed atomic.Int64 // count of consumed batches, at most produced
	over     atomic.Bool
}

// produce fills batches until the decider is done.
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

// topUp fills batches until the ring is full.
func (r *ring) topUp() {
	for r.produced.Load()-r.consumed.Load() < batchesAhead && !r.over.Load() {
		r.mu.Lock()
		r.produceOne()
		r.mu.Unlock()
	}
}

// produceOne fills the next batch if there is room. The caller holds mu.
func (r *ring) produceOne() {
	i := r.produced.Load()
	if i-r.consumed.Load() < batchesAhead {
		r.fill(&r.batches[i%batchesAhead])
		r.produced.Store(i + 1)
	}
}

// drain consumes batches until one is empty.
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
