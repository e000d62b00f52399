package server

import (
	"testing"
	"time"
)

// Of many refused calls one line a minute is written, which counts the others.
func TestSeldom(t *testing.T) {
	var l seldom
	start := time.Unix(1_000_000, 0)
	lines, more := 0, uint64(0)
	for i := range 3000 { // ten a second, for five minutes
		if n, ok := l.next(start.Add(time.Duration(i) * 100 * time.Millisecond)); ok {
			lines++
			more += n
		}
	}
	if lines != 5 || more != 4*599 {
		t.Errorf("%d lines of 3000 calls, and %d more, want 5 and %d", lines, more, 4*599)
	}
}
