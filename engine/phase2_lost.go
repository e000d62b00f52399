package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// noteLosers gives a turn to each Need without Same that lost a machine to one of the victims from an
// index on. All of them rank below the Need whose plan that was.
func (p *pass) noteLosers(t *turns, from int) {
	for i := from; i < len(p.preempted.victims); i++ {
		if need := p.claims.Of(p.preempted.victims[i].row); need != state.Unclaimed && !p.kindOf(need).Same {
			t.marks[p.rankOf[need]] |= hasLost
		}
	}
}

// replaceLost lets a Need that lost machines to plans of this cycle count on what nobody claims in its cluster and
// what it would be credited with in the next one. No plan of a Need that ranks below has that.
func (l *worker) replaceLost(need int32) {
	n, k := &l.p.lines[need], l.p.kindOf(need)
	c := int(n.Cluster)
	if !l.p.s.Demand.Reported(l.p.s.Clusters[c]) {
		return
	}
	classes := l.excessClasses(c)
	if classes == nil {
		return
	}
	rows := l.used[:0]
	bound := l.p.s.BoundOf(c)[:l.p.s.Configured(c)]
	for i := range bound {
		r, class := bound[i].Row, bound[i].Class
		if classes[class>>6]>>(class&63)&1 != 0 && k.AcceptsClass(class) && !l.p.claimed(r) && !l.p.preempted.victimOf.Has(uint32(r)) &&
			l.p.preempted.takenBy(r) == order.None && !l.p.reserved.Live(r) {
			rows = append(rows, r)
		}
	}
	l.used = rows
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(l.p.s.KeepKey(a), l.p.s.KeepKey(b)) })
	missing := alloc.Make[int64](l.arena, l.p.dims)
	copy(missing, l.p.aggregate(need))
	for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
		if !l.p.preempted.victimOf.Has(uint32(r)) || l.p.preempted.takenBy(r) == order.None {
			columnar.SubClamp(missing, l.p.vec(r))
		}
	}
	for _, r := range rows {
		if columnar.Helps(l.p.vec(r), missing) {
			l.use(r, need)
			columnar.SubClamp(missing, l.p.vec(r))
		}
	}
}
