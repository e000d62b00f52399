package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// AcquiredExplanation says why a Need acquired a free machine.
type AcquiredExplanation struct {
	// Rule is the rule of acquisition.
	Rule AcquireRule
	// Covers is the part of the Need that the machine covers, 0 to 1, by dimension of the aggregate.
	Covers []CoveredPart
	// RunnerUp is the machine that would have been taken in its place at the least cost: free for the Need at
	// its turn, in the same state, of another price or size, and covering the Need together with the Need's
	// others. Cost is what it costs the Need, in dollars an hour. None = there is none, or none among
	// the first few thousand machines that could be it.
	RunnerUp     columnar.Row
	RunnerUpCost float64
}

// CoveredPart is how much of a dimension is covered, in parts of what the Need asks for.
type CoveredPart struct {
	Name string
	Part float64
}

// explainAcquired explains why a Need acquired a machine. O(classes + machines of the Need), and in the worst
// case O(machines).
func (p *pass) explainAcquired(r columnar.Row, need int32) *AcquiredExplanation {
	x := &AcquiredExplanation{Rule: p.e.opts.Acquire}
	want, v := p.aggregate(need), p.vec(r)
	others := make([]int64, p.dims)
	for m := p.lines[need].head; m != columnar.None; m = p.held[m].next {
		if m != r {
			columnar.SatAdd(others, p.vec(m))
		}
	}
	names := p.s.Demand.Dims()
	for d, w := range want {
		if w > 0 {
			x.Covers = append(x.Covers, CoveredPart{names[d], float64(min(v[d], w)) / float64(w)})
		}
	}
	slices.SortFunc(x.Covers, func(a, b CoveredPart) int { return cmp.Compare(a.Name, b.Name) })
	x.RunnerUp, x.RunnerUpCost = p.runnerUp(r, need, others)
	return x
}

// runnerUpLooks is how many machines the search for a runner-up looks at, at most.
const runnerUpLooks = 1 << 12

// runnerUp returns the cheapest machine of another price or size that could replace a free machine.
func (p *pass) runnerUp(r columnar.Row, need int32, others []int64) (best columnar.Row, cost float64) {
	k, want, stage := p.kindOf(need), p.aggregate(need), 0
	if p.s.View.State[r] == model.Speculative {
		stage = 1
	}
	costs := p.costs(k, stage)
	own := p.s.View.Class[r]
	classes := slices.Clone(k.classes)
	looks := 0
	slices.SortStableFunc(classes, func(a, b uint32) int { return cmp.Compare(costs[a], costs[b]) })
	for _, c := range classes {
		if costs[c] == costs[own] && slices.Equal(p.vector(c), p.vector(own)) || !p.coversWith(c, others, want) {
			continue
		}
		for _, m := range p.free[stage].lists.At(int(c)) {
			if looks++; looks > runnerUpLooks {
				return columnar.None, 0
			}
			if p.verdict(m, need) == VerdictUnneeded {
				return m, p.costIn(c, k, stage)
			}
		}
	}
	return columnar.None, 0
}

// coversWith reports whether a machine of a class and others together cover what is wanted.
func (p *pass) coversWith(class uint32, others, want []int64) bool {
	for d, x := range p.vector(class) {
		if d < len(want) && want[d] > 0 && model.SatAdd(others[d], x) < want[d] {
			return false
		}
	}
	return true
}
