package fleetview

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
)

// CheaperRow is why cheaper machines do not serve a Need.
type CheaperRow struct {
	Why      string  `json:"why"`
	Machines int     `json:"machines"`
	Example  string  `json:"example"` // one of them
	Price    float64 `json:"price"`   // the least of them, USD an hour
	Covers   float64 `json:"covers"`  // of what the Need asks for, by the example
	// Suits says that nothing but who has it is against the machine.
	Suits bool `json:"suits"`
}

// cheaperUse is what cheaper machines have in common: one of them stands for all.
type cheaperUse struct {
	class   uint32
	state   model.State
	own     bool // bound to the Need's cluster
	reserve bool
}

// cheaperThan says of all machines with a lower price than m why they do not serve the Need instead,
// the commonest reason first. effective is what m costs the Need. O(machines), and one look at the labels for each
// class and use.
func cheaperThan(in engine.Input, m *model.Machine, need *model.Need, effective float64) []CheaperRow {
	t := in.Supply
	price := make([]float64, t.ClassMax())
	for c := range price {
		price[c] = t.ClassInfo(uint32(c)).Price
	}
	view := t.View()
	counts, example := map[cheaperUse]int{}, map[cheaperUse]columnar.Row{}
	for _, r := range t.Order() {
		c := view.Class[r]
		if price[c] >= m.PricePerHour {
			continue
		}
		state := view.State[r]
		if t.IsLateBound(r) {
			state = model.Speculative
		}
		u := cheaperUse{class: c, state: state, own: view.Cluster[r] != 0 && t.Cluster(r) == m.Cluster}
		if u.state == model.Idle || u.state == model.Speculative {
			u.reserve = t.Reservation(r).Active()
		}
		if counts[u]++; counts[u] == 1 {
			example[u] = r
		}
	}
	byWhy := map[string]*CheaperRow{}
	for u, n := range counts {
		of := t.Get(example[u])
		why, suits := whyNot(&of, &u, need, effective)
		row := byWhy[why]
		if row == nil {
			row = &CheaperRow{Why: why, Suits: suits, Example: of.ID, Price: of.PricePerHour, Covers: partOfNeed(&of, need)}
			byWhy[why] = row
		}
		row.Machines += n
		if of.PricePerHour < row.Price || of.PricePerHour == row.Price && of.ID < row.Example {
			row.Example, row.Price, row.Covers = of.ID, of.PricePerHour, partOfNeed(&of, need)
		}
	}
	out := make([]CheaperRow, 0, len(byWhy))
	for _, row := range byWhy {
		out = append(out, *row)
	}
	slices.SortFunc(out, func(a, b CheaperRow) int {
		return cmp.Or(cmp.Compare(b.Machines, a.Machines), cmp.Compare(a.Why, b.Why))
	})
	return out[:min(len(out), listDefault)]
}

// partOfNeed is how much of what a Need asks for a machine offers: the largest part of a resource, at most 1.
func partOfNeed(m *model.Machine, need *model.Need) float64 {
	return min(share(m.EffectiveAllocatable(), need.Aggregate), 1)
}

// whyNot says why a cheaper machine does not serve a Need: the first reason that applies.
func whyNot(of *model.Machine, u *cheaperUse, need *model.Need, effective float64) (why string, suits bool) {
	for i := range need.Profile.Requirements() {
		r := &need.Profile.Requirements()[i]
		value, present := of.Attribute(r.Key)
		if r.Matches(value, present) {
			continue
		}
		if !present {
			return fmt.Sprintf("has no %s", r.Key), false
		}
		return fmt.Sprintf("%s is %s", r.Key, value), false
	}
	if !of.EffectiveAllocatable().Covers(need.MinUnit) {
		return "too small for one unit", false
	}
	cost := of.PricePerHour + of.InterruptionProbability*interruptionOf(need)
	if of.InterruptionProbability > 0 && need.Profile.Interruption() == model.BucketPinned {
		return "may be interrupted, and the workload must not be", false
	}
	if cost >= effective {
		return fmt.Sprintf("interruptions make it cost $%.2f an hour or more", effective), false
	}
	switch {
	case u.reserve:
		return "suits, and is held for another Need", true
	case u.own:
		return "suits, and serves this cluster already", true
	case u.state == model.Idle:
		return "suits, and is idle now: it was not when this one was chosen, lies in another domain, or gives less for its price", true
	case u.state == model.Speculative:
		return "suits, and would have to be bought", true
	case u.state.Bound():
		return "suits, and serves another cluster", true
	}
	return "suits, and is on its way to another state", true
}

// interruptionOf is what an interruption costs a Need, 0 for one that must not be interrupted.
func interruptionOf(need *model.Need) float64 {
	if b := need.Profile.Interruption(); b != model.BucketPinned {
		return b.Dollars()
	}
	return 0
}
