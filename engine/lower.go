package engine

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// An Idle machine that is held for somebody is a candidate for those who rank above
// the owner, but the last one: after all Idle machines that nobody holds, and before
// anything is bought. What is held for the lowest rank goes first. So such machines
// are not in the pools: they are listed apart, class by class.

// lowerHeld is the Idle machines that are held for somebody.
type lowerHeld struct {
	classes []lowerClass // ascending
	rows    bitmap.Dense // all that are held yet, whoever has acquired one
	late    map[columnar.Row]lateness
}

// lowerClass is those of a class, in the order in which they are acquired.
type lowerClass struct {
	class uint32
	rows  []columnar.Row
	at    int // those before are taken
}

// lateness is a held machine's place in the order of all of them, and its owner's.
type lateness struct{ place, owner uint32 }

// lateKey is above the keys of machines that nobody holds.
const lateKey = 1 << 63

// has reports whether a machine is held, and Idle.
func (x *lowerHeld) has(r columnar.Row) bool { return x.rows.Has(uint32(r)) }

// key is where a held machine stands among the Idle ones, whatever it costs.
func (x *lowerHeld) key(r columnar.Row) uint64 { return lateKey | uint64(x.late[r].place) }

// ofClass returns those of a class, nil when there are none.
func (x *lowerHeld) ofClass(class uint32) *lowerClass {
	at, ok := slices.BinarySearchFunc(x.classes, class, func(c lowerClass, class uint32) int { return cmp.Compare(c.class, class) })
	if !ok {
		return nil
	}
	return &x.classes[at]
}

// keepRank is a held machine with where its owner stands; see placeOfHold.
type keepRank struct {
	row   columnar.Row
	owner int32
}

// placeOfHold returns where a reservation stands in the order, in halves of a place:
// where its first owner does, or, before the owner's cluster has reported, before
// the first need that ranks no higher than the record.
func (p *pass) placeOfHold(res *model.Reservation, members []int32) int32 {
	if len(members) > 0 {
		return 2 * p.rankOf[members[0]]
	}
	return 2*int32(p.firstNotAbove(res)) - 1
}

// firstNotAbove returns the place of the first need that ranks no higher than a
// record.
func (p *pass) firstNotAbove(res *model.Reservation) int {
	record := worth(res.Priority, res.Interruption, res.Reclamation)
	return sort.Search(len(p.order), func(i int) bool { return p.kindOf(p.order[i]).worth >= record })
}

// listLower lists the Idle machines that are held.
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
	slices.SortStableFunc(held, func(a, b keepRank) int { return cmp.Compare(p.s.View.Class[a.row], p.s.View.Class[b.row]) })
	rows := alloc.MakeDirty[columnar.Row](p.e.arena, len(held))
	for i, h := range held {
		class := p.s.View.Class[h.row]
		if rows[i] = h.row; i == 0 || class != p.s.View.Class[held[i-1].row] {
			x.classes = append(x.classes, lowerClass{class: class, rows: rows[i:i]})
		}
		last := &x.classes[len(x.classes)-1]
		last.rows = last.rows[:len(last.rows)+1]
	}
	return x
}

// headOfLower moves on to a class's first held machine that is not taken; false when
// there is none.
func (p *pass) headOfLower(x *lowerClass) bool {
	for x.at < len(x.rows) && !p.isOpenLower(x.rows[x.at]) {
		x.at++
	}
	return x.at < len(x.rows)
}

// isOpenLower reports whether a machine is held and not taken.
func (p *pass) isOpenLower(r columnar.Row) bool { return !p.taken[r] && p.reserved.lower.has(r) }

// anyLower reports whether a held machine is left that suits a kind. A class that
// the kind does not accept may be another worker's.
func (p *pass) anyLower(k *kind) bool {
	list := p.reserved.lower.classes
	for i := range list {
		if k.acceptsClass(list[i].class) && p.headOfLower(&list[i]) {
			return true
		}
	}
	return false
}

// acquireLower claims what is held for those who rank below the need, from the
// lowest on.
func (l *worker) acquireLower(need int32, k *kind) {
	if len(l.reserved.lower.classes) == 0 {
		return
	}
	for l.lacks != 0 {
		r := l.nextLower(need, k)
		if r == columnar.None {
			return
		}
		l.acquired(r, need, 0)
	}
}

// nextLower returns the next held machine that has something of what is missing.
func (l *worker) nextLower(need int32, k *kind) columnar.Row {
	best, first := columnar.None, uint32(math.MaxUint32)
	list := l.reserved.lower.classes
	for i := range list {
		x := &list[i]
		if l.classMask[x.class]&l.lacks == 0 || !k.acceptsClass(x.class) || !l.headOfLower(x) {
			continue
		}
		for _, r := range x.rows[x.at:] {
			l.probes++
			place := l.reserved.lower.late[r].place
			if place >= first {
				break
			}
			if l.isOpenLower(r) && l.inDomain(r, need) {
				best, first = r, place
				break
			}
		}
	}
	return best
}

// eachLower calls f for the held machines of the classes that a kind accepts, class
// by class, and in the order in which they are acquired.
func (l *worker) eachLower(k *kind, f func(columnar.Row)) {
	list := l.reserved.lower.classes
	for i := range list {
		if x := &list[i]; k.acceptsClass(x.class) && l.headOfLower(x) {
			for _, r := range x.rows[x.at:] {
				if l.isOpenLower(r) {
					f(r)
				}
			}
		}
	}
}

// headCost is what a machine costs when heads of tuples are compared; held ones come
// after all others, of the lowest owner first.
func (l *worker) headCost(cost []uint32, r columnar.Row) uint64 {
	c := uint64(cost[l.s.View.Class[r]])
	if l.reserved.lower.has(r) {
		c |= lateKey | uint64(l.reserved.lower.late[r].owner)<<32
	}
	return c
}

// compareLate compares Idle machines by whether they are held, and by whom.
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

// unhold makes a machine one that nobody holds any more.
func (l *worker) unhold(r columnar.Row) {
	l.reserved.lower.rows.Clear(uint32(r))
	if l.claimed(r) || l.takenBy(r) != noNeed {
		return
	}
	if l.taken[r] {
		l.putBack(r)
	} else {
		l.offer(r)
		for _, d := range l.domains {
			if d != nil && !d.stale {
				d.rewind(r)
			}
		}
	}
	l.revive(l.s.View.Class[r])
}
