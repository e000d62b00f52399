package order

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/ranks"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// fillRankSlots recomputes the rank slots of the touched rows of the cluster at work.
func (f *Folder) fillRankSlots() {
	p := f.p
	st := p.st
	x := &st.Clusters[f.c]
	swaps, arrived := x.Fold.Swaps, x.Change.Arrived
	if !p.Changed.Fresh { // each once, so that no Need moves twice
		slices.Sort(f.moves.touched)
		f.moves.touched = slices.Compact(f.moves.touched)
	}
	for _, row := range f.moves.touched {
		number := f.base + row
		need := number
		if p.Lines[number].Status&(state.IsMember|state.IsFold) != 0 {
			if need = p.NeedOf(number); p.FoldOf(need).First != number {
				need = ranks.None
			}
		}
		if at, ok := slices.BinarySearchFunc(swaps, number, func(s cycle.Swap, rankSlot int32) int { return cmp.Compare(s.RankSlot, rankSlot) }); ok {
			need = swaps[at].Need
		}
		was := st.RankSlots[number]
		st.RankSlots[number] = need
		for len(arrived) > 0 && int32(arrived[0]) < row {
			arrived = arrived[1:]
		}
		if p.Changed.Fresh || was == ranks.None && need == ranks.None {
			continue
		}
		if was != need || x.Change.AllArrived || len(arrived) > 0 && int32(arrived[0]) == row {
			f.move(was, number, need)
			continue
		}
		kindAt, kind := &st.KindAt[st.RankOf[need]], p.Lines[need].Kind
		if *kindAt != kind && st.Kinds.WorthOf(*kindAt) != st.Kinds.WorthOf(kind) {
			f.move(was, number, need)
		} else {
			*kindAt = kind
		}
	}
}

// clearRankSlots empties the rank slots of a cluster's lines.
func (f *Folder) clearRankSlots() {
	src := &f.p.Sources[f.c]
	rankSlots := f.p.st.RankSlots[src.Base:][:src.Room]
	for i := range rankSlots {
		rankSlots[i] = ranks.None
	}
}

// move notes that a rank slot has another Need, or its Need another place in the order.
func (f *Folder) move(was, number, now int32) {
	st := f.p.st
	f.moves.moved, st.Sorted[f.c] = true, 0
	if was != ranks.None {
		f.moves.left = append(f.moves.left, st.RankOf[was])
	}
	if now != ranks.None {
		f.moves.arrived = append(f.moves.arrived, number)
		if x := &st.Clusters[f.c]; x.Replay {
			x.LetGo = reuse.Append(x.LetGo, cycle.LetGoRoom, now)
		}
	}
}

// vacate empties the rank slots of rows that the cluster no longer has.
func (f *Folder) vacate() {
	src, st := &f.p.Sources[f.c], f.p.st
	for number := src.Base + int32(src.Rows); number < src.Base+int32(src.Had); number++ {
		if was := st.RankSlots[number]; was != ranks.None {
			st.RankSlots[number] = ranks.None
			f.move(was, number, ranks.None)
		}
	}
}

// Rank sorts all Needs from nothing.
func (p *Pass) Rank() {
	st := p.st
	worths := alloc.MakeDirty[uint64](p.Arena, len(p.Kinds))
	for i := range p.Kinds {
		worths[i] = p.Kinds[i].Worth
	}
	s := ranks.Sorter{
		Crew: p.Crew, Arena: p.Arena, Slots: p.slots(), Worths: worths, Own: !p.AnyFolds && !p.folding.anySwaps,
		Needs: st.Order, KindAt: st.KindAt, RankOf: p.RankOf,
	}
	s.Sort()
	p.Order, p.KindAt = s.Needs, s.KindAt
	st.Order, st.KindAt = p.Order, p.KindAt
	clear(st.Sorted)
}

// mergeShare bounds merge: above one changed place in mergeShare Needs, a full sort is cheaper.
const mergeShare = 8

// Merge updates the order incrementally if few rank slots have changed; it returns false when all Needs
// must be sorted. The column Lacking moves with the Needs.
func (p *Pass) Merge() bool {
	left, arrived := p.st.workers[0].Folder.moves.left, p.st.workers[0].Folder.moves.arrived
	for _, l := range p.st.workers[1:] {
		left, arrived = append(left, l.Folder.moves.left...), append(arrived, l.Folder.moves.arrived...)
	}
	p.st.workers[0].Folder.moves.left, p.st.workers[0].Folder.moves.arrived = left, arrived // keep their capacity
	if p.Changed.Fresh || (len(left)+len(arrived))*mergeShare > len(p.Order) {
		return false
	}
	slices.Sort(left)
	slices.SortFunc(arrived, p.compareRankSlots)
	x := ranks.Ranking{
		Slots: p.slots(), Needs: p.Order, KindAt: p.KindAt, Lacking: p.Lacking,
		SlotOf: p.rankSlotOf, Compare: p.compareRankSlots,
	}
	first := x.TakeOut(left)
	first = min(first, x.PutIn(arrived))
	p.Order, p.KindAt = x.Needs, x.KindAt
	for i, need := range p.Order[first:] {
		p.RankOf[need] = int32(first + i)
	}
	st := p.st
	st.Order, st.KindAt = p.Order, p.KindAt
	return true
}

// compareRankSlots compares the numbers of two rank slots in rank order.
func (p *Pass) compareRankSlots(a, b int32) int {
	slots := p.slots()
	worth := func(slot int32) uint64 { return p.KindOf(slots.Needs[slot]).Worth }
	return cmp.Or(cmp.Compare(worth(a), worth(b)), cmp.Compare(slots.Arrival(a), slots.Arrival(b)), cmp.Compare(a, b))
}

// slots returns the rank slots with what they are of.
func (p *Pass) slots() ranks.Slots {
	return ranks.Slots{Needs: p.st.RankSlots, Sources: p.Sources, Atlas: &p.Atlas, Lines: p.Lines}
}

// Needs of one stamp take each other's places in rank order so that the one with the largest minimum
// unit goes first: otherwise a small Need could take the large one's machines. Needs of one stamp are
// of one cluster and one worth. Their rank slots stay sorted by arrival, and the Needs are permuted
// over them: a swap is a Need on another one's rank slot. Nothing is done for stamps whose rows agree
// in their minimum unit; demand.Block.Uneven lists the rows of the others, and folds are looked at
// here.

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
	swaps   []cycle.Swap
	byName  []int // the dimensions, sorted by name
}

// findSwaps returns the swaps of the cluster at work, by rank slot. The result is valid until the next
// call.
func (f *Folder) findSwaps(x *cycle.ClusterState) []cycle.Swap {
	w, b := &f.swapping, f.block
	w.sitters, w.swaps = w.sitters[:0], w.swaps[:0]
	arrivals, units := b.Arrivals(), b.UnitIDs()
	plain := func(row int) {
		n := f.base + int32(row)
		w.sitters = append(w.sitters, sitter{uint64(b.Profile(row))<<32 | uint64(b.GroupID(row)), arrivals[row], n, n, units[row]})
	}
	uneven := b.Uneven()
	if x.Fold.HasSame {
		uneven = f.withFolds(uneven, plain)
	}
	for _, row := range uneven {
		if f.p.Lines[f.base+int32(row)].Status&(state.IsFold|state.IsMember) == 0 {
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
		w.sitDown(f.p.Snap.Demand, w.sitters[from:to])
		from = to
	}
	slices.SortFunc(w.swaps, func(a, b cycle.Swap) int { return cmp.Compare(a.RankSlot, b.RankSlot) })
	return w.swaps
}

// withFolds lists the folds of the cluster at work, and the plain rows that share a stamp with a fold.
// It returns the uneven rows that it has not listed.
func (f *Folder) withFolds(uneven []uint32, plain func(row int)) []uint32 {
	p, w := f.p, &f.swapping
	list, alike := p.st.Clusters[f.c].Folds.List, f.alike[:0]
	for i := range list {
		d := &list[i]
		if d.Rows == 0 {
			continue
		}
		row := int(d.Row - f.base)
		of := f.profiles.of(p, f.block.Profile(row))
		stamp := foldsStamp | uint64(of.number)
		if of.Plain != 0 {
			stamp = uint64(of.Plain-1) << 32
			alike = append(alike, of.Plain-1)
		}
		w.sitters = append(w.sitters, sitter{stamp, d.Arrival, d.First, d.Row, f.block.AggregateIDs()[row]})
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
func (w *swapScratch) sitDown(d *demand.Table, of []sitter) {
	if !slices.ContainsFunc(of, func(x sitter) bool { return x.unit != of[0].unit }) {
		return
	}
	w.units = append(w.units[:0], of...)
	slices.SortStableFunc(w.units, func(a, b sitter) int { return w.compareUnits(d, b.unit, a.unit) })
	for i := range of {
		if w.units[i].need != of[i].need {
			w.swaps = append(w.swaps, cycle.Swap{RankSlot: of[i].rankSlot, Need: w.units[i].need})
		}
	}
}

// compareUnits compares two vectors lexicographically, with the dimensions in the order of their names.
func (w *swapScratch) compareUnits(d *demand.Table, a, b uint32) int {
	names := d.Dims()
	if len(w.byName) != len(names) {
		w.byName = w.byName[:0]
		for i := range names {
			w.byName = append(w.byName, i)
		}
		slices.SortFunc(w.byName, func(i, j int) int { return cmp.Compare(names[i], names[j]) })
	}
	x, y := d.Vector(a), d.Vector(b)
	at := func(v []int64, dim int) int64 {
		if dim < len(v) {
			return v[dim]
		}
		return 0
	}
	for _, dim := range w.byName {
		if c := cmp.Compare(at(x, dim), at(y, dim)); c != 0 {
			return c
		}
	}
	return 0
}

// swapsRoom is for how many swaps a cluster has room that has any.
const swapsRoom = 8

// moveRankSlot updates a cluster's swaps, and touches the rows whose rank slots they concern.
func (f *Folder) moveRankSlot(x *cycle.ClusterState) {
	touch := func(swaps []cycle.Swap) {
		for _, s := range swaps {
			if row := s.RankSlot - f.base; int(row) < f.block.Len() {
				f.moves.touched = append(f.moves.touched, row)
			}
		}
	}
	touch(x.Fold.Swaps)
	x.Fold.Swaps = reuse.Append(x.Fold.Swaps[:0], swapsRoom, f.findSwaps(x)...)
	touch(x.Fold.Swaps)
	x.Fold.RankSlots = reuse.Append(x.Fold.RankSlots[:0], swapsRoom, x.Fold.Swaps...)
	slices.SortFunc(x.Fold.RankSlots, func(a, b cycle.Swap) int { return cmp.Compare(a.Need, b.Need) })
}

// rankSlotOf returns the number of the rank slot on which a Need sits. O(log swaps).
func (p *Pass) rankSlotOf(need int32) int32 {
	if p.folding.anySwaps {
		rankSlots := p.st.Clusters[p.ClusterOf(need)].Fold.RankSlots
		if at, ok := slices.BinarySearchFunc(rankSlots, need, func(s cycle.Swap, need int32) int { return cmp.Compare(s.Need, need) }); ok {
			return rankSlots[at].RankSlot
		}
	}
	return p.FirstRow(need)
}
