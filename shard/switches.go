package shard

import (
	"context"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// control reads the switches and, after a fenced reply, tries to get the right
// to act back. It runs before a cycle, without the mutex.
func (s *Shard) control(ctx context.Context) {
	now := s.rails.ReadSwitches()
	s.mu.Lock()
	fenced := s.rails.Control(now)
	s.ownership.Look(s.rails)
	s.mu.Unlock()
	if !fenced || !s.rails.MayActAgain(ctx, now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rails.Unfence()
	s.reconciler.revision = nil // what happened meanwhile is not known
}

// Disposition returns what becomes of decisions now.
func (s *Shard) Disposition() rails.Disposition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rails.Halted()
}

// SetPaused stops or resumes carrying out decisions.
func (s *Shard) SetPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rails.SetPaused(paused)
}

// Resume lets go of the breaker, and tells whether it had tripped. With Deps.Trip, taking
// back what that has kept does the same.
func (s *Shard) Resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rails.Resume()
}
