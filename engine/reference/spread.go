package reference

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// skew counts a Need's machines per value of each key that a hard spread
// constrains.
type skew struct {
	rules  []model.Spread
	counts []map[string]int64 // by rule
	start  []map[string]bool  // by rule: the values whose least count is the floor
}

func newSkew(n *need) *skew {
	s := &skew{rules: n.hardSpread()}
	for range s.rules {
		s.counts = append(s.counts, map[string]int64{})
		s.start = append(s.start, nil)
	}
	return s
}

// place returns the values of a machine for the rules, and whether it has them
// all: without them it cannot be a candidate.
func (s *skew) place(m *model.Machine) ([]string, bool) {
	var tuple []string
	for _, r := range s.rules {
		v, ok := m.Attribute(r.Key)
		if !ok {
			return nil, false
		}
		tuple = append(tuple, v)
	}
	return tuple, true
}

// count adds a machine to each rule whose key it has.
func (s *skew) count(m *model.Machine) {
	for i, r := range s.rules {
		if v, ok := m.Attribute(r.Key); ok {
			s.counts[i][v]++
		}
	}
}

// begin fixes the values that had a candidate at the start.
func (s *skew) begin(candidates []*model.Machine) {
	for i := range s.rules {
		s.start[i] = map[string]bool{}
	}
	for _, m := range candidates {
		if tuple, ok := s.place(m); ok {
			for i, v := range tuple {
				s.start[i][v] = true
			}
		}
	}
}

// includeCounted adds the values that have a count to the floor's.
func (s *skew) includeCounted() {
	for i := range s.rules {
		for v := range s.counts[i] {
			s.start[i][v] = true
		}
	}
}

// allows: for every rule, the count of the machine's value ≤ the least count
// over the values at the start + maxSkew − 1.
func (s *skew) allows(m *model.Machine) bool {
	tuple, ok := s.place(m)
	if !ok {
		return false
	}
	for i, v := range tuple {
		least := s.counts[i][v]
		for o := range s.start[i] {
			least = min(least, s.counts[i][o])
		}
		if s.counts[i][v] > least+int64(s.rules[i].MaxSkew)-1 {
			return false
		}
	}
	return true
}

// staysEven: a machine may go, and is counted out where it has the key. No value then has more
// than maxSkew machines above another in which the Need had one, or the difference is no
// larger than it was.
func (s *skew) staysEven(m *model.Machine) bool {
	for i, r := range s.rules {
		v, counted := m.Attribute(r.Key)
		if !counted {
			continue
		}
		before := unevenness(s.counts[i])
		after := maps.Clone(s.counts[i])
		after[v]--
		if d := unevenness(after); d > int64(r.MaxSkew) && d > before {
			return false
		}
	}
	for i, r := range s.rules {
		if v, counted := m.Attribute(r.Key); counted {
			s.counts[i][v]--
		}
	}
	return true
}

func unevenness(counts map[string]int64) int64 {
	all := slices.Collect(maps.Values(counts))
	return slices.Max(all) - slices.Min(all)
}

// acquireSpread: Idle, then Speculative; each step takes the cheapest head of
// the domains that the skew allows.
func (p *pass) acquireSpread(n *need, idle, speculative []*model.Machine) {
	s := newSkew(n)
	for _, m := range n.claims() {
		s.count(m)
	}
	stage := func(candidates []*model.Machine) (took []*model.Machine) {
		s.begin(candidates)
		left := candidates
		for !n.deficit.IsZero() {
			m := p.nextToAcquire(n, s, left)
			if m == nil {
				break
			}
			took, left = append(took, m), without(left, m)
			s.count(m)
			n.deficit = n.deficit.Sub(m.EffectiveAllocatable())
		}
		// What is useful and was left by the stage, the skew has refused.
		n.skewBlocked = n.skewBlocked || slices.ContainsFunc(left, func(m *model.Machine) bool {
			_, placed := s.place(m)
			return placed && useful(m, n.deficit)
		})
		return took
	}
	n.idle = append(n.idle, stage(idle)...)
	n.speculative = stage(speculative)
}

// nextToAcquire is nextSpread by the rule of acquisition. By fit, it is the candidate that costs least for what
// it covers of what is missing; one reserved for this Need goes before all others, one reserved for a lower rank
// after them; among equals the first in the order of the stage.
func (p *pass) nextToAcquire(n *need, s *skew, candidates []*model.Machine) *model.Machine {
	if p.in.Options.Acquire == AcquireCheapest {
		return p.nextSpread(n, s, candidates, n.deficit)
	}
	var best *model.Machine
	for _, m := range candidates {
		if _, placed := s.place(m); !placed || !useful(m, n.deficit) || !s.allows(m) && !p.reservedFor(n, m) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(p.lateness(n, m), p.lateness(n, best)), cmp.Compare(costPerCover(n, m), costPerCover(n, best))) < 0 {
			best = m
		}
	}
	return best
}

// costPerCover is what a free machine costs for the parts that it covers of what is missing.
func costPerCover(n *need, m *model.Machine) float64 {
	cost := m.PricePerHour
	if isBought(m) {
		c := effectiveCost(m, n.Profile.Interruption())
		if cost = c.finite; c.risky {
			cost = math.Inf(1)
		}
	}
	covered := 0.0
	for _, a := range n.deficit {
		covered += float64(min(m.EffectiveAllocatable().Get(a.Name), a.Value)) / float64(a.Value)
	}
	return cost / covered
}

// nextSpread returns the next machine of one stage, nil when none is eligible.
// The candidates are in the order of the stage. The head of a domain is its
// first useful candidate; a head reserved for this Need beats others, and one
// reserved for a lower rank comes last; then the cheaper one, then the smaller tuple
// of values.
func (p *pass) nextSpread(n *need, s *skew, candidates []*model.Machine, missing model.Resources) *model.Machine {
	heads := map[string]*model.Machine{}
	for _, m := range candidates {
		tuple, ok := s.place(m)
		// What is held for the Need was allowed when it was bought or freed.
		if !ok || !useful(m, missing) || !s.allows(m) && !p.reservedFor(n, m) {
			continue
		}
		// Values may hold any character; lengths keep tuples apart.
		key := tupleKey(tuple)
		if heads[key] == nil {
			heads[key] = m
		}
	}
	var best *model.Machine
	for _, m := range heads {
		if best == nil || p.beforeAsHead(n, s, m, best) {
			best = m
		}
	}
	return best
}

func (p *pass) beforeAsHead(n *need, s *skew, a, b *model.Machine) bool {
	if la, lb := p.lateness(n, a), p.lateness(n, b); la != lb {
		return la < lb
	}
	price := cmp.Compare(a.PricePerHour, b.PricePerHour)
	if isBought(a) {
		penalty := n.Profile.Interruption()
		price = effectiveCost(a, penalty).compare(effectiveCost(b, penalty))
	}
	ta, _ := s.place(a)
	tb, _ := s.place(b)
	return cmp.Or(price, slices.Compare(ta, tb)) < 0
}

func tupleKey(tuple []string) string {
	var b strings.Builder
	for _, v := range tuple {
		b.WriteString(strings.ReplaceAll(v, "/", "//"))
		b.WriteString("/,")
	}
	return b.String()
}

func without(ms []*model.Machine, m *model.Machine) []*model.Machine {
	return filter(ms, func(o *model.Machine) bool { return o != m })
}
