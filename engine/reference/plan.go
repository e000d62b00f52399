package reference

import (
	"maps"
	"slices"
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// plan writes down what the phases decided: all Bootstraps, then all
// Provisions, Preempts, Reclaims, Deletes; within a kind by rank, then in the
// order in which they were picked.
func (p *pass) plan() Plan {
	out := Plan{Needs: make([]NeedResult, len(p.in.Needs)), Ended: p.ended(), SearchPairs: p.pairs, SearchUnits: p.offered}
	for _, n := range p.needs {
		for _, m := range n.binds() {
			out.Actions = append(out.Actions, Action{Kind: Bootstrap, Machine: m.ID, Cluster: n.Cluster, Need: n.rows[0], Reason: ReasonIdle})
		}
	}
	for _, n := range p.needs {
		for _, m := range n.buys() {
			out.Actions = append(out.Actions, Action{Kind: Provision, Machine: m.ID, Cluster: n.Cluster, Need: n.rows[0], Reason: ReasonSpeculative})
		}
	}
	for _, n := range p.needs {
		for _, m := range p.drained(n) {
			out.Actions = append(out.Actions, Action{
				Kind: Preempt, Machine: m.ID, Cluster: m.Cluster, Need: n.rows[0], Reason: ReasonPreempt,
				Grace: graceSeconds(p.gap(n, m)), PreemptorPriority: int(n.Profile.Priority()),
			})
		}
	}
	out.Actions = append(out.Actions, p.reclaims()...)
	out.Actions = append(out.Actions, p.deletes()...)
	for _, n := range p.needs {
		for _, m := range n.reserved {
			out.Reserved = append(out.Reserved, Reserved{Machine: m.ID, Need: n.rows[0], Domain: shown(n.domain), Grace: n.longestGrace})
		}
		r := p.result(n)
		for _, row := range n.rows {
			out.Needs[row] = r
		}
	}
	return out
}

// binds are the Idle machines that the Need acquired, late-bound ones among them; buys the Speculative.
func (n *need) binds() []*model.Machine {
	return filter(slices.Concat(n.idle, n.speculative), func(m *model.Machine) bool { return m.State == model.Idle })
}

func (n *need) buys() []*model.Machine {
	return filter(n.speculative, func(m *model.Machine) bool { return m.State == model.Speculative })
}

// drained are the Need's victims but for those that no plan has a use for: the
// remainder of a gang that a plan breaks stays bound.
func (p *pass) drained(n *need) []*model.Machine {
	return filter(n.victims, func(m *model.Machine) bool { return !p.remainder[m] })
}

// reclaims: of each cluster that has reported, by id, every Configured machine
// that nobody claims and nobody preempts, in keep order; none of a cluster from
// which phase 2 has taken a claimed machine.
func (p *pass) reclaims() []Action {
	var out []Action
	for _, cluster := range slices.Sorted(maps.Keys(p.in.Reported)) {
		if slices.ContainsFunc(p.bound[cluster], func(m *model.Machine) bool { return p.victimOf[m] != nil && p.claimedBy[m] != nil }) {
			continue
		}
		ms := filter(p.bound[cluster], func(m *model.Machine) bool {
			// Of its own cluster a plan may count on what nobody claims.
			kept := p.takenBy[m] != nil && p.takenBy[m].Cluster == m.Cluster
			// A plan that counted on it ends, and none begins to: its own cluster may use it in the next cycle.
			freed := m.Departs() && p.takenBy[m] == nil && p.reservationOver(m)
			return p.excess(m) && p.victimOf[m] == nil && !kept && !freed
		})
		slices.SortFunc(ms, keepOrder)
		for _, m := range ms {
			out = append(out, Action{Kind: Reclaim, Machine: m.ID, Cluster: m.Cluster, Need: NoNeed, Grace: graceSecondsMax, Reason: ReasonExcess})
		}
	}
	return out
}

// deletes: Idle, unclaimed, unreserved when the pass began, of a capacity type that can
// be released, and held for its full hold, or late-bound; by id. Not what a Need has given up
// in this pass because its plan went elsewhere, nor what a gang could use that waits elsewhere, nor what a row
// could use that was folded for a machine which somebody else has got.
func (p *pass) deletes() []Action {
	var out []Action
	for _, m := range p.machines {
		if m.State != model.Idle || p.claimedBy[m] != nil || p.takenBy[m] != nil || m.Reservation.Active() || p.withheld[m] {
			continue
		}
		if slices.ContainsFunc(p.needs, func(n *need) bool { return p.couldUseElsewhere(n, m) || p.couldUseInParts(n, m) }) {
			continue
		}
		hold := p.holdOf(m.CapacityType)
		if hold > 0 && p.in.Now-m.IdleSince >= int64(hold) || isBought(m) {
			out = append(out, Action{Kind: Delete, Machine: m.ID, Need: NoNeed, Reason: ReasonRelease})
		}
	}
	return out
}

// couldUseElsewhere: the Same-Need is short, something is held or planned for it, and the
// machine would be of use to it, but lies outside of its domain; or it preempts machine by machine.
func (p *pass) couldUseElsewhere(n *need, m *model.Machine) bool {
	same := n.Profile.Same()
	if same == nil || n.deficit.IsZero() || n.Parked || n.domain == noDomain || !usable(n, m) || !useful(m, n.deficit) {
		return false
	}
	if p.in.Options.Victims != VictimsGang && len(n.victims) > 0 {
		return true // its plan counts on what is free, and holds nothing
	}
	if valueOf(m, same.Key) == n.domain {
		return false
	}
	return len(n.reserved) > 0 || slices.ContainsFunc(p.machines, func(o *model.Machine) bool { return p.reservedFor(n, o) })
}

// couldUseInParts: the Need is a fold that is short, and the machine would be of use to one of its rows, which is no fold in
// the next cycle: nothing that is bound to its cluster, or left free, holds it whole.
func (p *pass) couldUseInParts(n *need, m *model.Machine) bool {
	if n.deficit.IsZero() || n.Parked {
		return false
	}
	return slices.ContainsFunc(n.members, func(row *model.Need) bool {
		return serves(row, m) && !slices.ContainsFunc(p.machines, func(o *model.Machine) bool {
			return fitsWhole(row, o) && (o.State.Bound() || p.claimedBy[o] == nil)
		})
	})
}

// holdOf returns how long a type is held; other types cannot be released.
func (p *pass) holdOf(c model.CapacityType) time.Duration {
	switch c {
	case model.OnDemand:
		return p.in.Options.Release.OnDemand
	case model.Spot:
		return p.in.Options.Release.Spot
	}
	return 0
}

func (p *pass) result(n *need) NeedResult {
	lacks := p.lacks[n.rows[0]].aggregate // of a fold, none
	r := NeedResult{
		Satisfied:  n.deficit.IsZero() && lacks.IsZero(),
		Deficit:    n.deficit.Add(lacks),
		InFlight:   reach(n.inFlight, n.deficit),
		Domain:     shown(n.domain),
		Bootstrap:  len(n.binds()),
		Provision:  len(n.buys()),
		Preempt:    len(p.drained(n)),
		Unmet:      p.unmet(n),
		CouldCover: n.couldCover,
		Fold:       n.rows[0],
		Rank:       n.rank,
	}
	for _, m := range n.claims() {
		r.Claimed = append(r.Claimed, m.ID)
	}
	return r
}

// unmet is the first reason that holds for a Need that is not satisfied.
func (p *pass) unmet(n *need) string {
	lacks := p.lacks[n.rows[0]] // of a fold, none
	all := p.supplyOf(n)
	switch {
	case n.deficit.IsZero() && lacks.aggregate.IsZero():
		return ""
	case n.Parked && (!lacks.waits || lacks.parked):
		return UnmetParked
	case lacks.waits || !lacks.aggregate.IsZero() || !holdsSomeOfEach(sum(all), n.Aggregate):
		return UnmetNoMatchingSupply
	case n.covered && (n.hadCandidates || !n.countsOnDrain):
		return UnmetAwaitingDrain
	case n.hadCandidates:
		return UnmetPreemptionExhausted
	case n.Profile.Same() != nil && !anyDomainCovers(n, all):
		return UnmetTopology
	case n.skewBlocked:
		return UnmetSpread
	case !sum(all).Covers(n.Aggregate):
		return UnmetInsufficientSupply
	}
	return UnmetPriorityStarved
}

// supplyOf is all that could serve the Need with nobody else's claims: the usable
// machines in every state but Deleting and Failed, of any cluster.
func (p *pass) supplyOf(n *need) []*model.Machine {
	return filter(p.machines, func(m *model.Machine) bool {
		return m.State != model.Deleting && m.State != model.Failed && m.State != model.StateUnspecified && usable(n, m)
	})
}

// holdsSomeOfEach: some of every dimension that is wanted.
func holdsSomeOfEach(has, want model.Resources) bool {
	return !slices.ContainsFunc(want, func(a model.Amount) bool { return a.Value > 0 && has.Get(a.Name) == 0 })
}

// anyDomainCovers: the machines of one value of the Same key cover the Need.
func anyDomainCovers(n *need, ms []*model.Machine) bool {
	byValue := map[string]model.Resources{}
	for _, m := range ms {
		v := valueOf(m, n.Profile.Same().Key)
		byValue[v] = byValue[v].Add(m.EffectiveAllocatable())
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(byValue)), func(has model.Resources) bool { return has.Covers(n.Aggregate) })
}
