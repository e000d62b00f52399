package holds

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// Lower lists the Idle machines that are held for an owner. Such a machine is a candidate for Needs that rank above
// its owner, but the last one of its stage: after all Idle machines that are not held, and before any Speculative
// machine; a late-bound one after all Speculative machines. Machines held for the lowest rank go first. So held
// machines are not in the pools; they are listed here, by stage and class.
type Lower struct {
	Classes [2][]LowerClass // by stage; ascending by class
	Rows    bitmap.Dense    // all that are still held, acquired ones included
	held    bitmap.Numbered // all that were held when the pass began
	late    []lateness      // by their numbers in held
}

// LowerClass lists the held machines of one class in the order in which they are acquired.
type LowerClass struct {
	Class uint32
	Rows  []columnar.Row
	At    int // index of the first that may be available; those before it are not
}

// lateness is the place of a held machine in the order of all held machines, and the place of its
// owner. The owner of lowest rank is 0.
type lateness struct{ place, owner uint32 }

// lateKey is a bit above the keys of machines that are not held.
const lateKey = 1 << 63

// Has reports whether a machine is Idle and held.
func (x *Lower) Has(r columnar.Row) bool { return x.Rows.Has(uint32(r)) }

// Place is the place of a held machine in the order of all held machines.
func (x *Lower) Place(r columnar.Row) uint32 { return x.late[x.held.Number(uint32(r))].place }

// Owner is the place of the owner of a held machine; the owner of lowest rank is 0.
func (x *Lower) Owner(r columnar.Row) uint32 { return x.late[x.held.Number(uint32(r))].owner }

// Key is the sort key of a held machine among those of its stage; its price does not matter.
func (x *Lower) Key(r columnar.Row) uint64 { return lateKey | uint64(x.Place(r)) }

// HeadKey is the sort key of a machine when the heads of tuples are compared: its cost, and above it,
// for a held machine, its owner. So held machines follow all others, those of the lowest owner first.
func (x *Lower) HeadKey(cost uint32, r columnar.Row) uint64 {
	key := uint64(cost)
	if x.Has(r) {
		key |= lateKey | uint64(x.Owner(r))<<32
	}
	return key
}

// Compare orders machines of a stage: those that are not held first, then by owner, the lowest first.
func (x *Lower) Compare(a, b columnar.Row) int {
	la, lb := x.Has(a), x.Has(b)
	switch {
	case la && lb:
		return cmp.Compare(x.Owner(a), x.Owner(b))
	case la:
		return 1
	case lb:
		return -1
	}
	return 0
}

// OfClass returns the list of a class in a stage, nil when it has no held machine. O(log classes).
func (x *Lower) OfClass(class uint32, stage int) *LowerClass {
	list := x.Classes[stage]
	at, ok := slices.BinarySearchFunc(list, class, func(c LowerClass, class uint32) int { return cmp.Compare(c.Class, class) })
	if !ok {
		return nil
	}
	return &list[at]
}

// HasClass reports whether a class has a held machine in some stage.
func (x *Lower) HasClass(class uint32) bool {
	return x.OfClass(class, 0) != nil || x.OfClass(class, 1) != nil
}

// IsOpen reports whether a machine is still held, and not taken.
func (x *Lower) IsOpen(r columnar.Row, taken []bool) bool { return !taken[r] && x.Has(r) }

// Head advances At to a class's first available held machine; false when none is left.
func (x *Lower) Head(c *LowerClass, taken []bool) bool {
	for c.At < len(c.Rows) && !x.IsOpen(c.Rows[c.At], taken) {
		c.At++
	}
	return c.At < len(c.Rows)
}

// Any reports whether an available held machine is left for a kind. It tests the class first:
// another worker may be at work on classes that the kind does not accept.
func (x *Lower) Any(k *state.Kind, taken []bool) bool {
	return x.AnyOf(k, 0, taken) || x.AnyOf(k, 1, taken)
}

// AnyOf is Any for one stage.
func (x *Lower) AnyOf(k *state.Kind, stage int, taken []bool) bool {
	list := x.Classes[stage]
	for i := range list {
		if k.AcceptsClass(list[i].Class) && x.Head(&list[i], taken) {
			return true
		}
	}
	return false
}

// EachFirst calls f for the first available held machine of each class of a stage that a kind accepts. O(classes with held machines).
func (x *Lower) EachFirst(k *state.Kind, stage int, taken []bool, f func(columnar.Row)) {
	list := x.Classes[stage]
	for i := range list {
		if c := &list[i]; k.AcceptsClass(c.Class) && x.Head(c, taken) {
			f(c.Rows[c.At])
		}
	}
}

// Each calls f for the available held machines of a stage that a kind accepts, class by class, each
// in the order in which they are acquired.
func (x *Lower) Each(k *state.Kind, stage int, taken []bool, f func(columnar.Row)) {
	list := x.Classes[stage]
	for i := range list {
		if c := &list[i]; k.AcceptsClass(c.Class) && x.Head(c, taken) {
			for _, r := range c.Rows[c.At:] {
				if x.IsOpen(r, taken) {
					f(r)
				}
			}
		}
	}
}

// keepRank is a held machine with the place of its owner; see placeOfHold.
type keepRank struct {
	row   columnar.Row
	owner int32
}

// placeOfHold returns the place of a reservation in the order, times two: that of its first owner.
// Before the owner's cluster has reported, it lies half a place before the first Need that ranks no
// higher than the record.
func (t *Tables) placeOfHold(res *model.Reservation, members []int32) int32 {
	if len(members) > 0 {
		return 2 * t.RankOf[members[0]]
	}
	return 2*int32(t.firstNotAbove(res)) - 1
}

// listLower lists the Idle machines that are held: the lowest owner first, then in keep order.
func (x *Store) listLower() Lower {
	t, s, held := &x.t, x.t.Snapshot, x.keeps
	out := Lower{Rows: bitmap.DenseIn(t.Arena, s.Supply.RowMax()), late: alloc.MakeDirty[lateness](t.Arena, len(held))}
	for _, h := range held {
		out.Rows.Set(uint32(h.row))
	}
	out.held = bitmap.NumberedIn(t.Arena, &out.Rows)
	slices.SortFunc(held, func(a, b keepRank) int {
		return cmp.Or(cmp.Compare(b.owner, a.owner), cmp.Compare(s.KeepKey(a.row), s.KeepKey(b.row)))
	})
	owner := uint32(0)
	for i, h := range held {
		if i > 0 && h.owner != held[i-1].owner {
			owner++
		}
		out.late[out.held.Number(uint32(h.row))] = lateness{uint32(i), owner}
	}
	slices.SortStableFunc(held, func(a, b keepRank) int {
		return cmp.Or(cmp.Compare(free.StageOf(s, a.row), free.StageOf(s, b.row)), cmp.Compare(s.View.Class[a.row], s.View.Class[b.row]))
	})
	rows := alloc.MakeDirty[columnar.Row](t.Arena, len(held))
	x.lower[0], x.lower[1] = x.lower[0][:0], x.lower[1][:0]
	for i, h := range held {
		class, list := s.View.Class[h.row], &x.lower[free.StageOf(s, h.row)]
		if rows[i] = h.row; len(*list) == 0 || class != (*list)[len(*list)-1].Class {
			*list = append(*list, LowerClass{Class: class, Rows: rows[i:i]})
		}
		last := &(*list)[len(*list)-1]
		last.Rows = last.Rows[:len(last.Rows)+1]
	}
	out.Classes = x.lower
	return out
}
