package preempt

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// noteLosers gives a turn to each Need without Same that lost a machine to one of the victims from an
// index on. All of them rank below the Need whose plan that was.
func (p *Pass) noteLosers(t *victims.Turns, from int) {
	for i := from; i < len(p.Preempted.Victims); i++ {
		if need := p.Claims.Of(p.Preempted.Victims[i].Row); need != state.Unclaimed && !p.KindOf(need).Same {
			t.Marks[p.RankOf[need]] |= victims.HasLost
		}
	}
}

// replaceLost lets a Need that lost machines to plans of this cycle count on what nobody claims in its cluster and
// what it would be credited with in the next one. No plan of a Need that ranks below has that.
func (l *Worker) replaceLost(need int32) {
	n, k := &l.p.Lines[need], l.p.KindOf(need)
	c := int(l.p.ClusterOf(need))
	if !l.p.Snap.Demand.Reported(l.p.Snap.Clusters[c]) {
		return
	}
	classes := l.ExcessClasses(c)
	if classes == nil {
		return
	}
	rows := l.Rows[:0]
	bound := l.p.Snap.BoundOf(c)[:l.p.Snap.Configured(c)]
	for i := range bound {
		r, class := bound[i].Row, bound[i].Class
		if classes[class>>6]>>(class&63)&1 != 0 && k.AcceptsClass(class) && !l.p.Claimed(r) && !l.p.Preempted.VictimOf.Has(uint32(r)) &&
			l.p.Promised.TakenBy(r) == ranks.None && !l.p.Reserved.Live(r) {
			rows = append(rows, r)
		}
	}
	l.Rows = rows
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b columnar.Row) int { return cmp.Compare(l.p.Snap.KeepKey(a), l.p.Snap.KeepKey(b)) })
	missing := alloc.Make[int64](l.Arena, l.p.Dims)
	copy(missing, l.p.Aggregate(need))
	for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
		if !l.p.Preempted.VictimOf.Has(uint32(r)) || l.p.Promised.TakenBy(r) == ranks.None {
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
	for _, r := range rows {
		if columnar.Helps(l.p.Vec(r), missing) {
			l.CountOn(r, need)
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
}
