package inbound

import (
	"sync"
	"time"
)

// Limits of log lines that a peer can cause.
const (
	linesBurst     = 100
	linesPerSecond = 5
)

// Lines limits log lines of one kind to 100 at once and five a second. The zero
// value is ready. Safe for concurrent use.
type Lines struct {
	mu         sync.Mutex
	spent      float64
	last       time.Time
	unreported uint64
}

// Next tells whether a line may be written now. If so, unreported is how many
// could not be since the last one that was.
func (l *Lines) Next(now time.Time) (unreported uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := now.Sub(l.last).Seconds(); d > 0 {
		l.spent = max(0, l.spent-d*linesPerSecond)
		l.last = now
	}
	if l.spent > linesBurst-1 {
		l.unreported++
		return 0, false
	}
	l.spent++
	unreported, l.unreported = l.unreported, 0
	return unreported, true
}
