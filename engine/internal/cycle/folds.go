package cycle

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
)

// Fold is several rows of one cluster that are decided as one Need. They agree in aggregate, and in
// what their profiles fold to.
type Fold struct {
	Row     int32 // the line that stands for them, the lowest; of an unused number 1 + the next unused one
	First   int32 // the first of them in rank order
	Rows    int32 // how many they are; 0 = the number is unused
	Arrival int64 // of First
	Due     bool  // rows came or left: settleFolds of package order is still to be called
	Recount bool  // Row, First and what is parked are to be found among the rows
}

// folds are the folds of one cluster, by number.
type folds struct {
	List   []Fold
	sums   []int64 // of the aggregates of a fold's rows: Pass.Dims for each number
	Unused int32   // 1 + the first unused number; 0 = none
}

func (x *folds) Reset() { x.List, x.sums, x.Unused = x.List[:0], x.sums[:0], 0 }

func (x *folds) Sum(number uint32, dims int) []int64 { return x.sums[int(number)*dims:][:dims:dims] }

// Start returns the number of a fold that has no rows yet.
func (x *folds) Start(a *alloc.Arena, dims int) uint32 {
	if x.Unused > 0 {
		number := uint32(x.Unused - 1)
		x.Unused = x.List[number].Row
		x.List[number] = Fold{}
		return number
	}
	x.List = alloc.Append(a, x.List, Fold{})
	for range dims {
		x.sums = alloc.Append(a, x.sums, 0)
	}
	return uint32(len(x.List) - 1)
}

// Swap is a Need that sits on the rank slot of another Need with the same stamp.
type Swap struct{ RankSlot, Need int32 }

// CreatedFor is a machine that is being created for a member of a fold; Need is the fold.
type CreatedFor struct {
	Row  columnar.Row
	Need int32
}

// Place notes a row that may be the first in rank order: rows of a fold differ only in arrival and number.
func (d *Fold) Place(line int32, arrival int64) {
	if arrival < d.Arrival || arrival == d.Arrival && line < d.First {
		d.First, d.Arrival = line, arrival
	}
}
