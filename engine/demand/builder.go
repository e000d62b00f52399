package demand

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/engine/model"
)

// Amount is one dimension of a row's vector, by the builder's number for it.
type Amount struct {
	Dim   uint32 // of Builder.Dim
	Value int64  // > 0
}

// Row is one row of a roll-up. Add copies what it keeps.
type Row struct {
	Profile uint32 // of Builder.Profile
	// Each dimension at most once, in any order.
	Aggregate, MinUnit []Amount
	Group              []byte
	Arrival            int64 // Unix nanoseconds
	// What a cluster does not report but a file may say. No amount of
	// MinAggregate is above that of Aggregate.
	MinAggregate model.Resources
	ShortSince   int64
	Parked       bool
}

// Builder collects the rows of one roll-up, for a table to take over as a
// whole. It knows no table, so roll-ups can be read side by side while a cycle
// looks at the demand; each builder has one owner. Its numbers for profiles and
// dimensions are its own and good until Reset.
//
// The memory is kept from one roll-up to the next: about 30 bytes a row and 9
// more for each positive amount of different vectors, of the largest roll-up of late.
type Builder struct {
	cluster string
	err     error // the first refusal; nothing of the roll-up is good then

	profiles []*model.Profile
	numbers  map[*model.Profile]uint32
	dims     []string // names of resources
	named    nameSet  // those that vectors name

	profile   []uint32
	arrival   []int64
	aggregate []uint32 // of vectors
	unit      []uint32 // of vectors
	vectors   vectorSet
	groupText []byte
	groupEnd  []uint32 // row i's group ends here; as long as there are rows
	// Rows of a file only.
	parked       []uint32
	minAggregate map[int]model.Resources
	shortSince   map[int]int64

	row Row // scratch of AddNeed
}

// NewBuilder returns a builder of no rows; Reset names the cluster.
func NewBuilder() *Builder {
	return &Builder{numbers: map[*model.Profile]uint32{}, err: errors.New("the roll-up is nobody's; Reset the builder with the cluster's id first")}
}

// Kinds returns how many different pairs of a profile and a minimum unit the rows have,
// or Len where that is at most so many anyway. O(rows) where it is more.
func (b *Builder) Kinds(most int) int {
	if b.Len() <= most {
		return b.Len()
	}
	pairs := map[uint64]struct{}{}
	for i, p := range b.profile {
		pairs[uint64(p)<<32|uint64(b.unit[i])] = struct{}{}
	}
	return len(pairs)
}

// Count returns how many rows have a profile of which a condition holds. It is
// asked once for each profile. O(rows).
func (b *Builder) Count(holds func(*model.Profile) bool) (rows int) {
	of := make([]bool, len(b.profiles))
	for i, p := range b.profiles {
		of[i] = holds(p)
	}
	for _, p := range b.profile {
		if of[p] {
			rows++
		}
	}
	return rows
}

// slackRows: memory for so many rows is kept whatever the last roll-up was.
const slackRows = 1 << 12

// Reset begins the roll-up of a cluster and forgets the one before.
func (b *Builder) Reset(cluster string) {
	if n := len(b.profile); cap(b.profile) > slackRows && cap(b.profile)/8 > n {
		*b = *NewBuilder() // one huge roll-up does not bind its memory for ever
	}
	b.cluster, b.err = cluster, nil
	if err := model.CheckName(cluster); err != nil {
		b.err = fmt.Errorf("roll-up: the cluster id %w", err)
	}
	clear(b.profiles)
	clear(b.numbers)
	b.profiles, b.dims, b.named = b.profiles[:0], b.dims[:0], nameSet{}
	b.profile, b.arrival, b.aggregate, b.unit = b.profile[:0], b.arrival[:0], b.aggregate[:0], b.unit[:0]
	b.vectors.reset()
	b.groupText, b.groupEnd, b.parked = b.groupText[:0], b.groupEnd[:0], b.parked[:0]
	b.minAggregate, b.shortSince = nil, nil
}

// Grow makes room for so many more rows.
func (b *Builder) Grow(rows int) {
	rows = min(rows, RowsMax)
	b.profile, b.arrival, b.groupEnd = slices.Grow(b.profile, rows), slices.Grow(b.arrival, rows), slices.Grow(b.groupEnd, rows)
	b.aggregate, b.unit = slices.Grow(b.aggregate, rows), slices.Grow(b.unit, rows)
}

// Cluster returns the cluster that Reset named.
func (b *Builder) Cluster() string { return b.cluster }

// Len returns the number of rows.
func (b *Builder) Len() int { return len(b.profile) }

// Err returns why the roll-up is refused, nil when it is not, so far.
func (b *Builder) Err() error { return b.err }

// Profile returns the builder's number for a profile. Equal profiles may have
// different numbers; the table sees to that they become one.
func (b *Builder) Profile(p *model.Profile) uint32 {
	n, ok := b.numbers[p]
	if !ok {
		n = uint32(len(b.profiles))
		b.profiles = append(b.profiles, p)
		b.numbers[p] = n
	}
	return n
}

// Dim returns the builder's number for the name of a resource. The error is that
// there are too many, or that the name is empty or too long.
func (b *Builder) Dim(name []byte) (uint32, error) {
	if d, ok := b.FindDim(name); ok {
		return d, nil
	}
	return b.newDim(name)
}

// FindDim returns the number of a dimension that has one.
func (b *Builder) FindDim(name []byte) (uint32, bool) {
	for i, d := range b.dims {
		if d == string(name) {
			return uint32(i), true
		}
	}
	return 0, false
}

func (b *Builder) newDim(name []byte) (uint32, error) {
	if len(name) == 0 {
		return 0, errNameless
	}
	if err := model.CheckName(name); err != nil {
		return 0, fmt.Errorf("names a resource whose name %w", err)
	}
	if len(b.dims) == NamesMax {
		return 0, fmt.Errorf("names %.*q, which would be resource %d of the roll-up; at most %d are accepted: ask for fewer different resources", model.NameBytesMax, name, NamesMax+1, NamesMax)
	}
	n := len(b.dims)
	if n < cap(b.dims) && b.dims[:n+1][n] == string(name) {
		b.dims = b.dims[:n+1] // of the roll-up before
	} else {
		b.dims = append(b.dims, string(name))
	}
	return uint32(n), nil
}

var errNameless = errors.New("names a resource without a name; name it")

// Refuse refuses the roll-up for a fault that the caller found, and returns the
// whole error.
func (b *Builder) Refuse(fault error) error {
	if b.err == nil {
		b.err = fmt.Errorf("roll-up of cluster %q: %w", b.cluster, fault)
	}
	return b.err
}

// RefuseRow is Refuse for a fault of the row that would be next; it reads on
// from the row's number.
func (b *Builder) RefuseRow(fault error) error {
	return b.Refuse(fmt.Errorf("row %d %w", len(b.profile), fault))
}

// Add appends a row. The error says what is wrong with it; the whole roll-up
// is refused then.
func (b *Builder) Add(r *Row) error {
	if b.err != nil {
		return b.err
	}
	switch {
	case !b.name(r.Aggregate) || !b.name(r.MinUnit):
		return b.RefuseRow(errAmounts)
	case len(b.profile) == RowsMax:
		return b.Refuse(fmt.Errorf("more than %d rows; report fewer, larger ones", RowsMax))
	case int(r.Profile) >= len(b.profiles):
		return b.RefuseRow(errors.New("has no profile"))
	case len(r.Group) > model.NameBytesMax:
		return b.RefuseRow(fmt.Errorf("has a group of %d bytes; at most %d are accepted", len(r.Group), model.NameBytesMax))
	case !r.MinAggregate.Canonical():
		return b.RefuseRow(errVector)
	}
	if err := b.withinAggregate(r); err != nil {
		return b.RefuseRow(err)
	}
	b.append(r)
	return nil
}

var errVector = errors.New("has a vector that is not sorted by name, with each name once and each value positive")

var errAmounts = errors.New("has a vector with an amount that is not positive, or of a dimension that is unknown or named twice")

// name notes the dimensions that a vector names; false when it is at fault, and the
// roll-up with it.
func (b *Builder) name(v []Amount) bool {
	seen := uint64(0) // of the first 64, which most roll-ups do not pass
	for i, a := range v {
		switch bit := uint64(1) << (a.Dim & 63); {
		case a.Value <= 0 || int(a.Dim) >= len(b.dims):
			return false
		case a.Dim < 64:
			if seen&bit != 0 {
				return false
			}
			seen |= bit
		default:
			if slices.ContainsFunc(v[:i], func(o Amount) bool { return o.Dim == a.Dim }) {
				return false
			}
			b.named.add(a.Dim)
		}
	}
	b.named[0] |= seen
	return true
}

// withinAggregate returns what is wrong with a minimum that asks for more than
// the row as a whole.
func (b *Builder) withinAggregate(r *Row) error {
	for _, least := range r.MinAggregate {
		whole := int64(0)
		for _, a := range r.Aggregate {
			if b.dims[a.Dim] == least.Name {
				whole = a.Value
			}
		}
		if least.Value > whole {
			return fmt.Errorf("has a minAggregate of %s %.*q, more than its aggregate's %s; lower it to that, or leave minAggregate out",
				model.FormatQuantity(least.Name, least.Value), model.NameBytesMax, least.Name, model.FormatQuantity(least.Name, whole))
		}
	}
	return nil
}

// Total returns what all rows ask for together, saturating. O(rows).
func (b *Builder) Total() model.Resources {
	times := make([]int64, b.vectors.len())
	for _, v := range b.aggregate {
		times[v]++
	}
	sums := make([]int64, len(b.dims))
	for v, n := range times {
		if n == 0 {
			continue
		}
		dims, values := b.vectors.vectors.at(v)
		for i, d := range dims {
			sums[d] = model.SatAdd(sums[d], model.SatMul(values[i], n))
		}
	}
	out := make([]model.Amount, 0, len(sums))
	for d, v := range sums {
		if v > 0 {
			out = append(out, model.Amount{Name: b.dims[d], Value: v})
		}
	}
	return model.NewResources(out...)
}

// append adds a row that is in order.
func (b *Builder) append(r *Row) {
	i := len(b.profile)
	b.profile = append(b.profile, r.Profile)
	b.arrival = append(b.arrival, r.Arrival)
	b.aggregate = append(b.aggregate, b.vectors.put(r.Aggregate))
	b.unit = append(b.unit, b.vectors.put(r.MinUnit))
	b.groupText = append(b.groupText, r.Group...)
	b.groupEnd = append(b.groupEnd, uint32(len(b.groupText)))
	if r.Parked {
		b.parked = append(b.parked, uint32(i))
	}
	if len(r.MinAggregate) > 0 {
		if b.minAggregate == nil {
			b.minAggregate = map[int]model.Resources{}
		}
		b.minAggregate[i] = r.MinAggregate
	}
	if r.ShortSince != 0 {
		if b.shortSince == nil {
			b.shortSince = map[int]int64{}
		}
		b.shortSince[i] = r.ShortSince
	}
}

// group returns the group of row i.
func (b *Builder) group(i int) []byte {
	if i == 0 {
		return b.groupText[:b.groupEnd[0]]
	}
	return b.groupText[b.groupEnd[i-1]:b.groupEnd[i]]
}

// AddNeed is Add for a row as the rest of the shard knows it.
func (b *Builder) AddNeed(n *model.Need) error {
	switch {
	case b.err != nil:
		return b.err
	case n.Profile == nil:
		return b.RefuseRow(errors.New("has no profile"))
	case n.Cluster != "" && n.Cluster != b.cluster:
		return b.RefuseRow(fmt.Errorf("names cluster %.*q", model.NameBytesMax, n.Cluster))
	case !n.Aggregate.Canonical() || !n.MinUnit.Canonical():
		return b.RefuseRow(errVector)
	}
	r := &b.row
	var err error
	if r.Aggregate, err = b.amounts(r.Aggregate[:0], n.Aggregate); err != nil {
		return b.RefuseRow(err)
	}
	if r.MinUnit, err = b.amounts(r.MinUnit[:0], n.MinUnit); err != nil {
		return b.RefuseRow(err)
	}
	r.Profile, r.Group = b.Profile(n.Profile), append(r.Group[:0], n.Group...)
	r.Arrival, r.MinAggregate, r.ShortSince, r.Parked = n.Arrival, n.MinAggregate, n.ShortSince, n.Parked
	return b.Add(r)
}

func (b *Builder) amounts(dst []Amount, v model.Resources) ([]Amount, error) {
	for _, a := range v {
		dim := slices.Index(b.dims, a.Name)
		if dim < 0 {
			fresh, err := b.newDim([]byte(a.Name))
			if err != nil {
				return dst, err
			}
			dim = int(fresh)
		}
		dst = append(dst, Amount{uint32(dim), a.Value})
	}
	return dst, nil
}

// Bytes returns the memory held; maps are estimated.
func (b *Builder) Bytes() int64 {
	return int64(cap(b.profile)+cap(b.aggregate)+cap(b.unit)+cap(b.groupEnd)+cap(b.parked))*4 + int64(cap(b.arrival)+cap(b.profiles))*8 +
		int64(cap(b.groupText)) + int64(cap(b.dims))*16 + b.vectors.bytes() + int64(len(b.numbers))*2*12
}
