package supply

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// index keeps the bitmaps of rows per (state), per (state, matcher) and per
// (state, matcher, domain value).
type index struct {
	sets *bitmap.Index
}

func newIndex() index { return index{sets: bitmap.NewIndex()} }

func (x *index) dropMatcher(m uint32) { x.sets.DropProfile(m) }

// indexRow enters a row into all its sets, or takes it out of them, under the
// state and class that the row has now.
func (t *Table) indexRow(r columnar.Row, in bool) {
	s := uint8(t.cols.state[r])
	put := t.index.sets.Remove
	if in {
		put = t.index.sets.Add
	}
	put(bitmap.Bucket{State: s}, uint32(r))
	for _, id := range t.classes.list[t.cols.class[r]].matchers {
		m := &t.matchers.list[id]
		d, ok := t.domain(m, r)
		if !ok {
			continue
		}
		put(bitmap.Bucket{State: s, Profile: id}, uint32(r))
		if d != 0 {
			put(bitmap.Bucket{State: s, Profile: id, Domain: d}, uint32(r))
		}
	}
}

// indexMatchers builds the sets of new matchers in one walk over the rows.
func (t *Table) indexMatchers(fresh []uint32) {
	isFresh := make([]bool, len(t.matchers.list))
	for _, id := range fresh {
		isFresh[id] = true
	}
	// Which of the new matchers a class belongs to, once per class.
	of := make([][]uint32, len(t.classes.list))
	for i := range t.classes.list {
		for _, id := range t.classes.list[i].matchers {
			if isFresh[id] {
				of[i] = append(of[i], id)
			}
		}
	}
	rows := map[bitmap.Bucket][]uint32{}
	for r := 1; r < len(t.cols.state); r++ {
		if t.cols.state[r] == model.StateUnspecified {
			continue
		}
		for _, id := range of[t.cols.class[r]] {
			d, ok := t.domain(&t.matchers.list[id], columnar.Row(r))
			if !ok {
				continue
			}
			b := bitmap.Bucket{State: uint8(t.cols.state[r]), Profile: id}
			rows[b] = append(rows[b], uint32(r))
			if d != 0 {
				b.Domain = d
				rows[b] = append(rows[b], uint32(r))
			}
		}
	}
	for b, list := range rows {
		t.index.sets.AddMany(b, list)
	}
}

// Matching returns the set of rows in a state that a matcher accepts. It is a
// view: read it before the next change, do not modify. nil = none.
func (t *Table) Matching(s model.State, matcher uint32) *roaring.Bitmap {
	return t.index.sets.Bitmap(bitmap.Bucket{State: uint8(s), Profile: matcher})
}

// MatchingIn is Matching within one domain of the matcher's Same key.
func (t *Table) MatchingIn(s model.State, matcher, domain uint32) *roaring.Bitmap {
	return t.index.sets.Bitmap(bitmap.Bucket{State: uint8(s), Profile: matcher, Domain: domain})
}

// CountMatching returns how many machines in a state a matcher accepts. O(1).
func (t *Table) CountMatching(s model.State, matcher uint32) int {
	return t.index.sets.Cardinality(bitmap.Bucket{State: uint8(s), Profile: matcher})
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
