package supply

import (
	"iter"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// index keeps the bitmaps of rows per (state) and per (state, matcher).
type index struct {
	sets *bitmap.Index
}

func newIndex() index { return index{sets: bitmap.NewIndex()} }

func (x *index) dropMatcher(m uint32) { x.sets.DropProfile(m) }

// indexRow enters a row into all its sets, or takes it out of them, under the
// state and class that the row has now.
func (t *Table) indexRow(r columnar.Row, in bool) {
	s := uint8(t.indexedState(r))
	put := t.index.sets.Remove
	if in {
		put = t.index.sets.Add
	}
	put(bitmap.Bucket{State: s}, uint32(r))
	for _, id := range t.classes.list[t.cols.class[r]].matchers {
		m := &t.matchers.list[id]
		if _, ok := t.domain(m, r); ok {
			put(bitmap.Bucket{State: s, Profile: id}, uint32(r))
		}
	}
}

// indexedState returns the state under which a row is in the sets: a late-bound Idle machine is among
// the Speculative.
func (t *Table) indexedState(r columnar.Row) model.State {
	if t.IsLateBound(r) {
		return model.Speculative
	}
	return t.cols.state[r]
}

// indexMatchers builds the sets of new matchers: matcher by matcher, from the
// rows of the classes that it accepts. O(machines + members of all sets).
func (t *Table) indexMatchers(fresh []uint32) {
	b := t.newIndexBuilder()
	accepted := make(map[uint32][]uint32, len(fresh))
	for _, id := range fresh {
		accepted[id] = nil
	}
	for class := range t.classes.list {
		for _, id := range t.classes.list[class].matchers {
			if list, ok := accepted[id]; ok {
				accepted[id] = append(list, uint32(class))
			}
		}
	}
	for _, id := range fresh {
		b.build(id, accepted[id])
	}
}

// indexBuilder holds what building the sets of many matchers shares.
type indexBuilder struct {
	t       *Table
	from    []uint32       // by class: where its rows begin in byClass
	byClass []columnar.Row // the rows in use by class, ascending in each
	members [model.NumStates]bitmap.Dense
	rows    []uint32 // scratch: one set's members
}

func (t *Table) newIndexBuilder() *indexBuilder {
	b := &indexBuilder{t: t, from: make([]uint32, len(t.classes.list)+1), byClass: make([]columnar.Row, t.ids.len())}
	for c := range t.classes.list {
		b.from[c+1] = b.from[c] + uint32(t.classes.list[c].count)
	}
	at := slices.Clone(b.from)
	for r, s := range t.cols.state {
		if s != model.StateUnspecified {
			c := t.cols.class[r]
			b.byClass[at[c]] = columnar.Row(r)
			at[c]++
		}
	}
	return b
}

// build makes the sets of a matcher that accepts the classes.
func (b *indexBuilder) build(id uint32, classes []uint32) {
	t := b.t
	m := &t.matchers.list[id]
	for s := range b.members {
		b.members[s].Grow(len(t.cols.state))
	}
	var inState [model.NumStates]bool
	for _, c := range classes {
		for _, r := range b.byClass[b.from[c]:b.from[c+1]] {
			if _, ok := t.domain(m, r); ok {
				s := t.indexedState(r)
				b.members[s].Set(uint32(r))
				inState[s] = true
			}
		}
	}
	for s, any := range inState {
		if any {
			b.enter(bitmap.Bucket{State: uint8(s), Profile: id}, &b.members[s])
			b.members[s].Reset()
		}
	}
}

// enter makes the set of a state.
func (b *indexBuilder) enter(bucket bitmap.Bucket, members *bitmap.Dense) {
	b.rows = b.rows[:0]
	for r := range members.All() {
		b.rows = append(b.rows, r)
	}
	b.t.index.sets.AddMany(bucket, b.rows)
}

// Matching returns the set of rows in a state that a matcher accepts; late-bound Idle machines are
// among the Speculative. It is a view: read it before the next change, do not modify. nil = none.
func (t *Table) Matching(s model.State, matcher uint32) *roaring.Bitmap {
	return t.index.sets.Bitmap(bitmap.Bucket{State: uint8(s), Profile: matcher})
}

// CountMatching returns how many machines in a state a matcher accepts. O(1).
func (t *Table) CountMatching(s model.State, matcher uint32) int {
	return t.index.sets.Cardinality(bitmap.Bucket{State: uint8(s), Profile: matcher})
}

// ClassesMatching yields the class of each machine in a state that a matcher accepts.
func (t *Table) ClassesMatching(s model.State, matcher uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		rows := t.Matching(s, matcher)
		if rows == nil {
			return
		}
		for it := rows.Iterator(); it.HasNext(); {
			if !yield(t.cols.class[it.Next()]) {
				return
			}
		}
	}
}

// InState returns the set of rows in a state, under the rules of Matching.
func (t *Table) InState(s model.State) *roaring.Bitmap {
	return t.index.sets.Bitmap(bitmap.Bucket{State: uint8(s)})
}

// Sequence returns a number that changes with every change of the set of rows
// in a state that a matcher accepts.
func (t *Table) Sequence(s model.State, matcher uint32) uint64 {
	return t.index.sets.Sequence(bitmap.Bucket{State: uint8(s), Profile: matcher})
}
