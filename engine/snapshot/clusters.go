package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
)

// clusters finds the clusters: those with demand, and those that a machine
// names.
func (b *Builder) clusters() {
	s, t := &b.snap, &b.tally
	s.Clusters = append(s.Clusters, s.Demand.Clusters()...)
	known := len(s.Clusters)
	for id, n := range t.named {
		if n == 0 || id == 0 {
			continue
		}
		name := s.Supply.Name(uint32(id))
		if _, ok := slices.BinarySearch(s.Clusters[:known], name); !ok {
			s.Clusters = append(s.Clusters, name)
		}
	}
	if len(s.Clusters) > known {
		slices.Sort(s.Clusters)
	}
	b.inDemand = alloc.Make[bool](b.arena, len(s.Clusters))
	at := 0
	for _, c := range s.Demand.Clusters() {
		for s.Clusters[at] != c {
			at++
		}
		b.inDemand[at] = true
	}
	s.ClusterOf = alloc.MakeDirty[int32](b.arena, room(len(t.named)))
	b.numberClusters()
	b.machines = alloc.Make[uint32](b.arena, len(s.Clusters))
	for id, c := range s.ClusterOf {
		if c >= 0 {
			b.machines[c] = t.named[id]
		}
	}
	for i := range b.others {
		x := &b.others[i]
		x.cluster = s.ClusterOf[s.View.Cluster[x.row]]
		if x.unusable {
			b.unusable[x.class]++
		}
	}
}

// numberClusters finds the clusters of name numbers.
func (b *Builder) numberClusters() {
	s := &b.snap
	s.ClusterOf = s.ClusterOf[:s.Supply.NameIDMax()]
	for i := range s.ClusterOf {
		s.ClusterOf[i] = -1
	}
	for i, c := range s.Clusters {
		if id, ok := s.Supply.NameID(c); ok {
			s.ClusterOf[id] = int32(i)
		}
	}
}

// The lists of clusters begin with room for more: a machine in spareShare, and
// spareMin, for each cluster.
const (
	spareShare = 16
	spareMin   = 16
)

// layClusters makes the lists of clusters, empty.
func (b *Builder) layClusters() {
	s, t := &b.snap, &b.tally
	n := len(s.Clusters)
	need := alloc.Make[uint32](b.arena, n)
	for id, c := range s.ClusterOf {
		if c >= 0 {
			need[c] = t.bound[id]
		}
	}
	if s.Supply.Count(model.Creating) > 0 {
		for r, res := range s.Supply.Reservations() {
			if s.View.State[r] == model.Creating {
				if c, ok := slices.BinarySearch(s.Clusters, res.Owner.Cluster); ok {
					need[c]++
				}
			}
		}
	}
	total := 0
	for _, x := range need {
		total += int(x) + int(x)/spareShare + spareMin
	}
	s.bound = boundLists{
		off: alloc.Make[uint32](b.arena, n+1), end: alloc.MakeDirty[uint32](b.arena, n), all: alloc.MakeDirty[Bound](b.arena, total),
	}
	s.configured, s.creatingFrom = alloc.Make[uint32](b.arena, n), alloc.Make[uint32](b.arena, n)
	b.lists.need, b.lists.out = need, alloc.Make[uint32](b.arena, n)
	s.bound.off[n] = uint32(total)
	b.spread(0, n, s.bound.off)
	copy(s.bound.end, s.bound.off)
}

// spread says where the lists of some clusters begin that have what they need and
// shares of what is left.
func (b *Builder) spread(from, to int, begin []uint32) {
	need, off := b.lists.need[from:to], b.snap.bound.off
	spare, shares := int(off[to]-off[from]), 0
	for _, x := range need {
		spare, shares = spare-int(x), shares+int(x)+spareShare*spareMin
	}
	at := int(off[from])
	for i, x := range need {
		begin[i] = uint32(at)
		at += int(x) + spare*(int(x)+spareShare*spareMin)/shares
	}
}

// makeRoom sees to it that the lists of all clusters have room for what comes
// in; false when there is not enough for all of them together.
func (b *Builder) makeRoom() bool {
	l, x := &b.lists, &b.snap.bound
	for c, end := range x.end {
		if end-l.out[c]+uint32(len(b.arrivals(c))) > x.off[c+1] && !b.makeRoomAround(c) {
			return false
		}
	}
	return true
}

// makeRoomAround spreads the list of a cluster and those beside it anew: as many
// as it takes to have some room left.
func (b *Builder) makeRoomAround(c int) bool {
	l, x := &b.lists, &b.snap.bound
	n := len(x.end)
	for beside := 1; ; beside *= 2 {
		from, to := max(c-beside, 0), min(c+beside+1, n)
		total := int(x.off[to] - x.off[from])
		sum := 0
		for i := from; i < to; i++ {
			l.need[i] = x.end[i] - x.off[i] + uint32(len(b.arrivals(i)))
			sum += int(l.need[i])
		}
		if total-sum >= max(total/(8*spareShare), 1) {
			b.repack(from, to)
			return true
		}
		if to-from == n {
			return false
		}
	}
}

// repack spreads lists anew: all to the left, then apart from the right.
func (b *Builder) repack(from, to int) {
	s, l := &b.snap, &b.lists
	off, end, all := s.bound.off, s.bound.end, s.bound.all
	l.begin = resize(l.begin, to-from)
	b.spread(from, to, l.begin)
	move := func(c int, to uint32) {
		n := end[c] - off[c]
		copy(all[to:], all[off[c]:end[c]])
		off[c], end[c] = to, to+n
	}
	at := off[from]
	for c := from; c < to; c++ {
		move(c, at)
		at = end[c]
	}
	for c := to - 1; c >= from; c-- {
		move(c, l.begin[c-from])
	}
}
