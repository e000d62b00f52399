package bruteforce

import (
	"math"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/reference"
)

// Cost is what a set of victims costs: first the band of its worst victim,
// larger = worse, then what it destroys. Excess costs nothing.
type Cost struct {
	Paid      bool // anything but excess is in it
	Band      float64
	Destroyed int64 // of the dimension that the Need asks for
}

// Better compares costs.
func (c Cost) Better(o Cost) bool {
	if c.Paid != o.Paid {
		return o.Paid
	}
	if c.Band != o.Band {
		return c.Band < o.Band
	}
	return c.Destroyed < o.Destroyed
}

// Problem is a fleet after phase 1, as its first Need sees it.
type Problem struct {
	in       *reference.Input
	plan     *reference.Plan
	need     *model.Need
	machines []*model.Machine
	holder   []int // the row that claims machine i, -1 = nobody
	gangs    [][]int
	gangOf   []int // of machine i, -1 = none
}

// New reads from a plan of the fleet which Need claims which machines.
func New(in *reference.Input, plan *reference.Plan) *Problem {
	b := &Problem{in: in, plan: plan, need: &in.Needs[0]}
	claimed := map[string]int{}
	for row, n := range plan.Needs {
		for _, id := range n.Claimed {
			claimed[id] = row
		}
	}
	for i := range in.Machines {
		m := &in.Machines[i]
		row, ok := claimed[m.ID]
		if !ok {
			row = -1
		}
		b.machines, b.holder, b.gangOf = append(b.machines, m), append(b.holder, row), append(b.gangOf, -1)
	}
	b.findGangs()
	return b
}

// findGangs: the rows of a group of which more than one machine is needed.
func (b *Problem) findGangs() {
	rows := map[string][]int{}
	for i, n := range b.in.Needs {
		if n.Group != "" {
			rows[n.Cluster] = append(rows[n.Cluster], i)
		}
	}
	for i, row := range b.holder {
		if row < 0 || b.in.Needs[row].Group == "" || b.gangOf[i] >= 0 {
			continue
		}
		var members []int
		for j, other := range b.holder {
			if other >= 0 && b.in.Needs[other].Cluster == b.in.Needs[row].Cluster {
				members = append(members, j)
			}
		}
		if len(rows[b.in.Needs[row].Cluster]) == 1 && len(members) == 1 {
			continue
		}
		for _, j := range members {
			b.gangOf[j] = len(b.gangs)
		}
		b.gangs = append(b.gangs, members)
	}
}

// Optimum returns the best cost over all sets of victims that meet the Need,
// and whether there is any.
func (b *Problem) Optimum() (best Cost, found bool) {
	var may []int
	for i, m := range b.machines {
		if m.State == model.Configured && m.Cluster != b.need.Cluster && (b.excess(i) || b.priority(i) < b.need.Profile.Priority()) {
			may = append(may, i)
		}
	}
	for set := range uint(1) << len(may) {
		victims := make([]bool, len(b.machines))
		for k, i := range may {
			victims[i] = set>>k&1 == 1
		}
		c := b.CostOf(victims)
		if (!found || c.Better(best)) && b.Meets(victims) && b.sound(victims) {
			best, found = c, true
		}
	}
	return best, found
}

func (b *Problem) excess(i int) bool {
	m := b.machines[i]
	return m.State == model.Configured && b.holder[i] < 0 && b.in.Reported[m.Cluster]
}

func (b *Problem) priority(i int) int32 {
	if row := b.holder[i]; row >= 0 {
		return b.in.Needs[row].Profile.Priority()
	}
	return b.machines[i].Assigned.Priority
}

// Meets tells whether some domain, or for a plain Need the fleet, holds the
// whole aggregate once the victims are free.
func (b *Problem) Meets(victims []bool) bool {
	same := b.need.Profile.Same()
	have := map[string]model.Resources{}
	for i, m := range b.machines {
		ours := b.holder[i] == 0 || m.State == model.Idle && b.holder[i] < 0
		if !ours && !victims[i] || !m.EffectiveAllocatable().Covers(b.need.MinUnit) || !b.need.Profile.Matches(m) {
			continue
		}
		value := ""
		if same != nil {
			value, _ = m.Attribute(same.Key)
		}
		have[value] = have[value].Add(m.EffectiveAllocatable())
	}
	for _, total := range have {
		if total.Covers(b.need.Aggregate) {
			return true
		}
	}
	return false
}

// sound: each gang that the victims touch keeps its minimum in every role, or
// goes whole, which its highest priority must allow.
func (b *Problem) sound(victims []bool) bool {
	for _, members := range b.gangs {
		left, protected, touched := 0, false, false
		for _, i := range members {
			touched = touched || victims[i]
			protected = protected || b.priority(i) >= b.need.Profile.Priority()
			if !victims[i] {
				left++
			}
		}
		if touched && (b.belowMinimum(members, victims) && left > 0 || left == 0 && protected) {
			return false
		}
	}
	return true
}

func (b *Problem) belowMinimum(members []int, victims []bool) bool {
	has := map[int]model.Resources{}
	for _, i := range members {
		if row := b.holder[i]; !victims[i] {
			has[row] = has[row].Add(b.machines[i].EffectiveAllocatable())
		} else if _, ok := has[row]; !ok {
			has[row] = nil
		}
	}
	for row, h := range has {
		least := b.in.Needs[row].MinAggregate
		if len(least) == 0 {
			least = b.in.Needs[row].Aggregate
		}
		if !h.Covers(least) {
			return true
		}
	}
	return false
}

// CostOf is what the victims cost.
func (b *Problem) CostOf(victims []bool) Cost {
	c := Cost{Band: math.Inf(-1)}
	for i, m := range b.machines {
		if !victims[i] || b.excess(i) {
			continue
		}
		c.Paid = true
		c.Destroyed += m.EffectiveAllocatable().Get(b.need.Aggregate[0].Name)
		score := b.score(i)
		if g := b.gangOf[i]; g >= 0 && b.gone(b.gangs[g], victims) {
			for _, j := range b.gangs[g] {
				score = min(score, b.score(j))
			}
		}
		c.Band = max(c.Band, -math.Floor(score/b.in.Options.Band))
	}
	return c
}

func (b *Problem) gone(members []int, victims []bool) bool {
	for _, i := range members {
		if !victims[i] {
			return false
		}
	}
	return true
}

// score is the victim score, for drains of unknown length and the default
// weights.
func (b *Problem) score(i int) float64 {
	a, w := b.machines[i].Assigned, b.in.Options.Weights
	gap := max(0, int64(b.need.Profile.Priority())-int64(b.priority(i)))
	return float64(float64(gap)*w.Priority) + float64(1.0/reference.DrainSecondsDefault*w.DrainSpeed) +
		float64(1/max(0.01, a.Interruption.Dollars())*w.Interruption) + float64(1/max(0.01, a.Reclamation.Dollars())*w.Reclamation)
}

// VictimsOf are the machines that a plan frees for the Need or for nobody: it
// preempts them, or reserves excess.
func (b *Problem) VictimsOf() []bool {
	taken := map[string]bool{}
	for _, a := range b.plan.Actions {
		if a.Kind == reference.Preempt {
			taken[a.Machine] = true
		}
	}
	for _, r := range b.plan.Reserved {
		taken[r.Machine] = true
	}
	victims := make([]bool, len(b.machines))
	for i, m := range b.machines {
		victims[i] = taken[m.ID] && m.State == model.Configured
	}
	return victims
}
