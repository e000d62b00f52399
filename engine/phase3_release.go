package engine

import (
	"time"

	"github.com/tonnage/tonnage/engine/model"
)

// reclaim is the first half of phase 3: every Configured machine that no need
// claims and that was not preempted, cluster by cluster, in keep order. A
// cluster that has not reported since the start keeps what it has: its demand
// is not known yet, which is not the same as none.
func (p *pass) reclaim() {
	for c, id := range p.s.Clusters {
		if !p.s.Demand.Reported(id) {
			continue
		}
		for _, r := range p.s.ClusterRows.At(c) {
			if p.s.View.State[r] != model.Configured {
				break // Configured ones come first
			}
			if !p.claimed.Has(uint32(r)) && !p.victimOf.Has(uint32(r)) {
				p.reclaims = append(p.reclaims, r)
			}
		}
	}
}

// release is the second half of phase 3: idle machines of a releasable type
// that nobody claims or holds go back to the provider after their hold.
func (p *pass) release() {
	var holds [model.NumCapacityTypes]time.Duration
	holds[model.OnDemand], holds[model.Spot] = p.e.opts.Release.OnDemand, p.e.opts.Release.Spot
	if holds == [model.NumCapacityTypes]time.Duration{} {
		return
	}
	for _, r := range p.s.Order {
		if p.s.View.State[r] != model.Idle || p.claimed.Has(uint32(r)) || p.reserved.live(r) {
			continue
		}
		if hold := holds[p.s.View.Capacity[r]]; hold > 0 && p.s.Now-p.s.View.IdleSince[r] >= int64(hold) {
			p.deletes = append(p.deletes, r)
		}
	}
}
