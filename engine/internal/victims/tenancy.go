package victims

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
)

// reclaimTurns is what the turns of reclaim leave to each other.
type reclaimTurns struct {
	// Exhausted and ExhaustedFound memoize the last turn whose taker could take no machine
	// more.
	Exhausted      ExhaustedTurn
	ExhaustedFound state.Status
	// Moved is a log of machines that another tenant may have by now.
	Moved []columnar.Row
	// Used and Counted are, by need, what its plans count on: Used are machines of units and
	// free ones, Counted those in flight. countedBy is Counted by machine.
	Used, Counted map[int32][]columnar.Row
	countedBy     map[columnar.Row]int32
	KeepCounts    bool // the turn at work did not touch what is in flight
	Obtainable    Obtainable
}

// ExhaustedTurn identifies the state in which a turn found nothing because its taker could take
// no machine more. A need of the same kind and cluster finds the same as long as changes and
// plans are equal.
type ExhaustedTurn struct {
	Cluster        int32
	Kind           uint32
	Changes, Plans int
}

// giverOf returns the tenant that a machine would be debited to; tenancy.None outside of reclaim
// between tenants.
func (p *Pass) giverOf(r columnar.Row) int32 {
	if !p.Tenants.Reclaiming {
		return tenancy.None
	}
	return p.Tenants.Shares.Of[p.Snap.ClusterOf[p.Snap.View.Cluster[r]]]
}

// MayTake reports whether needs of a priority may take a machine of priority level: a lower
// one, between tenants also an equal one.
func (x *Tenants) MayTake(level, priority int32) bool {
	return level < priority || x.Reclaiming && level == priority
}

// MayGive reports whether a cluster's machines may be taken in this turn.
func (x *Tenants) MayGive(cluster int32) bool {
	return !x.Reclaiming || x.Shares.Gives(x.Shares.Of[cluster])
}

// TenantOf returns the tenant that has a machine. A bound machine belongs to its cluster's
// tenant unless it is excess or a victim. Otherwise a machine belongs to the tenant whose need
// acquires it or counts on it.
func (p *Pass) TenantOf(r columnar.Row) int32 {
	t := p.Tenants.Shares
	claimer, bound := p.Claims.Of(r), p.Snap.View.State[r].Bound()
	if cluster := p.Snap.ClusterOf[p.Snap.View.Cluster[r]]; bound && cluster >= 0 && !p.Preempted.VictimOf.Has(uint32(r)) && (claimer != state.Unclaimed || !p.Snap.Demand.Reported(p.Snap.Supply.Cluster(r))) {
		return t.Of[cluster]
	}
	if taker := p.Promised.TakenBy(r); taker != ranks.None {
		return t.Of[p.ClusterOf(taker)]
	}
	if need, counted := p.Tenants.Between.countedBy[r]; counted {
		return t.Of[p.ClusterOf(need)]
	}
	if claimer != state.Unclaimed && !bound {
		return t.Of[p.ClusterOf(claimer)]
	}
	return tenancy.None
}

// findTenants prepares what the policy looks at.
func (p *Pass) findTenants() {
	if policy := p.Opts.Tenancy.Tenants; len(policy) > 0 && p.Opts.Victims == plan.VictimsGang {
		p.Tenants.Shares = tenancy.New(p.Arena, policy, p.Snap)
		p.Tenants.Between = reclaimTurns{Used: map[int32][]columnar.Row{}, Counted: map[int32][]columnar.Row{}, countedBy: map[columnar.Row]int32{}}
	}
}

// NoteMoved logs that another tenant may have a machine from now on.
func (x *Tenants) NoteMoved(r columnar.Row) {
	if x.Reclaiming {
		x.Between.Moved = append(x.Between.Moved, r)
	}
}

// noteCounted records that a need counts on a machine in flight.
func (x *Tenants) noteCounted(r columnar.Row, need int32) {
	if t := &x.Between; x.Shares != nil {
		t.Counted[need] = append(t.Counted[need], r)
		t.countedBy[r] = need
		x.NoteMoved(r)
	}
}

// NoteUsed records what a need's plan counts on.
func (x *Tenants) NoteUsed(rows []columnar.Row, need int32) {
	if t := &x.Between; x.Shares != nil && len(rows) > 0 {
		t.Used[need] = append(t.Used[need], rows...)
	}
}
