package session

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// MatchingLooksMax is how many machines are looked at to count what matches the needs of
// one answer. The machines that match the first need are counted in any fleet.
const MatchingLooksMax = 1 << 20

// matching counts the machines that could serve needs, for one answer: each set of
// requirements once, by class.
type matching struct {
	in        engine.Input
	left      int
	byMatcher map[uint32]*classCounts
}

// counts are machines by state, as MatchingSupply has them.
type counts struct{ idle, configured, speculative int }

type classCounts struct {
	classes []uint32
	counts  []counts
	capped  bool // too many other machines had been looked at
}

// of returns how many machines match the requirements of a need and cover its minimum
// unit. Those of a need without matching supply are none: nothing holds some resource
// that it wants.
func (m *matching) of(plan *engine.Plan, need int, unmet engine.Unmet) (sum counts, capped bool) {
	matcher := m.in.Supply.Matcher(plan.Profile(need))
	if matcher == 0 || unmet == engine.UnmetNoMatchingSupply {
		return counts{}, false
	}
	x := m.byMatcher[matcher]
	if x == nil {
		x = m.count(matcher)
		m.byMatcher[matcher] = x
	}
	for i, class := range x.classes {
		if plan.Suits(need, class) {
			c := &x.counts[i]
			sum.idle, sum.configured, sum.speculative = sum.idle+c.idle, sum.configured+c.configured, sum.speculative+c.speculative
		}
	}
	return sum, x.capped
}

// count counts what a matcher accepts. O(machines that it accepts).
func (m *matching) count(matcher uint32) *classCounts {
	x := &classCounts{capped: m.left <= 0}
	if x.capped {
		return x
	}
	at := map[uint32]int{}
	for _, state := range [...]model.State{model.Idle, model.Configured, model.Speculative} {
		m.left -= m.in.Supply.CountMatching(state, matcher)
		for class := range m.in.Supply.ClassesMatching(state, matcher) {
			i, known := at[class]
			if !known {
				i = len(x.classes)
				at[class], x.classes, x.counts = i, append(x.classes, class), append(x.counts, counts{})
			}
			switch c := &x.counts[i]; state {
			case model.Idle:
				c.idle++
			case model.Configured:
				c.configured++
			default:
				c.speculative++
			}
		}
	}
	return x
}
