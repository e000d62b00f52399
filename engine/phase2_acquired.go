package engine

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// A Need with Same chooses its domain in phase 1 by what is free at its turn. A plan looks at other domains after all turns, when
// Needs of lower rank have acquired Idle machines there. Nothing is bound before the cycle ends, so a plan may count on these
// machines, as it may on those that drain for a lower priority. The Needs that had acquired them go without in this cycle. The next
// cycle decides on them again.

// listAcquired lists the Idle machines that a Need has acquired on which plans of Needs with Same may count: some Need with Same that
// accepts the class lacks something, and has a higher priority. What is held for a higher priority than that of the Need
// which has acquired it counts with that.
func (l *worker) listAcquired() []leavingMachine {
	acquired := l.p.stock.acquisitions[0]
	if len(acquired) == 0 || l.p.satisfied == l.p.counted.rows {
		return nil
	}
	most := l.mostAskedWithSame(l.findAskers())
	if most == nil {
		return nil
	}
	// Acquisitions are in rank order: first those of the priorities that no gang is above.
	highest := slices.Max(most)
	from, _ := slices.BinarySearchFunc(acquired, highest, func(a acquisition, priority int32) int {
		if l.p.kindOf(a.need).Priority >= priority {
			return -1
		}
		return 1
	})
	list := l.search.acquired[:0]
	for _, a := range acquired[from:] {
		class := l.p.s.View.Class[a.row]
		if most[class] == math.MinInt32 {
			continue
		}
		if priority := l.p.priorityToTake(a); priority < most[class] {
			list = append(list, leavingMachine{class: class, id: l.p.s.IDRank[a.row], priority: priority, promised: true, acquired: true, row: a.row})
		}
	}
	l.search.acquired = list
	return list
}

// mostAskedWithSame returns, by class, the highest priority of the Needs with Same that accept it and lack something;
// math.MinInt32 = there is none, nil = there is none of any class.
func (l *worker) mostAskedWithSame(asks []bool) (most []int32) {
	for i, asked := range asks {
		k := &l.p.kinds[i]
		if !asked || !k.Same {
			continue
		}
		if most == nil {
			most = alloc.MakeDirty[int32](l.arena, len(l.p.s.Classes))
			for c := range most {
				most[c] = math.MinInt32
			}
		}
		for _, c := range k.Classes {
			most[c] = max(most[c], k.Priority)
		}
	}
	return most
}

// priorityToTake returns the priority above which a plan may take what a Need has acquired: that of the Need or, if it
// is higher, of the one for which the machine is held.
func (p *pass) priorityToTake(a acquisition) int32 {
	priority := p.kindOf(a.need).Priority
	if p.reserved.Live(a.row) {
		priority = max(priority, p.priorityOfHold(a.row))
	}
	return priority
}

// isAcquired reports whether a machine that was acquired still is, and no plan counts on it.
func (p *pass) isAcquired(r columnar.Row) bool {
	return p.claims.Of(r) != state.Unclaimed && p.preempted.takenBy(r) == order.None
}

// takeAcquired takes an Idle machine from the Need that has acquired it, for the plan of another.
func (l *worker) takeAcquired(r columnar.Row, need int32) {
	by := l.p.claims.Of(r)
	if by == state.Unclaimed || by == need {
		return
	}
	n := &l.p.lines[by]
	l.p.claims.Release(r)
	l.p.claims.Filter(by, n)
	n.Status |= state.LostAcquired
	if n.Is(state.IsSatisfied) {
		n.Status = n.Status&^(state.IsSatisfied|state.IsSkewBlocked) | state.LackedNothing // the skew left it short of nothing
		l.p.satisfied -= l.p.weight(n)
		l.voidAll(by) // others may have taken of that what it did not need
	}
	l.p.preempted.withheldBy[r] = by
	l.undone = append(l.undone, r) // it is taken, as it was, and on nobody's chain
	l.search.lost = append(l.search.lost, r)
}
