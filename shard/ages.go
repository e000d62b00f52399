package shard

import "github.com/tonnage/tonnage/engine"

// Ages are for how many cycles a need has been as a plan leaves it, that plan's
// included.
type Ages struct {
	Unmet  int // 0 = it is satisfied
	Parked int // 0 = it is not parked
}

// AgesOf returns the ages of a row of the plan that Deps.Decided is given; i is
// its number. It is for Deps.Decided alone, which has the shard locked. A gang
// has an age of its own, as long as its size stays the same; other needs of a
// cluster share that of their profile. A restart begins anew. O(1).
func (s *Shard) AgesOf(plan *engine.Plan, i int) Ages { return s.ledgers.agesOf(plan, i) }

func (l *ledgers) agesOf(plan *engine.Plan, i int) Ages {
	if plan.Satisfied(i) {
		return Ages{}
	}
	cluster, row := plan.Identity(i)
	b, p := l.demand.Block(cluster), plan.Profile(i)
	if p.Same() == nil {
		return Ages{Unmet: l.latency.shortFor(demandKey{cluster, p.Fingerprint()})}
	}
	w := l.parking.waiting[keyOf(b, row, p)]
	if w == nil {
		return Ages{Unmet: 1}
	}
	ages := Ages{Unmet: int(l.parking.cycle-w.first) + 2}
	if b.Parked(row) {
		ages.Parked = max(w.age-ParkAfterCycles, 0) + 1
	}
	return ages
}
