package demand

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// Block is one cluster's demand as columns, row i at index i of each. Vectors
// have Stride values each, in the table's dimension order at the time the
// block was built; dimensions that came later are zero.
type Block struct {
	cluster   string
	profile   []uint32
	arrival   []int64
	aggregate []int64
	unit      []uint32 // place of the minimum unit in units
	units     []int64  // the different minimum units, vector after vector
	parked    []bool
	stride    int
	// Row i's group is groupText[groupEnd[i-1]:groupEnd[i]]; no groupEnd at all
	// when no row has a group.
	groupText string
	groupEnd  []uint32
	// Sparse columns: most rows have neither.
	minAggregate map[int]model.Resources
	shortSince   map[int]int64
}

// Len returns the number of rows.
func (b *Block) Len() int { return len(b.profile) }

// Cluster returns the id of the cluster that the rows belong to.
func (b *Block) Cluster() string { return b.cluster }

// Stride returns the length of the block's vectors.
func (b *Block) Stride() int { return b.stride }

// Profile returns the id of a row's profile.
func (b *Block) Profile(i int) uint32 { return b.profile[i] }

// Group returns a row's group.
func (b *Block) Group(i int) string {
	if b.groupEnd == nil {
		return ""
	}
	from := uint32(0)
	if i > 0 {
		from = b.groupEnd[i-1]
	}
	return b.groupText[from:b.groupEnd[i]]
}

// Arrival returns a row's arrival in Unix nanoseconds.
func (b *Block) Arrival(i int) int64 { return b.arrival[i] }

// Parked tells whether a row is parked.
func (b *Block) Parked(i int) bool { return b.parked[i] }

// Aggregate returns a row's aggregate vector; do not modify.
func (b *Block) Aggregate(i int) []int64 { return b.aggregate[i*b.stride : (i+1)*b.stride] }

// MinUnit returns a row's minimum unit; do not modify.
func (b *Block) MinUnit(i int) []int64 {
	at := int(b.unit[i]) * b.stride
	return b.units[at : at+b.stride]
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

// build makes the block of a cluster's checked rows, whose dimensions are
// known, and takes hold of their profiles.
func (t *Table) build(cluster string, rows []model.Need) *Block {
	n, stride := len(rows), len(t.dims.names)
	b := &Block{
		cluster: cluster, stride: stride,
		profile: make([]uint32, n), arrival: make([]int64, n), parked: make([]bool, n),
		aggregate: make([]int64, n*stride), unit: make([]uint32, n),
	}
	b.setGroups(rows)
	t.units.start(stride)
	for i := range rows {
		r := &rows[i]
		b.profile[i] = t.profiles.hold(r.Profile)
		b.arrival[i] = r.Arrival
		b.parked[i] = r.Parked
		t.dims.fill(b.Aggregate(i), r.Aggregate)
		t.dims.fill(t.units.vector, r.MinUnit)
		b.unit[i] = t.units.put()
		if len(r.MinAggregate) > 0 {
			if b.minAggregate == nil {
				b.minAggregate = map[int]model.Resources{}
			}
			b.minAggregate[i] = r.MinAggregate
		}
		if r.ShortSince != 0 {
			b.setShortSince(i, r.ShortSince)
		}
	}
	b.units = slices.Clone(t.units.vectors)
	return b
}

// setGroups writes the groups of all rows one after the other.
func (b *Block) setGroups(rows []model.Need) {
	total := 0
	for i := range rows {
		total += len(rows[i].Group)
	}
	if total == 0 {
		return
	}
	var text strings.Builder
	text.Grow(total)
	b.groupEnd = make([]uint32, len(rows))
	for i := range rows {
		text.WriteString(rows[i].Group)
		b.groupEnd[i] = uint32(text.Len())
	}
	b.groupText = text.String()
}

// unitWriter collects the minimum units of a block, of which a cluster has few,
// once each. It is scratch: the next block reuses its memory.
type unitWriter struct {
	vectors []int64
	ids     map[string]uint32
	vector  []int64 // the next to put, zero before it is filled
	key     []byte
}

// start begins a block with vectors of stride values.
func (w *unitWriter) start(stride int) {
	w.vectors = w.vectors[:0]
	clear(w.ids)
	w.vector = slices.Grow(w.vector[:0], stride)[:stride]
	clear(w.vector)
}

// put returns the place of the vector and clears it.
func (w *unitWriter) put() uint32 {
	w.key = w.key[:0]
	for _, v := range w.vector {
		w.key = binary.LittleEndian.AppendUint64(w.key, uint64(v))
	}
	id, ok := w.ids[string(w.key)]
	if !ok {
		id = uint32(len(w.ids))
		w.ids[string(w.key)] = id
		w.vectors = append(w.vectors, w.vector...)
	}
	clear(w.vector)
	return id
}

// bytes returns what the block holds.
func (b *Block) bytes() int64 {
	return int64(cap(b.profile)+cap(b.unit)+cap(b.groupEnd))*4 + int64(len(b.groupText)) + int64(cap(b.parked)) +
		int64(cap(b.arrival)+cap(b.aggregate)+cap(b.units))*8 +
		int64(len(b.minAggregate))*2*(8+24+3*24) + int64(len(b.shortSince))*2*16
}

// check says what is wrong with a row, "" = nothing.
func check(cluster string, r *model.Need) string {
	switch {
	case r.Profile == nil:
		return "has no profile"
	case r.Cluster != "" && r.Cluster != cluster:
		return fmt.Sprintf("names cluster %.*q", model.NameBytesMax, r.Cluster)
	case len(r.Group) > model.NameBytesMax:
		return fmt.Sprintf("has a group of %d bytes; at most %d are accepted", len(r.Group), model.NameBytesMax)
	case !r.Aggregate.Canonical() || !r.MinUnit.Canonical() || !r.MinAggregate.Canonical():
		return "has a vector that is not sorted by name, with each name once and each value positive"
	}
	return ""
}
