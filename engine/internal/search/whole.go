package search

import (
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/exact"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// nextWhole returns the index of the whole gang with the smallest key that has something of
// what is missing, −1 = none.
func (s *selection) nextWhole() int {
	x := &s.listing.gangs
	for x.At < len(x.Groups) {
		band, best, to := x.Groups[x.At].Band, -1, x.At
		measure := func(at int) {
			u := &s.listing.wholes[at]
			if cycle.PositiveDims(u.Local)&s.lacks == 0 {
				return
			}
			u.Key.Roi = -exact.ROISteps(u.Local, u.Global, s.left)
			s.worker.Figures.Probes++
			if best < 0 || u.Key.Roi < s.listing.wholes[best].Key.Roi || u.Key.Roi == s.listing.wholes[best].Key.Roi && at < best {
				best = at
			}
		}
		for ; to < len(x.Groups) && x.Groups[to].Band == band; to++ {
			if at := x.Groups[to].Head(s.listing.wholes); at >= 0 {
				measure(at)
			}
		}
		for _, at := range x.Odd {
			if s.listing.wholes[at].Key.Band == band {
				measure(int(at))
			}
		}
		if best >= 0 {
			return best
		}
		x.At = to
	}
	return -1
}

// wholesBefore appends the whole gangs that may replace u: they share no machine with the plan,
// have something of what only u covers, and have a key below limit. Up to most of each group.
func (s *selection) wholesBefore(list []units.Unit, limit *units.Key, u *units.Unit, only []int64, most int) []units.Unit {
	mask := cycle.PositiveDims(only)
	for i := range s.listing.gangs.Groups {
		g := &s.listing.gangs.Groups[i]
		if g.Band > limit.Band {
			break
		}
		if cycle.PositiveDims(s.listing.gangs.Shapes[g.Shape].Local)&mask != 0 {
			list = s.ofGroupBefore(list, g, limit, u, s.roiOfAll(g.Shape, only), most)
		}
	}
	return list
}

func (s *selection) ofGroupBefore(list []units.Unit, g *units.WholeGroup, limit *units.Key, u *units.Unit, roi int64, most int) []units.Unit {
	for g.Outside < len(g.List) && s.overlaps(&s.listing.wholes[g.List[g.Outside]]) {
		g.Outside++
	}
	added := 0
	for _, at := range g.List[g.Outside:] {
		v := s.listing.wholes[at]
		if v.Key.Roi = roi; v.Key.Compare(limit) >= 0 || added == most {
			break
		}
		if v.Gang == u.Gang && u.Key.Class == units.ClassWhole || s.overlaps(&v) {
			continue
		}
		list = append(list, v)
		added++
	}
	return list
}

// roiOfAll returns the key's ROI of a shape, measured on what is missing.
func (s *selection) roiOfAll(shape int32, missing []int64) int64 {
	x := &s.listing.gangs.Shapes[shape]
	return -exact.ROISteps(x.Local, x.Global, missing)
}

// overlaps reports whether a whole gang shares a machine with the plan.
func (s *selection) overlaps(u *units.Unit) bool {
	for _, r := range s.worker.p.st.Gangs.List[u.Gang].Members {
		if s.picks.inPlan.Has(uint32(r)) && !s.worker.p.Preempted.VictimOf.Has(uint32(r)) {
			return true
		}
	}
	return false
}

// forgetOutside resets the read positions after a unit has left the plan.
func (s *selection) forgetOutside() {
	s.reader.outside.Rewind(len(s.scope.VictimGroups))
	for i := range s.listing.gangs.Groups {
		s.listing.gangs.Groups[i].Outside = 0
	}
}
