package rails

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// BreakerMin is how many machines a fleet may lose in a window whatever its size.
const BreakerMin = 50

// BreakerWindowMin is the shortest window.
const BreakerWindowMin = time.Minute

// breaker stops the shard when more is taken away than any known cause would: Preempts,
// Reclaims and Deletes together, whoever asked for them. It lets go again when it is told to,
// or when what the shard wants to take away has been less than half of the limit for
// a whole window.
type breaker struct {
	limits   *Limits
	machines *supply.Table
	keep     func(why string) error // nil = a restart forgets that it has tripped
	log      *slog.Logger

	lost    Window // what was taken away
	deleted Window // what of it does not belong to the fleet any more
	tripped bool
	why     string // it has tripped
	kept    bool   // as read last
	calm    int64  // since when less than half of the limit is wanted; 0 = more is
}

func newBreaker(limits *Limits, machines *supply.Table, keep func(string) error, log *slog.Logger) breaker {
	w := Window{Length: int64(max(limits.BreakerWindow, BreakerWindowMin))}
	return breaker{limits: limits, machines: machines, keep: keep, log: log, lost: w, deleted: w}
}

// destructive tells whether an action takes a machine away from somebody.
func destructive(kind engine.Kind) bool {
	return kind == engine.Preempt || kind == engine.Reclaim || kind == engine.Delete
}

// isSlot tells whether an action deletes a machine that is late-bound and not made yet. It takes nothing
// away: no budget and no limit applies.
func isSlot(machines *supply.Table, a *engine.Action) bool {
	return a.Kind == engine.Delete && machines.IsLateBound(a.Machine)
}

// takenAway counts the machines that actions take away from somebody.
func (b *breaker) takenAway(actions []engine.Action) (n int) {
	for i := range actions {
		if destructive(actions[i].Kind) && !isSlot(b.machines, &actions[i]) {
			n++
		}
	}
	return n
}

// limit is how many machines may be taken away in a window: a share of the fleet as it was before
// any were given back.
func (b *breaker) limit(now int64) int {
	fleet := b.deleted.Sum(now)
	for s := range model.NumStates {
		if model.State(s).Paid() {
			fleet += b.machines.Count(model.State(s))
		}
	}
	return ShareOf(b.limits.BreakerShare, fleet, BreakerMin)
}

// count counts machines that an action of a kind takes away; fewer than 0 take back what was
// counted.
func (b *breaker) count(now int64, kind engine.Kind, n int) {
	if b.limits.BreakerShare <= 0 || !destructive(kind) || n == 0 {
		return
	}
	b.lost.Add(now, n)
	if kind == engine.Delete {
		b.deleted.Add(now, n)
	}
}

// countAll is count for actions of all kinds; sign is 1 or −1.
func (b *breaker) countAll(now int64, actions []engine.Action, sign int) {
	var counts [engine.NumKinds]int
	for i := range actions {
		if !isSlot(b.machines, &actions[i]) {
			counts[actions[i].Kind]++
		}
	}
	for kind, n := range counts {
		b.count(now, engine.Kind(kind), sign*n)
	}
}

// check trips, or lets go. wanted is how many machines the plan would take away, let through
// how many of them the other rails let through now. It returns why it has tripped in this
// cycle, and whether it has let go in it.
func (b *breaker) check(now int64, wanted, letThrough int) (why string, released bool) {
	if b.limits.BreakerShare <= 0 {
		return "", false
	}
	limit := b.limit(now)
	if b.tripped {
		return "", b.calmedDown(now, wanted, limit)
	}
	before := b.lost.Sum(now)
	if before+letThrough <= limit {
		return "", false
	}
	why = fmt.Sprintf("%d machines were preempted, reclaimed or deleted within %v, and %d more are to be: more than %d, which is the limit for this fleet",
		before, b.limits.BreakerWindow, letThrough, limit)
	b.trip(why)
	return why, false
}

// calmedDown lets go once little has been wanted for a whole window.
func (b *breaker) calmedDown(now int64, wanted, limit int) bool {
	switch {
	case 2*wanted >= limit:
		b.calm = 0
	case b.calm == 0:
		b.calm = now
	case now-b.calm >= int64(b.limits.BreakerWindow):
		b.release()
		return true
	}
	return false
}

func (b *breaker) trip(why string) {
	b.tripped, b.calm, b.why = true, 0, why
	b.outlive(why)
}

// release lets go, and forgets what was done.
func (b *breaker) release() {
	b.tripped, b.calm, b.why = false, 0, ""
	b.lost.clear()
	b.deleted.clear()
	b.outlive("")
}

// outlive has the next process know why it has tripped; empty = it has not.
func (b *breaker) outlive(why string) {
	if b.keep == nil {
		return
	}
	b.kept = why != ""
	if err := b.keep(why); err != nil {
		b.kept = false
		b.log.Error("whether the breaker has tripped cannot be kept: it is forgotten when the process ends", "error", err)
	}
}

// read takes over what is kept: it had tripped when the process began, or was let go by
// hand since the last look.
func (b *breaker) read(kept bool) {
	was := b.kept
	switch b.kept = kept; {
	case b.limits.BreakerShare <= 0:
	case kept && !b.tripped:
		b.tripped, b.why = true, "it had tripped before this process began; the file breaker in its data folder says why"
		b.log.Error("the breaker has tripped before this process began; look for the cause, then `tonnage ctl resume`")
	case was && !kept && b.tripped:
		b.release()
		b.log.Warn("the breaker was let go by hand")
	}
}
