package store

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/tonnage/tonnage/provider/calls"
	"github.com/tonnage/tonnage/provider/simulated"
)

// job is something for the writer to do.
type job struct {
	do   func(*Store) error
	err  error
	done chan struct{} // closed when it is done, and on disk
}

// repair is a Failed machine that will be made whole.
type repair struct {
	machine string
	at      time.Time
}

// submit has the writer do something, and waits until that is on disk. When ctx
// ends first, it may be done all the same.
func (s *Store) submit(ctx context.Context, do func(*Store) error) error {
	j := &job{do: do, done: make(chan struct{})}
	select {
	case s.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return s.ended()
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
	}
	select {
	case <-j.done: // in its last transaction
		return j.err
	default:
		return s.ended()
	}
}

// ended says why the writer does no more.
func (s *Store) ended() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.fault != nil {
		return s.fault
	}
	return calls.ErrClosed
}

// write carries out jobs, and ends transitions when they are due, until the
// store is closed or breaks.
func (s *Store) write() {
	defer close(s.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	batch := make([]*job, 0, BatchMax)
	for {
		batch = batch[:0]
		select {
		case <-s.stop:
			return
		case j := <-s.jobs:
			batch = append(batch, j)
		case <-timer.C:
		}
		for len(batch) > 0 && len(batch) < BatchMax && len(s.jobs) > 0 {
			batch = append(batch, <-s.jobs)
		}
		next, err := s.commit(batch)
		if err != nil {
			return
		}
		timer.Reset(next)
	}
}

// commit carries out a batch of jobs and has it on disk before anybody sees
// anything of it. It returns how long there is nothing to do but jobs.
func (s *Store) commit(batch []*job) (next time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.stats.Ended += uint64(s.fleet.Advance(now.UnixNano()))
	s.repair(now)
	for _, j := range batch {
		j.err = j.do(s)
	}
	s.stats.Calls += uint64(len(batch))
	if err := s.save(); err != nil {
		s.fault = fmt.Errorf("%w: %w", calls.ErrBroken, err)
		for _, j := range batch {
			j.err = s.fault
		}
	}
	for _, j := range batch {
		close(j.done)
	}
	return s.untilNext(s.cfg.Now()), s.fault
}

// save writes what changed, if anything did.
func (s *Store) save() error {
	if s.fleet.Counters() == s.saved && !s.fence.Unsaved() {
		return nil
	}
	start := time.Now()
	err := s.db.Update(func(tx *bbolt.Tx) error { return s.put(tx) })
	s.stats.Transactions++
	s.stats.DiskTime += time.Since(start)
	return err
}

func (s *Store) untilNext(now time.Time) time.Duration {
	next := timerMax
	if due, ok := s.fleet.NextDue(); ok {
		next = min(next, time.Duration(due-now.UnixNano()))
	}
	if len(s.repairs) > 0 {
		next = min(next, s.repairs[0].at.Sub(now))
	}
	return max(next, 0)
}

// planRepair puts a Failed machine down for repair.
func (s *Store) planRepair(machine string) {
	if s.cfg.RepairAfter > 0 {
		s.repairs = append(s.repairs, repair{machine, s.cfg.Now().Add(s.cfg.RepairAfter)})
	}
}

func (s *Store) repair(now time.Time) {
	for len(s.repairs) > 0 && !s.repairs[0].at.After(now) {
		// A machine that is gone, or whole already, needs none.
		_ = s.fleet.Heal(s.repairs[0].machine)
		s.repairs = s.repairs[1:]
	}
}

// Administer changes the fleet as nobody's call does: faults, prices, repairs.
// It returns when that is on disk. change must not keep the fleet, nor let it
// lose machines.
func (s *Store) Administer(ctx context.Context, change func(*simulated.Fleet) error) error {
	return s.submit(ctx, func(s *Store) error { return change(s.fleet) })
}

// Lose makes machines vanish, and returns how many there were.
func (s *Store) Lose(ctx context.Context, ids ...string) (lost int, err error) {
	err = s.submit(ctx, func(s *Store) error {
		for _, id := range ids {
			if e, ok := s.fleet.Entry(id); ok {
				s.machines[e.Machine.State]--
				s.items[e.Slot] = item{}
				s.gone = append(s.gone, id)
			}
		}
		lost = s.fleet.Lose(ids...)
		return nil
	})
	return lost, err
}
