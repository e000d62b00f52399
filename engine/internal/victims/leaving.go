package victims

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
)

// leavingMachine is a draining machine, either with the priority of the Need it drains for, or as one that
// drains for nobody. One that is promised is listed both ways: drainsAs tells which holds.
type leavingMachine struct {
	class, id uint32 // id is the rank of its id
	priority  int32
	promised  bool
	acquired  bool // see listAcquired
	row       columnar.Row
}

// FindLeaving lists the machines of listAcquired and, with victims by gangs, the draining machines: by class; of a class
// first all that drain by id, then by priority, those that drain first.
func (l *Worker) FindLeaving() {
	p := l.p
	p.Candidates.leaving = nil
	acquired := l.listAcquired()
	count := 0
	if p.Opts.Victims == plan.VictimsGang {
		count = p.Snap.Supply.Count(model.Draining)
	}
	if count+len(acquired) == 0 {
		return
	}
	list := alloc.MakeDirty[leavingMachine](p.Arena, 2*count+len(acquired))
	list = list[:copy(list, acquired)]
	if count > 0 { // an iterator is allocated
		for rows := p.Snap.Supply.InState(model.Draining).Iterator(); rows.HasNext(); {
			r := columnar.Row(rows.Next())
			x := leavingMachine{class: p.Snap.View.Class[r], id: p.Snap.IDRank(r), priority: math.MinInt32, row: r}
			list = append(list, x)  // from the beginning, or once its owners turn out not to need it
			if p.Reserved.Live(r) { // or until they do: a plan may take what has satisfied one
				x.priority, x.promised = p.priorityOfHold(r), true
				list = append(list, x)
			}
		}
	}
	slices.SortFunc(list, func(a, b leavingMachine) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.priority, b.priority),
			exact.TrueFirst(b.promised, a.promised), exact.TrueFirst(b.acquired, a.acquired), cmp.Compare(a.id, b.id))
	})
	p.Candidates.leaving = list
}

// promisedTo returns the priority of the Need that a machine drains for. promised is false if
// it drains for nobody, or for needs that are satisfied without it.
func (p *Pass) promisedTo(r columnar.Row) (priority int32, promised bool) {
	if !p.Reserved.Live(r) || p.IsGivenUp(r) {
		return math.MinInt32, false
	}
	return p.priorityOfHold(r), true
}

// priorityOfHold returns the priority of the first owner of a live reservation; the record's, if none is known.
func (p *Pass) priorityOfHold(r columnar.Row) int32 {
	if members := p.Reserved.Members(r); len(members) > 0 {
		return p.KindOf(members[0]).Priority
	}
	return p.Snap.Supply.Reservation(r).Priority
}

// IsGivenUp reports whether a machine drains for needs that are satisfied without it. Its
// reservation ends, but only after this pass.
func (p *Pass) IsGivenUp(r columnar.Row) bool {
	members := p.Reserved.Members(r)
	return len(members) > 0 && p.Snap.View.State[r] == model.Draining &&
		!slices.ContainsFunc(members, func(n int32) bool { return !p.Lines[n].Is(state.IsSatisfied) })
}

// drainsAs reports whether a draining machine is what a list has it as: promised to a Need, or there for
// everybody. One whose reservation was voided in this pass is neither until its owners have had their
// turns.
func (p *Pass) drainsAs(r columnar.Row, promised bool) bool {
	if p.Preempted.Spared.Has(uint32(r)) || p.Reserved.IsVoided(r) {
		return !promised && p.Preempted.Spared.Has(uint32(r))
	}
	_, is := p.promisedTo(r)
	return is == promised
}

// isThereAs reports whether no plan counts on a draining or acquired machine, and it is still what a list has it as.
func (p *Pass) isThereAs(list *units.VictimGroupKey, r columnar.Row) bool {
	if list.Acquired {
		return p.isAcquired(r)
	}
	return p.Promised.TakenBy(r) == ranks.None && p.drainsAs(r, list.Promised)
}

// leavingOf returns the draining and acquired machines of a class.
func (x *Candidates) leavingOf(class uint32) []leavingMachine {
	compare := func(m leavingMachine, class uint32) int { return cmp.Compare(m.class, class) }
	from, _ := slices.BinarySearchFunc(x.leaving, class, compare)
	to, _ := slices.BinarySearchFunc(x.leaving, class+1, compare)
	return x.leaving[from:to]
}
