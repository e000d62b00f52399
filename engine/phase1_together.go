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
	clusters []uint64 // in which a Need without Same has acquired something, as a set
	// any says that something was divided: divided are the rows, bought the machines that were acquired in the
	// second stage, and acquired is what the rows have of both.
	any             bool
	divided, bought bitmap.Dense
	acquired        [2][]acquisition
	needs           []int32 // in rank order
	pool            []pooled
	place           []uint32 // of those in pool that a row takes, by row one after the other
	ends            []int    // by row: the end of its part of place
	// deficit is what the row at work lacks with what it has, want the sum of what the rows want.
	deficit, want []int64
}

// pooled is a machine that some row of the stamp has.
type pooled struct {
	row    columnar.Row
	had    int32 // the Need that has it
	to     int32 // the Need that takes it, state.Unclaimed = none needs it
	stage  int8  // in which it was acquired; isCredited = it was not
	isFree bool  // acquired, and nobody held it
}

const isCredited int8 = -1

// giveBackTogether does so for all stamps.
func (l *worker) giveBackTogether() {
	x := &l.together
	x.any = false
	x.clusters = reuse.Resize(x.clusters, (len(l.sources)+63)/64)
	for _, other := range l.e.workers {
		for _, v := range other.visited {
			if n := &l.lines[v.need]; n.Acquired != columnar.None && !l.kinds[n.Kind].Same {
				x.clusters[n.Cluster>>6] |= 1 << (n.Cluster & 63)
			}
		}
	}
	for i, word := range x.clusters {
		for ; word != 0; word &= word - 1 {
			l.giveBackIn(int32(i<<6 + bits.TrailingZeros64(word)))
		}
	}
	if x.any {
		l.endDivision()
	}
}

// giveBackIn does so for the stamps of a cluster.
func (l *worker) giveBackIn(c int32) {
	src := &l.sources[c]
	for twins := src.Block.Twins(); len(twins) > 0; {
		n, acquired := 0, false
		for first := int(twins[0]); n < len(twins) && src.Block.Profile(int(twins[n])) == src.Block.Profile(first) && src.Block.GroupID(int(twins[n])) == src.Block.GroupID(first); n++ {
			acquired = acquired || l.lines[src.Base+int32(twins[n])].Acquired != columnar.None
		}
		if acquired && l.mayGiveBack(src, twins[:n]) && !l.foldHasStamp(c, int(twins[0])) && l.divide() {
			l.takeParts()
		}
		twins = twins[n:]
	}
}

// beginDivision prepares takeParts.
func (l *worker) beginDivision() {
	x := &l.together
	x.any = true
	x.bought, x.divided = bitmap.DenseIn(l.e.arena, l.s.Supply.RowMax()), bitmap.DenseIn(l.e.arena, len(l.lines))
	for _, a := range l.pass.acquisitions[1] {
		x.bought.Set(uint32(a.row))
	}
	x.acquired[0], x.acquired[1] = x.acquired[0][:0], x.acquired[1][:0]
}

// endDivision corrects the lists of what Needs have acquired, of their turns and of stamps.
func (l *worker) endDivision() {
	x, p := &l.together, l.pass
	isOne := func(need int32) bool { return x.divided.Has(uint32(need)) }
	for stage := range p.acquisitions {
		others := slices.DeleteFunc(p.acquisitions[stage], func(a acquisition) bool { return isOne(a.need) })
		slices.SortStableFunc(x.acquired[stage], func(a, b acquisition) int { return cmp.Compare(l.rankOf[a.need], l.rankOf[b.need]) })
		p.acquisitions[stage] = p.mergeByRank(nil, others, x.acquired[stage])
	}
	for _, other := range l.e.workers {
		other.visited = slices.DeleteFunc(other.visited, func(v visit) bool { return isOne(v.need) })
		for i := range other.foreignStamps {
			if f := &other.foreignStamps[i]; isOne(f.need) && l.claims.Of(f.row) >= 0 {
				f.need = l.claims.Of(f.row)
				f.named = l.named(f.need)
			}
		}
	}
}

// mayGiveBack lists what the rows of a stamp have. It reports whether none is parked, and whether there is a machine without
// which the others together offer as much as the rows together have use for: if there is none, no division leaves one.
func (l *worker) mayGiveBack(src *state.Source, rows []uint32) bool {
	x, sum := &l.together, &l.surplus
	x.needs, x.pool = x.needs[:0], x.pool[:0]
	x.deficit, x.want = reuse.Resize(x.deficit, l.dims), reuse.Resize(x.want, l.dims)
	sum.hi, sum.lo = reuse.Resize(sum.hi, l.dims), reuse.Resize(sum.lo, l.dims)
	for _, row := range rows {
		need := src.Base + int32(row)
		n := &l.lines[need]
		if n.Is(state.IsParked) {
			return false
		}
		x.needs = append(x.needs, need)
		isAcquired := false
		for r := n.Head; r != columnar.None; r = l.claims.Next(r) {
			isAcquired = isAcquired || r == n.Acquired
			m := pooled{row: r, had: need, to: state.Unclaimed, stage: isCredited}
			if isAcquired {
				m.stage, m.isFree = 0, !l.s.Supply.Reservation(r).Active()
			}
			x.pool = append(x.pool, m)
			sum.add(l.vec(r))
		}
		want := l.aggregate(need)
		sum.sub(want)
		columnar.SatAdd(x.want, want)
		if !n.Is(state.IsSatisfied) {
			l.readDeficit(x.deficit, need)
			sum.add(x.deficit)
		}
	}
	return slices.ContainsFunc(x.pool, func(m pooled) bool { return m.isFree && sum.spares(l.vec(m.row), x.want) })
}

// foldHasStamp reports whether a fold of a cluster has the stamp of a row.
func (l *worker) foldHasStamp(c int32, row int) bool {
	b := l.sources[c].Block
	if b.GroupID(row) != 0 {
		return false
	}
	list := l.e.store.clusters[c].folds.list
	return slices.ContainsFunc(list, func(d fold) bool {
		return d.rows > 0 && l.folder.profiles.of(l.pass, b.Profile(int(d.row-l.sources[c].Base))).plain == b.Profile(row)+1
	})
}

// divide divides what the rows of a stamp have: each but the last takes what fits it best, the last takes it in
// order. It reports whether each lacks as much then as it does, and something that was acquired is left.
func (l *worker) divide() bool {
	x, s := &l.together, &l.shared
	slices.SortFunc(x.needs, func(a, b int32) int { return cmp.Compare(l.rankOf[a], l.rankOf[b]) })
	slices.SortFunc(x.pool, func(a, b pooled) int {
		return cmp.Or(cmp.Compare(l.poolState(a.row), l.poolState(b.row)), cmp.Compare(l.s.KeepKey(a.row), l.s.KeepKey(b.row)))
	})
	s.reset()
	for i := range x.pool {
		s.list = append(s.list, sharedMachine{uint32(i), l.s.View.Class[x.pool[i].row]})
	}
	s.group(0)
	x.place, x.ends = x.place[:0], x.ends[:0]
	for i, need := range x.needs {
		k := l.kindOf(need)
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
	x := &l.together
	x.deficit = reuse.Resize(x.deficit, l.dims)
	l.readDeficit(x.deficit, need)
	for d, lacks := range x.deficit {
		if max(lacks, 0) != max(l.missing[d], 0) {
			return false
		}
	}
	return true
}

// poolState orders machines by state: Configured, Configuring, Creating, then those that are free.
func (l *worker) poolState(r columnar.Row) int {
	switch l.s.View.State[r] {
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
	x, s := &l.together, &l.shared
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
	for l.lacks != 0 {
		for i := range s.left {
			run := &s.left[i]
			for run.at < run.end && x.pool[s.list[run.at].place].to != state.Unclaimed {
				run.at++
			}
		}
		at := l.pickShared()
		if at == 0 {
			return
		}
		l.takePooled(at-1, need)
	}
}

// takeInOrder gives a row what comes first.
func (l *worker) takeInOrder(need int32, k *state.Kind) {
	for i := range l.together.pool {
		m := &l.together.pool[i]
		if class := l.s.View.Class[m.row]; l.lacks != 0 && m.to == state.Unclaimed && l.classMask[class]&l.lacks != 0 && k.AcceptsClass(class) {
			l.takePooled(uint32(i), need)
		}
	}
}

func (l *worker) takePooled(place uint32, need int32) {
	m := &l.together.pool[place]
	m.to = need
	l.together.place = append(l.together.place, place)
	l.subtract(l.s.View.Class[m.row])
}

// dropUnneeded lets go of what the last row that took something is covered without, of what is free and the last
// taken first.
func (l *worker) dropUnneeded(need int32) {
	x, want := &l.together, l.aggregate(need)
	from := 0
	if n := len(x.ends); n > 1 {
		from = x.ends[n-2]
	}
	l.surplus.hi, l.surplus.lo = reuse.Resize(l.surplus.hi, l.dims), reuse.Resize(l.surplus.lo, l.dims)
	for _, place := range x.place[from:] {
		l.surplus.add(l.vec(x.pool[place].row))
	}
	l.surplus.sub(want)
	for _, place := range slices.Backward(x.place[from:]) {
		if m := &x.pool[place]; m.isFree && l.surplus.spares(l.vec(m.row), want) {
			l.surplus.sub(l.vec(m.row))
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
	x, st := &l.together, &l.e.store
	if !x.any {
		l.beginDivision()
	}
	for i := range x.pool {
		m := &x.pool[i]
		if m.stage == 0 && x.bought.Has(uint32(m.row)) {
			m.stage = 1
		}
		l.claims.Release(m.row)
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
		l.lines[need].Empty()
		x.divided.Set(uint32(need))
	}
	slices.SortStableFunc(x.place, func(a, b uint32) int {
		m, o := &x.pool[a], &x.pool[b]
		return cmp.Or(cmp.Compare(l.rankOf[m.to], l.rankOf[o.to]), cmp.Compare(m.stage, o.stage))
	})
	for _, place := range x.place {
		m := &x.pool[place]
		n := &l.lines[m.to]
		if m.stage == isCredited {
			l.claims.Claim(m.row, m.to, n)
			continue
		}
		l.claims.Acquire(m.row, m.to, n)
		x.acquired[m.stage] = append(x.acquired[m.stage], acquisition{m.row, m.to})
	}
	st.divided = append(st.divided, x.needs...)
}
