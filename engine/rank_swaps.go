package engine

import (
	"cmp"
	"slices"
)

// Needs of one stamp take each other's places in rank order so that the one with the largest minimum
// unit goes first: otherwise a small Need could take the large one's machines. Needs of one stamp are
// of one cluster and one worth. Their rank slots stay sorted by arrival, and the Needs are permuted
// over them: a swap is a Need on another one's rank slot. Nothing is done for stamps whose rows agree
// in their minimum unit; demand.Block.Uneven lists the rows of the others, and folds are looked at
// here.

// swap is a Need that sits on the rank slot of another Need with the same stamp.
type swap struct{ rankSlot, need int32 }

// sitter is a Need of a stamp that several may have, before slots are assigned.
type sitter struct {
	stamp    uint64 // a number that identifies the stamp within the cluster
	arrival  int64
	rankSlot int32 // the Need's own
	need     int32
	unit     uint32 // number of the minimum unit's vector
}

// foldsStamp marks the stamp numbers of folds that no plain row shares.
const foldsStamp = 1 << 63

// swapScratch is the scratch memory of findSwaps.
type swapScratch struct {
	sitters []sitter
	units   []sitter // the sitters of one stamp, the largest unit first
	swaps   []swap
	byName  []int // the dimensions, sorted by name
}

// findSwaps returns the swaps of the cluster at work, by rank slot. The result is valid until the next
// call.
func (f *folder) findSwaps(x *clusterState) []swap {
	w, b := &f.swapping, f.block
	w.sitters, w.swaps = w.sitters[:0], w.swaps[:0]
	arrivals, units := b.Arrivals(), b.UnitIDs()
	plain := func(row int) {
		n := f.base + int32(row)
		w.sitters = append(w.sitters, sitter{uint64(b.Profile(row))<<32 | uint64(b.GroupID(row)), arrivals[row], n, n, units[row]})
	}
	uneven := b.Uneven()
	if x.hasSame {
		uneven = f.withFolds(uneven, plain)
	}
	for _, row := range uneven {
		if f.p.lines[f.base+int32(row)].status&(isFold|isMember) == 0 {
			plain(int(row))
		}
	}
	slices.SortFunc(w.sitters, func(a, b sitter) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.rankSlot, b.rankSlot))
	})
	for from := 0; from < len(w.sitters); {
		to := from + 1
		for to < len(w.sitters) && w.sitters[to].stamp == w.sitters[from].stamp {
			to++
		}
		f.sitDown(w.sitters[from:to])
		from = to
	}
	slices.SortFunc(w.swaps, func(a, b swap) int { return cmp.Compare(a.rankSlot, b.rankSlot) })
	return w.swaps
}

// withFolds lists the folds of the cluster at work, and the plain rows that share a stamp with a fold.
// It returns the uneven rows that it has not listed.
func (f *folder) withFolds(uneven []uint32, plain func(row int)) []uint32 {
	p, w := f.p, &f.swapping
	list, alike := p.e.store.clusters[f.c].folds.list, f.alike[:0]
	for i := range list {
		d := &list[i]
		if d.rows == 0 {
			continue
		}
		row := int(d.row - f.base)
		of := f.profiles.of(p, f.block.Profile(row))
		stamp := foldsStamp | uint64(of.number)
		if of.plain != 0 {
			stamp = uint64(of.plain-1) << 32
			alike = append(alike, of.plain-1)
		}
		w.sitters = append(w.sitters, sitter{stamp, d.arrival, d.first, d.row, f.block.AggregateIDs()[row]})
	}
	if f.alike = alike; len(alike) == 0 {
		return uneven
	}
	isAlike := func(row int) bool { return f.block.GroupID(row) == 0 && slices.Contains(alike, f.block.Profile(row)) }
	for row := range f.block.Len() {
		if isAlike(row) {
			plain(row)
		}
	}
	return slices.DeleteFunc(slices.Clone(uneven), func(row uint32) bool { return isAlike(int(row)) })
}

// sitDown assigns the rank slots of one stamp, given in rank order, and notes the swaps.
func (f *folder) sitDown(of []sitter) {
	w := &f.swapping
	if !slices.ContainsFunc(of, func(x sitter) bool { return x.unit != of[0].unit }) {
		return
	}
	w.units = append(w.units[:0], of...)
	slices.SortStableFunc(w.units, func(a, b sitter) int { return f.compareUnits(b.unit, a.unit) })
	for i := range of {
		if w.units[i].need != of[i].need {
			w.swaps = append(w.swaps, swap{of[i].rankSlot, w.units[i].need})
		}
	}
}

// compareUnits compares two vectors lexicographically, with the dimensions in the order of their names.
func (f *folder) compareUnits(a, b uint32) int {
	d := f.p.s.Demand
	names := d.Dims()
	if len(f.swapping.byName) != len(names) {
		f.swapping.byName = f.swapping.byName[:0]
		for i := range names {
			f.swapping.byName = append(f.swapping.byName, i)
		}
		slices.SortFunc(f.swapping.byName, func(i, j int) int { return cmp.Compare(names[i], names[j]) })
	}
	x, y := d.Vector(a), d.Vector(b)
	at := func(v []int64, dim int) int64 {
		if dim < len(v) {
			return v[dim]
		}
		return 0
	}
	for _, dim := range f.swapping.byName {
		if c := cmp.Compare(at(x, dim), at(y, dim)); c != 0 {
			return c
		}
	}
	return 0
}

// moveRankSlot updates a cluster's swaps, and touches the rows whose rank slots they concern.
func (f *folder) moveRankSlot(x *clusterState) {
	touch := func(swaps []swap) {
		for _, s := range swaps {
			if row := s.rankSlot - f.base; int(row) < f.block.Len() {
				f.touched = append(f.touched, row)
			}
		}
	}
	touch(x.swaps)
	x.swaps = append(x.swaps[:0], f.findSwaps(x)...)
	touch(x.swaps)
	x.rankSlots = append(x.rankSlots[:0], x.swaps...)
	slices.SortFunc(x.rankSlots, func(a, b swap) int { return cmp.Compare(a.need, b.need) })
}

// rankSlotOf returns the number of the rank slot on which a Need sits. O(log swaps).
func (p *pass) rankSlotOf(need int32) int32 {
	if p.anySwaps {
		rankSlots := p.e.store.clusters[p.lines[need].cluster].rankSlots
		if at, ok := slices.BinarySearchFunc(rankSlots, need, func(s swap, need int32) int { return cmp.Compare(s.need, need) }); ok {
			return rankSlots[at].rankSlot
		}
	}
	return p.first(need)
}
