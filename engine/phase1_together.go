package engine

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
)

// Rows of one stamp give back together. Each has acquired what it lacked by itself. But the next cycle divides all
// that they have among them, by what fits, and some may be covered with less. So once all Needs have had their
// turns, what the rows of a stamp have is divided as the next cycle does when it is bound. What they have
// acquired and no row needs then is free again.

// together is what the rows of one stamp have, and how it is divided.
type together struct {
	clusters []uint64 // in which the worker has acquired something in this cycle, as a set
	// bought are the machines that were acquired in the second stage; the first worker's serves all. divided are
	// the rows whose machines were divided, acquired is what they have of both stages.
	bought   bitmap.Dense
	divided  []int32
	acquired [2][]acquisition
	needs    []int32 // in rank order
	pool     []pooled
	place    []uint32 // of those in pool that a row takes, by row one after the other
	ends     []int    // by row: the end of its part of place
	// deficit is what the row at work lacks with what it has, want the sum of what the rows want, most what a
	// machine in pool offers at most, by dimension.
	deficit, want, most []int64
}

// pooled is a machine that some row of the stamp has.
type pooled struct {
	row    columnar.Row
	had    int32  // the Need that has it
	to     int32  // the Need that takes it, state.Unclaimed = none needs it
	stage  int8   // in which it was acquired; isCredited = it was not
	isFree bool   // acquired, and nobody held it
	order  uint64 // by state, then in keep order
}

const isCredited int8 = -1

// keepKeyBits is the length of a snapshot.KeepKey; see pooled.order.
const keepKeyBits = 62

// begin forgets what was done in the last cycle.
func (x *together) begin(clusters int) {
	x.clusters = reuse.Resize(x.clusters, (clusters+63)/64)
	x.divided, x.acquired[0], x.acquired[1] = x.divided[:0], x.acquired[0][:0], x.acquired[1][:0]
}

// giveBackTogether does so for all stamps. All workers take part: what the rows of a stamp have is their cluster's.
func (l *worker) giveBackTogether() {
	x := &l.sharing.together
	for _, other := range l.p.e.workers[1:] {
		for i, word := range other.sharing.together.clusters {
			x.clusters[i] |= word
		}
	}
	found := false
	for i, word := range x.clusters {
		for ; word != 0; word &= word - 1 {
			if c := i<<6 + bits.TrailingZeros64(word); len(l.p.sources[c].Block.Twins()) == 0 {
				x.clusters[i] &^= 1 << (c & 63)
			} else {
				found = true
			}
		}
	}
	if !found {
		return
	}
	x.bought = bitmap.DenseIn(l.p.e.arena, l.p.s.Supply.RowMax())
	for _, a := range l.p.acquisitions[1] {
		x.bought.Set(uint32(a.row))
	}
	l.p.e.crew.Each(len(l.p.sources), clustersPerChunk, l.p.e.tasks.together)
	l.endDivision()
}

// giveBackIn does so for the stamps of a cluster.
func (l *worker) giveBackIn(c int) {
	if l.p.e.workers[0].sharing.together.clusters[c>>6]>>(c&63)&1 == 0 {
		return
	}
	src := &l.p.sources[c]
	for twins := src.Block.Twins(); len(twins) > 0; {
		profile, group := src.Block.Profile(int(twins[0])), src.Block.GroupID(int(twins[0]))
		n := 1
		for n < len(twins) && src.Block.Profile(int(twins[n])) == profile && src.Block.GroupID(int(twins[n])) == group {
			n++
		}
		if l.p.mayLeave(src, twins[:n]) && l.mayGiveBack(src, twins[:n]) && !l.foldHasStamp(int32(c), int(twins[0])) && l.divide() {
			l.takeParts()
		}
		twins = twins[n:]
	}
}

// endDivision corrects the lists of what Needs have acquired, of their turns and of stamps.
func (l *worker) endDivision() {
	x, p, st := &l.sharing.together, l.p, &l.p.e.store
	for i, other := range l.p.e.workers {
		st.divided = append(st.divided, other.sharing.together.divided...)
		for stage := range x.acquired {
			if i > 0 {
				x.acquired[stage] = append(x.acquired[stage], other.sharing.together.acquired[stage]...)
			}
		}
	}
	if len(st.divided) == 0 {
		return
	}
	divided := bitmap.DenseIn(l.p.e.arena, len(l.p.lines))
	for _, need := range st.divided {
		divided.Set(uint32(need))
	}
	for stage := range p.acquisitions {
		others := slices.DeleteFunc(p.acquisitions[stage], func(a acquisition) bool { return divided.Has(uint32(a.need)) })
		slices.SortStableFunc(x.acquired[stage], func(a, b acquisition) int { return cmp.Compare(l.p.rankOf[a.need], l.p.rankOf[b.need]) })
		p.acquisitions[stage] = p.insertByRank(others, x.acquired[stage])
	}
	for _, other := range l.p.e.workers {
		other.visited = slices.DeleteFunc(other.visited, func(v visit) bool { return divided.Has(uint32(v.need)) })
		for i := range other.crediting.foreignStamps {
			if f := &other.crediting.foreignStamps[i]; divided.Has(uint32(f.need)) && l.p.claims.Of(f.row) >= 0 {
				f.need = l.p.claims.Of(f.row)
				f.named = l.p.named(f.need)
			}
		}
	}
}

// insertByRank inserts acquisitions into a list, both in rank order. It writes behind the end of the list, where there is room.
func (nt *needTable) insertByRank(list, more []acquisition) []acquisition {
	at := len(list)
	list = append(list, more...)
	for to := len(list); len(more) > 0; to-- {
		if last := more[len(more)-1]; at == 0 || nt.rankOf[list[at-1].need] < nt.rankOf[last.need] {
			list[to-1], more = last, more[:len(more)-1]
		} else {
			list[to-1] = list[at-1]
			at--
		}
	}
	return list
}

// mayLeave reports whether a division of what the rows of a stamp have may leave something, as far as their numbers tell: one of
// them has acquired something, none is parked, and one has more than one machine. A row that has one machine lacks more
// without any, since each machine that a row has offers something that it wants. O(rows).
func (nt *needTable) mayLeave(src *state.Source, rows []uint32) bool {
	isAcquired, hasSeveral := false, false
	for _, row := range rows {
		n := &nt.lines[src.Base+int32(row)]
		if n.Is(state.IsParked) {
			return false
		}
		isAcquired = isAcquired || n.Acquired != columnar.None
		hasSeveral = hasSeveral || n.Head != n.Tail
	}
	return isAcquired && hasSeveral
}

// mayGiveBack lists what the rows of a stamp have. It reports whether a division may leave something, as far as sums tell:
// some row may do with fewer machines than it has, if each offers as much as any of them in each dimension; and there is
// a machine without which the others together offer as much as the rows together have use for. O(machines).
func (l *worker) mayGiveBack(src *state.Source, rows []uint32) bool {
	x, sum := &l.sharing.together, &l.sharing.surplus
	x.needs, x.pool = x.needs[:0], x.pool[:0]
	x.most, x.want = reuse.Resize(x.most, l.p.dims), reuse.Resize(x.want, l.p.dims)
	for _, row := range rows {
		need := src.Base + int32(row)
		n := &l.p.lines[need]
		x.needs = append(x.needs, need)
		isAcquired := false
		for r := n.Head; r != columnar.None; r = l.p.claims.Next(r) {
			isAcquired = isAcquired || r == n.Acquired
			m := pooled{row: r, had: need, to: state.Unclaimed, stage: isCredited}
			if isAcquired {
				m.stage, m.isFree = 0, !l.p.s.Supply.Reservation(r).Active()
			}
			x.pool = append(x.pool, m)
			for d, v := range l.p.vec(r) {
				x.most[d] = max(x.most[d], v)
			}
		}
	}
	if !l.mayDoWithFewer() {
		return false
	}
	sum.hi, sum.lo = reuse.Resize(sum.hi, l.p.dims), reuse.Resize(sum.lo, l.p.dims)
	x.deficit = reuse.Resize(x.deficit, l.p.dims)
	for i := range x.pool {
		sum.add(l.p.vec(x.pool[i].row))
	}
	for _, need := range x.needs {
		want := l.p.aggregate(need)
		sum.sub(want)
		columnar.SatAdd(x.want, want)
		if !l.p.lines[need].Is(state.IsSatisfied) {
			l.p.readDeficit(x.deficit, need)
			sum.add(x.deficit)
		}
	}
	return slices.ContainsFunc(x.pool, func(m pooled) bool { return m.isFree && sum.spares(l.p.vec(m.row), x.want) })
}

// mayDoWithFewer reports whether some row of the stamp could lack as much as it does with one machine less than it has, if each
// of them offered the most of each dimension. If none could, each takes as many as it has, and nothing is left.
func (l *worker) mayDoWithFewer() bool {
	x := &l.sharing.together
	x.deficit = reuse.Resize(x.deficit, l.p.dims)
	at := 0
	for _, need := range x.needs {
		from := at
		for at < len(x.pool) && x.pool[at].had == need {
			at++
		}
		if at-from < 2 {
			continue
		}
		l.p.readDeficit(x.deficit, need)
		isNeeded := false
		for d, want := range l.p.aggregate(need) {
			hi, lo := bits.Mul64(uint64(at-from-1), uint64(x.most[d]))
			if covered := want - x.deficit[d]; hi == 0 && lo < uint64(max(covered, 0)) {
				isNeeded = true
				break
			}
		}
		if !isNeeded {
			return true
		}
	}
	return false
}

// foldHasStamp reports whether a fold of a cluster has the stamp of a row.
func (l *worker) foldHasStamp(c int32, row int) bool {
	b := l.p.sources[c].Block
	if b.GroupID(row) != 0 {
		return false
	}
	list := l.p.e.store.clusters[c].folds.list
	return slices.ContainsFunc(list, func(d fold) bool {
		return d.rows > 0 && l.folder.profiles.of(l.p, b.Profile(int(d.row-l.p.sources[c].Base))).plain == b.Profile(row)+1
	})
}

// divide divides what the rows of a stamp have: each but the last takes what fits it best, the last takes it in
// order. It reports whether each lacks as much then as it does, and something that was acquired is left.
func (l *worker) divide() bool {
	x, s := &l.sharing.together, &l.sharing.shared
	slices.SortFunc(x.needs, func(a, b int32) int { return cmp.Compare(l.p.rankOf[a], l.p.rankOf[b]) })
	for i := range x.pool {
		m := &x.pool[i]
		m.order = uint64(l.p.poolState(m.row))<<keepKeyBits | l.p.s.KeepKey(m.row)
	}
	slices.SortFunc(x.pool, func(a, b pooled) int { return cmp.Compare(a.order, b.order) })
	s.reset()
	for i := range x.pool {
		s.list = append(s.list, sharedMachine{uint32(i), l.p.s.View.Class[x.pool[i].row]})
	}
	s.group(0)
	x.place, x.ends = x.place[:0], x.ends[:0]
	for i, need := range x.needs {
		k := l.p.kindOf(need)
		l.start(need)
		if i < len(x.needs)-1 {
			l.takeBest(need, k)
		} else {
			l.takeInOrder(need, k)
		}
		if !l.lacksAsMuch(need) {
			return false
		}
		x.ends = append(x.ends, len(x.place))
		l.dropUnneeded(need)
	}
	return slices.ContainsFunc(x.pool, func(m pooled) bool { return m.isFree && m.to == state.Unclaimed })
}

// lacksAsMuch reports whether what is missing is what the Need lacks with the machines that it has.
func (l *worker) lacksAsMuch(need int32) bool {
	x := &l.sharing.together
	x.deficit = reuse.Resize(x.deficit, l.p.dims)
	l.p.readDeficit(x.deficit, need)
	for d, lacks := range x.deficit {
		if max(lacks, 0) != max(l.missing[d], 0) {
			return false
		}
	}
	return true
}

// poolState orders machines by state: Configured, Configuring, Creating, then those that are free.
func (fl *fleet) poolState(r columnar.Row) int {
	switch fl.s.View.State[r] {
	case model.Configured:
		return 0
	case model.Configuring:
		return 1
	case model.Creating:
		return 2
	}
	return 3
}

// takeBest gives a row what fits it best.
func (l *worker) takeBest(need int32, k *state.Kind) {
	x, s := &l.sharing.together, &l.sharing.shared
	s.left = s.left[:0]
	for i := range s.runs {
		run := &s.runs[i]
		for run.at < run.end && x.pool[s.list[run.at].place].to != state.Unclaimed {
			run.at++
		}
		if run.at < run.end && k.AcceptsClass(s.list[run.at].class) {
			s.left = append(s.left, *run)
		}
	}
	l.countUsers(need)
	for _, m := range l.takeShared(need, func(run *sharedRun) {
		for run.at < run.end && x.pool[s.list[run.at].place].to != state.Unclaimed {
			run.at++
		}
	}) {
		x.pool[m.place].to = need
		x.place = append(x.place, m.place)
	}
}

// takeInOrder gives a row what comes first.
func (l *worker) takeInOrder(need int32, k *state.Kind) {
	for i := range l.sharing.together.pool {
		m := &l.sharing.together.pool[i]
		if class := l.p.s.View.Class[m.row]; l.lacks != 0 && m.to == state.Unclaimed && l.p.classMask[class]&l.lacks != 0 && k.AcceptsClass(class) {
			m.to = need
			l.sharing.together.place = append(l.sharing.together.place, uint32(i))
			l.subtract(class)
		}
	}
}

// dropUnneeded lets go of what the last row that took something is covered without, of what is free and the last
// taken first.
func (l *worker) dropUnneeded(need int32) {
	x, want := &l.sharing.together, l.p.aggregate(need)
	from := 0
	if n := len(x.ends); n > 1 {
		from = x.ends[n-2]
	}
	l.sharing.surplus.hi, l.sharing.surplus.lo = reuse.Resize(l.sharing.surplus.hi, l.p.dims), reuse.Resize(l.sharing.surplus.lo, l.p.dims)
	for _, place := range x.place[from:] {
		l.sharing.surplus.add(l.p.vec(x.pool[place].row))
	}
	l.sharing.surplus.sub(want)
	for _, place := range slices.Backward(x.place[from:]) {
		if m := &x.pool[place]; m.isFree && l.sharing.surplus.spares(l.p.vec(m.row), want) {
			l.sharing.surplus.sub(l.p.vec(m.row))
			m.to = state.Unclaimed
		}
	}
	kept := x.place[:from]
	for _, place := range x.place[from:] {
		if x.pool[place].to == need {
			kept = append(kept, place)
		}
	}
	x.place, x.ends[len(x.ends)-1] = kept, len(kept)
}

// takeParts makes the rows of a stamp claim what the division gives them, and frees what it leaves. The next cycle
// credits their cluster anew.
func (l *worker) takeParts() {
	x, bought := &l.sharing.together, &l.p.e.workers[0].sharing.together.bought
	for i := range x.pool {
		m := &x.pool[i]
		if m.stage == 0 && bought.Has(uint32(m.row)) {
			m.stage = 1
		}
		l.p.claims.Release(m.row)
		if m.to != state.Unclaimed {
			continue
		}
		if m.isFree {
			l.undone = append(l.undone, m.row) // it stays taken until the next cycle
		} else {
			m.to = m.had
			x.place = append(x.place, uint32(i))
		}
	}
	for _, need := range x.needs {
		l.p.lines[need].Empty()
	}
	slices.SortStableFunc(x.place, func(a, b uint32) int {
		m, o := &x.pool[a], &x.pool[b]
		return cmp.Or(cmp.Compare(l.p.rankOf[m.to], l.p.rankOf[o.to]), cmp.Compare(m.stage, o.stage))
	})
	for _, place := range x.place {
		m := &x.pool[place]
		n := &l.p.lines[m.to]
		if m.stage == isCredited {
			l.p.claims.Claim(m.row, m.to, n)
			continue
		}
		l.p.claims.Acquire(m.row, m.to, n)
		x.acquired[m.stage] = append(x.acquired[m.stage], acquisition{m.row, m.to})
	}
	x.divided = append(x.divided, x.needs...)
}
