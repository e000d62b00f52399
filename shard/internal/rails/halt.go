package rails

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

// ReadSwitches reads what stops the shard from outside. It may wait for a disk.
func (r *Rails) ReadSwitches() (now Switches) {
	if r.switches != nil {
		now = r.switches()
	}
	return now
}

// Control takes over what was read of the switches, and tells whether the shard is fenced.
func (r *Rails) Control(now Switches) (fenced bool) {
	was := r.set
	r.set = now
	if r.switches != nil { // else nobody says what is kept
		r.breaker.read(now.Tripped)
	}
	if now.Replaced {
		r.Fence(errReplaced)
	}
	if was.Paused != now.Paused || was.DryRun != now.DryRun {
		r.log.Warn("switches changed", "paused", now.Paused, "dryRun", now.DryRun)
	}
	return r.fenced
}

// MayActAgain tries to get the right to act back, after a fenced reply. It waits for a disk.
func (r *Rails) MayActAgain(ctx context.Context, now Switches) bool {
	if r.renew == nil {
		return false
	}
	if err := r.renew(ctx); err != nil {
		r.log.Error("fenced: nothing is carried out", "error", err)
		return false
	}
	return !now.Replaced || !r.switches().Replaced // else the epoch is still not the newest
}

// Unfence lets the shard act again.
func (r *Rails) Unfence() {
	r.fenced = false
	r.log.Warn("no longer fenced: the epoch was read again")
}

// SetPaused stops or resumes carrying out decisions, as the process is told.
func (r *Rails) SetPaused(paused bool) { r.paused = paused }

// LoseDomains notes whether it is known which domains are the shard's.
func (r *Rails) LoseDomains(domains bool) { r.lost = domains }

// Tripped tells whether the breaker has tripped.
func (r *Rails) Tripped() bool { return r.breaker.tripped }

// Resume lets go of the breaker, and tells whether it had tripped.
func (r *Rails) Resume() bool {
	if !r.breaker.tripped {
		return false
	}
	r.breaker.release()
	r.log.Warn("the breaker was let go by hand")
	r.pace.WakeUp()
	return true
}

// Fence stops the shard, since another process acts for it.
func (r *Rails) Fence(err error) {
	if !r.fenced {
		r.log.Error("a newer process of this shard is known; nothing is carried out", "error", err)
		r.fencedBy = err.Error()
	}
	r.fenced = true
}

// Halted returns what becomes of decisions now: Execute, or what stops them.
func (r *Rails) Halted() Disposition {
	switch {
	case r.fenced:
		return Fenced
	case r.lost:
		return DomainsLost
	case r.breaker.tripped:
		return Tripped
	case r.paused || r.set.Paused:
		return Paused
	case r.limits.DryRun || r.set.DryRun:
		return DryRun
	}
	return Execute
}
