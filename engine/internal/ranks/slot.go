// Package ranks puts Needs into their total order, from nothing or by merging those that moved.
//
// Needs have one total order: priority, interruption bucket and reclamation bucket descending, then
// arrival, cluster and row ascending. What precedes the arrival is the worth of the Need's kind, and
// kinds are few. So the distinct worths are numbered, and a Need's sort key is that number above its
// arrival, relative to the earliest one. Rows are numbered cluster by cluster in the order of the
// clusters' ids, and the radix sort is stable, so the input order settles ties.
//
// Needs of one stamp then change places; the caller swaps their slots.
//
// Most changes of demand change only how much is wanted: the order stays that of the last cycle. Rows
// that come, go, or change in worth or arrival are removed from the order and inserted again; see
// Ranking.
package ranks

import (
	"iter"
	"sort"

	"github.com/tonnage/tonnage/engine/internal/state"
)

// Slots has a slot for each row. Its arrival is that of the row. A Need sits on the slot of its first row in rank order, or,
// after a swap, on that of another Need with the same stamp.
type Slots struct {
	Needs   []int32        // by slot: the Need that sits on it; None: the row is a member of a fold that has another slot
	Sources []state.Source // the rows of the clusters, ascending by Base
	Atlas   *state.Atlas
	Lines   []state.Line // by Need: its kind
}

// run is consecutive slots of one cluster.
type run struct {
	first    int // slot
	needs    []int32
	arrivals []int64
}

// runs returns the slots of a range, cluster by cluster.
func (x *Slots) runs(from, to int) iter.Seq[run] {
	return func(yield func(run) bool) {
		c := sort.Search(len(x.Sources), func(c int) bool { return int(x.Sources[c].Base)+x.Sources[c].Rows > from })
		for ; c < len(x.Sources) && int(x.Sources[c].Base) < to; c++ {
			src := &x.Sources[c]
			if src.Block == nil {
				continue
			}
			base := int(src.Base)
			first, end := max(base, from), min(base+src.Rows, to)
			if !yield(run{first, x.Needs[first:end], src.Block.Arrivals()[first-base : end-base]}) {
				return
			}
		}
	}
}

// kindOf returns the kind of a Need.
func (x *Slots) kindOf(need int32) uint32 { return x.Lines[need].Kind }

// Arrival returns the arrival of a slot.
func (x *Slots) Arrival(slot int32) int64 {
	src := &x.Sources[x.Atlas.ClusterOf(slot)]
	return src.Block.Arrival(int(slot - src.Base))
}

// None stands where a column holds the number of a Need and there is none.
const None int32 = -1
