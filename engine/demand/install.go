package demand

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// ValuesMax is the most values that the aggregates and minimum units of one
// cluster may have: different ones × the dimensions that there are up to the last
// one named.
const ValuesMax = 1 << 24

// installer is the scratch of taking over a builder's rows.
type installer struct {
	place   [NamesMax]uint8   // by the builder's name: the table's dimension, noDim if it has none
	profile []uint32          // by the builder's profile: the table's, held
	vector  []uint32          // by the builder's vector: the table's
	group   []uint32          // by row
	beyond  []model.Resources // by the builder's vector: what of it has no dimension; empty when all has
	values  []int64           // scratch
	changed []uint64          // a bit per row
	arrived []uint64          // a bit per row whose arrival is another
	rows    []changedRow      // both as a list
	match   matcher
	uneven  unevenScratch
}

// Install makes the builder's rows the whole demand of its cluster; none clear
// it. Whether the cluster has reported stays as it was. The rows were checked
// as they were added; what is left is checked against the demand of the others,
// and nothing changes when it is refused. The builder is used up afterwards, until
// the next Reset.
//
// A block whose rows stay as many keeps its memory, and rows that are what
// they were count as unchanged. Cost: O(rows).
func (t *Table) Install(b *Builder) error { return t.take(b, false) }

// Report is Install for what a cluster reports itself. A row continues one of
// the demand before that has the same profile and group: it has arrived when
// that did, if that was earlier, and while it asks for as much it is parked and
// short as that was. Of several such rows the first and last in order continue
// those at the same distance from the beginning and the end, and those between
// them continue in their order.
func (t *Table) Report(b *Builder) error {
	if err := t.take(b, true); err != nil {
		return err
	}
	t.MarkReported(b.cluster)
	return nil
}

func (t *Table) take(b *Builder, continued bool) error {
	if b.err != nil {
		return b.err
	}
	old := t.blocks[b.cluster]
	if old == nil && b.Len() > 0 && len(t.blocks) >= ClustersMax {
		return fmt.Errorf("roll-up of cluster %q: %d clusters have demand; no more are accepted", b.cluster, ClustersMax)
	}
	if err := t.placeDims(b); err != nil {
		return fmt.Errorf("roll-up of cluster %q: %w", b.cluster, err)
	}
	switch {
	case b.Len() > 0:
		t.write(b, old, continued)
	case old != nil:
		t.remove(old)
	}
	t.vectors.sweep()
	t.groups.sweep()
	b.err = errTaken
	return nil
}

var errTaken = errors.New("the roll-up was taken over already; Reset the builder before the next one")

// remove forgets a cluster's rows.
func (t *Table) remove(b *Block) {
	t.releaseRows(b, 0)
	t.rows -= b.Len()
	delete(t.blocks, b.cluster)
	i, _ := slices.BinarySearch(t.order, b.cluster)
	t.order = slices.Delete(t.order, i, i+1)
	t.log.fit(t.rows, len(t.order))
	t.version++
	t.log.note(t.version, b.cluster, nil, 0, true)
}

// releaseRows lets go of what the rows from one on name.
func (t *Table) releaseRows(b *Block, from int) {
	for _, p := range b.profile[from:] {
		t.profiles.release(p)
	}
	for i := range b.unit[from:] {
		t.vectors.release(b.aggregate[from+i])
		t.vectors.release(b.unit[from+i])
	}
	if b.group != nil {
		for _, g := range b.group[from:] {
			t.groups.release(g)
		}
	}
}

// write makes the builder's rows, of which there are some, the cluster's.
// Nothing can be refused any more.
func (t *Table) write(b *Builder, old *Block, continued bool) {
	x, n := &t.installer, b.Len()
	t.resolve(b, old)
	block, had := old, 0
	if old == nil {
		block = &Block{cluster: b.cluster, table: t}
	} else {
		had = old.Len()
		if continued {
			t.continueRows(b, old)
		}
	}
	for _, set := range []*[]uint64{&x.changed, &x.arrived} {
		*set = slices.Grow((*set)[:0], (n+63)/64)[:(n+63)/64]
		clear(*set)
	}
	t.writeRefs(b, block, min(had, n))
	block.findUneven(x, len(t.profiles.byID))
	block.writeArrivals(x, b.arrival)
	block.writeParked(x, b, n)
	block.writeSparse(x, b)
	block.writeUnoffered(x, b)
	for _, p := range x.profile {
		t.profiles.release(p) // of resolve; the rows hold theirs
	}
	t.rows += n - had
	if old == nil {
		t.blocks[b.cluster] = block
		i, _ := slices.BinarySearch(t.order, b.cluster)
		t.order = slices.Insert(t.order, i, b.cluster)
	}
	t.log.fit(t.rows, len(t.order))
	t.noteWritten(block, n != had)
}

// noteWritten tells the log what write has changed.
func (t *Table) noteWritten(block *Block, renumbered bool) {
	x := &t.installer
	x.rows = x.rows[:0]
	for w, word := range x.changed {
		for ; word != 0; word &= word - 1 {
			at := bits.TrailingZeros64(word)
			x.rows = append(x.rows, changedRow(w*64+at)<<1|changedRow(x.arrived[w]>>at&1))
		}
	}
	if len(x.rows) == 0 && !renumbered {
		return
	}
	t.version++
	block.version = t.version
	t.log.note(t.version, block.cluster, x.rows, block.Len(), renumbered)
}

func (x *installer) mark(row int) { x.changed[row/64] |= 1 << (row % 64) }

// resolve finds the table's numbers for what the builder numbered by itself.
// It holds the profiles; vectors and groups without a holder stay until the
// sweep.
func (t *Table) resolve(b *Builder, old *Block) {
	x := &t.installer
	x.profile, x.vector, x.group = x.profile[:0], x.vector[:0], x.group[:0]
	for _, p := range b.profiles {
		x.profile = append(x.profile, t.profiles.hold(p))
	}
	x.values = resized(x.values[:0], len(t.dims.names))
	x.beyond = x.beyond[:0]
	for i := range b.vectors.len() {
		clear(x.values)
		dim, value := b.vectors.vectors.at(i)
		beyond := false
		for j, d := range dim {
			if at := x.place[d]; at != noDim {
				x.values[at] = value[j]
			} else {
				beyond = true
			}
		}
		x.vector = append(x.vector, t.vectors.put(x.values))
		if beyond {
			x.keepBeyond(b, i)
		}
	}
	if len(b.groupText) == 0 {
		return
	}
	x.group = slices.Grow(x.group, b.Len())
	for i := range b.Len() {
		text := b.group(i)
		// Most rows have the group that they had.
		if old != nil && i < old.Len() && old.Group(i) == string(text) {
			x.group = append(x.group, old.GroupID(i))
			continue
		}
		x.group = append(x.group, t.groups.put(text))
	}
}

// writeRefs writes the columns of numbers that are counted; kept rows were
// there before.
func (t *Table) writeRefs(b *Builder, block *Block, kept int) {
	x, n := &t.installer, b.Len()
	if block.Len() > n {
		t.releaseRows(block, n)
	}
	block.profile = resized(block.profile, n)
	for i, p := range b.profile {
		if id := x.profile[p]; i >= kept {
			t.profiles.refs[id]++
			block.profile[i] = id
		} else if was := block.profile[i]; was != id {
			t.profiles.refs[id]++
			t.profiles.release(was)
			block.profile[i] = id
			x.mark(i)
		}
	}
	block.aggregate, block.unit = resized(block.aggregate, n), resized(block.unit, n)
	for i := range n {
		t.swap(&t.vectors.holders, &block.aggregate[i], x.vector[b.aggregate[i]], i)
		t.swap(&t.vectors.holders, &block.unit[i], x.vector[b.unit[i]], i)
	}
	if len(x.group) == 0 {
		for i, g := range block.group {
			if g != 0 && i < n {
				t.swap(&t.groups.holders, &block.group[i], 0, i)
			}
		}
		block.group = nil
		return
	}
	block.group = resized(block.group, n)
	for i, g := range x.group {
		t.swap(&t.groups.holders, &block.group[i], g, i)
	}
}

// swap puts a counted number in the place of another.
func (t *Table) swap(h *holders, at *uint32, id uint32, row int) {
	if was := *at; was != id {
		h.hold(id)
		h.release(was)
		*at = id
		t.installer.mark(row)
	}
}

// writeArrivals writes the arrivals, which are not counted.
func (b *Block) writeArrivals(x *installer, arrivals []int64) {
	had := len(b.arrival)
	b.arrival = resized(b.arrival, len(arrivals))
	for i, at := range arrivals {
		if b.arrival[i] != at || i >= had { // a new row has arrived, be it at 0
			b.arrival[i] = at
			x.mark(i)
			x.arrived[i/64] |= 1 << (i % 64)
		}
	}
}

// writeParked writes the flags.
func (b *Block) writeParked(x *installer, from *Builder, n int) {
	words := (n + 63) / 64
	b.parked = resized(b.parked, words)
	next := 0
	for w := range b.parked {
		word := uint64(0)
		for ; next < len(from.parked) && int(from.parked[next])/64 == w; next++ {
			word |= 1 << (from.parked[next] % 64)
		}
		x.changed[w] |= b.parked[w] ^ word
		b.parked[w] = word
	}
}

// writeSparse writes what most rows do not have.
func (b *Block) writeSparse(x *installer, from *Builder) {
	for i, was := range b.minAggregate {
		if i < len(b.profile) && !was.Equal(from.minAggregate[i]) {
			x.mark(i)
		}
	}
	for i, is := range from.minAggregate {
		if !is.Equal(b.minAggregate[i]) {
			x.mark(i)
		}
	}
	b.minAggregate, b.shortSince = from.minAggregate, from.shortSince
	from.minAggregate, from.shortSince = nil, nil
}

// Load is Install for rows as the rest of the shard knows them.
func (t *Table) Load(cluster string, rows []model.Need) error {
	b := t.loader
	b.Reset(cluster)
	if len(rows) > RowsMax {
		return fmt.Errorf("roll-up of cluster %q has %d rows; at most %d are accepted", cluster, len(rows), RowsMax)
	}
	b.Grow(len(rows))
	for i := range rows {
		if err := b.AddNeed(&rows[i]); err != nil {
			break // b.err
		}
	}
	return t.Install(b)
}

// Replace is Load for what the cluster reports; it marks the cluster as
// reported. Stamps are those of the rows.
func (t *Table) Replace(cluster string, rows []model.Need) error {
	if err := t.Load(cluster, rows); err != nil {
		return err
	}
	t.MarkReported(cluster)
	return nil
}

func (x *installer) bytes() int64 {
	return int64(cap(x.profile)+cap(x.vector)+cap(x.group)+cap(x.rows)+cap(x.match.next))*4 + int64(cap(x.values)+cap(x.changed)+cap(x.arrived))*8 + int64(len(x.match.heads))*2*12 + x.uneven.bytes()
}
