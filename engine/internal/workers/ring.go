package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// BatchNeeds is how many Needs are gathered at a time: enough for their cache misses to overlap.
	BatchNeeds = 128
	// batchesAhead bounds the ring: how many batches gathering may be ahead of deciding.
	batchesAhead = 32
)

// Batch holds the Needs whose turns come next, in rank order.
type Batch struct {
	Need, Rank [BatchNeeds]int32
	N          int
}

// NewRing returns a ring whose batches fill fills, in the order of their turns.
func NewRing(fill func(*Batch)) *Ring { return &Ring{fill: fill} }

// Ring is a bounded ring of batches from the worker that gathers to the worker that decides, in order.
// Neither side sleeps. The decider does not wait for the gatherer, which may have no processor at the
// moment: it fills the next batch itself. The gatherer spins when the ring is full, since a batch is
// consumed sooner than a goroutine wakes.
type Ring struct {
	mu       sync.Mutex // serializes fill
	fill     func(*Batch)
	batches  [batchesAhead]Batch
	produced atomic.Int64 // count of full batches
	consumed atomic.Int64 // count of consumed batches, at most produced
	over     atomic.Bool
}

// Produce fills batches until the decider is done.
func (r *Ring) Produce() {
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

// TopUp fills batches until the ring is full.
func (r *Ring) TopUp() {
	for r.produced.Load()-r.consumed.Load() < batchesAhead && !r.over.Load() {
		r.mu.Lock()
		r.produceOne()
		r.mu.Unlock()
	}
}

// produceOne fills the next batch if there is room. The caller holds mu.
func (r *Ring) produceOne() {
	i := r.produced.Load()
	if i-r.consumed.Load() < batchesAhead {
		r.fill(&r.batches[i%batchesAhead])
		r.produced.Store(i + 1)
	}
}

// Drain consumes batches until one is empty.
func (r *Ring) Drain(take func(*Batch)) {
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
		if b.N == 0 {
			return
		}
		take(b)
		r.consumed.Store(i + 1)
	}
}
