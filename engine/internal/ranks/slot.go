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

// Slot is the entry of the sort for one Need. It has the number of the Need's first row in rank
// order, or, after a swap, of the first row of another Need with the same stamp.
type Slot struct {
	Arrival int64
	Need    int32 // None: the row is a member of a fold that has another slot
	Kind    uint32
}

// None stands where a column holds the number of a Need and there is none.
const None int32 = -1
