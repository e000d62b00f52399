package snapshot

import (
	"fmt"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/invariants"
)

// Builder builds snapshots. It goes on from the one before where it can, and
// reuses its memory where not.
type Builder struct {
	arena *alloc.Arena // what lasts until everything is built anew
	lists lists
	snap  Snapshot
	tally tally

	// What the snapshot was built from.
	ready      bool // the last Build came to its end
	version    uint64
	membership uint64
	names      uint64
	demandDims int
	inDemand   []bool // by cluster: it has demand

	// What is needed to take a row out of where it was.
	was       []uint32       // by row: a place of the lists and a number; see at
	departing []columnar.Row // the machines that departed when the snapshot was built from nothing
	departs   bitmap.Dense   // the same machines as a set
	others    []other
	machines  []uint32 // by cluster: how many name it, in any state
	unusable  []uint32 // by class: machines that are Deleting or Failed
	changed   bitmap.Dense
	moveOf    bitmap.Numbered // changed, with the indexes of their moves

	entering entering
	scratch  scratch
	patchers []patcher // by worker
	each     func(n, chunk int, f func(worker, from, to int))
	share    func(worker, from, to int) // someClusters, bound once
	shadow   *Builder                   // of the invariants build
	updates  int                        // since the shadow was asked
}

// scratch is memory of one Build that holds pointers, or grows.
type scratch struct {
	profiles []*model.Profile
	rows     []columnar.Row
	dims     []int // by dimension of the supply: its place in Dims
	prices   []float64
	places   []uint32
}

// checkEvery is after how many updates the invariants build compares the
// snapshot with one that is built anew.
const checkEvery = 4

// NewBuilder returns a builder whose memory is entered in the accounts.
func NewBuilder(accounts *alloc.Accounts) *Builder {
	b := newBuilder(accounts)
	if invariants.Enabled {
		b.shadow = newBuilder(&alloc.Accounts{})
	}
	return b
}

func newBuilder(accounts *alloc.Accounts) *Builder {
	b := &Builder{arena: accounts.NewArena(alloc.Snapshot), patchers: make([]patcher, 1)}
	b.share = b.someClusters
	for i := range b.lists.arenas {
		b.lists.arenas[i] = accounts.NewArena(alloc.Snapshot)
	}
	return b
}

// Build freezes the tables at a time, and first tells the demand which resources
// the supply offers. The tables must not change before the
// cycle that uses the snapshot has ended. When the tables are those of the
// Build before and not much has changed since, the snapshot is brought up to
// date: O(changes + machines of the clusters and classes that they are in),
// and a pass over the ids when machines came or went. Else it is built anew:
// O(machines + profiles). From the second Build of a steady load on, next to
// nothing is allocated.
func (b *Builder) Build(s *supply.Table, d *demand.Table, now int64) (*Snapshot, error) {
	b.listProfiles(d)
	if err := s.Use(b.scratch.profiles); err != nil {
		return nil, err
	}
	d.Offer(s.Offered())
	rows, version, complete := s.Changes(b.version)
	updated := complete && b.goesOn(s, d) && b.update(rows)
	if !updated {
		b.buildAnew(s, d)
	}
	b.snap.Now = now
	b.version, b.membership, b.names, b.ready = version, s.Membership(), s.NameSequence(), true
	if b.shadow != nil && updated {
		b.compare()
	}
	return &b.snap, nil
}

// Forget makes the next Build build everything anew.
func (b *Builder) Forget() { b.ready = false }

// compare panics when the updated snapshot is not what is built anew.
func (b *Builder) compare() {
	if b.updates++; b.updates%checkEvery != 1 {
		return
	}
	b.shadow.buildAnew(b.snap.Supply, b.snap.Demand)
	if err := diff(&b.snap, &b.shadow.snap); err != nil {
		panic(fmt.Sprintf("snapshot: updated and built anew, %v", err))
	}
}

// buildAnew builds the snapshot from nothing but the tables.
func (b *Builder) buildAnew(s *supply.Table, d *demand.Table) {
	b.ready = false
	b.changed.Reset()
	b.changed.Grow(s.RowMax())
	b.arena.Reset()
	b.reserve(s, d)
	old := &b.snap
	b.snap = Snapshot{
		Supply: s, Demand: d, View: s.View(), Order: s.Order(),
		Dims: old.Dims[:0], Classes: old.Classes[:0], Clusters: old.Clusters[:0], Moves: old.Moves[:0],
		groups: old.groups,
	}
	b.dims()
	b.classes()
	b.findDeparting()
	b.count()
	b.clusters()
	b.useClasses()
	b.layFree()
	b.layClusters()
	b.order()
	b.describe()
	b.sortIdle()
	b.findCreating()
	b.eachCluster(true)
	b.allIsNew()
	if b.arena.Reserved() > 2*b.arena.Used() {
		b.arena.Trim()
	}
}

// findDeparting finds the machines that no cluster's list has although they are Configured.
func (b *Builder) findDeparting() {
	s := b.snap.Supply
	for _, r := range b.departing {
		b.departs.Clear(uint32(r))
	}
	b.departing = b.departing[:0]
	for r := range s.Reservations() {
		if s.Departs(r) {
			b.departing = append(b.departing, r)
		}
	}
	if len(b.departing) > 0 {
		b.departs.Grow(s.RowMax())
	}
	for _, r := range b.departing {
		b.departs.Set(uint32(r))
	}
}

// isDeparting reports whether findDeparting has found a machine.
func (b *Builder) isDeparting(r columnar.Row) bool {
	return len(b.departing) > 0 && b.departs.Has(uint32(r))
}

// reserve lays what is large side by side, where it would take whole pages each.
func (b *Builder) reserve(s *supply.Table, d *demand.Table) {
	bound := s.Count(model.Configured) + s.Count(model.Configuring) + s.Count(model.Creating)
	n := room(s.RowMax())*rowBytes + (bound+bound/spareShare+spareMin*len(d.Clusters()))*boundBytes +
		room(s.NameIDMax())*nameBytes + room(s.ClassMax())*classBytes
	if n >= alloc.ChunkBytes {
		b.arena.Reserve(n)
	}
}

// allIsNew says that nothing is known to be as it was in the snapshot before.
func (b *Builder) allIsNew() {
	s := &b.snap
	s.Fresh, s.ClassesChanged = true, true
	s.Dirty = alloc.MakeDirty[bool](b.arena, len(s.Clusters))
	s.FreeDirty = alloc.MakeDirty[bool](b.arena, room(len(s.Classes)))[:len(s.Classes)]
	for _, all := range [][]bool{s.Dirty, s.FreeDirty} {
		for i := range all {
			all[i] = true
		}
	}
}

// listProfiles lists the profiles in use, and what they are when folded.
func (b *Builder) listProfiles(d *demand.Table) {
	x := &b.scratch
	clear(x.profiles)
	x.profiles = x.profiles[:0]
	for id := range d.ProfileIDMax() {
		p := d.Profile(id)
		if p == nil {
			continue
		}
		x.profiles = append(x.profiles, p)
		if p.Same() != nil {
			x.profiles = append(x.profiles, p.Folded())
		}
	}
}

// dims puts the demand's dimensions first, in its own order: its vectors are
// used as they are. scratch.dims then says where each of the supply's goes.
func (b *Builder) dims() {
	s, x := &b.snap, &b.scratch
	s.Dims = append(s.Dims, s.Demand.Dims()...)
	b.demandDims = len(s.Dims)
	x.dims = x.dims[:0]
	for _, name := range s.Supply.Dims() {
		i := slices.Index(s.Dims, name)
		if i < 0 {
			i = len(s.Dims)
			s.Dims = append(s.Dims, name)
		}
		x.dims = append(x.dims, i)
	}
}

// room is how many elements to make for n of what may become more before the
// next time that everything is built anew.
func room(n int) int { return n + n/16 + 64 }

// sum turns counts at n[1:] into where the things counted begin.
func sum(n []uint32) {
	for i := 1; i < len(n); i++ {
		n[i] += n[i-1]
	}
}

// What the arena holds by row, by place in the list of a cluster, and, about, by
// name number and by class.
const (
	rowBytes   = 2 * 4
	boundBytes = 24
	nameBytes  = 3 * 4
	classBytes = 256
)

// cursors returns a copy of a list's offsets to advance while it is filled.
func (b *Builder) cursors(off []uint32) []uint32 {
	at := alloc.MakeDirty[uint32](b.arena, len(off))
	copy(at, off)
	return at
}

// resize returns a slice of n elements, any values, in s's memory if it holds
// them.
func resize[T any](s []T, n int) []T {
	return slices.Grow(s[:0], n)[:n]
}

// place says where a row was: a kind of list and the list's number.
type place = uint32

const (
	inIdle        place = 1 << 30
	inSpeculative place = 2 << 30
	inCluster     place = 3 << 30
	placeKind     place = 3 << 30
	// With inCluster: not bound to it yet, and bound but not Configured yet.
	asCreating    place = 1 << 29
	asConfiguring place = 1 << 28
)

// boundAs returns the place of a machine that is bound to a cluster.
func boundAs(state model.State, cluster int32) place {
	if state == model.Configuring {
		return inCluster | asConfiguring | place(cluster)
	}
	return inCluster | place(cluster)
}

// other is a machine that counts for a class or a cluster beside the lists:
// one that names a cluster, or that is of no use to anybody.
type other struct {
	row      columnar.Row
	class    uint32
	cluster  int32 // index of Clusters; −1 if it names none
	unusable bool
}
