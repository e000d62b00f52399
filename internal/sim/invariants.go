package sim

import (
	"errors"
	"fmt"
	"maps"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
	"github.com/tonnage/tonnage/internal/twin"
	"github.com/tonnage/tonnage/shard"
	"github.com/tonnage/tonnage/shard/provider"
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
	r.noteClaims(in, plan)
	r.noteConfigured(in)
	if in.Supply.Len()*in.Demand.Len() <= ReferencePairsMax {
		r.compare(in, plan)
	}
}

// noteClaims keeps who claims what, for the digest, and finds machines that
// are claimed twice. Members of a fold share their claims.
func (r *run) noteClaims(in engine.Input, plan *engine.Plan) {
	clear(r.claims)
	owner := map[columnar.Row]int32{}
	for i := range plan.Needs {
		n := &plan.Needs[i]
		if int(n.Fold) != i {
			continue
		}
		for _, m := range n.Claimed {
			if other, twice := owner[m]; twice {
				r.violated(ClaimedOnce, "machine %q by %s and by %s", in.Supply.ID(m), r.name(&plan.Needs[other]), r.name(n))
			}
			owner[m] = int32(i)
			r.claims[in.Supply.ID(m)] = r.name(n)
		}
	}
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
func (r *run) compare(in engine.Input, plan *engine.Plan) {
	ref := reference.Input{Now: in.Now, DrainSeconds: in.DrainSeconds, Reported: map[string]bool{}, Options: referenceOptions(&r.scenario.Options)}
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
	got := twin.Translate(plan, in.Supply, at, len(ref.Needs))
	if d := twin.Diff(got, reference.Decide(ref)); d != "" {
		r.violated(EqualsReference, "%s", d)
	}
	r.summary.Compared++
}

func referenceOptions(o *engine.Options) reference.Options {
	return reference.Options{
		Weights: reference.Weights(o.Weights), Release: reference.Release(o.Release), TopDomains: o.TopDomains,
	}
}

// checkActions looks at what was carried out.
func (r *run) checkActions(c *shard.Cycle) {
	for i := range c.Illegal {
		r.violated(LegalMoves, "%s %q: %v", c.Illegal[i].Kind, c.Illegal[i].Machine, c.Illegal[i].Err)
	}
	reclaims := map[string]int{}
	for i := range c.Started {
		a := &c.Started[i]
		if errors.Is(a.Err, provider.ErrPosition) {
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
	if most := r.scenario.Rails.Queue; most > 0 && len(c.Started) > most {
		r.violated(CapsHold, "%d actions were accepted, the queue takes %d", len(c.Started), most)
	}
	if c.Reconciled.Diverged > 0 {
		r.violated(LegalMoves, "%d machines are in a state that no action led to", c.Reconciled.Diverged)
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
