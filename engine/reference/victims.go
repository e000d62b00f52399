package reference

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// victim is a machine that a Need may preempt.
type victim struct {
	*model.Machine
	excess bool // phase 3 would reclaim it anyway
	score  float64
}

// victimCandidates: Configured machines of other clusters that are usable, not
// reserved, not already victims, and whose priority is strictly lower; in the
// order in which they are taken: excess first, then the higher score, then id.
func (p *pass) victimCandidates(n *need) []victim {
	var vs []victim
	for _, m := range p.machines {
		_, reserved := p.holds[m]
		if m.State != model.Configured || m.Cluster == n.Cluster || reserved || m.Departs() || p.victimOf[m] != nil {
			continue
		}
		if p.priorityOf(m) < n.Profile.Priority() && usable(n, m) {
			vs = append(vs, victim{m, p.excess(m), p.victimScore(n, m)})
		}
	}
	slices.SortFunc(vs, func(a, b victim) int {
		if a.excess != b.excess {
			if a.excess {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.ID, b.ID))
	})
	return vs
}

// acquiredForLessBy lists, for a Need with Same, the Idle machines that Needs of lower priority have acquired: by their priority,
// then by id.
func (p *pass) acquiredForLessBy(n *need) []*model.Machine {
	ms := filter(p.machines, func(m *model.Machine) bool { return p.acquiredForLess(n, m) && usable(n, m) })
	slices.SortFunc(ms, func(a, b *model.Machine) int {
		return cmp.Or(cmp.Compare(p.acquired[a], p.acquired[b]), cmp.Compare(a.ID, b.ID))
	})
	return ms
}

// priorityOf: that of the Need that claims the machine this cycle; if nobody
// does, its stamp's.
func (p *pass) priorityOf(m *model.Machine) int32 {
	if n := p.claimedBy[m]; n != nil {
		return n.Profile.Priority()
	}
	return m.Assigned.Priority
}

// excess: a bound machine that nobody claims, in a cluster that has reported.
func (p *pass) excess(m *model.Machine) bool {
	return m.State == model.Configured && p.claimedBy[m] == nil && p.in.Reported[m.Cluster]
}

// gap is the preemptor's priority less the victim's, in 64 bits, at least 0.
func (p *pass) gap(n *need, m *model.Machine) int64 {
	return max(0, int64(n.Profile.Priority())-int64(p.priorityOf(m)))
}

// The floors of the victim score, which keep its reciprocals finite.
const (
	drainSecondsMin   = 1.0
	penaltyDollarsMin = 0.01
)

// victimScore = gap × w₁ + (1/drain seconds) × w₂ + (1/interruption penalty) ×
// w₃ + (1/reclamation penalty) × w₄; the penalties are the victim's stamps.
// Higher is the better victim.
func (p *pass) victimScore(n *need, m *model.Machine) float64 {
	drain, known := p.in.DrainSeconds[m.InstanceType]
	if !known {
		drain = DrainSecondsDefault
	}
	if !(drain >= drainSecondsMin) {
		drain = drainSecondsMin
	}
	interruption := max(penaltyDollarsMin, m.Assigned.Interruption.Dollars())
	reclamation := max(penaltyDollarsMin, m.Assigned.Reclamation.Dollars())
	w := p.in.Options.Weights
	s := float64(float64(p.gap(n, m)) * w.Priority)
	s += float64((1 / drain) * w.DrainSpeed)
	s += float64((1 / interruption) * w.Interruption)
	s += float64((1 / reclamation) * w.Reclamation)
	return s
}

// giveBack is the minimality pass: victims that turn out unneeded are given
// back, highest rank first. Machines that a Need claims go before those whose
// cluster has not reported, and these before excess, which costs nobody
// anything; claimed ones by their Need's rank, the others by the stamp's
// priority; among equals the one chosen last goes first.
func (p *pass) giveBack(chosen []*model.Machine, missing model.Resources) []*model.Machine {
	order := slices.Clone(chosen)
	slices.Reverse(order)
	slices.SortStableFunc(order, p.byWorth)
	kept := chosen
	for _, m := range order {
		rest := without(kept, m)
		if reach(rest, missing).Equal(reach(kept, missing)) {
			kept = rest
		}
	}
	return kept
}

func (p *pass) byWorth(a, b *model.Machine) int {
	class := func(m *model.Machine) int {
		switch {
		case p.claimedBy[m] != nil:
			return 0
		case !p.excess(m):
			return 1
		}
		return 2
	}
	if c := cmp.Compare(class(a), class(b)); c != 0 {
		return c
	}
	if class(a) == 0 {
		return cmp.Compare(p.claimedBy[a].rank, p.claimedBy[b].rank)
	}
	return cmp.Compare(b.Assigned.Priority, a.Assigned.Priority)
}

// reach is how much of what is missing the machines bring.
func reach(ms []*model.Machine, missing model.Resources) model.Resources {
	return missing.Sub(missing.Sub(sum(ms)))
}

// graceSeconds of a preemption, by the gap in priority.
func graceSeconds(gap int64) int {
	switch {
	case gap > 900_000:
		return 10
	case gap > 500_000:
		return 30
	case gap > 100_000:
		return 120
	}
	return graceSecondsMax
}

// graceSecondsMax is the grace of the smallest gap and of every Reclaim.
const graceSecondsMax = 600
