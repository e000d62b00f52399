package demand

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/model"
)

// Limits of what clusters may report.
const (
	// RowsMax is the most rows that one roll-up may hold.
	RowsMax = 1 << 20
	// ClustersMax is the most clusters that may have rows at one time.
	ClustersMax = 1 << 16
	// reportedMax is how many clusters are remembered as having reported;
	// later ones count as silent, which keeps what is bound to them.
	reportedMax = 1 << 20
)

// Table holds the demand of all clusters. It has one owner; it is not safe for
// concurrent use.
type Table struct {
	blocks   map[string]*Block
	order    []string // cluster ids with rows, sorted
	profiles profiles
	dims     dims
	units    unitWriter // scratch of build
	reported map[string]struct{}
	rows     int
	version  uint64
}

// New returns an empty table.
func New() *Table {
	return &Table{blocks: map[string]*Block{}, reported: map[string]struct{}{}, profiles: newProfiles(), dims: newDims(), units: unitWriter{ids: map[string]uint32{}}}
}

// Replace makes rows the whole demand of the cluster and marks the cluster as
// reported; an empty slice clears it. Nothing changes when a row is refused:
// the error names the row and what is wrong with it.
// Cost: O(rows), apart from the cluster's first report.
func (t *Table) Replace(cluster string, rows []model.Need) error {
	if err := t.Load(cluster, rows); err != nil {
		return err
	}
	t.MarkReported(cluster)
	return nil
}

// Load is Replace for demand that the cluster did not report itself, such as
// that of a file: whether it has reported stays as it was.
func (t *Table) Load(cluster string, rows []model.Need) error {
	if cluster == "" || len(cluster) > model.NameBytesMax {
		return fmt.Errorf("roll-up needs a cluster id of 1 to %d bytes, got %d", model.NameBytesMax, len(cluster))
	}
	if len(rows) > RowsMax {
		return fmt.Errorf("roll-up of cluster %q has %d rows; at most %d are accepted", cluster, len(rows), RowsMax)
	}
	if t.blocks[cluster] == nil && len(rows) > 0 && len(t.blocks) >= ClustersMax {
		return fmt.Errorf("roll-up of cluster %q: %d clusters have demand; no more are accepted", cluster, ClustersMax)
	}
	for i := range rows {
		if fault := check(cluster, &rows[i]); fault != "" {
			return fmt.Errorf("roll-up of cluster %q: row %d %s", cluster, i, fault)
		}
	}
	if err := t.useDims(rows); err != nil {
		return fmt.Errorf("roll-up of cluster %q: %w", cluster, err)
	}
	t.install(cluster, t.build(cluster, rows))
	return nil
}

// install swaps the cluster's block and lets go of the old one's profiles.
func (t *Table) install(cluster string, block *Block) {
	t.version++
	old := t.blocks[cluster]
	if old != nil {
		t.rows -= old.Len()
		for _, p := range old.profile {
			t.profiles.release(p)
		}
	}
	if block.Len() == 0 {
		if old != nil {
			delete(t.blocks, cluster)
			i, _ := slices.BinarySearch(t.order, cluster)
			t.order = slices.Delete(t.order, i, i+1)
		}
		return
	}
	t.rows += block.Len()
	t.blocks[cluster] = block
	if old == nil {
		i, _ := slices.BinarySearch(t.order, cluster)
		t.order = slices.Insert(t.order, i, cluster)
	}
}

// MarkReported notes that the cluster has reported, whatever it said.
func (t *Table) MarkReported(cluster string) {
	if len(t.reported) < reportedMax && len(cluster) <= model.NameBytesMax {
		t.reported[cluster] = struct{}{}
	}
}

// Reported tells whether the cluster has reported since the table was made.
func (t *Table) Reported(cluster string) bool {
	_, ok := t.reported[cluster]
	return ok
}

// Clusters returns the ids of the clusters that have rows, sorted. The slice
// is valid until the next change and must not be modified.
func (t *Table) Clusters() []string { return t.order }

// Block returns the rows of one cluster, nil when it has none.
func (t *Table) Block(cluster string) *Block { return t.blocks[cluster] }

// Len returns the number of rows of all clusters.
func (t *Table) Len() int { return t.rows }

// Version changes whenever the demand does.
func (t *Table) Version() uint64 { return t.version }

// Profile returns an interned profile by its id, nil when no row has it.
func (t *Table) Profile(id uint32) *model.Profile { return t.profiles.byID[id] }

// ProfileIDMax is one more than the largest profile id in use.
func (t *Table) ProfileIDMax() uint32 { return uint32(len(t.profiles.byID)) }

// Dims returns the names of the dimensions in the order of the vectors.
func (t *Table) Dims() []string { return t.dims.names }

// SetParked stamps a row as parked or not. Rows that do not exist are ignored:
// the demand may have changed since the caller looked.
func (t *Table) SetParked(cluster string, row int, parked bool) {
	if b := t.blocks[cluster]; b != nil && row >= 0 && row < b.Len() {
		b.parked[row] = parked
	}
}

// SetShortSince notes since when a gang has been short, 0 = it is not.
func (t *Table) SetShortSince(cluster string, row int, at int64) {
	if b := t.blocks[cluster]; b != nil && row >= 0 && row < b.Len() {
		b.setShortSince(row, at)
	}
}

// Rows returns copies of a cluster's rows, in their order.
func (t *Table) Rows(cluster string) []model.Need {
	b := t.blocks[cluster]
	if b == nil {
		return nil
	}
	out := make([]model.Need, b.Len())
	for i := range out {
		out[i] = t.Row(b, i)
	}
	return out
}

// Row returns a copy of one row.
func (t *Table) Row(b *Block, i int) model.Need {
	return model.Need{
		Cluster: b.cluster, Profile: t.profiles.byID[b.profile[i]], Group: b.Group(i),
		Aggregate: t.dims.resources(b.Aggregate(i)), MinUnit: t.dims.resources(b.MinUnit(i)), MinAggregate: b.minAggregate[i],
		Arrival: b.arrival[i], ShortSince: b.shortSince[i], Parked: b.parked[i],
	}
}

// Bytes returns the memory that the rows hold, columns, groups and table of
// clusters; maps are estimated. Profiles are not counted: rows share them.
func (t *Table) Bytes() int64 {
	n := int64(cap(t.order))*16 + int64(len(t.blocks)+len(t.reported))*2*32
	for _, b := range t.blocks {
		n += b.bytes()
	}
	return n
}

// Account enters the table in the accounts of its owner.
func (t *Table) Account(accounts *alloc.Accounts) {
	accounts.Enter(alloc.Needs, func() alloc.Usage {
		n := t.Bytes()
		return alloc.Usage{Used: n, Reserved: n}
	})
}
