package preempt

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
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
	k := l.p.KindOf(need)
	var missing []int64
	for _, r := range l.excessIn(int(l.p.ClusterOf(need))) {
		if l.Figures.Probes++; !k.AcceptsClass(l.p.Snap.View.Class[r]) || l.isGone(r) || l.p.Reserved.Live(r) {
			continue
		}
		if missing == nil {
			missing = l.missingWithoutLost(need)
		}
		if cycle.PositiveDims(missing) == 0 {
			return
		}
		if columnar.Helps(l.p.Vec(r), missing) {
			l.CountOn(r, need)
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
}

// missingWithoutLost returns what a Need lacks without the machines that plans of this cycle take from it.
func (l *Worker) missingWithoutLost(need int32) []int64 {
	missing := alloc.Make[int64](l.Arena, l.p.Dims)
	copy(missing, l.p.Aggregate(need))
	for n, r := l.p.Claims.Walk(&l.p.Lines[need]); r != columnar.None; r = l.p.Claims.Next(r, n) {
		if !l.p.Preempted.VictimOf.Has(uint32(r)) || l.p.Promised.TakenBy(r) == ranks.None {
			columnar.SubClamp(missing, l.p.Vec(r))
		}
	}
	return missing
}

// isGone reports whether a machine is a victim, or a plan counts on it. Once it is gone, it is gone for the rest of phase 2.
func (l *Worker) isGone(r columnar.Row) bool {
	return l.p.Preempted.VictimOf.Has(uint32(r)) || l.p.Promised.TakenBy(r) != ranks.None
}

// excess is the Configured machines that no Need claims, by cluster, in keep order. A cluster's list is made when it is first asked for
// and holds for the whole of phase 2, which releases no claim on a Configured machine. So phase 2 scans the machines of a cluster
// once, not once for each of its Needs that lost a machine.
type excess struct {
	lists []excessList // by cluster
	rows  []columnar.Row
}

// excessList is a range of the rows.
type excessList struct {
	known    bool
	from, to int32
}

// begin forgets the lists of the cycle before.
func (x *excess) begin(a *alloc.Arena, clusters int) {
	x.lists, x.rows = alloc.Make[excessList](a, clusters), x.rows[:0]
}

// excessIn returns the Configured machines of a cluster that no Need claims, but for the first ones that are gone; others may be gone
// as well, see isGone. Before the cluster has reported there are none.
func (l *Worker) excessIn(c int) []columnar.Row {
	x := &l.excess
	list := &x.lists[c]
	if !list.known {
		*list = excessList{known: true, from: int32(len(x.rows))}
		if l.p.Snap.Demand.Reported(l.p.Snap.Clusters[c]) {
			x.add(l, c)
		}
		list.to = int32(len(x.rows))
		slices.SortFunc(x.rows[list.from:], func(a, b columnar.Row) int { return cmp.Compare(l.p.Snap.KeepKey(a), l.p.Snap.KeepKey(b)) })
	}
	for list.from < list.to && l.isGone(x.rows[list.from]) {
		list.from++
	}
	return x.rows[list.from:list.to]
}

// add adds the Configured machines of a cluster that no Need claims.
func (x *excess) add(l *Worker, c int) {
	classes := l.ExcessClasses(c)
	if classes == nil {
		return
	}
	bound := l.p.Snap.BoundOf(c)[:l.p.Snap.Configured(c)]
	l.Figures.Probes += int64(len(bound))
	for i := range bound {
		r, class := bound[i].Row, bound[i].Class
		if classes[class>>6]>>(class&63)&1 != 0 && !l.p.Claimed(r) {
			x.rows = append(x.rows, r)
		}
	}
}
