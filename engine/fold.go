package engine

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// fold is several rows of one cluster that are decided as one Need. They agree in aggregate, and in
// what their profiles fold to.
type fold struct {
	row     int32 // the line that stands for them, the lowest; of an unused number 1 + the next unused one
	first   int32 // the first of them in rank order
	rows    int32 // how many they are; 0 = the number is unused
	arrival int64 // of first
	due     bool  // rows came or left: settle is still to be called
	recount bool  // row, first and what is parked are to be found among the rows
}

// folds are the folds of one cluster, by number.
type folds struct {
	list   []fold
	sums   []int64 // of the aggregates of a fold's rows: pass.dims for each number
	unused int32   // 1 + the first unused number; 0 = none
}

func (x *folds) reset() { x.list, x.sums, x.unused = x.list[:0], x.sums[:0], 0 }

func (x *folds) sum(number uint32, dims int) []int64 { return x.sums[int(number)*dims:][:dims:dims] }

// start returns the number of a fold that has no rows yet.
func (x *folds) start(a *alloc.Arena, dims int) uint32 {
	if x.unused > 0 {
		number := uint32(x.unused - 1)
		x.unused = x.list[number].row
		x.list[number] = fold{}
		return number
	}
	x.list = alloc.Append(a, x.list, fold{})
	for range dims {
		x.sums = alloc.Append(a, x.sums, 0)
	}
	return uint32(len(x.list) - 1)
}

// kindOfFold returns the kind of a fold of rows with a profile and an aggregate, memoized by profile.
func (f *folder) kindOfFold(profile, aggregate uint32) uint32 {
	last := &f.foldKinds[profile]
	if last.kind == 0 || last.unit != aggregate {
		member := f.p.s.Demand.Vector(aggregate)
		mask := positive(member)
		*last = lastKind{mask, aggregate, 1 + f.p.e.store.kinds.ofFold(f.p.s, profile, member, mask)}
	}
	return last.kind - 1
}

// fold returns the number of the fold that a row belongs to, starting it if it is new.
func (f *folder) fold(x *clusterState, profile, aggregate uint32) uint32 {
	if !f.listed {
		f.listed = true
		f.folds.reset()
		for i := range x.folds.list {
			if d := &x.folds.list[i]; d.rows > 0 {
				row := int(d.row - f.base)
				e, _ := f.folds.find(f.profiles.of(f.p, f.block.Profile(row)).number, f.block.AggregateIDs()[row])
				e.value = int32(i)
			}
		}
	}
	e, found := f.folds.find(f.profiles.of(f.p, profile).number, aggregate)
	if !found {
		e.value = int32(x.folds.start(f.sums, f.p.dims))
	}
	return uint32(e.value)
}

// foldDue returns a fold that rows come to or leave; settleFolds must follow. The fold's Need is to be
// credited again.
func (f *folder) foldDue(x *clusterState, number uint32) *fold {
	d := &x.folds.list[number]
	if d.due {
		return d
	}
	d.due = true
	f.dueFolds = append(f.dueFolds, number)
	if d.rows > 0 {
		f.touched = append(f.touched, d.first-f.base)
		if n := &f.p.lines[d.row]; n.is(isSatisfied) {
			n.status &^= isSatisfied
			x.satisfied -= d.rows
		}
	}
	return d
}

// join adds a row to a fold.
func (f *folder) join(x *clusterState, number uint32, row int) {
	d, line, arrival := f.foldDue(x, number), f.base+int32(row), f.block.Arrival(row)
	n := &f.p.lines[line]
	n.group = number
	if d.rows++; d.rows == 1 {
		d.row, d.first, d.arrival = line, line, arrival
		f.standFor(n, row)
	} else {
		n.status, n.domain = isMember, uint32(d.row)
		d.recount = d.recount || line < d.row
		d.place(line, arrival)
	}
	if !f.block.Parked(row) {
		f.p.lines[d.row].status &^= isParked
	}
}

// place notes a row that may be the first in rank order: rows of a fold differ only in arrival and number.
func (d *fold) place(line int32, arrival int64) {
	if arrival < d.arrival || arrival == d.arrival && line < d.first {
		d.first, d.arrival = line, arrival
	}
}

// standFor makes the line of a row stand for its fold. The fold is parked unless one of its rows is not.
func (f *folder) standFor(n *line, row int) {
	n.kind = f.kindOfFold(f.block.Profile(row), f.block.AggregateIDs()[row])
	n.status, n.domain = isFold|isParked|hasSame, 0
}

// leave takes a row out of its fold. What the fold's Need claims stays on the line until credit
// lets go of it.
func (f *folder) leave(x *clusterState, row int) {
	line := f.base + int32(row)
	n := &f.p.lines[line]
	d := f.foldDue(x, n.group)
	d.rows--
	n.status &^= isFold | isMember
	d.recount = d.recount || line == d.row || line == d.first || f.anyParked()
}

// anyParked reports whether a row of the cluster at work is parked.
func (f *folder) anyParked() bool {
	return slices.ContainsFunc(f.block.ParkedWords(), func(word uint64) bool { return word != 0 })
}

// recount finds among the rows of the cluster at work what has changed of folds beyond their number of
// rows: the line that stands for them, the first row, and whether all are parked.
func (f *folder) recount(x *clusterState) {
	list, none := x.folds.list, true
	for _, number := range f.dueFolds {
		if d := &list[number]; d.recount {
			d.row, none = noNeed, false
		}
	}
	if none {
		return
	}
	lines := f.p.lines[f.base:][:f.block.Len()]
	for row := range lines {
		n := &lines[row]
		if n.status&(isFold|isMember) == 0 || !list[n.group].recount {
			continue
		}
		d, line, arrival := &list[n.group], f.base+int32(row), f.block.Arrival(row)
		if d.row == noNeed {
			d.row, d.first, d.arrival = line, line, arrival
			f.standFor(n, row)
		} else {
			if n.is(isFold) {
				x.letGo = append(x.letGo, line)
			}
			n.status, n.domain = isMember|hasSame, uint32(d.row)
			d.place(line, arrival)
		}
		if !f.block.Parked(row) {
			lines[d.row-f.base].status &^= isParked
		}
	}
	for _, number := range f.dueFolds {
		list[number].recount = false
	}
}

// settleFolds brings the folds up to date that rows have come to or left.
func (f *folder) settleFolds(x *clusterState) {
	for _, number := range f.dueFolds {
		d := &x.folds.list[number]
		if d.due = false; d.rows == 0 {
			d.row, x.folds.unused = x.folds.unused, int32(number)+1
			continue
		}
		sum := x.folds.sum(number, f.p.dims)
		clear(sum)
		columnar.SatAddScaled(sum, f.block.Aggregate(int(d.row-f.base)), int64(d.rows))
		f.touched = append(f.touched, d.first-f.base)
		if x.replay {
			f.p.lines[d.row].status |= isStale | isChanged
		}
	}
	f.dueFolds = f.dueFolds[:0]
}
