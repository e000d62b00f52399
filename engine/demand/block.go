package demand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tonnage/tonnage/engine/model"
)

// DimsMax is the most resource dimensions that all demand together may name.
const DimsMax = 64

// Block is one cluster's demand as columns, row i at index i of each. Vectors
// have Stride values each, in the table's dimension order at the time the
// block was built; dimensions that came later are zero.
type Block struct {
	cluster   string
	profile   []uint32
	groups    []string
	arrival   []int64
	aggregate []int64
	minUnit   []int64
	parked    []bool
	stride    int
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
func (b *Block) Group(i int) string { return b.groups[i] }

// Arrival returns a row's arrival in Unix nanoseconds.
func (b *Block) Arrival(i int) int64 { return b.arrival[i] }

// Parked tells whether a row is parked.
func (b *Block) Parked(i int) bool { return b.parked[i] }

// Aggregate returns a row's aggregate vector; do not modify.
func (b *Block) Aggregate(i int) []int64 { return b.aggregate[i*b.stride : (i+1)*b.stride] }

// MinUnit returns a row's minimum unit; do not modify.
func (b *Block) MinUnit(i int) []int64 { return b.minUnit[i*b.stride : (i+1)*b.stride] }

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

// build makes the block of a cluster's rows and takes hold of their profiles.
func (t *Table) build(cluster string, rows []model.Need) (*Block, error) {
	for i := range rows {
		if err := t.dims.use(rows[i].Aggregate, rows[i].MinUnit); err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
	}
	n, stride := len(rows), len(t.dims.names)
	b := &Block{
		cluster: cluster, stride: stride,
		profile: make([]uint32, n), groups: make([]string, n), arrival: make([]int64, n), parked: make([]bool, n),
		aggregate: make([]int64, n*stride), minUnit: make([]int64, n*stride),
	}
	for i := range rows {
		r := &rows[i]
		b.profile[i] = t.profiles.hold(r.Profile)
		b.groups[i] = r.Group
		b.arrival[i] = r.Arrival
		b.parked[i] = r.Parked
		t.dims.fill(b.Aggregate(i), r.Aggregate)
		t.dims.fill(b.MinUnit(i), r.MinUnit)
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
	return b, nil
}

// dims numbers the dimension names in the order of their first use.
type dims struct {
	names []string
	index map[string]int
}

func newDims() dims { return dims{index: map[string]int{}} }

func (d *dims) use(vectors ...model.Resources) error {
	for _, v := range vectors {
		for _, a := range v {
			if _, ok := d.index[a.Name]; ok {
				continue
			}
			if len(d.names) == DimsMax {
				return fmt.Errorf("resource %q would be dimension %d; at most %d are supported", a.Name, DimsMax+1, DimsMax)
			}
			if a.Name == "" {
				return errors.New("a resource without a name")
			}
			d.index[a.Name] = len(d.names)
			d.names = append(d.names, a.Name)
		}
	}
	return nil
}

func (d *dims) fill(dst []int64, r model.Resources) {
	for _, a := range r {
		dst[d.index[a.Name]] = a.Value
	}
}

func (d *dims) resources(v []int64) model.Resources {
	var out model.Resources
	for i, x := range v {
		if x > 0 {
			out = append(out, model.Amount{Name: d.names[i], Value: x})
		}
	}
	slices.SortFunc(out, func(a, b model.Amount) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// profiles interns profiles by canonical form and counts who holds them, so
// that demand which comes and goes does not leave its profiles behind.
type profiles struct {
	byID []*model.Profile
	refs []uint32
	ids  map[string]uint32
	free []uint32
}

func newProfiles() profiles { return profiles{ids: map[string]uint32{}} }

func (p *profiles) hold(x *model.Profile) uint32 {
	id, ok := p.ids[x.Canonical()]
	if !ok {
		if n := len(p.free); n > 0 {
			id, p.free = p.free[n-1], p.free[:n-1]
			p.byID[id] = x
		} else {
			id = uint32(len(p.byID))
			p.byID = append(p.byID, x)
			p.refs = append(p.refs, 0)
		}
		p.ids[x.Canonical()] = id
	}
	p.refs[id]++
	return id
}

func (p *profiles) release(id uint32) {
	if p.refs[id]--; p.refs[id] == 0 {
		delete(p.ids, p.byID[id].Canonical())
		p.byID[id] = nil
		p.free = append(p.free, id)
	}
}
