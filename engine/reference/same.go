package reference

import (
	"maps"
	"math/big"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// domain is what one value of the Same key holds for a Need.
type domain struct {
	value      string
	count      int             // machines in total
	total      model.Resources // credit and acquisition together
	creditable model.Resources
	own        model.Resources // creditable and stamped for this Need
}

func valueOf(m *model.Machine, key string) string {
	v, _ := m.Attribute(key)
	return v
}

// totals adds up, per domain, what the Need could be credited and acquire.
func totals(n *need, credit, idle, speculative []*model.Machine) []*domain {
	key := n.Profile.Same().Key
	byValue := map[string]*domain{}
	at := func(m *model.Machine) *domain {
		v := valueOf(m, key)
		d := byValue[v]
		if d == nil {
			d = &domain{value: v}
			byValue[v] = d
		}
		d.count++
		d.total = d.total.Add(m.EffectiveAllocatable())
		return d
	}
	for _, m := range credit {
		d := at(m)
		d.creditable = d.creditable.Add(m.EffectiveAllocatable())
		if own(n, m) {
			d.own = d.own.Add(m.EffectiveAllocatable())
		}
	}
	for _, m := range slices.Concat(idle, speculative) {
		at(m)
	}
	var out []*domain
	for _, v := range slices.Sorted(maps.Keys(byValue)) {
		out = append(out, byValue[v])
	}
	return out
}

func anyCovers(n *need, ds []*domain) bool {
	return n.Aggregate.IsZero() || slices.ContainsFunc(ds, func(d *domain) bool { return d.total.Covers(n.Aggregate) })
}

// score sums have/want over the dimensions wanted; capped, each ratio counts
// at most 1.
func score(have, want model.Resources, capped bool) *big.Rat {
	s := new(big.Rat)
	for _, w := range want {
		h := have.Get(w.Name)
		if capped {
			h = min(h, w.Value)
		}
		s.Add(s, big.NewRat(h, w.Value))
	}
	return s
}

// settleDomain gives the Need the domain of what pins it, and else the best of
// those in which it could have anything now: one that is parked, or whose plan
// holds it back, only what it could be credited.
func (p *pass) settleDomain(n *need, credit, idle, speculative []*model.Machine) (free bool) {
	all := totals(n, credit, idle, speculative)
	n.couldCover = anyCovers(n, all)
	choice, holdsBack := all, p.holdsBack(n)
	if n.Parked {
		choice = totals(n, credit, nil, nil)
	}
	if pin, pinned := p.pinnedDomain(n); pinned {
		if !p.pinEnds(n, pin, choice, all) {
			n.domain, n.couldCover = pin, true // what is held for it has chosen: it waits, it is not stuck
			return !n.Parked && !holdsBack
		}
		holdsBack = false
	}
	if holdsBack {
		choice = totals(n, credit, nil, nil)
	}
	n.domain = p.best(n, choice)
	return !n.Parked && !holdsBack
}

// best is the best domain; noDomain when there is none.
func (p *pass) best(n *need, ds []*domain) string {
	if len(ds) == 0 {
		return noDomain
	}
	best := ds[0]
	for _, d := range ds[1:] {
		if better(d, best, n.Aggregate, p.minimum(n)) {
			best = d
		}
	}
	return best.value
}

// pinEnds: the Need's own machines elsewhere cover it already; or the domain that
// would be chosen covers it, and the pinned one does not any more, with all that is
// free there, creditable, or on its way to the Need.
func (p *pass) pinEnds(n *need, pin string, choice, all []*domain) bool {
	if slices.ContainsFunc(all, func(d *domain) bool { return d.value != pin && d.own.Covers(n.Aggregate) }) {
		return true
	}
	best := p.best(n, choice)
	if !slices.ContainsFunc(choice, func(d *domain) bool { return d.value == best && d.total.Covers(n.Aggregate) }) {
		return false
	}
	there := sum(filter(p.inFlightFor(n), func(m *model.Machine) bool { return valueOf(m, n.Profile.Same().Key) == pin }))
	for _, d := range all {
		if d.value == pin {
			there = there.Add(d.total)
		}
	}
	return !there.Covers(n.Aggregate)
}

// noDomain is the domain of a Need that has none. An attribute may have the empty
// value, but none is like this.
const noDomain = "\x00none"

// shown is a Need's domain as plans have it.
func shown(domain string) string {
	if domain == noDomain {
		return ""
	}
	return domain
}

// pinnedDomain: the value shared by most of the machines that pin the Need; among
// equals the smaller value.
func (p *pass) pinnedDomain(n *need) (string, bool) {
	counts := map[string]int{}
	for _, m := range p.machines {
		if p.pins(n, m) {
			counts[valueOf(m, n.Profile.Same().Key)]++
		}
	}
	best, found := "", false
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		if !found || counts[v] > counts[best] {
			best, found = v, true
		}
	}
	return best, found
}

// pins: the Need can use the machine, which is reserved for it and on its way to it
// (Idle, Draining, or a victim that has not begun to drain), or is being created for
// it; and nobody who had his turn before has claimed it.
func (p *pass) pins(n *need, m *model.Machine) bool {
	waits := p.reservedFor(n, m) && (m.State != model.Configured || m.Cluster != n.Cluster)
	created := m.State == model.Creating && countsFor(n, m)
	claimer := p.claimedBy[m]
	return (waits || created) && usable(n, m) && (claimer == nil || claimer.rank >= n.rank)
}

// better is the choice among domains, strictly in the order of the contract;
// least is what the Need can live with.
func better(a, b *domain, want, least model.Resources) bool {
	for _, vector := range []model.Resources{want, least} {
		if covers := a.total.Covers(vector); covers != b.total.Covers(vector) {
			return covers
		}
	}
	capped := func(have model.Resources) *big.Rat { return score(have, want, true) }
	order := []int{capped(a.own).Cmp(capped(b.own))} // each positive when a is better: what runs stays
	if a.total.Covers(want) {
		order = append(order,
			capped(a.creditable).Cmp(capped(b.creditable)),
			score(b.total, want, false).Cmp(score(a.total, want, false)), // least over-commitment
		)
	} else {
		order = append(order,
			capped(a.total).Cmp(capped(b.total)),
			capped(a.creditable).Cmp(capped(b.creditable)),
		)
	}
	for _, c := range append(order, a.count-b.count) {
		if c != 0 {
			return c > 0
		}
	}
	return a.value < b.value
}
