package engine

import (
	"slices"
)

// wholeShape is what the need at work can use of a whole gang (local), and all that the gang
// has (global). A fleet holds hundreds of equal gangs: those of one shape have the same ROI
// whatever is missing, so it is computed once per shape.
type wholeShape struct{ local, global []int64 }

// wholeGroup is the whole gangs of one band and shape. Their ROI is the same, so the first of
// them by key goes first.
type wholeGroup struct {
	band    float64
	shape   int32
	list    []int32 // indices in selection.wholes, by key
	at      int     // gangs before are apart; see unit.apart
	outside int     // gangs before overlap the plan; see substitute
}

// wholeIndex finds the whole gang with the smallest key: it computes one ROI per group, not one
// per gang.
type wholeIndex struct {
	shapes  []wholeShape
	byHash  map[uint64]int32
	groups  []wholeGroup // by band, ascending
	groupOf []int32      // by shape: 1 + index of its last group
	at      int          // index of the first group of the band at work
	odd     []int32      // indices of the gangs of which a part is taken
	// Scratch: sums of the gang at work.
	local, global []int64
}

func (x *wholeIndex) reset(dims int) {
	if x.byHash == nil {
		x.byHash = map[uint64]int32{}
	}
	clear(x.byHash)
	x.shapes, x.groups, x.odd, x.at = x.shapes[:0], x.groups[:0], x.odd[:0], 0
	x.local, x.global = resize(x.local, dims), resize(x.global, dims)
}

// shapeOf looks up or adds a whole gang's shape, and shares the shape's vectors. Equal hashes
// are resolved by linear probing over the vectors.
func (x *wholeIndex) shapeOf(u *unit, vecs *vectorBlock) {
	h := digest(14695981039346656037)
	for d := range u.local {
		h.add(uint64(u.local[d]), uint64(u.global[d]))
	}
	for ; ; h++ {
		at, ok := x.byHash[uint64(h)]
		if !ok {
			at = int32(len(x.shapes))
			x.byHash[uint64(h)] = at
			shape := wholeShape{vecs.take(len(u.local)), vecs.take(len(u.local))}
			copy(shape.local, u.local)
			copy(shape.global, u.global)
			x.shapes = append(x.shapes, shape)
		}
		if shape := &x.shapes[at]; slices.Equal(shape.local, u.local) && slices.Equal(shape.global, u.global) {
			u.shape, u.local, u.global = at, shape.local, shape.global
			return
		}
	}
}

// group assigns whole gangs, which are sorted, to groups.
func (x *wholeIndex) group(wholes []unit) {
	x.groupOf = resize(x.groupOf, len(x.shapes))
	for i := range wholes {
		u := &wholes[i]
		at := x.groupOf[u.shape] - 1
		if at < 0 || x.groups[at].band != u.key.band {
			at = int32(len(x.groups))
			x.groupOf[u.shape] = at + 1
			x.groups = slices.Grow(x.groups, 1)[:at+1]
			g := &x.groups[at]
			*g = wholeGroup{band: u.key.band, shape: u.shape, list: g.list[:0]}
		}
		x.groups[at].list = append(x.groups[at].list, int32(i))
	}
}

// least returns the least band of all groups; false if there is none.
func (x *wholeIndex) least() (band float64, ok bool) {
	if len(x.groups) == 0 {
		return 0, false
	}
	return x.groups[0].band, true
}

// band returns the band at work; false if no group is left.
func (x *wholeIndex) band() (band float64, ok bool) {
	if x.at == len(x.groups) {
		return 0, false
	}
	return x.groups[x.at].band, true
}

// head returns the index of a group's first gang that is not apart, −1 = none.
func (g *wholeGroup) head(wholes []unit) int {
	for ; g.at < len(g.list); g.at++ {
		if !wholes[g.list[g.at]].apart {
			return int(g.list[g.at])
		}
	}
	return -1
}

// nextWhole returns the index of the whole gang with the smallest key that has something of
// what is missing, −1 = none.
func (s *selection) nextWhole() int {
	x := &s.gangs
	for x.at < len(x.groups) {
		band, best, to := x.groups[x.at].band, -1, x.at
		measure := func(at int) {
			u := &s.wholes[at]
			if positive(u.local)&s.lacks == 0 {
				return
			}
			u.key.roi = -roiSteps(u.local, u.global, s.left)
			s.probes++
			if best < 0 || u.key.roi < s.wholes[best].key.roi || u.key.roi == s.wholes[best].key.roi && at < best {
				best = at
			}
		}
		for ; to < len(x.groups) && x.groups[to].band == band; to++ {
			if at := x.groups[to].head(s.wholes); at >= 0 {
				measure(at)
			}
		}
		for _, at := range x.odd {
			if s.wholes[at].key.band == band {
				measure(int(at))
			}
		}
		if best >= 0 {
			return best
		}
		x.at = to
	}
	return -1
}

// wholesBefore appends the whole gangs that may replace u: they share no machine with the plan,
// have something of what only u covers, and have a key below limit. Up to most of each group.
func (s *selection) wholesBefore(list []unit, limit *unitKey, u *unit, only []int64, most int) []unit {
	mask := positive(only)
	for i := range s.gangs.groups {
		g := &s.gangs.groups[i]
		if g.band > limit.band {
			break
		}
		if positive(s.gangs.shapes[g.shape].local)&mask != 0 {
			list = s.ofGroupBefore(list, g, limit, u, s.roiOfAll(g.shape, only), most)
		}
	}
	return list
}

func (s *selection) ofGroupBefore(list []unit, g *wholeGroup, limit *unitKey, u *unit, roi int64, most int) []unit {
	for g.outside < len(g.list) && s.overlaps(&s.wholes[g.list[g.outside]]) {
		g.outside++
	}
	added := 0
	for _, at := range g.list[g.outside:] {
		v := s.wholes[at]
		if v.key.roi = roi; v.key.compare(limit) >= 0 || added == most {
			break
		}
		if v.gang == u.gang && u.key.class == classWhole || s.overlaps(&v) {
			continue
		}
		list = append(list, v)
		added++
	}
	return list
}

// roiOfAll returns the key's ROI of a shape, measured on what is missing.
func (s *selection) roiOfAll(shape int32, missing []int64) int64 {
	x := &s.gangs.shapes[shape]
	return -roiSteps(x.local, x.global, missing)
}

// overlaps reports whether a whole gang shares a machine with the plan.
func (s *selection) overlaps(u *unit) bool {
	for _, r := range s.e.store.gangs.list[u.gang].members {
		if s.inPlan.Has(uint32(r)) && !s.victimOf.Has(uint32(r)) {
			return true
		}
	}
	return false
}

// forgetOutside resets the read positions after a unit has left the plan.
func (s *selection) forgetOutside() {
	s.outside.rewind(len(s.scope.victimGroups))
	for i := range s.gangs.groups {
		s.gangs.groups[i].outside = 0
	}
}
