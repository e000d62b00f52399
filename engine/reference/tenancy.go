package reference

import (
	"math"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// reclaimBetweenTenants is the second plan of Needs that priority has not
// helped: units of at most their own priority, of other tenants that have more
// than their share.
func (p *pass) reclaimBetweenTenants() {
	for _, n := range p.needs {
		taker := p.tenantOf(n.Cluster)
		if taker == nil || !n.short || n.Parked || n.covered || p.backsOff(n) || p.in.Options.Victims != VictimsGang {
			continue
		}
		b := &ledger{p: p, taker: taker, has: map[*Tenant]model.Resources{}}
		for i := range p.in.Options.Tenants {
			t := &p.in.Options.Tenants[i]
			b.has[t] = p.hasTenant(t)
		}
		p.planFor(n, policy{
			eligible: func(cluster string, priority int32) bool {
				t := p.tenantOf(cluster)
				return t != nil && t != taker && above(b.has[t], t.Share) && priority <= n.Profile.Priority()
			},
			ledger: b.admits,
			within: func(m *model.Machine) bool { return b.within(m.EffectiveAllocatable()) },
		})
	}
}

// tenantOf returns the tenant of the cluster, nil = none.
func (p *pass) tenantOf(cluster string) *Tenant {
	for i := range p.in.Options.Tenants {
		if t := &p.in.Options.Tenants[i]; slices.Contains(t.Clusters, cluster) {
			return t
		}
	}
	return nil
}

// hasTenant is what the tenant has: what is bound to its clusters, but for
// excess and victims; what its Needs acquire; and what is on its way to them.
func (p *pass) hasTenant(t *Tenant) model.Resources {
	return sum(filter(p.machines, func(m *model.Machine) bool {
		claimer, by := p.claimedBy[m], ""
		switch {
		case m.State.Bound() && p.victimOf[m] == nil && (claimer != nil || !p.in.Reported[m.Cluster]):
			by = m.Cluster
		case p.takenBy[m] != nil:
			by = p.takenBy[m].Cluster
		case p.countedFor[m] != nil:
			by = p.countedFor[m].Cluster
		case claimer != nil && !m.State.Bound():
			by = claimer.Cluster
		}
		return slices.Contains(t.Clusters, by)
	}))
}

// above: more of a dimension than the share names.
func above(has, share model.Resources) bool {
	return slices.ContainsFunc(share, func(a model.Amount) bool { return has.Get(a.Name) > a.Value })
}

// ledger is what tenants have when a plan is made.
type ledger struct {
	p     *pass
	taker *Tenant
	has   map[*Tenant]model.Resources
}

// admits says whether the unit may go beside the chosen ones, and minus the
// ratio of its tenant's machines to its share, in steps of θ.
func (b *ledger) admits(chosen []*unit, u *unit) (tenant int64, admitted bool) {
	with := append(slices.Clone(chosen), u)
	if !b.within(sum(locals(with))) {
		return 0, false
	}
	if !debited(u) {
		return 0, true
	}
	giver := b.p.tenantOf(u.members[0].Cluster)
	before, after := b.debits(giver, chosen), b.debits(giver, with)
	unit := sum(u.members)
	for _, a := range giver.Share {
		if unit.Get(a.Name) > 0 && b.has[giver].Get(a.Name)-after.Get(a.Name) < a.Value {
			return 0, false
		}
	}
	return -stepsAbove(b.has[giver].Sub(before), giver.Share), true
}

// within: what the taker takes leaves it within its share.
func (b *ledger) within(takes model.Resources) bool {
	return !slices.ContainsFunc(b.taker.Share, func(a model.Amount) bool {
		add := takes.Get(a.Name)
		return add > 0 && model.SatAdd(b.has[b.taker].Get(a.Name), add) > a.Value
	})
}

// debited: the unit costs its tenant something.
func debited(u *unit) bool { return u.class != classExcess && !u.remainder }

// debits is what the units take from the tenant.
func (b *ledger) debits(t *Tenant, units []*unit) model.Resources {
	var ms []*model.Machine
	for _, u := range units {
		if debited(u) && b.p.tenantOf(u.members[0].Cluster) == t {
			ms = append(ms, u.members...)
		}
	}
	return sum(ms)
}

// stepsAbove is the largest ⌊20 × has/share⌋, saturating.
func stepsAbove(has, share model.Resources) int64 {
	var most int64
	for _, a := range share {
		steps := int64(math.MaxInt64)
		if hi, lo := bits.Mul64(uint64(has.Get(a.Name)), thetaSteps); hi < uint64(a.Value) {
			q, _ := bits.Div64(hi, lo, uint64(a.Value))
			steps = int64(min(q, math.MaxInt64))
		}
		most = max(most, steps)
	}
	return most
}
