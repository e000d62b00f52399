package reference

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// byRank is the total order of rows: priority desc, interruption bucket desc,
// reclamation bucket desc, arrival asc (zero before every other), cluster id
// asc, row order asc.
func byRank(rows []model.Need) func(i, j int) int {
	return func(i, j int) int {
		a, b := &rows[i], &rows[j]
		return cmp.Or(
			cmp.Compare(b.Profile.Priority(), a.Profile.Priority()),
			cmp.Compare(b.Profile.Interruption(), a.Profile.Interruption()),
			cmp.Compare(b.Profile.Reclamation(), a.Profile.Reclamation()),
			cmp.Compare(a.Arrival, b.Arrival),
			cmp.Compare(a.Cluster, b.Cluster),
			cmp.Compare(i, j),
		)
	}
}

// keepOrder: price asc, reclamation penalty (the stamp's dollars) desc, id asc.
func keepOrder(a, b *model.Machine) int {
	return cmp.Or(
		cmp.Compare(a.PricePerHour, b.PricePerHour),
		cmp.Compare(b.Assigned.Reclamation.Dollars(), a.Assigned.Reclamation.Dollars()),
		cmp.Compare(a.ID, b.ID),
	)
}

// cost is the effective cost of a Speculative machine for a Need: price plus
// probability × interruption penalty. For a pinned Need a machine that may be
// interrupted costs more than every finite cost; those are compared by
// probability, then price.
type cost struct {
	risky       bool // pinned Need, probability above zero
	finite      float64
	probability float64
	price       float64
}

func effectiveCost(m *model.Machine, penalty model.Bucket) cost {
	switch {
	case penalty != model.BucketPinned:
		extra := float64(m.InterruptionProbability * penalty.Dollars())
		return cost{finite: m.PricePerHour + extra}
	case m.InterruptionProbability == 0:
		return cost{finite: m.PricePerHour}
	}
	return cost{risky: true, probability: m.InterruptionProbability, price: m.PricePerHour}
}

// compare orders costs; equal costs are for the caller to break.
func (c cost) compare(o cost) int {
	if c.risky != o.risky {
		if c.risky {
			return 1
		}
		return -1
	}
	return cmp.Or(
		cmp.Compare(c.finite, o.finite),
		cmp.Compare(c.probability, o.probability),
		cmp.Compare(c.price, o.price),
	)
}

// speculativeOrder: effective cost asc, then price, then id. The reclamation
// penalty plays no part: nothing was stamped on a machine that does not exist.
func speculativeOrder(penalty model.Bucket) func(a, b *model.Machine) int {
	return func(a, b *model.Machine) int {
		return cmp.Or(
			effectiveCost(a, penalty).compare(effectiveCost(b, penalty)),
			cmp.Compare(a.PricePerHour, b.PricePerHour),
			cmp.Compare(a.ID, b.ID),
		)
	}
}

// isBought: a Speculative machine, or one that is Idle and late-bound: its cost is its effective cost.
func isBought(m *model.Machine) bool {
	return m.State == model.Speculative || m.State == model.Idle && m.Labels[model.LabelLateBound] == "true"
}

// byState: Configured, then Configuring, then Creating; within each the keep
// order.
func byState(a, b *model.Machine) int {
	place := func(m *model.Machine) int {
		return slices.Index([]model.State{model.Configured, model.Configuring, model.Creating}, m.State)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), keepOrder(a, b))
}

// byStateThenFree: byState, and after it what is free, in keep order.
func byStateThenFree(a, b *model.Machine) int {
	isFree := func(m *model.Machine) int {
		if m.State == model.Idle || m.State == model.Speculative {
			return 1
		}
		return 0
	}
	if c := cmp.Compare(isFree(a), isFree(b)); c != 0 {
		return c
	}
	if isFree(a) == 1 {
		return keepOrder(a, b)
	}
	return byState(a, b)
}

func filter(ms []*model.Machine, test func(*model.Machine) bool) []*model.Machine {
	var out []*model.Machine
	for _, m := range ms {
		if test(m) {
			out = append(out, m)
		}
	}
	return out
}
