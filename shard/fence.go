package shard

import "context"

// Switches are what stops the shard from outside while it runs, read before
// every cycle.
type Switches struct {
	Paused bool
	DryRun bool
}

// What stops the shard from carrying out what it decides:
//
//   - Config.Paused and Config.DryRun, for as long as the process lives;
//   - Deps.Switches, for as long as they are set;
//   - a fenced reply: another process of this shard may be at work, and nobody
//     can know how much of what this one believes is still true. Until Renew has
//     made sure of that, nothing is carried out.
//
// Calls that wait in the queue are called off by any of them.

// control reads the switches and, after a fenced reply, tries to get the right
// to act back. It runs before a cycle, without the mutex.
func (s *Shard) control(ctx context.Context) {
	var now Switches
	if s.switches != nil {
		now = s.switches()
	}
	s.mu.Lock()
	was, fenced := s.set, s.fenced
	s.set = now
	s.mu.Unlock()
	if was != now {
		s.log.Warn("switches changed", "paused", now.Paused, "dryRun", now.DryRun)
	}
	if !fenced || s.renew == nil {
		return
	}
	if err := s.renew(ctx); err != nil {
		s.log.Error("fenced: nothing is carried out", "error", err)
		return
	}
	s.mu.Lock()
	s.fenced, s.revision = false, nil // what happened meanwhile is not known
	s.mu.Unlock()
	s.log.Warn("no longer fenced: the epoch was read again")
}

// fence stops the shard after a fenced reply.
func (s *Shard) fence(err error) {
	if !s.fenced {
		s.log.Error("the provider knows a newer process of this shard; nothing is carried out until the epoch was read again", "error", err)
	}
	s.fenced = true
}

// halted returns what becomes of decisions now: Execute, or what stops them.
func (s *Shard) halted() Disposition {
	switch {
	case s.fenced:
		return Fenced
	case s.cfg.Paused || s.set.Paused:
		return Paused
	case s.cfg.DryRun || s.set.DryRun:
		return DryRun
	}
	return Execute
}

// Disposition returns what becomes of decisions now.
func (s *Shard) Disposition() Disposition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted()
}
