package shard

import (
	"context"
	"sync"
	"time"
)

// Wake asks for a cycle at once. Wake-ups coalesce: at most one waits.
func (s *Shard) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run makes cycles until ctx ends: one at once, then one per interval and one
// after each wake-up. It returns when the cycle and the calls under way have
// ended; calls that wait in the queue are not made. A cycle that cannot decide
// is logged, and the next one tries again.
func (s *Shard) Run(ctx context.Context) error {
	now := s.clock
	if now == nil {
		now = time.Now
	}
	var workers sync.WaitGroup
	for range s.cfg.Concurrency {
		workers.Go(func() { s.work(ctx, now) })
	}
	defer workers.Wait()
	defer s.worst.record()()
	ticker := time.NewTicker(s.cfg.CycleInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := s.Step(ctx, now().UnixNano()); err != nil && ctx.Err() == nil {
			s.log.Error("cycle without a decision", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.wake:
		}
	}
	return nil
}

// work makes calls until ctx ends.
func (s *Shard) work(ctx context.Context, now func() time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case job := <-s.queue:
			if ctx.Err() != nil {
				return
			}
			s.timePasses(now().UnixNano())
			if !s.admit(job) {
				continue
			}
			rec, err := s.perform(ctx, job)
			s.mu.Lock()
			s.now = max(s.now, now().UnixNano())
			s.settle(job, &rec, err)
			s.feed()
			s.mu.Unlock()
		}
	}
}

// timePasses moves the time on.
func (s *Shard) timePasses(now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = max(s.now, now)
}

// wallClock returns the time by which waits are measured.
func (s *Shard) wallClock() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// feed asks for a cycle when the last one had more to do than the queue took,
// and the queue is about to run dry.
func (s *Shard) feed() {
	if s.hungry && len(s.queue) <= s.queueMax/4 {
		s.hungry = false
		s.Wake()
	}
}
