package sim

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// ReferencePairsMax bounds, as machines × rows of demand, the cycles whose
// plan is held against the sequential reference: beyond it one cycle of the
// reference takes more than about a second.
const ReferencePairsMax = 500_000

// Invariant names what must hold in every cycle.
type Invariant string

// The invariants.
const (
	ClaimedOnce     Invariant = "a machine is claimed once"
	LegalMoves      Invariant = "state changes are legal"
	NothingVanishes Invariant = "no machine vanishes that nobody deleted or lost"
	EqualsReference Invariant = "the plan is that of the sequential pass"
	CapsHold        Invariant = "no cap is passed"
	StampsTrue      Invariant = "a machine carries the stamp of the Need that it serves"
)

// Violation is an invariant that did not hold.
type Violation struct {
	Invariant Invariant
	Cycle     int
	Detail    string
}

// Error names the cycle, the invariant and what was seen.
func (v *Violation) Error() string {
	return fmt.Sprintf("cycle %d: invariant broken: %s: %s", v.Cycle, v.Invariant, v.Detail)
}

func (r *run) violated(i Invariant, format string, args ...any) {
	if r.violation == nil {
		r.violation = &Violation{Invariant: i, Cycle: r.cycle, Detail: fmt.Sprintf(format, args...)}
	}
}

// decided looks at a plan before anything is done about it.
func (r *run) decided(in engine.Input, plan *engine.Plan) {
	r.judge(in, plan, twin.Results(plan))
	if r.cycle == r.scenario.Cycles {
		r.summary.Bill = bill.Of(plan, in.Supply)
	}
}

// judge looks at a plan and what it says of each row.
func (r *run) judge(in engine.Input, plan *engine.Plan, results []engine.NeedResult) {
	claimant := r.noteClaims(in, results)
	r.decideGangs(&scene{in, plan, results, claimant})
	r.noteConfigured(in)
	if n := r.compareEvery; n > 0 && r.cycle%n == 0 && in.Supply.Len()*in.Demand.Len() <= ReferencePairsMax {
		r.compare(in, plan, results)
	}
}

// noteClaims keeps the claimants of machines, for the digest, and finds machines
// that are claimed twice. Members of a fold share their claims. It returns the
// claimant of each machine.
func (r *run) noteClaims(in engine.Input, results []engine.NeedResult) map[columnar.Row]int32 {
	clear(r.claims)
	clear(r.serves)
	owner := map[columnar.Row]int32{}
	for i := range results {
		n := &results[i]
		if int(n.Fold) != i {
			continue
		}
		for _, m := range n.Claimed {
			if other, twice := owner[m]; twice {
				r.violated(ClaimedOnce, "machine %q by %s and by %s", in.Supply.ID(m), r.nameOf(&results[other]), r.nameOf(n))
			}
			owner[m] = int32(i)
			id := in.Supply.ID(m)
			r.claims[id] = r.nameOf(n)
			if in.Supply.State(m) == model.Configured {
				r.serves[id] = serving{n.Profile.Fingerprint(), n.Group}
			}
		}
	}
	return owner
}

func (r *run) noteConfigured(in engine.Input) {
	clear(r.configured)
	for m := range in.Supply.All() {
		if in.Supply.State(m) == model.Configured {
			r.configured[in.Supply.Cluster(m)]++
		}
	}
}

// compare holds the plan against the reference.
func (r *run) compare(in engine.Input, plan *engine.Plan, results []engine.NeedResult) {
	ref := reference.Input{Now: in.Now, DrainSeconds: in.DrainSeconds, BackingOff: in.BackingOff, Reported: map[string]bool{}, Options: twin.ReferenceOptions(&r.scenario.Options)}
	for m := range in.Supply.All() {
		machine := in.Supply.Get(m)
		ref.Machines = append(ref.Machines, machine)
		ref.Reported[machine.Cluster] = in.Demand.Reported(machine.Cluster)
		ref.Reported[machine.Reservation.Owner.Cluster] = in.Demand.Reported(machine.Reservation.Owner.Cluster)
	}
	at := map[string][]int{}
	for _, c := range in.Demand.Clusters() {
		ref.Reported[c] = in.Demand.Reported(c)
		for _, n := range in.Demand.Rows(c) {
			at[c] = append(at[c], len(ref.Needs))
			ref.Needs = append(ref.Needs, n)
		}
	}
	maps.DeleteFunc(ref.Reported, func(_ string, reported bool) bool { return !reported })
	got := twin.Translate(plan, results, in.Supply, at, len(ref.Needs))
	if d := twin.Diff(got, reference.Decide(ref)); d != "" {
		r.violated(EqualsReference, "%s", d)
	}
	r.summary.Compared++
}

// onePlan tells whether all actions are Preempts for one Need: a plan that is
// larger than the queue is let in alone.
func onePlan(started []shard.Started) bool {
	for i := range started {
		if started[i].Kind != engine.Preempt || started[i].Need != started[0].Need {
			return false
		}
	}
	return true
}

// checkActions looks at what was carried out.
func (r *run) checkActions(c *shard.Cycle) {
	for i := range c.Illegal {
		r.violated(LegalMoves, "%s %q: %v", c.Illegal[i].Kind, c.Illegal[i].Machine, c.Illegal[i].Err)
	}
	reclaims := map[string]int{}
	for i := range c.Started {
		a := &c.Started[i]
		if errors.Is(a.Err, simulated.ErrPosition) {
			r.violated(LegalMoves, "%s %q: %v", a.Kind, a.Machine, a.Err)
		}
		if a.Kind == engine.Reclaim {
			reclaims[a.Cluster]++
		}
	}
	if f := r.scenario.Rails.ReclaimCapFraction; f > 0 {
		for cluster, n := range reclaims {
			if most := shard.ReclaimCap(f, r.configured[cluster]); n > most {
				r.violated(CapsHold, "%d Reclaims of cluster %q, which has %d Configured machines and a cap of %d", n, cluster, r.configured[cluster], most)
			}
		}
	}
	if most := r.scenario.Rails.Queue; most > 0 && len(c.Started) > most && !onePlan(c.Started) {
		r.violated(CapsHold, "%d actions were accepted, the queue takes %d", len(c.Started), most)
	}
	if c.Reconciled.Diverged > 0 {
		r.violated(LegalMoves, "%d machines are in a state that no action led to", c.Reconciled.Diverged)
	}
}

// serving is the part of a stamp that says whom a machine serves.
type serving struct {
	fingerprint uint64
	group       string
}

// checkStamp finds a machine that does not carry the stamp of whom it serves.
func (r *run) checkStamp(m *model.Machine) {
	if of, serves := r.serves[m.ID]; serves && m.State.Bound() && (serving{m.Assigned.Fingerprint, m.Assigned.Group}) != of {
		r.violated(StampsTrue, "%q serves %s, and its stamp is %+v", m.ID, r.claims[m.ID], m.Assigned)
	}
}

// checkPresence finds machines that are neither there nor lost.
func (r *run) checkPresence(present map[string]struct{}) {
	if len(present) == len(r.expected) {
		return
	}
	for id := range r.expected {
		if _, ok := present[id]; !ok {
			r.violated(NothingVanishes, "machine %q", id)
			return
		}
	}
	r.violated(NothingVanishes, "%d machines are known, %d exist", len(present), len(r.expected))
}
