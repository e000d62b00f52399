package shard

import (
	"context"
	"errors"
)

// Switches are what stops the shard from outside while it runs, read before
// every cycle.
type Switches struct {
	Paused bool
	DryRun bool
	// Tripped says that Deps.Trip was told of a breaker that has tripped, and nobody has let go
	// of it since.
	Tripped bool
	// Replaced says that a newer process of this shard is known.
	Replaced bool
}

// What stops the shard from carrying out what it decides:
//
//   - Config.Paused and Config.DryRun, for as long as the process lives;
//   - Deps.Switches, for as long as they are set;
//   - the breaker, when more machines were taken away than any known cause would;
//   - a fenced reply: another process of this shard may be at work, and nobody
//     can know how much of what this one believes is still true. Until Renew has
//     made sure of that, nothing is carried out;
//   - the coordinator, when it knows a newer process, until this one ends;
//   - Deps.Domains, while it says that the domains of this shard are lost: machines
//     that look like its own may be another's.
//
// Calls that wait in the queue are called off by any of them.

// errReplaced says that another process acts for this shard.
var errReplaced = errors.New("the coordinator knows a newer process of this shard")

// control reads the switches and, after a fenced reply, tries to get the right
// to act back. It runs before a cycle, without the mutex.
func (s *Shard) control(ctx context.Context) {
	r := s.rails
	var now Switches
	if r.switches != nil {
		now = r.switches()
	}
	s.mu.Lock()
	was, fenced := r.set, r.fenced
	r.set = now
	if r.switches != nil { // else nobody says what is kept
		r.breaker.read(now.Tripped)
	}
	if now.Replaced {
		r.fence(errReplaced)
		fenced = true
	}
	s.ownership.look(r)
	s.mu.Unlock()
	if was.Paused != now.Paused || was.DryRun != now.DryRun {
		r.log.Warn("switches changed", "paused", now.Paused, "dryRun", now.DryRun)
	}
	if !fenced || r.renew == nil {
		return
	}
	if err := r.renew(ctx); err != nil {
		r.log.Error("fenced: nothing is carried out", "error", err)
		return
	}
	if now.Replaced && r.switches().Replaced {
		return // the epoch is still not the newest
	}
	s.mu.Lock()
	r.fenced = false
	s.reconciler.revision = nil // what happened meanwhile is not known
	s.mu.Unlock()
	r.log.Warn("no longer fenced: the epoch was read again")
}

// fence stops the shard, since another process acts for it.
func (r *rails) fence(err error) {
	if !r.fenced {
		r.log.Error("a newer process of this shard is known; nothing is carried out", "error", err)
	}
	r.fenced = true
}

// halted returns what becomes of decisions now: Execute, or what stops them.
func (r *rails) halted() Disposition {
	switch {
	case r.fenced:
		return Fenced
	case r.lost:
		return DomainsLost
	case r.breaker.tripped:
		return Tripped
	case r.paused || r.set.Paused:
		return Paused
	case r.cfg.DryRun || r.set.DryRun:
		return DryRun
	}
	return Execute
}

// Disposition returns what becomes of decisions now.
func (s *Shard) Disposition() Disposition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rails.halted()
}

// SetPaused stops or resumes carrying out decisions.
func (s *Shard) SetPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rails.paused = paused
}

// Resume lets go of the breaker, and tells whether it had tripped. With Deps.Trip, taking
// back what that has kept does the same.
func (s *Shard) Resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rails.breaker.tripped {
		return false
	}
	s.rails.breaker.release()
	s.rails.log.Warn("the breaker was let go by hand")
	s.pace.wakeUp()
	return true
}
