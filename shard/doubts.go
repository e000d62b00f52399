package shard

import (
	"maps"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Listings can lie: they are made from a copy that is old, or that lacks a part. A machine
// that is bound and was there a moment ago, or that answered a call of ours otherwise, is
// not given up for one of them.
const (
	// doubtListings is how many listings in a row must say the same, over at least
	// doubtNanos, before it is believed.
	doubtListings = 3
	doubtNanos    = int64(30 * time.Second)
	// Within goneWindow so many bound machines may be missing, at least goneMin, before all that are
	// missing are doubted.
	goneWindow = 10 * time.Minute
	goneMin    = 3
	goneShare  = 0.05
	// answerNanos is how long an answered call is remembered to be held against listings.
	answerNanos = int64(2 * time.Minute)
)

// doubts are what listings say that is not believed yet.
type doubts struct {
	on       bool
	absent   map[string]*doubted // bound machines that are missing
	answered map[string]*answer  // machines that have answered a call of late
	gone     rails.Window        // bound machines that were believed to be gone
}

// doubted is how often listings have said so in a row.
type doubted struct {
	since    int64 // Unix nanoseconds
	listings int
}

// answer is an acknowledged call.
type answer struct {
	op     Op
	before model.State
	at     int64 // Unix nanoseconds
	denied doubted
}

func newDoubts(on bool) doubts {
	return doubts{on: on, absent: map[string]*doubted{}, answered: map[string]*answer{}, gone: rails.Window{Length: int64(goneWindow)}}
}

// again counts one more listing that says so, and tells whether it is to be believed.
func (d *doubted) again(now int64) bool {
	if d.listings == 0 {
		d.since = now
	}
	d.listings++
	return d.listings >= doubtListings && now-d.since >= doubtNanos
}

// acknowledged remembers that the provider has done what a call asked for.
func (d *doubts) acknowledged(job *call, now int64) {
	if d.on {
		d.answered[job.machine] = &answer{op: job.op, before: job.before.State, at: now}
	}
}

// passed forgets the answer to an earlier call of a machine: a later one may have been carried
// out, and what was before the first may be what is after the second.
func (d *doubts) passed(machine string) { delete(d.answered, machine) }

// stale tells whether a record is older than the answer to a call: it says what was before
// the call, or that it is still under way when it has ended here.
func (d *doubts) stale(machine string, local, listed model.State, now int64) bool {
	a := d.answered[machine]
	switch {
	case a == nil:
		return false
	case listed == local || listed != a.before && listed != underWay[a.op]:
		a.denied = doubted{} // no longer in a row
		return false
	case a.denied.again(now):
		delete(d.answered, machine)
		return false
	}
	return true
}

// seen notes that a listing has a machine.
func (d *doubts) seen(machine string) { delete(d.absent, machine) }

// pending visits the machines that a listing may end a doubt of: its record of them has to be
// looked at, though it says what it said before the doubt.
func (d *doubts) pending(visit func(machine string)) {
	for id := range d.absent {
		visit(id)
	}
	for id, a := range d.answered {
		if a.denied.listings > 0 {
			visit(id)
		}
	}
}

// doubtsAbsence tells whether machines that are missing are to be kept for now: bound is how many
// of them are that were not missing before, fleet how many are bound in all.
func (d *doubts) doubtsAbsence(now int64, bound, fleet int) bool {
	before := d.gone.Sum(now)
	return d.on && before+len(d.absent)+bound > rails.ShareOf(goneShare, fleet+before, goneMin)
}

// missing notes once more that a bound machine is missing, and tells whether that is
// to be believed. doubtful says that too many are.
func (d *doubts) missing(machine string, doubtful bool, now int64) bool {
	x := d.absent[machine]
	if x == nil {
		if !doubtful {
			return true
		}
		x = &doubted{}
		d.absent[machine] = x
	}
	if !x.again(now) {
		return false
	}
	delete(d.absent, machine)
	return true
}

// missed tells whether a machine is missing in listings that are not believed yet.
func (d *doubts) missed(machine string) bool {
	_, ok := d.absent[machine]
	return ok
}

// forget drops answers that are long ago, unless they were denied since.
func (d *doubts) forget(now int64) {
	maps.DeleteFunc(d.answered, func(_ string, a *answer) bool { return now-max(a.at, a.denied.since) > answerNanos })
}
