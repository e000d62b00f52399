package demand

import (
	"cmp"
	"slices"
	"unsafe"
)

// ClusterChange says what may have changed in one cluster.
type ClusterChange struct {
	Cluster string
	// Whole: rows came or went, so that a number stands for another row now, or
	// too many rows changed to name them. Block says what there is now, nil
	// when the cluster has no rows any more.
	Whole bool
	// Rows of the block that may have changed, ascending, each once; none when
	// Whole. No rows at all: the cluster reported for the first time.
	Rows []uint32
	// Arrived are the rows whose arrival may have changed, ascending: some of Rows; of a Whole change all such rows that there
	// were before, and those that are new. AllArrived: that of any row may have changed.
	Arrived    []uint32
	AllArrived bool
}

// The bounds of what is remembered of the past: so many rows, and so many changes of
// clusters, for each that there is, that what passes them is cheaper to look at as a
// whole. Small tables may remember more.
const (
	changedRowsMax    = 1 << 18
	changedRowsLeast  = 1 << 10
	changedRowsPer    = 2 // one for so many rows of the table
	changesMax        = 1 << 15
	changesLeast      = 1 << 8
	changesPerCluster = 8
	// A block of which more than one row in so many changes has changed as a
	// whole; but a few rows are named always.
	changedShare   = 4
	changedRowsMin = 16
)

// tooMany tells whether so many rows of a block are not worth naming.
func tooMany(rows, of int) bool { return rows > changedRowsMin && rows*changedShare > of }

// change is an entry of the log. Its rows are those of the log's rows from first up
// to the next entry's.
type change struct {
	version uint64 // when it was last added to
	cluster string
	first   uint32
	whole   bool // the rows are those that arrived
	all     bool // whole, and any row may have arrived
	open    bool // rows that change one by one may still join
}

// changedRow is a row that has changed, above a bit that says whether its arrival has.
type changedRow uint32

const arrivedBit changedRow = 1

func (x changedRow) row() uint32 { return uint32(x >> 1) }

// The number of every row leaves the bit free.
const _ = 1<<31 - uint(RowsMax)

// changeLog remembers the latest changes, in their order.
type changeLog struct {
	entries []change
	rows    []changedRow
	from    uint64 // changes up to this version are forgotten
	// How many rows and entries are remembered.
	rowsMax, entriesMax int
	// Scratch of the answer.
	order   []int32
	answer  []ClusterChange
	merging []changedRow
	merged  []uint32
	arrived []uint32
}

// fit bounds what is remembered by the size of the table.
func (l *changeLog) fit(rows, clusters int) {
	l.rowsMax = min(max(rows/changedRowsPer, changedRowsLeast), changedRowsMax)
	l.entriesMax = min(max(clusters*changesPerCluster, changesLeast), changesMax)
}

// note remembers that rows of a cluster's block changed, which has so many. renumbered: rows came or went. It overwrites rows.
func (l *changeLog) note(version uint64, cluster string, rows []changedRow, of int, renumbered bool) {
	x := change{version: version, cluster: cluster, whole: renumbered || tooMany(len(rows), of)}
	if x.whole {
		rows = slices.DeleteFunc(rows, func(r changedRow) bool { return r&arrivedBit == 0 })
		if x.all = tooMany(len(rows), of); x.all {
			rows = nil
		}
	}
	l.makeRoom(len(rows))
	x.first = uint32(len(l.rows))
	l.entries = append(l.entries, x)
	l.rows = append(l.rows, rows...)
}

// noteOne is note for rows that change one by one: as long as nobody asks in
// between, those of a cluster are one entry.
func (l *changeLog) noteOne(version uint64, cluster string, row uint32, of int) {
	l.makeRoom(1)
	last := len(l.entries) - 1
	if last < 0 || !l.entries[last].open || l.entries[last].cluster != cluster {
		l.entries = append(l.entries, change{cluster: cluster, first: uint32(len(l.rows)), open: true})
		last++
	}
	x := &l.entries[last]
	x.version = version
	if x.whole {
		return
	}
	if l.rows = append(l.rows, changedRow(row)<<1); tooMany(len(l.rows)-int(x.first), of) {
		x.whole, l.rows = true, l.rows[:x.first]
	}
}

// makeRoom forgets the older half of the changes when there are too many.
func (l *changeLog) makeRoom(rows int) {
	for len(l.entries) > 0 && (len(l.rows)+rows > l.rowsMax || len(l.entries) >= l.entriesMax) {
		l.forgetHalf()
	}
}

func (l *changeLog) forgetHalf() {
	n := (len(l.entries) + 1) / 2
	l.from = l.entries[n-1].version
	first := uint32(len(l.rows))
	if n < len(l.entries) {
		first = l.entries[n].first
	}
	l.rows = l.rows[:copy(l.rows, l.rows[first:])]
	l.entries = slices.Delete(l.entries, 0, n)
	for i := range l.entries {
		l.entries[i].first -= first
	}
}

// forget makes every answer about what has been incomplete.
func (l *changeLog) forget(version uint64) {
	clear(l.entries)
	l.entries, l.rows, l.from = l.entries[:0], l.rows[:0], version
}

// since returns the changes after a version, by cluster.
func (l *changeLog) since(version uint64) []ClusterChange {
	if last := len(l.entries) - 1; last >= 0 {
		l.entries[last].open = false
	}
	first, _ := slices.BinarySearchFunc(l.entries, version, func(x change, v uint64) int {
		if x.version <= v {
			return -1
		}
		return 1
	})
	l.order = l.order[:0]
	for i := first; i < len(l.entries); i++ {
		l.order = append(l.order, int32(i))
	}
	slices.SortFunc(l.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(l.entries[a].cluster, l.entries[b].cluster), cmp.Compare(a, b))
	})
	clear(l.answer)
	l.answer, l.merged, l.arrived = l.answer[:0], slices.Grow(l.merged[:0], len(l.rows)), l.arrived[:0]
	for order := l.order; len(order) > 0; {
		n := 1
		for n < len(order) && l.entries[order[n]].cluster == l.entries[order[0]].cluster {
			n++
		}
		l.answer = append(l.answer, l.merge(order[:n]))
		order = order[n:]
	}
	return l.answer
}

// merge makes one change of a cluster's entries. l.merged has room for them.
func (l *changeLog) merge(entries []int32) ClusterChange {
	c := ClusterChange{Cluster: l.entries[entries[0]].cluster}
	l.merging = l.merging[:0]
	for _, i := range entries {
		c.Whole, c.AllArrived = c.Whole || l.entries[i].whole, c.AllArrived || l.entries[i].all
		to := uint32(len(l.rows))
		if int(i)+1 < len(l.entries) {
			to = l.entries[i+1].first
		}
		l.merging = append(l.merging, l.rows[l.entries[i].first:to]...)
	}
	slices.Sort(l.merging)
	rows, arrived := len(l.merged), len(l.arrived)
	for i, x := range l.merging {
		if i+1 < len(l.merging) && l.merging[i+1].row() == x.row() {
			continue // the last one of a row has the bit if any has
		}
		if !c.Whole {
			l.merged = append(l.merged, x.row())
		}
		if x&arrivedBit != 0 {
			l.arrived = append(l.arrived, x.row())
		}
	}
	if rows < len(l.merged) {
		c.Rows = l.merged[rows:len(l.merged):len(l.merged)]
	}
	if arrived < len(l.arrived) {
		c.Arrived = l.arrived[arrived:len(l.arrived):len(l.arrived)]
	}
	return c
}

func (l *changeLog) bytes() int64 {
	return int64(cap(l.entries))*int64(unsafe.Sizeof(change{})) + int64(cap(l.answer))*int64(unsafe.Sizeof(ClusterChange{})) +
		int64(cap(l.rows)+cap(l.order)+cap(l.merging)+cap(l.merged)+cap(l.arrived))*4
}

// Version changes whenever the demand does, and never goes back.
func (t *Table) Version() uint64 { return t.version }

// Changes returns what may have changed after a version that Version returned,
// by cluster in the order of their ids. It is good until the next call of
// Changes and must not be modified. O(changes), without allocation in a steady
// state.
//
// A row has changed when its profile, aggregate, minimum unit, least aggregate,
// group, arrival or parked flag has, by number or by value; since when it has
// been short does not count. A row that changed and changed back is named; one
// that was reported again as it was is not. A number of a profile, group or
// vector that means another thing than at that version is one that no
// row had at some time in between, so rows that have it are named. Clusters
// that reported for the first time are named, since what is bound to them may
// be reclaimed from now on.
//
// complete is false, and nothing is returned, when not every change is known:
// there were too many, or the dimensions have other numbers now. The caller
// then looks at everything anew. Dimensions that are added after those there
// are change no row; see Numbering.
func (t *Table) Changes(since uint64) (clusters []ClusterChange, complete bool) {
	if since < t.log.from || since > t.version {
		return nil, false
	}
	return t.log.since(since), true
}

// Numbering counts the changes of what numbers mean, by what they number. Two
// equal values, at two times, say that every number which was in use at the
// first means the same at the second.
type Numbering struct {
	Profiles, Vectors, Groups uint64 // a number got a meaning
	Dims                      uint64 // dimensions were added, or have other numbers
}

// Numbering returns the table's.
func (t *Table) Numbering() Numbering {
	return Numbering{Profiles: t.profiles.version, Vectors: t.vectors.version, Groups: t.groups.version, Dims: t.dims.version}
}
