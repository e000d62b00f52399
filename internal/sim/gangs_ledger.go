package sim

import (
	"slices"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// graceCycles is the longest grace, in cycles of ten seconds.
const graceCycles = 60

// GangFigures say how gangs fared in a run.
type GangFigures struct {
	// Gangs is how many there were, Assembled how many had all of their machines
	// once, Broken how often one lost so many to Preempts that it was below its
	// minimum.
	Gangs, Assembled, Broken int
	// Drained counts machines that were preempted, Twice those that were so
	// before for a Need that has been short since, Passed those of them that a
	// higher rank has had in between, and that are not of Twice.
	Drained, Twice, Passed int
	// Stranded counts gangs that were left with a part below their minimum for
	// more than the longest grace; StrandedCycles is for how long, in all,
	// beyond it.
	Stranded, StrandedCycles int
	// LastPreempt is the last cycle with one, 0 = none.
	LastPreempt int
	// Waits are the cycles from when a gang is first seen, or is broken, until it
	// has all of its machines; sorted.
	Waits []int
}

// Wait returns the wait that a share of all waits does not exceed, 0 without any.
func (f *GangFigures) Wait(share float64) int {
	if len(f.Waits) == 0 {
		return 0
	}
	return f.Waits[min(int(share*float64(len(f.Waits))), len(f.Waits)-1)]
}

// ledger is how gangs fare.
type ledger struct {
	GangFigures
	gangs map[model.Owner]*fate
}

// fate is what has become of a gang.
type fate struct {
	since    int // cycle from which on it waits, 0 = it has all
	once     bool
	broken   bool // by Preempts, and not whole since
	stranded int  // cycles below the minimum in a row
}

func newLedger() ledger { return ledger{gangs: map[model.Owner]*fate{}} }

func (l *ledger) broken(o model.Owner, cycle int) {
	if f := l.gangs[o]; f != nil && !f.broken {
		l.Broken++
		f.broken, f.stranded = true, 0
		if f.since == 0 {
			f.since = cycle
		}
	}
}

// ledgerDecided brings the ledger up to a decision.
func (r *run) ledgerDecided(s *scene) {
	l := &r.gangs.ledger
	if len(r.gangs.draining) > 0 {
		l.LastPreempt = r.cycle
	}
	seen := map[model.Owner]bool{}
	for i := range s.results {
		x := &s.results[i]
		need := r.gangs.need(x)
		if x.Folded || !need.AllOrNothing() {
			continue
		}
		o := need.Owner()
		seen[o] = true
		f := l.gangs[o]
		if f == nil {
			f = &fate{since: r.cycle}
			l.gangs[o] = f
			l.Gangs++
		}
		l.follow(f, r.cycle, x)
		r.follow(s, f, x, need)
	}
	for o := range l.gangs {
		if !seen[o] {
			delete(l.gangs, o)
		}
	}
}

// follow notes whether a gang has all of its machines.
func (l *ledger) follow(f *fate, cycle int, x *engine.NeedResult) {
	switch {
	case !x.Satisfied && f.since == 0:
		f.since = cycle
	case x.Satisfied && f.since != 0:
		if !f.once {
			l.Assembled++
		}
		if !f.once || f.broken {
			at, _ := slices.BinarySearch(l.Waits, cycle-f.since)
			l.Waits = slices.Insert(l.Waits, at, cycle-f.since)
		}
		f.since, f.once, f.broken, f.stranded = 0, true, false, 0
	}
}

// follow notes for how long a gang that was broken keeps a useless part.
func (r *run) follow(s *scene, f *fate, x *engine.NeedResult, need *model.Need) {
	if !f.broken {
		return
	}
	_, after, left := r.leftOf(s, x)
	if left == 0 || after.Covers(need.Minimum()) {
		f.stranded = 0
		return
	}
	f.stranded++
	if f.stranded > graceCycles {
		r.gangs.ledger.StrandedCycles++
		if f.stranded == graceCycles+1 {
			r.gangs.ledger.Stranded++
		}
	}
}
