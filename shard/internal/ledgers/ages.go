package ledgers

import "github.com/tonnage/tonnage/engine"

// Ages are for how many cycles a need has been as a plan leaves it, that plan's
// included.
type Ages struct {
	Unmet  int // 0 = it is satisfied
	Parked int // 0 = it is not parked
}

// AgesOf is shard.AgesOf.
func (l *Ledgers) AgesOf(plan *engine.Plan, i int) Ages {
	if plan.Satisfied(i) {
		return Ages{}
	}
	cluster, row := plan.Identity(i)
	b, p := l.demand.Block(cluster), plan.Profile(i)
	if p.Same() == nil {
		return Ages{Unmet: l.Latency.shortFor(DemandKey{cluster, p.Fingerprint()})}
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
