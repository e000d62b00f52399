package units

import (
	"slices"

	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
)

// wholeShape is what the need at work can use of a whole gang (local), and all that the gang
// has (global). A fleet holds hundreds of equal gangs: those of one shape have the same ROI
// whatever is missing, so it is computed once per shape.
type wholeShape struct{ Local, Global []int64 }

// WholeGroup is the whole gangs of one band and shape. Their ROI is the same, so the first of
// them by key goes first.
type WholeGroup struct {
	Band    float64
	Shape   int32
	List    []int32 // indices in selection.wholes, by key
	at      int     // gangs before are apart; see Unit.Apart
	Outside int     // gangs before overlap the plan; see substitute
}

// WholeIndex finds the whole gang with the smallest key: it computes one ROI per group, not one
// per gang.
type WholeIndex struct {
	Shapes  []wholeShape
	byHash  map[uint64]int32
	Groups  []WholeGroup // by band, ascending
	groupOf []int32      // by shape: 1 + index of its last group
	At      int          // index of the first group of the band at work
	Odd     []int32      // indices of the gangs of which a part is taken
	// Scratch: sums of the gang at work.
	Local, Global []int64
}

// Reset empties the index for vectors of so many dimensions.
func (x *WholeIndex) Reset(dims int) {
	if x.byHash == nil {
		x.byHash = map[uint64]int32{}
	}
	clear(x.byHash)
	x.Shapes, x.Groups, x.Odd, x.At = x.Shapes[:0], x.Groups[:0], x.Odd[:0], 0
	x.Local, x.Global = reuse.Resize(x.Local, dims), reuse.Resize(x.Global, dims)
}

// ShapeOf looks up or adds a whole gang's shape, and shares the shape's vectors. Equal hashes
// are resolved by linear probing over the vectors.
func (x *WholeIndex) ShapeOf(u *Unit, vecs *reuse.VectorBlock) {
	h := plan.Hash(plan.HashStart)
	for d := range u.Local {
		h.Add(uint64(u.Local[d]), uint64(u.Global[d]))
	}
	for ; ; h++ {
		at, ok := x.byHash[uint64(h)]
		if !ok {
			at = int32(len(x.Shapes))
			x.byHash[uint64(h)] = at
			shape := wholeShape{vecs.Take(len(u.Local)), vecs.Take(len(u.Local))}
			copy(shape.Local, u.Local)
			copy(shape.Global, u.Global)
			x.Shapes = append(x.Shapes, shape)
		}
		if shape := &x.Shapes[at]; slices.Equal(shape.Local, u.Local) && slices.Equal(shape.Global, u.Global) {
			u.Shape, u.Local, u.Global = at, shape.Local, shape.Global
			return
		}
	}
}

// Group assigns whole gangs, which are sorted, to groups, and restarts reading these.
func (x *WholeIndex) Group(wholes []Unit) {
	x.groupOf = reuse.Resize(x.groupOf, len(x.Shapes))
	x.Groups, x.Odd, x.At = x.Groups[:0], x.Odd[:0], 0
	for i := range wholes {
		u := &wholes[i]
		if u.Apart && u.Local != nil {
			x.Odd = append(x.Odd, int32(i))
		}
		at := x.groupOf[u.Shape] - 1
		if at < 0 || x.Groups[at].Band != u.Key.Band {
			at = int32(len(x.Groups))
			x.groupOf[u.Shape] = at + 1
			x.Groups = slices.Grow(x.Groups, 1)[:at+1]
			g := &x.Groups[at]
			*g = WholeGroup{Band: u.Key.Band, Shape: u.Shape, List: g.List[:0]}
		}
		x.Groups[at].List = append(x.Groups[at].List, int32(i))
	}
}

// Least returns the least band of all groups; false if there is none.
func (x *WholeIndex) Least() (band float64, ok bool) {
	if len(x.Groups) == 0 {
		return 0, false
	}
	return x.Groups[0].Band, true
}

// Band returns the band at work; false if no group is left.
func (x *WholeIndex) Band() (band float64, ok bool) {
	if x.At == len(x.Groups) {
		return 0, false
	}
	return x.Groups[x.At].Band, true
}

// Head returns the index of a group's first gang that is not apart, −1 = none.
func (g *WholeGroup) Head(wholes []Unit) int {
	for ; g.at < len(g.List); g.at++ {
		if !wholes[g.List[g.at]].Apart {
			return int(g.List[g.at])
		}
	}
	return -1
}
