package reference

import (
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// beginPhase2 notes who is short, and what Needs have acquired that plans of others may count on.
func (p *pass) beginPhase2() {
	p.acquired = map[*model.Machine]int32{}
	for _, n := range p.needs {
		n.short = !n.deficit.IsZero()
		for _, m := range n.idle {
			p.acquired[m] = n.Profile.Priority()
			if h, held := p.holds[m]; held {
				p.acquired[m] = max(p.acquired[m], p.priorityOfHold(h))
			}
		}
	}
}

// phase2 preempts for what phase 1 left of one Need. It never binds: what it
// frees is acquired in a later cycle.
func (p *pass) phase2(n *need) {
	switch {
	case !n.short || n.Parked: // one that has lost what it acquired to a plan is decided anew in the next cycle
	case p.in.Options.Victims == VictimsGang:
		p.planFor(n, p.byPriority(n))
	case n.Profile.Same() != nil:
		p.preemptWhole(n)
	default:
		p.preemptPlain(n)
	}
	n.hadTurn = true
	p.replaceLost(n)
}

// replaceLost: with gangs, a Need without Same that has lost machines to plans of this cycle counts, in its turn, on what
// nobody claims in its cluster: it would be credited with that in the next cycle.
func (p *pass) replaceLost(n *need) {
	left := filter(n.claims(), func(m *model.Machine) bool { return p.victimOf[m] == nil || p.takenBy[m] == nil })
	if p.in.Options.Victims != VictimsGang || n.Profile.Same() != nil || len(left) == len(n.claims()) {
		return
	}
	spare := filter(p.bound[n.Cluster], func(m *model.Machine) bool {
		_, held := p.holds[m]
		return p.excess(m) && !m.Departs() && !held && p.victimOf[m] == nil && p.takenBy[m] == nil && usable(n, m)
	})
	slices.SortFunc(spare, keepOrder)
	took, _ := walk(spare, n.Aggregate.Sub(sum(left)))
	for _, m := range took {
		p.takenBy[m] = n
	}
}

// inFlightFor: what is reserved for the Need and on its way: first what drains, then what is still bound
// to another cluster, each in keep order. A machine that was subtracted
// from one row's deficit is not there for another row of the same identity.
func (p *pass) inFlightFor(n *need) []*model.Machine {
	var ms []*model.Machine
	for m := range p.holds {
		if leaving(n, m) && p.reservedFor(n, m) && p.uncounted(n, m) && usable(n, m) {
			ms = append(ms, m)
		}
	}
	// What still drains of a reservation of its own that ended in this pass is
	// nobody's; with gangs the Need may count on it anew.
	for m, h := range p.voided {
		if p.in.Options.Victims == VictimsGang && m.State == model.Draining && slices.Contains(h.owners, n) && p.uncounted(n, m) && p.takenBy[m] == nil && usable(n, m) {
			ms = append(ms, m)
		}
	}
	slices.SortFunc(ms, func(a, b *model.Machine) int {
		if a.State != b.State && a.State == model.Draining {
			return -1
		} else if a.State != b.State && b.State == model.Draining {
			return 1
		}
		return keepOrder(a, b)
	})
	return ms
}

// uncounted: no other row has counted on the machine.
func (p *pass) uncounted(n *need, m *model.Machine) bool {
	return p.countedFor[m] == nil || p.countedFor[m] == n
}

// leaving: on its way out, to whoever it is reserved for.
func leaving(n *need, m *model.Machine) bool {
	return m.State == model.Draining || m.State == model.Configured && m.Cluster != n.Cluster
}

// awaits notes the machines whose arrival the Need waits for.
func (p *pass) awaits(n *need, ms []*model.Machine) {
	n.inFlight = ms
	for _, m := range ms {
		p.countedFor[m] = n
	}
}

func (p *pass) preempt(n *need, victims []*model.Machine) {
	n.victims = victims
	for _, m := range victims {
		p.victimOf[m] = n
	}
}

// preemptPlain takes victims until what is missing is covered, or all there
// are: a part helps a Need that is not all-or-nothing.
func (p *pass) preemptPlain(n *need) {
	arriving, missing := walk(p.inFlightFor(n), n.deficit)
	p.awaits(n, arriving)
	if missing.IsZero() {
		n.covered = true
		return
	}
	spread := newSkew(n)
	var candidates []*model.Machine
	for _, v := range p.victimCandidates(n) {
		// A Need with hard spread counts only what phase 1 could then take.
		if _, placed := spread.place(v.Machine); placed {
			candidates = append(candidates, v.Machine)
		}
	}
	n.hadCandidates = len(candidates) > 0
	var chosen []*model.Machine
	var left model.Resources
	if len(spread.rules) > 0 {
		chosen, left = p.victimsUnderSkew(n, spread, candidates, missing)
	} else {
		chosen, left = walk(candidates, missing)
		chosen = p.giveBack(chosen, missing)
	}
	n.covered = left.IsZero() && len(chosen)+len(arriving) > 0
	p.preempt(n, chosen)
}

// victimsUnderSkew plays on what phase 1 would do once the victims are free:
// each step takes a free machine that the skew allows, as phase 1 would, or
// else the best victim that it allows. The domains of what the Need holds
// count for the floor too.
func (p *pass) victimsUnderSkew(n *need, s *skew, victims []*model.Machine, missing model.Resources) (chosen []*model.Machine, left model.Resources) {
	for _, m := range slices.Concat(n.claims(), n.inFlight) {
		s.count(m)
	}
	idle, speculative := p.idleCandidates(n), p.speculativeCandidates(n)
	s.begin(slices.Concat(idle, speculative, victims))
	s.includeCounted()
	for !missing.IsZero() {
		m := p.nextSpread(n, s, idle, missing)
		if m == nil {
			m = p.nextSpread(n, s, speculative, missing)
		}
		if m == nil {
			i := slices.IndexFunc(victims, func(v *model.Machine) bool { return useful(v, missing) && s.allows(v) })
			if i < 0 {
				break
			}
			m = victims[i]
			chosen = append(chosen, m)
		}
		idle, speculative, victims = without(idle, m), without(speculative, m), without(victims, m)
		s.count(m)
		missing = missing.Sub(m.EffectiveAllocatable())
	}
	return chosen, missing
}
