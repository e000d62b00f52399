package fleetview

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// gateMargin is how long before a cycle is due questions pause.
	gateMargin = time.Millisecond
	// gateWaitMax bounds one pause of a question, also when cycles follow each other without a gap.
	gateWaitMax = time.Second
)

// gate makes questions pause while a cycle of a shard runs, and before one is due. A question that decides beside a
// cycle makes it longer even on another processor: they share caches, memory and the garbage collector, and while the operating
// system keeps the question's thread waiting, because its priority is low, that thread keeps one of the processors that Go schedules on.
//
// The goroutine that runs cycles takes no lock here: a thread of low priority could hold it.
type gate struct {
	running  atomic.Bool
	begun    atomic.Int64 // when the last cycle began, Unix nanoseconds; 0 = none has
	ended    atomic.Int64 // when the last cycle ended
	interval atomic.Int64 // nanoseconds between the beginnings of the last two cycles; 0 = not known

	passed   atomic.Pointer[chan struct{}] // is closed when a cycle ends; nil = nobody waits
	parts    atomic.Int32                  // parts of questions that are computed now
	overlaps atomic.Int32                  // cycles that began while a part of a question was computed
}

// Running notes that a cycle begins or has ended. One goroutine at a time calls it.
func (g *gate) Running(running bool) {
	now := time.Now().UnixNano()
	if running {
		if begun := g.begun.Swap(now); begun != 0 {
			g.interval.Store(now - begun)
		}
		g.running.Store(true)
		if g.parts.Load() > 0 {
			g.overlaps.Add(1)
		}
		return
	}
	g.ended.Store(now)
	g.running.Store(false)
	if passed := g.passed.Swap(nil); passed != nil {
		close(*passed)
	}
}

// pause returns for how long a part of a question that takes so long has to wait if no cycle ends before; 0 = it may begin.
func (g *gate) pause(now time.Time, takes time.Duration) time.Duration {
	if g.running.Load() {
		return gateWaitMax
	}
	begun, ended, interval := g.begun.Load(), g.ended.Load(), g.interval.Load()
	due, at := begun+interval, now.UnixNano()
	if interval == 0 || at > due+interval/2 {
		return 0 // cycles are not regular, or have stopped
	}
	last := due - int64(takes+gateMargin) // a part that begins later is not ready when the cycle is due
	if last < ended {
		last = ended + interval/8 // it never is: it begins right after a cycle
	}
	if at <= last {
		return 0
	}
	return time.Duration(due + interval/2 - at + 1)
}

// await waits until a part of a question that takes so long may begin, for gateWaitMax at most or until the context ends. It returns
// whether it had to wait.
func (g *gate) await(ctx context.Context, takes time.Duration) (waited bool) {
	late := time.Now().Add(gateWaitMax)
	for ctx.Err() == nil {
		passed := make(chan struct{})
		if !g.passed.CompareAndSwap(nil, &passed) {
			if other := g.passed.Load(); other != nil {
				passed = *other
			} else {
				continue
			}
		}
		// A cycle that ends from here on closes the channel.
		now := time.Now()
		wait := min(g.pause(now, takes), late.Sub(now))
		if wait <= 0 {
			return waited
		}
		waited = true
		next := time.NewTimer(wait)
		select {
		case <-passed:
		case <-next.C:
		case <-ctx.Done():
		}
		next.Stop()
	}
	return waited
}

// pacer lets a question go on part by part, when the cycles of all shards of the process leave room for the part. It has one user at
// a time.
type pacer struct {
	gates []*gate
	took  map[any]time.Duration // by kind of part: about the longest of the last ones
	kind  any                   // of the part that is computed; nil = none is
	since time.Time
}

// next ends a part of a question and waits until one of this kind may begin.
func (p *pacer) next(ctx context.Context, kind any) {
	p.end()
	takes, late := p.took[kind], time.Now().Add(gateWaitMax)
	for waited := true; waited && time.Now().Before(late) && ctx.Err() == nil; {
		waited = false
		for _, g := range p.gates {
			waited = g.await(ctx, takes) || waited
		}
		waited = waited && len(p.gates) > 1 // while one was waited for, another may have begun
	}
	p.kind, p.since = kind, time.Now()
	for _, g := range p.gates {
		g.parts.Add(1)
	}
}

// end notes how long the part took that was computed.
func (p *pacer) end() {
	if p.kind == nil {
		return
	}
	p.took[p.kind] = max(time.Since(p.since), p.took[p.kind]*15/16)
	p.kind = nil
	for _, g := range p.gates {
		g.parts.Add(-1)
	}
}
