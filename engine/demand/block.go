package demand

import (
	"cmp"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Block is one cluster's demand as columns, row i at index i of each. It is a
// view: what its methods return is good until the table changes, and must not
// be modified.
//
// Aggregates and minimum units are numbers of vectors; see Table.Vector.
type Block struct {
	cluster   string
	table     *Table
	profile   []uint32
	arrival   []int64
	aggregate []uint32
	unit      []uint32
	group     []uint32 // nil when no row has a group
	parked    []uint64 // a bit per row
	version   uint64
	uneven    []uint32
	twins     []uint32
	// Sparse columns: most rows have neither.
	minAggregate map[int]model.Resources
	shortSince   map[int]int64
	unoffered    map[int]Unoffered
}

// Len returns the number of rows.
func (b *Block) Len() int { return len(b.profile) }

// Cluster returns the id of the cluster that the rows belong to.
func (b *Block) Cluster() string { return b.cluster }

// Version is the table's at the last change of the block: of what Changes
// counts as a change of a row, of which rows there are, or of the numbers of
// dimensions. Equal versions of a cluster's blocks say equal demand.
func (b *Block) Version() uint64 { return b.version }

// Profiles returns the numbers of the rows' profiles; see Table.Profile.
func (b *Block) Profiles() []uint32 { return b.profile }

// Arrivals returns the rows' arrivals in Unix nanoseconds.
func (b *Block) Arrivals() []int64 { return b.arrival }

// AggregateIDs returns the numbers of the rows' aggregates; see Table.Vector.
func (b *Block) AggregateIDs() []uint32 { return b.aggregate }

// UnitIDs returns the numbers of the rows' minimum units; see Table.Vector.
func (b *Block) UnitIDs() []uint32 { return b.unit }

// GroupIDs returns the numbers of the rows' groups, 0 = none; see
// Table.GroupName. It is nil when no row has a group.
func (b *Block) GroupIDs() []uint32 { return b.group }

// ParkedWords returns the parked rows as bits: row i is bit i%64 of word i/64.
// Bits beyond the last row are zero.
func (b *Block) ParkedWords() []uint64 { return b.parked }

// Profile returns the number of a row's profile.
func (b *Block) Profile(i int) uint32 { return b.profile[i] }

// GroupID returns the number of a row's group, 0 = none.
func (b *Block) GroupID(i int) uint32 {
	if b.group == nil {
		return 0
	}
	return b.group[i]
}

// Group returns a row's group. It stays good when the table changes.
func (b *Block) Group(i int) string { return b.table.GroupName(b.GroupID(i)) }

// Arrival returns a row's arrival in Unix nanoseconds.
func (b *Block) Arrival(i int) int64 { return b.arrival[i] }

// Uneven returns the rows that agree in profile and group with a row of another
// minimum unit, ascending.
func (b *Block) Uneven() []uint32 { return b.uneven }

// Twins returns the rows without Same that agree in profile and group with another row: those that agree one
// after the other, each time ascending.
func (b *Block) Twins() []uint32 { return b.twins }

// TwinsOf returns the part of Twins that agrees with a row; empty when the row has no Twin. O(log rows).
func (b *Block) TwinsOf(row int) []uint32 {
	kind := b.kind(row)
	from, found := slices.BinarySearchFunc(b.twins, kind, func(twin uint32, kind uint64) int { return cmp.Compare(b.kind(int(twin)), kind) })
	if !found {
		return nil
	}
	rows, _ := b.TwinsAt(from)
	return rows
}

// TwinsAt returns the part of Twins that agrees with its i-th row, and how many of the part stand before that row.
// O(rows of the part).
func (b *Block) TwinsAt(i int) (rows []uint32, before int) {
	kind, from, to := b.kind(int(b.twins[i])), i, i+1
	for from > 0 && b.kind(int(b.twins[from-1])) == kind {
		from--
	}
	for to < len(b.twins) && b.kind(int(b.twins[to])) == kind {
		to++
	}
	return b.twins[from:to], i - from
}

// Parked tells whether a row is parked.
func (b *Block) Parked(i int) bool { return b.parked[i/64]>>(i%64)&1 != 0 }

// Aggregate returns a row's aggregate, as Table.Vector does: without what
// Unoffered returns.
func (b *Block) Aggregate(i int) []int64 { return b.table.Vector(b.aggregate[i]) }

// MinUnit returns a row's minimum unit, as Table.Vector does: without what
// Unoffered returns.
func (b *Block) MinUnit(i int) []int64 { return b.table.Vector(b.unit[i]) }

// MinAggregate returns what a row can live with; empty = its aggregate.
func (b *Block) MinAggregate(i int) model.Resources { return b.minAggregate[i] }

// ShortSince returns since when a row has been short in Unix nanoseconds, 0 =
// it is not.
func (b *Block) ShortSince(i int) int64 { return b.shortSince[i] }

// setParked tells whether the row's flag was another.
func (b *Block) setParked(i int, parked bool) bool {
	if b.Parked(i) == parked {
		return false
	}
	b.parked[i/64] ^= 1 << (i % 64)
	return true
}

func (b *Block) setShortSince(row int, at int64) {
	if at == 0 {
		delete(b.shortSince, row)
		return
	}
	if b.shortSince == nil {
		b.shortSince = map[int]int64{}
	}
	b.shortSince[row] = at
}

// bytes returns what the block holds.
func (b *Block) bytes() int64 {
	return int64(cap(b.profile)+cap(b.aggregate)+cap(b.unit)+cap(b.group)+cap(b.uneven)+cap(b.twins))*4 + int64(cap(b.arrival)+cap(b.parked))*8 +
		int64(len(b.minAggregate))*2*(8+24+3*24) + int64(len(b.shortSince))*2*16 + int64(len(b.unoffered))*2*(8+48+2*24)
}
