package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/pools"
)

// verb is what a driver is to do.
type verb uint8

const (
	verbNone verb = iota
	verbCreate
	verbConfigure
	verbDrain
	verbDelete
)

var verbNames = [...]string{"none", "Create", "Configure", "Drain", "Delete"}

func (v verb) String() string { return verbNames[v] }

// seen is what one round has shown of a machine.
type seen struct {
	obs *driver.Observation // of the record's generation or a newer one; nil = there is none
	// older is a generation that exists beside it, or that a slot has left behind.
	older uint64
	// taken is a host of it that somebody else uses, in whatever generation.
	taken *driver.Observation
	// absent says that it does not exist: nothing was observed in rounds that began after the
	// driver had accepted the last verb.
	absent bool
	// erased says that the driver has accepted Delete of the observed generation since the start.
	erased bool
	now    time.Time
}

// step is what follows for one machine.
type step struct {
	verb       verb
	generation uint64      // of the verb
	to         model.State // to move to; Unspecified = stay
	fail       string      // to become Failed, and why
	outOfStock bool
	gone       bool   // its record ends
	cleaned    bool   // nothing is left of a Failed machine
	waits      string // what it waits for, for its error when it takes too long
}

// decide compares a record with what exists, and says what follows. It changes nothing.
//
// A verb is called until the driver has accepted it (record.Asked), whatever phase is observed meanwhile: a
// transitional phase may come of a call that was cut off half way. Only the phase in which the change ends makes
// the call needless.
func decide(r *record, s seen, o *driver.Offer, limits *pools.Timeouts) step {
	if s.taken != nil {
		return lost(r, s)
	}
	if s.older != 0 {
		out := step{verb: verbDelete, generation: s.older}
		if _, changing := underWay(r.State); changing {
			out.fail = overdue(r, s, fmt.Sprintf("generation %d of it is still there", s.older), limits)
		}
		return out
	}
	var out step
	switch r.State {
	case model.Creating:
		out = creating(r, s)
	case model.Configuring:
		out = configuring(r, s, o)
	case model.Draining:
		out = draining(r, s)
	case model.Deleting:
		out = deleting(r, s)
	case model.Failed:
		return failed(r, s)
	case model.Speculative:
		return leftover(s)
	default:
		return settled(r, s)
	}
	if out.fail == "" && out.to == model.StateUnspecified && !out.gone {
		out.fail = overdue(r, s, out.waits, limits)
	}
	return out
}

// overdue says why a change has failed that takes too long, "" = it does not.
func overdue(r *record, s seen, waits string, limits *pools.Timeouts) string {
	limit := map[model.State]time.Duration{
		model.Creating: limits.Create, model.Configuring: limits.Configure, model.Draining: limits.Drain, model.Deleting: limits.Delete,
	}[r.State]
	since := r.Since
	if r.Deadline.After(since) {
		since = r.Deadline
	}
	if s.now.Sub(since) <= limit {
		return ""
	}
	if waits == "" && s.obs != nil {
		waits = s.obs.Reason
	}
	if waits == "" {
		waits = "the driver gives no reason"
	}
	return fmt.Sprintf("%s took longer than %v: %s", r.State, limit, waits)
}

// broken is the step for an object that is Failed.
func broken(o *driver.Observation) step {
	why := o.Reason
	if why == "" {
		why = "the driver gives no reason"
	}
	return step{fail: why, outOfStock: o.OutOfStock}
}

// lost is the step for a machine whose host somebody else uses: nothing is called for it, since every verb
// could harm what runs there. The machine is Failed until the host is free again.
func lost(r *record, s seen) step {
	if r.State == model.Failed || r.State == model.Speculative {
		return step{}
	}
	return step{fail: broken(s.taken).fail}
}

func creating(r *record, s seen) step {
	call := step{verb: verbCreate, generation: r.Generation}
	switch {
	case s.obs == nil && !r.Asked:
		return call
	case s.obs == nil && s.absent:
		return step{fail: "it was removed while it was created"}
	case s.obs == nil:
		return step{}
	case s.obs.Phase == driver.Failed:
		return broken(s.obs)
	case s.obs.Incomplete:
		return again(call)
	case s.obs.Phase == driver.Idle && s.obs.Ref != "":
		return step{to: model.Idle}
	case s.obs.Phase == driver.Deleting:
		return step{}
	case !r.Asked:
		return call
	}
	return step{}
}

// again is a call of a verb that was accepted and did not do all of its work.
func again(call step) step {
	call.waits = "a part of it is missing, and the driver is asked again"
	return call
}

func configuring(r *record, s seen, o *driver.Offer) step {
	call := step{verb: verbConfigure, generation: r.Generation}
	switch {
	case s.obs == nil && r.LateBound && !r.Asked:
		return call
	case s.obs == nil && s.absent && r.LateBound:
		return step{fail: "it was removed while it was made"}
	case s.obs == nil:
		return step{gone: s.absent}
	case s.obs.Phase == driver.Failed:
		return broken(s.obs)
	case s.obs.Phase == driver.Idle && !r.LateBound:
		if r.Asked {
			call.waits = "the driver has lost the request, and is asked again"
		}
		return call
	case s.obs.Cluster != "" && s.obs.Cluster != r.Cluster:
		return step{fail: fmt.Sprintf("it is in cluster %q, and was to join %q", s.obs.Cluster, r.Cluster)}
	case s.obs.Phase == driver.Deleting:
		return step{}
	case s.obs.Incomplete:
		return again(call)
	case s.obs.Phase == driver.Configured:
		call.waits = lacking(o, s.obs)
		if call.waits == "" {
			return step{to: model.Configured}
		}
	}
	if !r.Asked {
		return call
	}
	return step{waits: call.waits}
}

func draining(r *record, s seen) step {
	call := step{verb: verbDrain, generation: r.Generation}
	switch {
	case s.obs == nil && r.LateBound && s.absent:
		return step{to: model.Idle}
	case s.obs == nil:
		return step{gone: s.absent}
	case s.obs.Phase == driver.Failed:
		return broken(s.obs)
	case s.obs.Incomplete:
		return again(call)
	case s.obs.Phase == driver.Idle && !r.LateBound:
		return step{to: model.Idle}
	case !r.Asked:
		return call
	}
	return step{}
}

func deleting(r *record, s seen) step {
	call := step{verb: verbDelete, generation: r.Generation}
	switch {
	case s.obs == nil && s.absent:
		return step{to: model.Speculative}
	case s.obs == nil:
		return step{}
	case s.obs.Phase == driver.Failed && r.Asked:
		return broken(s.obs)
	case s.obs.Incomplete:
		return again(call)
	case !r.Asked:
		return call
	}
	return step{}
}

// failed removes what is left of a Failed machine.
func failed(r *record, s seen) step {
	if s.obs == nil {
		return step{cleaned: s.absent && r.Cleaned.IsZero()}
	}
	return leftover(s)
}

// leftover removes what exists in the place of a free slot, or of a Failed machine.
func leftover(s seen) step {
	if s.obs == nil || s.obs.Phase == driver.Deleting && s.erased && !s.obs.Incomplete {
		return step{}
	}
	return step{verb: verbDelete, generation: s.obs.Generation}
}

// settled looks after a machine that is Idle or Configured.
func settled(r *record, s seen) step {
	switch {
	case r.LateBound && r.State == model.Idle:
		return leftover(s)
	case s.obs == nil:
		return step{gone: s.absent}
	case s.obs.Phase == driver.Failed:
		return broken(s.obs)
	case r.State == model.Configured && s.obs.Phase == driver.Idle:
		return step{fail: fmt.Sprintf("it is no longer in cluster %q, and nobody drained it", r.Cluster)}
	}
	return step{}
}

// lacking says what an offer declares and the machine does not have, "" = nothing.
func lacking(o *driver.Offer, got *driver.Observation) string {
	var lacks []string
	if err := model.CheckName(got.Ref); err != nil {
		lacks = append(lacks, fmt.Sprintf("its reference %v", err))
	}
	if err := model.CheckOptionalName(got.Node); err != nil {
		lacks = append(lacks, fmt.Sprintf("the name of its node %v", err))
	}
	if got.Allocatable != nil {
		for _, a := range o.Allocatable {
			if has := got.Allocatable.Get(a.Name); has < a.Value {
				lacks = append(lacks, fmt.Sprintf("allocatable %s is %s of %s", a.Name, model.FormatQuantity(a.Name, has), model.FormatQuantity(a.Name, a.Value)))
			}
		}
	}
	if got.Labels != nil {
		for _, k := range slices.Sorted(maps.Keys(o.Labels)) {
			switch has, ok := got.Labels[k]; {
			case !ok:
				lacks = append(lacks, fmt.Sprintf("label %s is missing", k))
			case has != o.Labels[k]:
				lacks = append(lacks, fmt.Sprintf("label %s is %q, not %q", k, has, o.Labels[k]))
			}
		}
	}
	if got.Taints != nil {
		for _, t := range o.Taints {
			if !slices.Contains(got.Taints, t) {
				lacks = append(lacks, fmt.Sprintf("taint %s=%s:%s is missing", t.Key, t.Value, t.Effect))
			}
		}
	}
	return strings.Join(lacks, "; ")
}
