package engine

import (
	"encoding/binary"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// need is one unit of the walk: a row of the demand, or a fold of several.
type need struct {
	profile *model.Profile // without Same for a fold
	matcher uint32
	cluster int32 // index of snapshot.Clusters
	first   int32 // plan index of the first member in rank order
	firstAt int32 // its row in the cluster's demand
	members int32 // rows in the fold, 1 otherwise
	group   string
	arrival int64
	folded  bool
	parked  bool
}

// hardSpread returns the constraints that bind the need: none with Same, which
// wins over spread, and none for a fold, for whose members it has won although
// the fold no longer shows it.
func (n *need) hardSpread() []model.Spread {
	if n.folded {
		return nil
	}
	return n.profile.HardSpread()
}

// folded is the demand of a cycle after normalising, not yet ranked.
type folded struct {
	needs []need
	// Vectors of need i at [i*dims:], by the snapshot's dimensions.
	aggregate []int64
	minUnit   []int64
	// of is, by plan index (rows in table order), the need that a row is in.
	of []int32
	// rows are the rows of the demand in table order.
	rows []rowRef
	// classes lists the classes that a matcher accepts, ascending.
	classes [][]uint32
}

// rowRef names a row of the demand.
type rowRef struct {
	block *demand.Block
	row   int32
}

// normalise turns the demand's rows into needs. A Same-Need that one machine
// could hold whole needs no co-location: such Needs of equal cluster, profile
// apart from Same, and aggregate are summed into one plain Need whose minimum
// unit is one member's aggregate. Whether a class of Needs is foldable is
// decided once; without Same in the demand nothing is copied twice.
func (e *Engine) normalise(s *snapshot.Snapshot) *folded {
	n, dims := s.Demand.Len(), len(s.Dims)
	f := &folded{
		needs:     resize(e.needs, n)[:0],
		aggregate: alloc.Make[int64](e.arena, n*dims)[:0],
		minUnit:   alloc.Make[int64](e.arena, n*dims)[:0],
		of:        alloc.Make[int32](e.arena, n)[:0],
		rows:      resize(e.rows, n)[:0],
		classes:   classesByMatcher(s),
	}
	fo := folder{s: s, f: f, decided: map[string]int32{}, folds: map[string]int32{}, vec: make([]int64, dims)}
	for _, id := range s.Demand.Clusters() {
		cluster, _ := slices.BinarySearch(s.Clusters, id)
		block := s.Demand.Block(id)
		for row := range block.Len() {
			fo.add(int32(cluster), block, row)
		}
	}
	e.needs, e.rows = f.needs, f.rows
	return f
}

// folder puts rows into needs.
type folder struct {
	s *snapshot.Snapshot
	f *folded
	// decided remembers, by (cluster, profile, aggregate), the fold that such
	// rows go to, −1 = not foldable.
	decided map[string]int32
	// folds finds a fold by (cluster, profile without Same, aggregate).
	folds map[string]int32
	key   []byte
	vec   []int64
}

func (fo *folder) add(cluster int32, block *demand.Block, row int) {
	f := fo.f
	f.rows = append(f.rows, rowRef{block, int32(row)})
	profile := fo.s.Demand.Profile(block.Profile(row))
	if profile.Same() != nil {
		if at := fo.fold(cluster, profile, block, row); at >= 0 {
			fo.join(at, block, row)
			return
		}
	}
	f.of = append(f.of, fo.append(cluster, profile, block, row))
	f.minUnit = fo.translate(f.minUnit, block.MinUnit(row))
}

// append starts a need with one member and its aggregate.
func (fo *folder) append(cluster int32, profile *model.Profile, block *demand.Block, row int) int32 {
	f := fo.f
	f.needs = append(f.needs, need{
		profile: profile, matcher: fo.s.Supply.Matcher(profile), cluster: cluster,
		first: int32(len(f.rows) - 1), firstAt: int32(row), members: 1,
		group: block.Group(row), arrival: block.Arrival(row), parked: block.Parked(row),
	})
	f.aggregate = fo.translate(f.aggregate, block.Aggregate(row))
	return int32(len(f.needs) - 1)
}

// translate appends a demand vector in the snapshot's dimensions.
func (fo *folder) translate(dst, v []int64) []int64 {
	n := len(dst)
	dst = dst[:n+len(fo.s.Dims)]
	for i, x := range v {
		dst[n+fo.s.DemandDim[i]] = x
	}
	return dst
}

// fold returns the fold that a Same-row belongs to, −1 when it stays alone.
func (fo *folder) fold(cluster int32, profile *model.Profile, block *demand.Block, row int) int32 {
	aggregate := block.Aggregate(row)
	fo.key = binary.LittleEndian.AppendUint32(fo.key[:0], uint32(cluster))
	for _, x := range aggregate {
		fo.key = binary.LittleEndian.AppendUint64(fo.key, uint64(x))
	}
	vector := len(fo.key)
	fo.key = binary.LittleEndian.AppendUint32(fo.key, block.Profile(row))
	if at, ok := fo.decided[string(fo.key)]; ok {
		return at
	}
	decided := string(fo.key)
	at := int32(-1)
	if fo.fits(cluster, profile, aggregate) {
		stripped := profile.WithoutSame()
		fo.key = append(fo.key[:vector], stripped.Canonical()...)
		var ok bool
		if at, ok = fo.folds[string(fo.key)]; !ok {
			at = fo.startFold(cluster, stripped, block, row)
			fo.folds[string(fo.key)] = at
		}
	}
	fo.decided[decided] = at
	return at
}

// startFold makes an empty fold for rows like this one.
func (fo *folder) startFold(cluster int32, stripped *model.Profile, block *demand.Block, row int) int32 {
	f := fo.f
	at := fo.append(cluster, stripped, block, row)
	f.minUnit = fo.translate(f.minUnit, block.Aggregate(row))
	clear(fo.aggregateOf(at))
	x := &f.needs[at]
	x.group, x.folded, x.parked, x.members = "", true, true, 0
	return at
}

func (fo *folder) aggregateOf(at int32) []int64 {
	dims := len(fo.s.Dims)
	return fo.f.aggregate[int(at)*dims:][:dims]
}

// join adds the row to a fold.
func (fo *folder) join(at int32, block *demand.Block, row int) {
	x := &fo.f.needs[at]
	fo.f.of = append(fo.f.of, at)
	x.members++
	x.parked = x.parked && block.Parked(row)
	// The first member in rank order: they differ only in arrival and row.
	if arrival := block.Arrival(row); arrival < x.arrival {
		x.arrival, x.first, x.firstAt = arrival, int32(len(fo.f.rows)-1), int32(row)
	}
	sum := fo.aggregateOf(at)
	for i, v := range block.Aggregate(row) {
		d := fo.s.DemandDim[i]
		sum[d] = model.SatAdd(sum[d], v)
	}
}

// fits reports whether one matching machine could hold the aggregate: one
// bound to the cluster, or any that is Idle or Speculative.
func (fo *folder) fits(cluster int32, profile *model.Profile, aggregate []int64) bool {
	s := fo.s
	m := s.Supply.Matcher(profile)
	want := fo.vec
	clear(want)
	for i, x := range aggregate {
		want[s.DemandDim[i]] = x
	}
	inDomain := func(rows []columnar.Row) bool {
		return slices.ContainsFunc(rows, func(r columnar.Row) bool {
			_, ok := s.Supply.Domain(m, r)
			return ok
		})
	}
	for _, c := range fo.f.classes[m] {
		if columnar.Covers(s.Vector(c), want) && (inDomain(s.Idle.At(int(c))) || inDomain(s.Speculative.At(int(c)))) {
			return true
		}
	}
	for _, g := range s.GroupsOf(int(cluster)) {
		if _, ok := slices.BinarySearch(s.Classes[g.Class].Matchers, m); ok && columnar.Covers(s.Vector(g.Class), want) && inDomain(g.Rows) {
			return true
		}
	}
	return false
}

// classesByMatcher turns each class's matchers into each matcher's classes.
func classesByMatcher(s *snapshot.Snapshot) [][]uint32 {
	out := make([][]uint32, s.Supply.MatcherMax())
	for c := range s.Classes {
		for _, m := range s.Classes[c].Matchers {
			out[m] = append(out[m], uint32(c))
		}
	}
	return out
}
