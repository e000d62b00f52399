package snapshot

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// patcher changes lists of clusters, one after the other. Each worker has one.
type patcher struct {
	b *Builder
	// groups are those of the clusters that it had, of this Build and of the one
	// before, by turns.
	groups [2][]Group
	// Of the cluster that is grouped: 1 + the place of the first machine so far, by
	// class, the classes found, and the set of them. Heads and seen are zero between
	// clusters; found has room for one class more than there are.
	heads, found []uint32
	seen         []uint64
	// Of the cluster that is arranged.
	keys, spare []uint64
	bound       []Bound
	coming      []incoming
	touched     uint32
}

// incoming is an arrival as the list will have it.
type incoming struct {
	Bound
	key uint64 // orders the list
}

// clustersAhead is how many clusters' lists are read before they are changed.
const clustersAhead = 16

// sharedMin is how many machines must have changed for workers to share what is
// to be done: waking them up takes time, too. Tests change it.
var sharedMin = 512

// Share lets as many workers change the lists of clusters. each deals the numbers
// below n to them, chunk by chunk, and calls f for each chunk.
func (b *Builder) Share(workers int, each func(n, chunk int, f func(worker, from, to int))) {
	b.each, b.patchers = each, make([]patcher, workers)
}

// eachCluster brings the lists of clusters and their groups up to date, or
// arranges all of them anew.
func (b *Builder) eachCluster(anew bool) {
	s, l := &b.snap, &b.lists
	l.anew = anew
	l.now ^= 1
	s.groups = resize(s.groups, len(s.Clusters))
	for i := range b.patchers {
		b.patchers[i].begin(b)
	}
	if len(b.patchers) == 1 || !anew && len(s.Moves) < sharedMin {
		for c := 0; c < len(s.Clusters); c += clustersAhead {
			b.someClusters(0, c, min(c+clustersAhead, len(s.Clusters)))
		}
		return
	}
	b.each(len(s.Clusters), clustersAhead, b.share)
}

// begin makes room for classes, and begins with the groups.
func (x *patcher) begin(b *Builder) {
	x.b = b
	x.groups[b.lists.now] = x.groups[b.lists.now][:0]
	if n := len(b.snap.Classes); len(x.heads) < n {
		x.heads, x.found, x.seen = make([]uint32, room(n)), make([]uint32, room(n)+1), make([]uint64, room(n)/64+1)
	}
}

// someClusters is a worker's share of eachCluster.
func (b *Builder) someClusters(worker, from, to int) {
	s, x := &b.snap, &b.patchers[worker]
	groups := &x.groups[b.lists.now]
	if !b.lists.anew {
		x.readAhead(from, to)
	}
	for c := from; c < to; c++ {
		first := len(*groups)
		switch {
		case b.lists.anew:
			x.arrange(c)
			x.patch(c, groups)
		case s.Dirty[c]:
			x.patch(c, groups)
		default:
			*groups = append(*groups, s.groups[c]...)
		}
		s.groups[c] = (*groups)[first:]
	}
}

// patch brings a cluster's list up to date, and appends its groups.
func (x *patcher) patch(c int, groups *[]Group) {
	b := x.b
	if out := b.lists.out[c]; out > 0 {
		b.takeOut(c, out)
	}
	b.putIn(c, x.describe(c))
	*groups = x.group(c, *groups)
}

// readAhead reads those lists of some clusters that will be changed, as they lie in
// memory: many misses at once.
func (x *patcher) readAhead(from, to int) {
	s := &x.b.snap
	sum := uint32(0)
	for c := from; c < to; c++ {
		if !s.Dirty[c] {
			continue
		}
		list := s.BoundOf(c)
		for i := 0; i < len(list); i += 2 {
			sum += list[i].Class
		}
	}
	x.touched += sum
}

// takeOut takes what has changed, out machines, out of a cluster's list, and notes the classes that they had. What
// stands between two of them moves as one.
func (b *Builder) takeOut(c int, out uint32) {
	s := &b.snap
	list, changed := s.BoundOf(c), b.changed.Words()
	configured, bound := s.configured[c], s.creatingFrom[c]
	to, from := 0, 0 // what is to be moved, and where to
	for range out {
		end := from
		for changed[list[end].Row>>6]>>(list[end].Row&63)&1 == 0 {
			end++
		}
		s.Moves[b.moveOf.Number(uint32(list[end].Row))].Class = list[end].Class
		to += copy(list[to:], list[from:end])
		from = end + 1
		if uint32(end) < configured {
			s.configured[c]--
		}
		if uint32(end) < bound {
			s.creatingFrom[c]--
		}
	}
	copy(list[to:], list[from:])
	s.bound.end[c] -= out
}

// describe says of what comes into a cluster's list what the list says, in its order.
func (x *patcher) describe(c int) []incoming {
	s, v := &x.b.snap, &x.b.snap.View
	x.coming = x.coming[:0]
	for _, r := range x.b.arrivals(c) {
		key := s.KeepKey(r)
		switch v.State[r] {
		case model.Configuring:
			key |= 1 << stateBit
		case model.Creating:
			key |= 2 << stateBit
		}
		x.coming = append(x.coming, incoming{Bound{Fingerprint: v.Fingerprint(r), Row: r, Class: v.Class[r], Group: v.Group[r]}, key})
	}
	slices.SortFunc(x.coming, func(a, b incoming) int { return cmp.Compare(a.key, b.key) })
	return x.coming
}

// putIn puts what comes in into a cluster's list, which has room for it.
func (b *Builder) putIn(c int, in []incoming) {
	s := &b.snap
	end := len(s.BoundOf(c))
	s.bound.end[c] += uint32(len(in))
	list := s.BoundOf(c)
	for j := len(in) - 1; j >= 0; j-- {
		x := &in[j]
		to := b.findPlace(c, list, end, x)
		copy(list[to+j+1:], list[to:end])
		list[to+j] = x.Bound
		end = to
	}
	for i := range in {
		switch in[i].key >> stateBit {
		case 0:
			s.configured[c]++
			fallthrough
		case 1:
			s.creatingFrom[c]++
		}
	}
}

// findPlace returns where in the first so many of a cluster's list a machine goes:
// among those of its state, behind those that come before it in keep order.
func (b *Builder) findPlace(c int, list []Bound, end int, x *incoming) int {
	s := &b.snap
	low, high := 0, end
	switch configured, bound := int(s.configured[c]), int(s.creatingFrom[c]); x.key >> stateBit {
	case 0:
		high = min(high, configured)
	case 1:
		low, high = configured, min(high, bound)
	default:
		low = bound
	}
	price, keep := s.PriceRank[x.Class], uint32(x.key&(1<<keepBits-1))
	for low < high {
		middle := int(uint(low+high) / 2)
		if p := s.PriceRank[list[middle].Class]; p < price || p == price && s.Keep[list[middle].Row] < keep {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// group splits a cluster's bound machines by class, keeping their order, and
// appends the groups. It goes from the end on, so that each machine finds the
// head of its class's chain and nothing has to be decided.
func (x *patcher) group(c int, groups []Group) []Group {
	s := &x.b.snap
	list := s.BoundOf(c)
	for i := s.creatingFrom[c]; int(i) < len(list); i++ {
		list[i].Next = 0
	}
	list = list[:s.creatingFrom[c]]
	heads, found, n := x.heads, x.found, 0
	for i := len(list) - 1; i >= 0; i-- {
		m := &list[i]
		head := heads[m.Class]
		found[n] = m.Class
		n += int((head - 1) >> 31) // one more when it is 0
		m.Next = head
		heads[m.Class] = uint32(i) + 1
	}
	for _, class := range found[:n] {
		x.seen[class>>6] |= 1 << (class & 63)
	}
	for w, word := range x.seen {
		for ; word != 0; word &= word - 1 {
			class := uint32(w<<6 + bits.TrailingZeros64(word))
			groups = append(groups, Group{Class: class, First: heads[class] - 1})
			heads[class] = 0
		}
		x.seen[w] = 0
	}
	return groups
}
