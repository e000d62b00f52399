package shard

import (
	"time"

	"github.com/tonnage/tonnage/engine"
)

// pace is when cycles are: the time, the number of the cycle, and the request for the
// next one.
type pace struct {
	clock   func() time.Time // nil = the wall clock for waits, and no durations
	wake    chan struct{}    // a request for a cycle; at most one waits
	timer   *time.Timer      // asks for a cycle when something falls due; nil = nobody runs cycles
	due     int64            // when timer fires, Unix nanoseconds; 0 = it does not
	now     int64            // time of the last cycle, or of a call that ended later, Unix nanoseconds
	cycle   uint64           // number of the last cycle that has begun
	decided uint64           // number of the last cycle that has decided
}

func newPace(clock func() time.Time) *pace {
	return &pace{clock: clock, wake: make(chan struct{}, 1)}
}

// wakeUp asks for a cycle at once. It is safe for concurrent use.
func (p *pace) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run has requests for cycles that fall due come true, until it is stopped.
func (p *pace) run() (stop func() bool) {
	p.timer = time.AfterFunc(time.Hour, p.wakeUp)
	p.timer.Stop()
	return p.timer.Stop
}

// wakeAt asks for a cycle at a time, 0 = never. Of several times the first counts.
func (p *pace) wakeAt(at int64) {
	if at == 0 || p.timer == nil || p.due > p.now && p.due <= at {
		return
	}
	p.due = at
	p.timer.Reset(time.Duration(at - p.now))
}

// begin begins a cycle at the given time.
func (p *pace) begin(now int64) {
	p.now = now
	p.cycle++
}

// passes moves the time on.
func (p *pace) passes(now int64) { p.now = max(p.now, now) }

// wallClock returns the time by which waits are measured.
func (p *pace) wallClock() time.Time {
	if p.clock == nil {
		return time.Now()
	}
	return p.clock()
}

// stopwatch returns a function that gives the nanoseconds since its last call,
// 0 without a clock.
func (p *pace) stopwatch() func() int64 {
	nanos := p.nanos()
	if nanos == nil {
		return func() int64 { return 0 }
	}
	last := nanos()
	return func() int64 {
		now := nanos()
		lap := now - last
		last = now
		return lap
	}
}

// nanos returns the clock for durations, nil without one.
func (p *pace) nanos() func() int64 {
	if p.clock == nil {
		return nil
	}
	start := p.clock()
	return func() int64 { return int64(p.clock().Sub(start)) }
}

// Durations of a cycle's stages in nanoseconds, 0 without a clock.
type Durations struct {
	Total, Reconcile, Snapshot, Phase1, Phase2, Phase3, Emit, Execute int64
}

func (d *Durations) decided(st *engine.Stats) {
	d.Snapshot = st.SnapshotNanos + st.NormaliseNanos + st.RankNanos
	d.Phase1, d.Phase2, d.Phase3 = st.Phase1Nanos, st.Phase2Nanos, st.Phase3Nanos
}

func (d *Durations) sum() {
	d.Total = d.Reconcile + d.Snapshot + d.Phase1 + d.Phase2 + d.Phase3 + d.Emit + d.Execute
}
