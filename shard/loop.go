package shard

import (
	"context"
	"sync"
	"time"

	"github.com/tonnage/tonnage/internal/steady"
)

// Wake asks for a cycle at once. Wake-ups coalesce: at most one waits.
func (s *Shard) Wake() { s.pace.wakeUp() }

// Run makes cycles until ctx ends: one at once, then one per interval and one
// after each wake-up. It returns when the cycle and the calls under way have
// ended; calls that wait in the queue are not made. A cycle that cannot decide
// is logged, and the next one tries again.
func (s *Shard) Run(ctx context.Context) error {
	now := s.pace.clock
	if now == nil {
		now = steady.Clock()
	}
	s.mu.Lock()
	stop := s.pace.run()
	s.mu.Unlock()
	defer stop()
	var workers sync.WaitGroup
	for range s.cfg.Concurrency {
		workers.Go(func() { s.work(ctx, now) })
	}
	defer workers.Wait()
	defer s.observer.worst.record()()
	ticker := time.NewTicker(s.cfg.CycleInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := s.Step(ctx, now().UnixNano()); err != nil && ctx.Err() == nil {
			s.observer.log.Error("cycle without a decision", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.pace.wake:
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
		case job := <-s.executor.queue:
			if ctx.Err() != nil {
				return
			}
			if !s.admit(job, now().UnixNano()) {
				continue
			}
			rec, err := s.executor.perform(ctx, job)
			s.settle(job, &rec, err, now().UnixNano())
		}
	}
}

// admit tells whether a call may still be made.
func (s *Shard) admit(job *call, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace.passes(now)
	return s.executor.admit(job)
}

// settle notes how a call ended.
func (s *Shard) settle(job *call, rec *Record, err error, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace.passes(now)
	s.executor.settle(job, rec, err)
	s.executor.feed()
}
