package engine

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// reclaim is the first half of phase 3. It reclaims every Configured machine that no Need claims and
// that was not preempted, cluster by cluster, in keep order. A cluster that has not reported since the
// start keeps its machines: its demand is unknown, not zero. A cluster that lost a claimed machine to
// phase 2 keeps its excess in this cycle, since its Needs may use it.
func (p *pass) reclaim() {
	losers := p.losers()
	p.reclaimExcess(losers)
	p.reclaimDeparting(losers)
}

// reclaimExcess reclaims machines in the clusters' lists.
func (p *pass) reclaimExcess(losers bitmap.Dense) {
	for c, id := range p.s.Clusters {
		if losers.Has(uint32(c)) || !p.s.Demand.Reported(id) {
			continue
		}
		classes := p.walker.excessClasses(c)
		if classes == nil {
			continue
		}
		bound := p.s.BoundOf(c)[:p.s.Configured(c)]
		for i := range bound {
			r, class := bound[i].Row, bound[i].Class
			if classes[class>>6]>>(class&63)&1 == 0 || p.claimed(r) || p.victimOf.Has(uint32(r)) {
				continue
			}
			// A plan may count on an unclaimed machine of the Need's own cluster.
			if by := p.takenBy(r); by == noNeed || p.lines[by].cluster != int32(c) {
				p.reclaims = append(p.reclaims, r)
			}
		}
	}
}

// reclaimDeparting reclaims the machines that depart; they stand in no cluster's list.
func (p *pass) reclaimDeparting(losers bitmap.Dense) {
	had := len(p.reclaims)
	for r := range p.s.Supply.Reservations() {
		if !p.s.Supply.Departs(r) {
			continue
		}
		if c := p.clusterOfMachine(r); !losers.Has(uint32(c)) && p.s.Demand.Reported(p.s.Clusters[c]) {
			p.reclaims = append(p.reclaims, r)
		}
	}
	if len(p.reclaims) > had {
		slices.SortFunc(p.reclaims, func(a, b columnar.Row) int {
			return cmp.Or(cmp.Compare(p.clusterOfMachine(a), p.clusterOfMachine(b)), cmp.Compare(p.s.KeepKey(a), p.s.KeepKey(b)))
		})
	}
}

// clusterOfMachine returns the index of the cluster that a machine names; it must name one.
func (p *pass) clusterOfMachine(r columnar.Row) int32 { return p.s.ClusterOf[p.s.View.Cluster[r]] }

// losers returns the set of clusters that lost a claimed machine to phase 2.
func (p *pass) losers() bitmap.Dense {
	losers := bitmap.DenseIn(p.e.arena, len(p.s.Clusters))
	for _, v := range p.victims {
		if p.claimed(v.row) {
			losers.Set(uint32(p.clusterOfMachine(v.row)))
		}
	}
	return losers
}

// excessClasses returns the set of classes of which a cluster may have unclaimed Configured machines;
// nil if there are none. With gangs the lowest priorities by class say so; with single victims any
// class may have some.
func (l *worker) excessClasses(c int) []uint64 {
	gangs, some := l.e.opts.Victims == VictimsGang, false
	l.words = resize(l.words, (len(l.s.Classes)+63)/64)
	for _, x := range l.e.store.clusters[c].cheapest {
		if !gangs || x.priority == math.MinInt32 {
			l.words[x.class>>6] |= 1 << (x.class & 63)
			some = true
		}
	}
	if !some {
		return nil
	}
	return l.words
}

// release is the second half of phase 3. It deletes idle machines of a releasable capacity type that
// are unclaimed, not held, and idle for the type's duration. One that a reservation has held until this
// cycle stays for one more: Needs that could not have it may take it then.
func (p *pass) release() {
	var holds [model.NumCapacityTypes]time.Duration
	holds[model.OnDemand], holds[model.Spot] = p.e.opts.Release.OnDemand, p.e.opts.Release.Spot
	if holds == [model.NumCapacityTypes]time.Duration{} {
		return
	}
	rows := p.s.Supply.RowMax()
	idle := alloc.MakeDirty[uint64](p.e.arena, (rows+63)/64)
	bitmap.FilterEqual(idle, p.s.View.State[:rows], model.Idle)
	bitmap.AndNot(idle, idle, p.walker.setOf(p.taken[:rows])) // taken ones are acquired or held
	for w, word := range idle {
		for ; word != 0; word &= word - 1 {
			r := columnar.Row(w<<6 + bits.TrailingZeros64(word))
			hold := holds[p.s.View.Capacity[r]]
			if hold > 0 && p.s.Now-p.s.View.IdleSince[r] >= int64(hold) && !p.claimed(r) && p.takenBy(r) == noNeed && !p.s.Supply.Reservation(r).Active() {
				p.deletes = append(p.deletes, r)
			}
		}
	}
	slices.SortFunc(p.deletes, func(a, b columnar.Row) int { return cmp.Compare(p.s.IDRank[a], p.s.IDRank[b]) })
}
