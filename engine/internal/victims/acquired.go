package victims

import (
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// A Need with Same chooses its domain in phase 1 by what is free at its turn. A plan looks at other domains after all turns, when
// Needs of lower rank have acquired Idle machines there. Nothing is bound before the cycle ends, so a plan may count on these
// machines, as it may on those that drain for a lower priority. The Needs that had acquired them go without in this cycle. The next
// cycle decides on them again.

// listAcquired lists the Idle machines that a Need has acquired on which plans of Needs with Same may count: some Need with Same that
// accepts the class lacks something, and has a higher priority. What is held for a higher priority than that of the Need
// which has acquired it counts with that.
func (l *Worker) listAcquired() []leavingMachine {
	acquired := l.p.Stock.Acquisitions[0]
	if len(acquired) == 0 || l.p.Satisfied == l.p.Counted.Rows {
		return nil
	}
	most := l.mostAskedWithSame(l.findAskers())
	if most == nil {
		return nil
	}
	// Acquisitions are in rank order: first those of the priorities that no gang is above.
	highest := slices.Max(most)
	from, _ := slices.BinarySearchFunc(acquired, highest, func(a acquire.Acquisition, priority int32) int {
		if l.p.KindOf(a.Need).Priority >= priority {
			return -1
		}
		return 1
	})
	list := l.Finding.acquired[:0]
	for _, a := range acquired[from:] {
		class := l.p.Snap.View.Class[a.Row]
		if most[class] == math.MinInt32 {
			continue
		}
		if priority := l.p.priorityToTake(a); priority < most[class] {
			list = append(list, leavingMachine{class: class, id: l.p.Snap.IDRank(a.Row), priority: priority, promised: true, acquired: true, row: a.Row})
		}
	}
	l.Finding.acquired = list
	return list
}

// mostAskedWithSame returns, by class, the highest priority of the Needs with Same that accept it and lack something;
// math.MinInt32 = there is none, nil = there is none of any class.
func (l *Worker) mostAskedWithSame(asks []bool) (most []int32) {
	for i, asked := range asks {
		k := &l.p.Kinds[i]
		if !asked || !k.Same {
			continue
		}
		if most == nil {
			most = alloc.MakeDirty[int32](l.Arena, len(l.p.Snap.Classes))
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
func (p *Pass) priorityToTake(a acquire.Acquisition) int32 {
	priority := p.KindOf(a.Need).Priority
	if p.Reserved.Live(a.Row) {
		priority = max(priority, p.priorityOfHold(a.Row))
	}
	return priority
}

// isAcquired reports whether a machine that was acquired still is, and no plan counts on it.
func (p *Pass) isAcquired(r columnar.Row) bool {
	return p.Claims.Of(r) != state.Unclaimed && p.Promised.TakenBy(r) == ranks.None
}

// TakeAcquired takes an Idle machine from the Need that has acquired it, for the plan of another.
func (l *Worker) TakeAcquired(r columnar.Row, need int32) {
	by := l.p.Claims.Of(r)
	if by == state.Unclaimed || by == need {
		return
	}
	n := &l.p.Lines[by]
	l.p.Claims.Release(r)
	l.p.Claims.Filter(by, n)
	n.Status |= state.LostAcquired
	if n.Is(state.IsSatisfied) {
		n.Status &^= state.IsSatisfied | state.IsSkewBlocked // the skew left it short of nothing
		lacks := l.Finding.Vecs.Take(l.p.Dims)
		if l.p.ReadDeficit(lacks, by); columnar.IsZero(lacks) {
			n.Status |= state.IsSatisfied // its stamp was divided anew, and could not give back a machine that is held
		} else {
			n.Status |= state.LackedNothing
			l.p.Satisfied -= l.p.Weight(by)
		}
		l.voidAll(by) // others may have taken of that what it did not need
	}
	l.p.Preempted.WithheldBy[r] = by
	l.Undone = append(l.Undone, r) // it is taken, as it was, and on nobody's chain
	l.Finding.Lost = append(l.Finding.Lost, r)
}

// Withhold takes back what the need acquired in phase 1: its plan goes to another domain, where
// these machines are of no use.
func (l *Worker) Withhold(need int32, domain uint32) {
	n := &l.p.Lines[need]
	for r := n.Acquired; r != columnar.None; r = l.p.Claims.Next(r, n) {
		l.WithholdMachine(r, need)
	}
	l.p.Claims.Filter(need, n)
	n.Domain, n.Status = domain, n.Status|state.IsWithheld
	l.p.Preempted.Withheld = append(l.p.Preempted.Withheld, need) // the domain it was credited in is forgotten
}

// WithholdMachine takes back a machine that a need acquired.
func (l *Worker) WithholdMachine(r columnar.Row, need int32) {
	l.p.Claims.Release(r)
	l.p.Preempted.WithheldBy[r] = need
	l.p.NoteFreed(r)
	l.PutBack(r)
	l.p.Tenants.NoteMoved(r)
}
