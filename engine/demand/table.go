package demand

import (
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
	blocks    map[string]*Block
	order     []string // cluster ids with rows, sorted
	profiles  profiles
	dims      dims
	vectors   vectors
	groups    names
	reported  map[string]struct{}
	rows      int
	version   uint64
	log       changeLog
	installer installer
	loader    *Builder // of Load
	offer     offer
	restating bool // Offer is writing rows anew that were accepted before
}

// New returns an empty table.
func New() *Table {
	t := &Table{blocks: map[string]*Block{}, reported: map[string]struct{}{}, profiles: newProfiles(), loader: NewBuilder()}
	t.log.fit(0, 0)
	return t
}

// MarkReported notes that the cluster has reported, whatever it said.
func (t *Table) MarkReported(cluster string) {
	if _, known := t.reported[cluster]; known || len(t.reported) >= reportedMax || len(cluster) > model.NameBytesMax {
		return
	}
	t.reported[cluster] = struct{}{}
	t.version++
	t.log.note(t.version, cluster, nil, 0, false)
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

// Profile returns an interned profile by its id, nil when no row has it.
func (t *Table) Profile(id uint32) *model.Profile { return t.profiles.byID[id] }

// ProfileID returns the id of a profile and whether a row has it.
func (t *Table) ProfileID(p *model.Profile) (uint32, bool) {
	id, ok := t.profiles.ids[p.Canonical()]
	return id, ok
}

// CountedFor returns the value of model.LabelCountedFor of a machine that is assigned so: it is counted for a group if the stamp names one, or has the
// fingerprint of a profile of some row that asks for one domain, or of the fold of such rows; it is counted for a row if only other rows have the
// fingerprint. It is empty where both have it, or none: nobody can tell. O(1).
func (t *Table) CountedFor(a model.Assignment) string {
	if a.Group != "" {
		return model.CountedForGroup
	}
	return t.profiles.uses[a.Fingerprint].countedFor()
}

// TakeTurned returns the fingerprints that some rows have and for which CountedFor may say something else than at the last call, some more than once; all
// when they were too many.
func (t *Table) TakeTurned() (turned []uint64, all bool) {
	turned, all = t.profiles.turned, t.profiles.allTurned
	t.profiles.turned, t.profiles.allTurned = nil, false
	return turned, all
}

// ProfileIDMax is one more than the largest profile id in use.
func (t *Table) ProfileIDMax() uint32 { return uint32(len(t.profiles.byID)) }

// Vector returns an aggregate or a minimum unit by its number, in the order of
// Dims, up to its last positive amount; what is beyond is zero. Number 0 is the
// zero vector. It is good until the table changes; do not modify.
func (t *Table) Vector(id uint32) []int64 { return t.vectors.dict.At(id) }

// VectorIDMax is one more than the largest number of a vector in use.
func (t *Table) VectorIDMax() uint32 { return t.vectors.dict.Top() + 1 }

// GroupName returns a group by its number, "" for 0. The string stays good when
// the table changes.
func (t *Table) GroupName(id uint32) string { return t.groups.dict.String(id) }

// GroupID returns the number of a group and whether a row has it; "" is 0.
func (t *Table) GroupID(name string) (uint32, bool) {
	if name == "" {
		return 0, true
	}
	return t.groups.dict.Lookup(name)
}

// GroupIDMax is one more than the largest number of a group in use.
func (t *Table) GroupIDMax() uint32 { return t.groups.dict.Top() + 1 }

// Dims returns the names of the dimensions in the order of the vectors.
func (t *Table) Dims() []string { return t.dims.names }

// SetParked stamps a row as parked or not. Rows that do not exist are ignored:
// the demand may have changed since the caller looked.
func (t *Table) SetParked(cluster string, row int, parked bool) {
	b := t.blocks[cluster]
	if b == nil || row < 0 || row >= b.Len() || !b.setParked(row, parked) {
		return
	}
	t.version++
	b.version = t.version
	t.log.noteOne(t.version, cluster, uint32(row), b.Len())
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
	x := b.Unoffered(i)
	return model.Need{
		Cluster: b.cluster, Profile: t.profiles.byID[b.profile[i]], Group: b.Group(i), MinAggregate: b.minAggregate[i],
		Aggregate: t.dims.resources(b.Aggregate(i), x.Aggregate), MinUnit: t.dims.resources(b.MinUnit(i), x.MinUnit),
		Arrival: b.arrival[i], ShortSince: b.shortSince[i], Parked: b.Parked(i),
	}
}

// Bytes returns the memory that the rows hold, columns, groups and table of
// clusters; maps are estimated. Profiles are not counted: rows share them.
func (t *Table) Bytes() int64 {
	n := t.vectors.bytes() + t.groups.bytes() + t.log.bytes() + t.installer.bytes() + t.loader.Bytes() +
		int64(cap(t.order))*16 + int64(len(t.blocks)+len(t.reported))*2*32
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
