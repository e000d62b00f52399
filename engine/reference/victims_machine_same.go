package reference

import (
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// domainTotals is a domain as phase 2 sees it for a Same-Need.
type domainTotals struct {
	value     string
	narrow    string           // of a narrower key, where keys are nested; else empty
	available []*model.Machine // its own, and what is free
	arriving  []*model.Machine // in flight for it
	victims   []*model.Machine // in the order in which they are taken
}

// lacks returns the arriving machines that are of use, and what is missing
// after them.
func (s *domainTotals) lacks(n *need) (awaited []*model.Machine, missing model.Resources) {
	return walk(s.arriving, n.Aggregate.Sub(sum(s.available)))
}

// potential is the capped score of all that could be there.
func (s *domainTotals) potential(n *need) *big.Rat {
	return score(sum(slices.Concat(s.available, s.arriving, s.victims)), n.Aggregate, true)
}

// preemptWhole takes the first domain, of at most TopDomains, in which what is
// there and what victims free covers the whole Need. Nothing is preempted for
// a part.
func (p *pass) preemptWhole(n *need) {
	totalsByDomain := p.totalsByDomain(n)
	n.hadCandidates = slices.ContainsFunc(totalsByDomain, func(s *domainTotals) bool { return len(s.victims) > 0 })
	for i, s := range totalsByDomain {
		if i == p.in.Options.TopDomains {
			break
		}
		awaited, missing := s.lacks(n)
		chosen, left := walk(s.victims, missing)
		if !left.IsZero() {
			continue
		}
		chosen = p.giveBack(chosen, missing)
		n.covered = true
		p.moveTo(n, s.value)
		p.awaits(n, awaited)
		p.preempt(n, filter(chosen, func(m *model.Machine) bool { return m.State == model.Configured }))
		for _, m := range filter(chosen, func(m *model.Machine) bool { return m.State == model.Idle }) {
			p.takeAcquired(n, m)
			p.takenBy[m] = n
		}
		return
	}
	for _, s := range totalsByDomain {
		if s.value == n.domain {
			awaited, _ := s.lacks(n)
			p.awaits(n, awaited)
		}
	}
}

// totalsByDomain lists the domains to try: phase 1's first, then by potential, then by
// value. A Need whose reservations pin it has only that one.
func (p *pass) totalsByDomain(n *need) []*domainTotals {
	var excess, others []*model.Machine
	for _, v := range p.victimCandidates(n) {
		if v.excess {
			excess = append(excess, v.Machine)
		} else {
			others = append(others, v.Machine)
		}
	}
	victims := slices.Concat(excess, p.acquiredForLessBy(n), others)
	byValue := p.totalsByValue(n, n.Profile.Same().Key, victims)
	totalsByDomain := slices.Collect(maps.Values(byValue))
	slices.SortFunc(totalsByDomain, func(a, b *domainTotals) int {
		if (a.value == n.domain) != (b.value == n.domain) {
			if a.value == n.domain {
				return -1
			}
			return 1
		}
		if c := b.potential(n).Cmp(a.potential(n)); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	return totalsByDomain
}

// totalsByValue sorts what there is, what is in flight, and the victims by the
// domains that the Need may have: values of its key, or of a narrower one inside
// of each.
func (p *pass) totalsByValue(n *need, key string, victims []*model.Machine) map[string]*domainTotals {
	same := n.Profile.Same().Key
	pin, pinned := p.pinnedDomain(n)
	byValue := map[string]*domainTotals{}
	at := func(m *model.Machine) *domainTotals {
		s := domainTotals{value: valueOf(m, same)}
		if key != same {
			s.narrow = valueOf(m, key)
		}
		v := tupleKey([]string{s.value, s.narrow})
		if key == same {
			v = s.value
		}
		if byValue[v] == nil {
			byValue[v] = &s
		}
		return byValue[v]
	}
	for _, m := range p.machines {
		if p.available(n, m) {
			at(m).available = append(at(m).available, m)
		}
	}
	for _, m := range p.inFlightFor(n) {
		at(m).arriving = append(at(m).arriving, m)
	}
	for _, m := range victims {
		at(m).victims = append(at(m).victims, m)
	}
	maps.DeleteFunc(byValue, func(_ string, s *domainTotals) bool {
		return pinned && s.value != pin || key != same && s.narrow == ""
	})
	return byValue
}

// available: what the Need claims already; what is bound to its cluster, or
// being created for it, and claimed by nobody or by a lower rank; what is
// free. A machine that is being preempted is available to nobody.
func (p *pass) available(n *need, m *model.Machine) bool {
	claimer := p.claimedBy[m]
	switch {
	case p.victimOf[m] != nil || p.takenBy[m] != nil:
		return false
	case claimer == n:
		return true
	case countsFor(n, m):
		return usable(n, m) && (claimer == nil || n.rank < claimer.rank)
	case m.State == model.Idle || m.State == model.Speculative:
		return p.free(n, m)
	}
	return false
}

// moveTo makes the domain the Need's. What phase 1 acquired elsewhere is
// withheld; what it credited stays claimed in this cycle.
func (p *pass) moveTo(n *need, value string) {
	if value == n.domain {
		return
	}
	for _, m := range slices.Concat(n.idle, n.speculative) {
		delete(p.claimedBy, m)
		p.withheld[m] = true
	}
	n.idle, n.speculative = nil, nil
	n.domain = value
	n.deficit = n.Aggregate.Sub(sum(n.credited))
}
