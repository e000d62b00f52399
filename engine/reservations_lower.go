package engine

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// A held Idle machine is a candidate for Needs that rank above its owner, but the last one of its stage:
// after all Idle machines that are not held, and before any Speculative machine; a late-bound one after
// all Speculative machines. Machines held for the lowest rank go first. So held machines are not in the
// pools; they are listed apart, by stage and class.

// lowerHeld lists the Idle machines that are held for an owner.
type lowerHeld struct {
	classes [2][]lowerClass // by stage; ascending by class
	rows    bitmap.Dense    // all that are still held, acquired ones included
	late    map[columnar.Row]lateness
}

// lowerClass lists the held machines of one class in the order in which they are acquired.
type lowerClass struct {
	class uint32
	rows  []columnar.Row
	at    int // index of the first that may be available; those before it are not
}

// lateness is the place of a held machine in the order of all held machines, and the place of its
// owner. The owner of lowest rank is 0.
type lateness struct{ place, owner uint32 }

// lateKey is a bit above the keys of machines that are not held.
const lateKey = 1 << 63

// has reports whether a machine is Idle and held.
func (x *lowerHeld) has(r columnar.Row) bool { return x.rows.Has(uint32(r)) }

// key is the sort key of a held machine among those of its stage; its price does not matter.
func (x *lowerHeld) key(r columnar.Row) uint64 { return lateKey | uint64(x.late[r].place) }

// ofClass returns the list of a class in a stage, nil when it has no held machine. O(log classes).
func (x *lowerHeld) ofClass(class uint32, stage int) *lowerClass {
	list := x.classes[stage]
	at, ok := slices.BinarySearchFunc(list, class, func(c lowerClass, class uint32) int { return cmp.Compare(c.class, class) })
	if !ok {
		return nil
	}
	return &list[at]
}

// hasClass reports whether a class has a held machine in some stage.
func (x *lowerHeld) hasClass(class uint32) bool {
	return x.ofClass(class, 0) != nil || x.ofClass(class, 1) != nil
}

// keepRank is a held machine with the place of its owner; see placeOfHold.
type keepRank struct {
	row   columnar.Row
	owner int32
}

// placeOfHold returns the place of a reservation in the order, times two: that of its first owner.
// Before the owner's cluster has reported, it lies half a place before the first Need that ranks no
// higher than the record.
func (p *pass) placeOfHold(res *model.Reservation, members []int32) int32 {
	if len(members) > 0 {
		return 2 * p.rankOf[members[0]]
	}
	return 2*int32(p.firstNotAbove(res)) - 1
}

// firstNotAbove returns the place of the first Need that ranks no higher than a record, by priority and
// penalties. Binary search.
func (p *pass) firstNotAbove(res *model.Reservation) int {
	record := state.Worth(res.Priority, res.Interruption, res.Reclamation)
	return sort.Search(len(p.order), func(i int) bool { return p.kindOf(p.order[i]).Worth >= record })
}

// listLower lists the Idle machines that are held: the lowest owner first, then in keep order.
func (p *pass) listLower(held []keepRank) lowerHeld {
	x := lowerHeld{rows: bitmap.DenseIn(p.e.arena, p.s.Supply.RowMax()), late: p.e.store.reserved.late}
	slices.SortFunc(held, func(a, b keepRank) int {
		return cmp.Or(cmp.Compare(b.owner, a.owner), cmp.Compare(p.s.KeepKey(a.row), p.s.KeepKey(b.row)))
	})
	owner := uint32(0)
	for i, h := range held {
		if i > 0 && h.owner != held[i-1].owner {
			owner++
		}
		x.rows.Set(uint32(h.row))
		x.late[h.row] = lateness{uint32(i), owner}
	}
	slices.SortStableFunc(held, func(a, b keepRank) int {
		return cmp.Or(cmp.Compare(p.stageOf(a.row), p.stageOf(b.row)), cmp.Compare(p.s.View.Class[a.row], p.s.View.Class[b.row]))
	})
	rows := alloc.MakeDirty[columnar.Row](p.e.arena, len(held))
	for i, h := range held {
		class, list := p.s.View.Class[h.row], &x.classes[p.stageOf(h.row)]
		if rows[i] = h.row; len(*list) == 0 || class != (*list)[len(*list)-1].class {
			*list = append(*list, lowerClass{class: class, rows: rows[i:i]})
		}
		last := &(*list)[len(*list)-1]
		last.rows = last.rows[:len(last.rows)+1]
	}
	return x
}

// headOfLower advances at to a class's first available held machine; false when none is left.
func (p *pass) headOfLower(x *lowerClass) bool {
	for x.at < len(x.rows) && !p.isOpenLower(x.rows[x.at]) {
		x.at++
	}
	return x.at < len(x.rows)
}

// isOpenLower reports whether a machine is still held, and not taken.
func (p *pass) isOpenLower(r columnar.Row) bool { return !p.taken[r] && p.reserved.lower.has(r) }

// anyLower reports whether an available held machine is left for a kind. It tests the class first:
// another worker may be at work on classes that the kind does not accept.
func (p *pass) anyLower(k *state.Kind) bool {
	for _, list := range p.reserved.lower.classes {
		for i := range list {
			if k.AcceptsClass(list[i].class) && p.headOfLower(&list[i]) {
				return true
			}
		}
	}
	return false
}

// acquireLower claims machines of a stage that are held for Needs of lower rank, the lowest first.
func (l *worker) acquireLower(need int32, k *state.Kind, stage int) {
	if len(l.p.reserved.lower.classes[stage]) == 0 {
		return
	}
	for l.lacks != 0 {
		r := l.nextLower(need, k, stage)
		if r == columnar.None {
			return
		}
		l.acquired(r, need, stage)
	}
}

// nextLower returns the available held machine that goes first, of those that help the Need at work.
func (l *worker) nextLower(need int32, k *state.Kind, stage int) columnar.Row {
	best, first := columnar.None, uint32(math.MaxUint32)
	list := l.p.reserved.lower.classes[stage]
	for i := range list {
		x := &list[i]
		if l.p.classMask[x.class]&l.lacks == 0 || !k.AcceptsClass(x.class) || !l.p.headOfLower(x) {
			continue
		}
		for _, r := range x.rows[x.at:] {
			l.figures.probes++
			place := l.p.reserved.lower.late[r].place
			if place >= first {
				break
			}
			if l.p.isOpenLower(r) && l.p.inDomain(r, need) {
				best, first = r, place
				break
			}
		}
	}
	return best
}

// eachLower calls f for the available held machines of a stage that a kind accepts, class by class, each
// in the order in which they are acquired.
func (p *pass) eachLower(k *state.Kind, stage int, f func(columnar.Row)) {
	list := p.reserved.lower.classes[stage]
	for i := range list {
		if x := &list[i]; k.AcceptsClass(x.class) && p.headOfLower(x) {
			for _, r := range x.rows[x.at:] {
				if p.isOpenLower(r) {
					f(r)
				}
			}
		}
	}
}

// headCost is the sort key of a machine when the heads of tuples are compared: its cost, and above it,
// for a held machine, its owner. So held machines follow all others, those of the lowest owner first.
func (p *pass) headCost(cost []uint32, r columnar.Row) uint64 {
	c := uint64(cost[p.s.View.Class[r]])
	if p.reserved.lower.has(r) {
		c |= lateKey | uint64(p.reserved.lower.late[r].owner)<<32
	}
	return c
}

// compareLate orders machines of a stage: those that are not held first, then by owner, the lowest first.
func (p *pass) compareLate(a, b columnar.Row) int {
	x := &p.reserved.lower
	la, lb := x.has(a), x.has(b)
	switch {
	case la && lb:
		return cmp.Compare(x.late[a].owner, x.late[b].owner)
	case la:
		return 1
	case lb:
		return -1
	}
	return 0
}

// unhold ends the reservation of an Idle machine: the machine becomes available like any other.
func (l *worker) unhold(r columnar.Row) {
	l.p.reserved.lower.rows.Clear(uint32(r))
	if l.p.claimed(r) || l.p.preempted.takenBy(r) != order.None {
		return
	}
	if l.p.taken[r] {
		l.putBack(r)
	} else {
		l.p.stock.epoch++ // as putBack does
		l.offer(r)
		l.acquiring.domains.Rewind(r)
	}
	l.revive(l.p.s.View.Class[r])
}
