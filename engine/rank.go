package engine

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// fillRankSlots recomputes the rank slots of the touched rows of the cluster at work.
func (f *folder) fillRankSlots() {
	p := f.p
	st := &p.e.store
	arrivals, swaps := f.block.Arrivals(), st.clusters[f.c].fold.swaps
	for _, row := range f.moves.touched {
		number := f.base + row
		n := &p.lines[number]
		x := order.Slot{Arrival: arrivals[row], Need: number, Kind: n.Kind}
		if n.Status&(state.IsMember|state.IsFold) != 0 {
			need := p.needOf(number)
			if d := p.foldOf(need); d.first == number {
				x = order.Slot{Arrival: d.arrival, Need: need, Kind: p.lines[need].Kind}
			} else {
				x = order.Slot{Need: order.None}
			}
		}
		if at, ok := slices.BinarySearchFunc(swaps, number, func(s swap, rankSlot int32) int { return cmp.Compare(s.rankSlot, rankSlot) }); ok {
			x.Need, x.Kind = swaps[at].need, p.lines[swaps[at].need].Kind
		}
		was := st.rankSlots[number]
		if was == x {
			continue
		}
		st.rankSlots[number] = x
		switch {
		case p.changed.fresh:
		case was.Need != x.Need || was.Arrival != x.Arrival || f.worth(was.Kind) != f.worth(x.Kind):
			f.move(was, number, x)
		case x.Need != order.None:
			st.kindAt[st.rankOf[x.Need]] = x.Kind
		}
	}
}

// clearRankSlots empties the rank slots of a cluster's lines.
func (f *folder) clearRankSlots() {
	src := &f.p.sources[f.c]
	rankSlots := f.p.e.store.rankSlots[src.Base:][:src.Room]
	for i := range rankSlots {
		rankSlots[i] = order.Slot{Need: order.None} // the other fields too: slots are compared as a whole
	}
}

// move notes that a rank slot has changed, so that its Need has another place in the order.
func (f *folder) move(was order.Slot, number int32, now order.Slot) {
	st := &f.p.e.store
	f.moves.moved, st.sorted[f.c] = true, 0
	if was.Need != order.None {
		f.moves.left = append(f.moves.left, st.rankOf[was.Need])
	}
	if now.Need != order.None {
		f.moves.arrived = append(f.moves.arrived, number)
		if x := &st.clusters[f.c]; x.replay {
			x.letGo = append(x.letGo, now.Need)
		}
	}
}

// vacate empties the rank slots of rows that the cluster no longer has.
func (f *folder) vacate() {
	src, st := &f.p.sources[f.c], &f.p.e.store
	for number := src.Base + int32(src.Rows); number < src.Base+int32(src.Had); number++ {
		if was := st.rankSlots[number]; was.Need != order.None {
			st.rankSlots[number] = order.Slot{Need: order.None}
			f.move(was, number, st.rankSlots[number])
		}
	}
}

// worth returns a kind's worth. It takes the lock, since other workers may append kinds.
func (f *folder) worth(kind uint32) uint64 { return f.p.e.store.kinds.WorthOf(kind) }

// rank sorts all Needs from nothing.
func (p *pass) rank() {
	st := &p.e.store
	worths := alloc.MakeDirty[uint64](p.e.arena, len(p.kinds))
	for i := range p.kinds {
		worths[i] = p.kinds[i].Worth
	}
	s := order.Sorter{
		Crew: p.e.crew, Arena: p.e.arena, Slots: st.rankSlots, Worths: worths, Own: !p.folding.anyFolds && !p.folding.anySwaps,
		Needs: st.order, KindAt: st.kindAt, RankOf: p.rankOf,
	}
	s.Sort()
	p.order, p.kindAt = s.Needs, s.KindAt
	st.order, st.kindAt = p.order, p.kindAt
	clear(st.sorted)
}

// mergeShare bounds merge: above one changed place in mergeShare Needs, a full sort is cheaper.
const mergeShare = 8

// merge updates the order incrementally if few rank slots have changed; it returns false when all Needs
// must be sorted. The column lacking moves with the Needs.
func (p *pass) merge() bool {
	left, arrived := p.e.workers[0].folder.moves.left, p.e.workers[0].folder.moves.arrived
	for _, l := range p.e.workers[1:] {
		left, arrived = append(left, l.folder.moves.left...), append(arrived, l.folder.moves.arrived...)
	}
	p.e.workers[0].folder.moves.left, p.e.workers[0].folder.moves.arrived = left, arrived // keep their capacity
	if p.changed.fresh || (len(left)+len(arrived))*mergeShare > len(p.order) {
		return false
	}
	slices.Sort(left)
	slices.SortFunc(arrived, p.compareRankSlots)
	x := order.Ranking{
		Slots: p.e.store.rankSlots, Needs: p.order, KindAt: p.kindAt, Lacking: p.lacking,
		SlotOf: p.rankSlotOf, Compare: p.compareRankSlots,
	}
	first := x.TakeOut(left)
	first = min(first, x.PutIn(arrived))
	p.order, p.kindAt = x.Needs, x.KindAt
	for i, need := range p.order[first:] {
		p.rankOf[need] = int32(first + i)
	}
	st := &p.e.store
	st.order, st.kindAt = p.order, p.kindAt
	return true
}

// compareRankSlots compares the numbers of two rank slots in rank order.
func (p *pass) compareRankSlots(a, b int32) int {
	x, y := &p.e.store.rankSlots[a], &p.e.store.rankSlots[b]
	return cmp.Or(cmp.Compare(p.kinds[x.Kind].Worth, p.kinds[y.Kind].Worth), cmp.Compare(x.Arrival, y.Arrival), cmp.Compare(a, b))
}

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
	if x.fold.hasSame {
		uneven = f.withFolds(uneven, plain)
	}
	for _, row := range uneven {
		if f.p.lines[f.base+int32(row)].Status&(state.IsFold|state.IsMember) == 0 {
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
				f.moves.touched = append(f.moves.touched, row)
			}
		}
	}
	touch(x.fold.swaps)
	x.fold.swaps = append(x.fold.swaps[:0], f.findSwaps(x)...)
	touch(x.fold.swaps)
	x.fold.rankSlots = append(x.fold.rankSlots[:0], x.fold.swaps...)
	slices.SortFunc(x.fold.rankSlots, func(a, b swap) int { return cmp.Compare(a.need, b.need) })
}

// rankSlotOf returns the number of the rank slot on which a Need sits. O(log swaps).
func (p *pass) rankSlotOf(need int32) int32 {
	if p.folding.anySwaps {
		rankSlots := p.e.store.clusters[p.lines[need].Cluster].fold.rankSlots
		if at, ok := slices.BinarySearchFunc(rankSlots, need, func(s swap, need int32) int { return cmp.Compare(s.need, need) }); ok {
			return rankSlots[at].rankSlot
		}
	}
	return p.first(need)
}
