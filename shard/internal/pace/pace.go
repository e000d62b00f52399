// Package pace knows when cycles are.
package pace

import "time"

// Pace is when cycles are: the time, the number of the cycle, and the request for the
// next one.
type Pace struct {
	Clock   func() time.Time // nil = the wall clock for waits, and no durations
	Wake    chan struct{}    // a request for a cycle; at most one waits
	timer   *time.Timer      // asks for a cycle when something falls due; nil = nobody runs cycles
	due     int64            // when timer fires, Unix nanoseconds; 0 = it does not
	Now     int64            // time of the last cycle, or of a call that ended later, Unix nanoseconds
	Cycle   uint64           // number of the last cycle that has begun
	Decided uint64           // number of the last cycle that has decided
}

// New returns the pace of a shard that has not begun a cycle. clock nil = the wall clock for waits, and
// no durations.
func New(clock func() time.Time) *Pace {
	return &Pace{Clock: clock, Wake: make(chan struct{}, 1)}
}

// WakeUp asks for a cycle at once. It is safe for concurrent use.
func (p *Pace) WakeUp() {
	select {
	case p.Wake <- struct{}{}:
	default:
	}
}

// Run has requests for cycles that fall due come true, until it is stopped.
func (p *Pace) Run() (stop func() bool) {
	p.timer = time.AfterFunc(time.Hour, p.WakeUp)
	p.timer.Stop()
	return p.timer.Stop
}

// WakeAt asks for a cycle at a time, 0 = never. If it is called several times, the
// earliest time counts.
func (p *Pace) WakeAt(at int64) {
	if at == 0 || p.timer == nil || p.due > p.Now && p.due <= at {
		return
	}
	p.due = at
	p.timer.Reset(time.Duration(at - p.Now))
}

// Begin begins a cycle at the given time.
func (p *Pace) Begin(now int64) {
	p.Now = now
	p.Cycle++
}

// Passes moves the time on.
func (p *Pace) Passes(now int64) { p.Now = max(p.Now, now) }

// WallClock returns the time by which waits are measured.
func (p *Pace) WallClock() time.Time {
	if p.Clock == nil {
		return time.Now()
	}
	return p.Clock()
}

// Stopwatch returns a function that gives the nanoseconds since its last call,
// 0 without a clock.
func (p *Pace) Stopwatch() func() int64 {
	nanos := p.Nanos()
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

// Nanos returns the clock for durations, nil without one.
func (p *Pace) Nanos() func() int64 {
	if p.Clock == nil {
		return nil
	}
	start := p.Clock()
	return func() int64 { return int64(p.Clock().Sub(start)) }
}
