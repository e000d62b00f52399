package reference

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// AcquireRule says which free machines a Need takes.
type AcquireRule uint8

// The rules of acquisition.
const (
	AcquireCheapest AcquireRule = iota // by cost, one after the other
	AcquireFit                         // what covers the Need at the least cost, in its shape
)

// Limits of a choice: rows, an amount, and what floats may differ by.
const (
	fitRowsMax   = 8
	fitWantMax   = 1 << 53
	fitTolerance = 1e-9
	fitCostSlack = 1e-9
)

// acquireStage acquires free machines of one stage, given in the order of `cheapest`.
func (p *pass) acquireStage(n *need, candidates []*model.Machine) (took []*model.Machine) {
	if p.in.Options.Acquire == AcquireCheapest {
		took, n.deficit = walk(candidates, n.deficit)
		return took
	}
	penalty := n.Profile.Interruption()
	costOf := func(m *model.Machine) (float64, bool) {
		if !isBought(m) {
			return m.PricePerHour, false
		}
		c := effectiveCost(m, penalty)
		if c.risky { // a stage of its own: what is least is how probable an interruption is
			return c.probability, true
		}
		return c.finite, false
	}
	// What costs nothing, what has a finite cost, and what has none: one after the other.
	var parts [3][]*model.Machine
	for _, m := range candidates {
		switch cost, risky := costOf(m); {
		case risky:
			parts[2] = append(parts[2], m)
		case cost > 0:
			parts[1] = append(parts[1], m)
		default:
			parts[0] = append(parts[0], m)
		}
	}
	for i, part := range parts {
		some, ok := []*model.Machine(nil), false
		if i > 0 {
			some, ok = p.choose(n, part, func(m *model.Machine) float64 { c, _ := costOf(m); return c })
		}
		if ok {
			n.deficit = nil
		} else {
			some, n.deficit = walk(part, n.deficit)
		}
		took = append(took, some...)
	}
	return took
}

// fitOffer is machines that are equal in cost and in what they have of what is missing.
type fitOffer struct {
	has      []int64
	cost     float64
	machines []*model.Machine
}

// choose returns the machines that cover what the Need is missing at the least cost among choices of
// its shape; false when they do not cover it, or it is beyond the limits: then `cheapest` decides.
func (p *pass) choose(n *need, candidates []*model.Machine, costOf func(*model.Machine) float64) ([]*model.Machine, bool) {
	candidates = filter(candidates, func(m *model.Machine) bool { return useful(m, n.deficit) })
	candidates = p.withinShare(n, candidates)
	offers := offersOf(candidates, n.deficit, costOf)
	want, unit := []int64{}, []int64{}
	for _, a := range n.deficit {
		want, unit = append(want, a.Value), append(unit, min(n.MinUnit.Get(a.Name), a.Value))
	}
	if len(want) == 0 || len(want) > fitRowsMax || !coversAll(offers, limitsOf(offers), want) {
		return nil, false
	}
	for _, w := range want {
		if w > fitWantMax {
			return nil, false
		}
	}
	best := cheapestCounts(offers, candidates, n.deficit)
	x := fitProblem{want: want, unit: unit, offers: offers, options: p.in.Options}
	if counts, ok := x.solve(); ok {
		cheapest := totalCost(offers, best)
		if totalCost(offers, counts) < cheapest-float64(cheapest*fitCostSlack) {
			best = counts
		}
	}
	chosen := map[*model.Machine]bool{}
	for i, o := range offers {
		for _, m := range o.machines[:best[i]] {
			chosen[m] = true
		}
	}
	return filter(candidates, func(m *model.Machine) bool { return chosen[m] }), true
}

// withinShare leaves out machines that are too large a part of the Need, if the others cover what is
// missing. A part is too large if it is larger than the option in every dimension, and larger than the
// minimum unit in its largest.
func (p *pass) withinShare(n *need, candidates []*model.Machine) []*model.Machine {
	share := p.in.Options.MaxMachineShare
	if share == 0 {
		return candidates
	}
	limit := share
	for _, a := range n.Aggregate {
		limit = max(limit, float64(n.MinUnit.Get(a.Name))/float64(a.Value))
	}
	some := filter(candidates, func(m *model.Machine) bool {
		least := math.Inf(1)
		for _, a := range n.Aggregate {
			least = min(least, float64(m.EffectiveAllocatable().Get(a.Name))/float64(a.Value))
		}
		return least <= limit
	})
	if !sum(some).Covers(n.deficit) {
		return candidates
	}
	return some
}

// offersOf groups machines by cost and by what they have of what is missing: the cheaper first, of
// equal cost the larger, dimension by dimension in the order of their names.
func offersOf(machines []*model.Machine, missing model.Resources, costOf func(*model.Machine) float64) []fitOffer {
	var offers []fitOffer
	for _, m := range machines {
		o := fitOffer{cost: costOf(m)}
		for _, a := range missing {
			o.has = append(o.has, min(m.EffectiveAllocatable().Get(a.Name), a.Value))
		}
		at, found := slices.BinarySearchFunc(offers, o, func(a, b fitOffer) int {
			switch {
			case a.cost < b.cost:
				return -1
			case a.cost > b.cost:
				return 1
			}
			return slices.Compare(b.has, a.has)
		})
		if !found {
			offers = slices.Insert(offers, at, o)
		}
		offers[at].machines = append(offers[at].machines, m)
	}
	return offers
}

func limitsOf(offers []fitOffer) []int {
	var out []int
	for _, o := range offers {
		out = append(out, len(o.machines))
	}
	return out
}

// coversAll: so many machines of each offer have what is wanted.
func coversAll(offers []fitOffer, counts []int, want []int64) bool {
	for d, w := range want {
		total := int64(0)
		for i, o := range offers {
			total = model.SatAdd(total, model.SatMul(o.has[d], int64(counts[i])))
		}
		if total < w {
			return false
		}
	}
	return true
}

func totalCost(offers []fitOffer, counts []int) float64 {
	total := 0.0
	for i, n := range counts {
		total += float64(offers[i].cost * float64(n))
	}
	return total
}

// cheapestCounts is what the rule `cheapest` takes, without what it gives back: the last picked first.
func cheapestCounts(offers []fitOffer, candidates []*model.Machine, missing model.Resources) []int {
	took, _ := walk(candidates, missing)
	kept := took
	for _, m := range slices.Backward(slices.Clone(took)) {
		if rest := without(kept, m); sum(rest).Covers(missing) {
			kept = rest
		}
	}
	counts := make([]int, len(offers))
	for i, o := range offers {
		for _, m := range o.machines {
			if slices.Contains(kept, m) {
				counts[i]++
			}
		}
	}
	return counts
}
