package assign

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/cycle"
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
	// buyers are the Needs that have acquired something, bought the machines that were acquired in the second stage; those of
	// the first worker serve all. divided are
	// the rows whose machines were divided, acquired is what they have of both stages.
	buyers   bitmap.Dense
	bought   bitmap.Dense
	divided  []int32
	acquired [2][]acquire.Acquisition
	down     []passedDown
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

// passedDown is a credited machine that the division takes from a row and gives to one of lower rank.
type passedDown struct {
	row     columnar.Row
	had, to int32 // the Needs
}

// keepKeyBits is the length of a snapshot.KeepKey; see pooled.order.
const keepKeyBits = 62

// begin forgets what was done in the last cycle.
func (x *together) begin() {
	x.divided, x.acquired[0], x.acquired[1], x.down = x.divided[:0], x.acquired[0][:0], x.acquired[1][:0], x.down[:0]
}

// giveBackTogether does so for all stamps. All workers take part: what the rows of a stamp have is their cluster's.
func (l *Worker) giveBackTogether() {
	x, clusters := &l.sharing.together, l.Acquiring.Clusters
	for _, other := range l.p.st.workers[1:] {
		for i, word := range other.Acquiring.Clusters {
			clusters[i] |= word
		}
	}
	found := false
	for i, word := range clusters {
		for ; word != 0; word &= word - 1 {
			if c := i<<6 + bits.TrailingZeros64(word); len(l.p.Sources[c].Block.Twins()) == 0 {
				clusters[i] &^= 1 << (c & 63)
			} else {
				found = true
			}
		}
	}
	if !found {
		return
	}
	x.buyers, x.bought = bitmap.DenseIn(l.p.Arena, len(l.p.Lines)), bitmap.DenseIn(l.p.Arena, l.p.Snap.Supply.RowMax())
	for _, list := range l.p.Acquisitions {
		for _, a := range list {
			x.buyers.Set(uint32(a.Need))
		}
	}
	for _, a := range l.p.Acquisitions[1] {
		x.bought.Set(uint32(a.Row))
	}
	l.p.Crew.Each(len(l.p.Sources), cycle.ClustersPerChunk, l.p.st.tasks.together)
	l.endDivision()
}

// giveBackIn does so for the stamps of a cluster of which a row has acquired something.
func (l *Worker) giveBackIn(c int) {
	if l.p.st.workers[0].Acquiring.Clusters[c>>6]>>(c&63)&1 == 0 {
		return
	}
	src, buyers := &l.p.Sources[c], &l.p.st.workers[0].sharing.together.buyers
	twins := src.Block.Twins()
	for i := 0; i < len(twins); i++ {
		if !buyers.Has(uint32(src.Base) + twins[i]) {
			continue
		}
		rows, before := src.Block.TwinsAt(i)
		i += len(rows) - before - 1 // to the last row of the stamp
		if l.p.mayLeave(c, rows) && l.mayGiveBack(src, rows) && !l.foldHasStamp(int32(c), int(rows[0])) && l.divide() {
			l.takeParts()
		}
	}
}

// endDivision corrects the lists of what Needs have acquired, of their turns and of stamps.
func (l *Worker) endDivision() {
	x, p, st := &l.sharing.together, l.p, l.p.st
	for i, other := range l.p.st.workers {
		st.Divided = append(st.Divided, other.sharing.together.divided...)
		for _, m := range other.sharing.together.down {
			p.reconsider(m)
		}
		for stage := range x.acquired {
			if i > 0 {
				x.acquired[stage] = append(x.acquired[stage], other.sharing.together.acquired[stage]...)
			}
		}
	}
	if len(st.Divided) == 0 {
		return
	}
	divided := bitmap.DenseIn(l.p.Arena, len(l.p.Lines))
	for _, need := range st.Divided {
		divided.Set(uint32(need))
	}
	for stage := range p.Acquisitions {
		others := slices.DeleteFunc(p.Acquisitions[stage], func(a acquire.Acquisition) bool { return divided.Has(uint32(a.Need)) })
		byRank := func(a, b acquire.Acquisition) int { return cmp.Compare(p.RankOf[a.Need], p.RankOf[b.Need]) }
		slices.SortStableFunc(x.acquired[stage], byRank)
		p.Acquisitions[stage] = reuse.Merge(others, x.acquired[stage], byRank)
	}
	for _, other := range l.p.st.workers {
		other.Visited = slices.DeleteFunc(other.Visited, func(v cycle.Visit) bool { return divided.Has(uint32(v.Need)) })
		for i := range other.Crediting.ForeignStamps {
			if f := &other.Crediting.ForeignStamps[i]; divided.Has(uint32(f.need)) && l.p.Claims.Of(f.Row) >= 0 {
				f.need = l.p.Claims.Of(f.Row)
				f.Named = l.p.NumberOfNeed(f.need)
			}
		}
	}
}

// reconsider gives a turn in phase 2 to the Needs with Same that lack something, accept a machine that was passed down, and rank between the two
// Needs. The machine was out of their reach at their turns in phase 1; in the next cycle they are credited it before the lower Need.
func (p *Pass) reconsider(m passedDown) {
	src := p.SourceOf(m.to)
	for i := range p.Lines[src.Base:][:src.Rows] {
		need := src.Base + int32(i)
		rank := p.RankOf[need]
		if p.Lines[need].Is(state.IsMember) || rank <= p.RankOf[m.had] || rank >= p.RankOf[m.to] || !p.Lacking[rank] || p.Gained[rank] || p.Special.Has(uint32(rank)) {
			continue
		}
		if k := p.KindOf(need); k.Same && k.AcceptsClass(p.Snap.View.Class[m.row]) {
			p.Special.Set(uint32(rank))
			p.Reconsidered = append(p.Reconsidered, need)
		}
	}
}

// mayLeave reports whether a division of what the rows of a stamp of a cluster have may leave something, as far as their numbers tell:
// none of them is parked, and one has more than one machine. A row that has one machine lacks more
// without any, since each machine that a row has offers something that it wants. O(rows).
func (p *Pass) mayLeave(c int, rows []uint32) bool {
	// A chain begins before Acquired only with machines that were credited, and these are bound to the cluster.
	hasSeveral, mayHaveCredit := false, len(p.Snap.BoundOf(c)) > 0
	for _, row := range rows {
		n := &p.Lines[p.Sources[c].Base+int32(row)]
		if n.Is(state.IsParked) {
			return false
		}
		hasSeveral = hasSeveral || n.Acquired != columnar.None && n.Acquired != n.Tail || mayHaveCredit && p.Claims.First(n) != n.Tail
	}
	return hasSeveral
}

// mayGiveBack lists what the rows of a stamp have. It reports whether a division may leave something, as far as sums tell:
// some row may do with fewer machines than it has, if each offers as much as any of them in each dimension; and there is
// a machine without which the others together offer as much as the rows together have use for. O(machines).
func (l *Worker) mayGiveBack(src *state.Source, rows []uint32) bool {
	x, sum := &l.sharing.together, &l.Acquiring.Surplus
	x.needs, x.pool = x.needs[:0], x.pool[:0]
	x.most, x.want = reuse.Resize(x.most, l.p.Dims), reuse.Resize(x.want, l.p.Dims)
	for _, row := range rows {
		need := src.Base + int32(row)
		n := &l.p.Lines[need]
		x.needs = append(x.needs, need)
		isAcquired := false
		for r := l.p.Claims.First(n); r != columnar.None; r = l.p.Claims.Next(r, n) {
			isAcquired = isAcquired || r == n.Acquired
			m := pooled{row: r, had: need, to: state.Unclaimed, stage: isCredited}
			if isAcquired {
				m.stage, m.isFree = 0, !l.p.Snap.Supply.Reservation(r).Active()
			}
			x.pool = append(x.pool, m)
			for d, v := range l.p.Vec(r) {
				x.most[d] = max(x.most[d], v)
			}
		}
	}
	if !l.mayDoWithFewer() {
		return false
	}
	sum.Hi, sum.Lo = reuse.Resize(sum.Hi, l.p.Dims), reuse.Resize(sum.Lo, l.p.Dims)
	x.deficit = reuse.Resize(x.deficit, l.p.Dims)
	for i := range x.pool {
		sum.Add(l.p.Vec(x.pool[i].row))
	}
	for _, need := range x.needs {
		want := l.p.Aggregate(need)
		sum.Sub(want)
		columnar.SatAdd(x.want, want)
		if !l.p.Lines[need].Is(state.IsSatisfied) {
			l.p.ReadDeficit(x.deficit, need)
			sum.Add(x.deficit)
		}
	}
	return slices.ContainsFunc(x.pool, func(m pooled) bool { return m.isFree && sum.Spares(l.p.Vec(m.row), x.want) })
}

// mayDoWithFewer reports whether some row of the stamp could lack as much as it does with one machine less than it has, if each
// of them offered the most of each dimension. If none could, each takes as many as it has, and nothing is left.
func (l *Worker) mayDoWithFewer() bool {
	x := &l.sharing.together
	x.deficit = reuse.Resize(x.deficit, l.p.Dims)
	at := 0
	for _, need := range x.needs {
		from := at
		for at < len(x.pool) && x.pool[at].had == need {
			at++
		}
		if at-from < 2 {
			continue
		}
		l.p.ReadDeficit(x.deficit, need)
		isNeeded := false
		for d, want := range l.p.Aggregate(need) {
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
func (l *Worker) foldHasStamp(c int32, row int) bool {
	b := l.p.Sources[c].Block
	if b.GroupID(row) != 0 {
		return false
	}
	list := l.p.st.Clusters[c].Folds.List
	return slices.ContainsFunc(list, func(d cycle.Fold) bool {
		return d.Rows > 0 && l.Folder.ProfileOf(b.Profile(int(d.Row-l.p.Sources[c].Base))).Plain == b.Profile(row)+1
	})
}

// divide divides what the rows of a stamp have: each but the last takes what fits it best, the last takes it in
// order. It reports whether each lacks as much then as it does, and something that was acquired is left.
func (l *Worker) divide() bool {
	x, s := &l.sharing.together, &l.sharing.shared
	slices.SortFunc(x.needs, func(a, b int32) int { return cmp.Compare(l.p.RankOf[a], l.p.RankOf[b]) })
	for i := range x.pool {
		m := &x.pool[i]
		m.order = uint64(l.p.poolState(m.row))<<keepKeyBits | l.p.Snap.KeepKey(m.row)
	}
	slices.SortFunc(x.pool, func(a, b pooled) int { return cmp.Compare(a.order, b.order) })
	s.reset()
	for i := range x.pool {
		s.list = append(s.list, sharedMachine{uint32(i), l.p.Snap.View.Class[x.pool[i].row]})
	}
	s.group(0)
	x.place, x.ends = x.place[:0], x.ends[:0]
	for i, need := range x.needs {
		k := l.p.KindOf(need)
		l.Start(need)
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
func (l *Worker) lacksAsMuch(need int32) bool {
	x := &l.sharing.together
	x.deficit = reuse.Resize(x.deficit, l.p.Dims)
	l.p.ReadDeficit(x.deficit, need)
	for d, lacks := range x.deficit {
		if max(lacks, 0) != max(l.Missing[d], 0) {
			return false
		}
	}
	return true
}

// poolState orders machines by state: Configured, Configuring, Creating, then those that are free.
func (p *Pass) poolState(r columnar.Row) int {
	switch p.Snap.View.State[r] {
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
func (l *Worker) takeBest(need int32, k *state.Kind) {
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
func (l *Worker) takeInOrder(need int32, k *state.Kind) {
	for i := range l.sharing.together.pool {
		m := &l.sharing.together.pool[i]
		if class := l.p.Snap.View.Class[m.row]; l.Lacks != 0 && m.to == state.Unclaimed && l.p.ClassMask[class]&l.Lacks != 0 && k.AcceptsClass(class) {
			m.to = need
			l.sharing.together.place = append(l.sharing.together.place, uint32(i))
			l.Subtract(class)
		}
	}
}

// dropUnneeded lets go of what the last row that took something is covered without, of what is free and the last
// taken first.
func (l *Worker) dropUnneeded(need int32) {
	x, want := &l.sharing.together, l.p.Aggregate(need)
	from := 0
	if n := len(x.ends); n > 1 {
		from = x.ends[n-2]
	}
	l.Acquiring.Surplus.Hi, l.Acquiring.Surplus.Lo = reuse.Resize(l.Acquiring.Surplus.Hi, l.p.Dims), reuse.Resize(l.Acquiring.Surplus.Lo, l.p.Dims)
	for _, place := range x.place[from:] {
		l.Acquiring.Surplus.Add(l.p.Vec(x.pool[place].row))
	}
	l.Acquiring.Surplus.Sub(want)
	for _, place := range slices.Backward(x.place[from:]) {
		if m := &x.pool[place]; m.isFree && l.Acquiring.Surplus.Spares(l.p.Vec(m.row), want) {
			l.Acquiring.Surplus.Sub(l.p.Vec(m.row))
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
func (l *Worker) takeParts() {
	x, bought := &l.sharing.together, &l.p.st.workers[0].sharing.together.bought
	for i := range x.pool {
		m := &x.pool[i]
		if m.stage == 0 && bought.Has(uint32(m.row)) {
			m.stage = 1
		}
		l.p.Claims.Release(m.row)
		if m.to != state.Unclaimed {
			continue
		}
		if m.isFree {
			l.Undone = append(l.Undone, m.row) // it stays taken until the next cycle
		} else {
			m.to = m.had
			x.place = append(x.place, uint32(i))
		}
	}
	for _, need := range x.needs {
		l.p.Lines[need].Empty()
	}
	slices.SortStableFunc(x.place, func(a, b uint32) int {
		m, o := &x.pool[a], &x.pool[b]
		return cmp.Or(cmp.Compare(l.p.RankOf[m.to], l.p.RankOf[o.to]), cmp.Compare(m.stage, o.stage))
	})
	for _, place := range x.place {
		m := &x.pool[place]
		n := &l.p.Lines[m.to]
		if m.stage == isCredited {
			l.p.Claims.Claim(m.row, m.to, n)
			if l.p.RankOf[m.to] > l.p.RankOf[m.had] {
				x.down = append(x.down, passedDown{m.row, m.had, m.to})
			}
			continue
		}
		l.p.Claims.Acquire(m.row, m.to, n)
		x.acquired[m.stage] = append(x.acquired[m.stage], acquire.Acquisition{Row: m.row, Need: m.to})
	}
	x.divided = append(x.divided, x.needs...)
}
