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

// chooseDomain: a Need with live reservations does not choose, its domain is
// theirs; otherwise the best domain; noDomain when there is none.
func (p *pass) chooseDomain(n *need, ds []*domain) string {
	if v, ok := p.pinnedDomain(n); ok {
		return v
	}
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

// pinnedDomain: the value shared by most of the machines that are reserved for
// the Need and on their way to it: Idle, Draining, Creating, or a victim that
// has not begun to drain; among equals the smaller value.
func (p *pass) pinnedDomain(n *need) (string, bool) {
	same := n.Profile.Same()
	counts := map[string]int{}
	for m := range p.holds {
		waiting := m.State != model.Configured || m.Cluster != n.Cluster
		v, has := m.Attribute(same.Key)
		if waiting && p.reservedFor(n, m) && same.Matches(v, has) {
			counts[v]++
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
