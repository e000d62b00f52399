package client

import (
	"context"
	"sync"
)

// lanes lets one call at a time through for each machine.
type lanes struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // closed when the call is over
}

// enter waits for its turn. After nil, leave must follow.
func (l *lanes) enter(ctx context.Context, machine string) error {
	for {
		l.mu.Lock()
		over, busy := l.busy[machine]
		if !busy {
			if l.busy == nil {
				l.busy = map[string]chan struct{}{}
			}
			l.busy[machine] = make(chan struct{})
			l.mu.Unlock()
			return nil
		}
		l.mu.Unlock()
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *lanes) leave(machine string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.busy[machine])
	delete(l.busy, machine)
}
