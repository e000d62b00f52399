package engine

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// fold is several rows that are decided as one Need.
type fold struct {
	row     int32   // the line that stands for them
	first   int32   // the first of them in rank order
	rows    int32   // how many they are
	arrival int64   // of first
	sum     []int64 // of their aggregates
}

// foldBits is how many bits of a fold's number are its index; the bits above are the worker that made
// it.
const foldBits = 23

// foldList is the folds that one worker has made, by index.
type foldList struct {
	made []fold
	// unused are numbers of dissolved folds, to be reused.
	unused []int32
}

func (x *foldList) at(number int32) *fold { return &x.made[number&(1<<foldBits-1)] }

func (x *foldList) reset() { x.made, x.unused = x.made[:0], x.unused[:0] }

// start returns the number of a new fold without members, whose sum has dims dimensions.
func (x *foldList) start(worker, dims int, sums *alloc.Arena) int32 {
	if last := len(x.unused) - 1; last >= 0 {
		number := x.unused[last]
		x.unused = x.unused[:last]
		if sum := x.at(number).sum; len(sum) == dims {
			clear(sum)
			*x.at(number) = fold{sum: sum}
			return number
		}
		// The sum of other dimensions is garbage until the store starts over.
		*x.at(number) = fold{sum: alloc.Make[int64](sums, dims)}
		return number
	}
	x.made = append(x.made, fold{sum: alloc.Make[int64](sums, dims)})
	return int32(worker<<foldBits | (len(x.made) - 1))
}

// startFold starts a fold on the line of a row, which then joins it.
func (f *folder) startFold(profile, aggregate uint32, row int) int32 {
	p := f.p
	member := p.s.Demand.Vector(aggregate)
	folds := &p.e.store.folds[f.worker]
	at := folds.start(f.worker, len(member), f.sums)
	number := int32(row) + f.base
	x := folds.at(at)
	x.row, x.first, x.arrival = number, number, f.block.Arrival(row)
	n := &p.lines[number]
	n.kind = f.kindOfFold(profile, aggregate, member)
	n.group, n.status = uint32(at), isFold|isParked
	return at
}

// kindOfFold returns the kind of a fold of rows with a profile and an aggregate, memoized by profile.
func (f *folder) kindOfFold(profile, aggregate uint32, member []int64) uint32 {
	last := &f.foldKinds[profile]
	if last.kind == 0 || last.unit != aggregate {
		mask := positive(member)
		*last = lastKind{mask, aggregate, 1 + f.p.e.store.kinds.ofFold(f.p.s, profile, member, mask)}
	}
	return last.kind - 1
}

// join adds a row to a fold.
func (f *folder) join(at int32, row int) {
	p := f.p
	x := p.e.store.folds[f.worker].at(at)
	line := int32(row) + f.base
	if line != x.row {
		p.lines[line].status, p.lines[line].domain = isMember, uint32(x.row)
	}
	if !f.block.Parked(row) {
		p.lines[x.row].status &^= isParked
	}
	// The first member in rank order: members differ only in arrival and row.
	if arrival := f.block.Arrival(row); arrival < x.arrival {
		x.arrival, x.first = arrival, line
	}
	x.rows++
	columnar.SatAdd(x.sum, f.block.Aggregate(row))
}

// unfold dissolves the folds of the cluster at work, before its lines are made again.
func (f *folder) unfold() {
	if f.p.fresh || !f.p.e.store.clusters[f.c].hasSame {
		return
	}
	lines := f.p.lines[f.base:][:f.p.sources[f.c].had]
	for row := range lines {
		if n := &lines[row]; n.is(isFold) {
			f.unused = append(f.unused, int32(n.group))
			n.status &^= isFold
		}
	}
}

// giveBackFolds returns the numbers of dissolved folds to the workers that made them.
func (p *pass) giveBackFolds() {
	for i := range p.e.workers {
		f := &p.e.workers[i].folder
		for _, number := range f.unused {
			owner := &p.e.store.folds[number>>foldBits]
			owner.unused = append(owner.unused, number)
		}
		f.unused = f.unused[:0]
	}
}

// foldsKept is the slack of manyFolds.
const foldsKept = 1 << 12

// manyFolds reports whether there are more folds than lines could need. That happens when clusters move
// between workers: each worker reuses only its own numbers. The store then starts over.
func (p *pass) manyFolds() bool {
	n := 0
	for i := range p.e.store.folds {
		n += len(p.e.store.folds[i].made)
	}
	return n > len(p.e.store.lines)+foldsKept
}
