package shard

import (
	"context"
	"sync"
	"time"

	"github.com/tonnage/tonnage/internal/steady"
)

// Wake asks for a cycle at once. Wake-ups coalesce: at most one waits.
func (s *Shard) Wake() { s.pace.WakeUp() }

// Run makes cycles until ctx ends: one at once, then one per interval and one
// after each wake-up. It returns when the cycle and the calls under way have
// ended; calls that wait in the queue are not made. A cycle that cannot decide
// is logged, and the next one tries again.
func (s *Shard) Run(ctx context.Context) error {
	now := s.pace.Clock
	if now == nil {
		now = steady.Clock()
	}
	s.mu.Lock()
	stop := s.pace.Run()
	s.mu.Unlock()
	defer stop()
	var workers sync.WaitGroup
	for range s.cfg.Concurrency {
		workers.Go(func() { s.work(ctx, now) })
	}
	defer workers.Wait()
	defer s.observer.worst.Record()()
	ticker := time.NewTicker(s.cfg.CycleInterval)
	defer ticker.Stop()
	last := now()
	for ctx.Err() == nil {
		if s.observer.awake != nil && now().Sub(last) > 2*s.cfg.CycleInterval {
			s.observer.wakenUp(ctx)
		}
		if _, err := s.Step(ctx, now().UnixNano()); err != nil && ctx.Err() == nil {
			s.observer.log.Error("cycle without a decision", "error", err)
		}
		last = now()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.pace.Wake:
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
			made := false
			s.locked(now().UnixNano(), func(e *executor) { made = e.admit(job) })
			if !made {
				continue
			}
			rec, err := s.executor.perform(ctx, job)
			s.locked(now().UnixNano(), func(e *executor) {
				e.settle(job, &rec, err)
				e.feed()
			})
		}
	}
}

// locked does something with the mutex held, at a time that has come meanwhile.
func (s *Shard) locked(now int64, do func(*executor)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace.Passes(now)
	do(s.executor)
}
