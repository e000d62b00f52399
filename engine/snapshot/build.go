package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Builder builds snapshots, reusing the memory of the one before.
type Builder struct {
	arena *alloc.Arena
	snap  Snapshot
	tally tally
	// Scratch that holds pointers, or grows.
	profiles    []*model.Profile
	configuring []columnar.Row
	creating    []incoming
}

// NewBuilder returns a builder whose memory is entered in the accounts.
func NewBuilder(accounts *alloc.Accounts) *Builder {
	return &Builder{arena: accounts.NewArena(alloc.Snapshot)}
}

// Build freezes the tables at a time. The tables must not change before the
// cycle that uses the snapshot has ended. Cost: O(machines + profiles); from
// the second Build of a steady load on, next to nothing is allocated.
func (b *Builder) Build(s *supply.Table, d *demand.Table, now int64) (*Snapshot, error) {
	b.arena.Reset()
	b.listProfiles(d)
	if err := s.Use(b.profiles); err != nil {
		return nil, err
	}
	old := &b.snap
	b.snap = Snapshot{
		Supply: s, Demand: d, View: s.View(), Now: now, Order: s.Order(),
		Dims: old.Dims[:0], DemandDim: old.DemandDim[:0], Classes: old.Classes[:0], Clusters: old.Clusters[:0], Groups: old.Groups[:0],
	}
	b.dims()
	b.classes()
	b.count()
	b.clusters()
	b.pools()
	b.order()
	b.deal()
	b.groups()
	return &b.snap, nil
}

// listProfiles lists the profiles in use, and what they are when folded.
func (b *Builder) listProfiles(d *demand.Table) {
	clear(b.profiles)
	b.profiles = b.profiles[:0]
	for id := range d.ProfileIDMax() {
		p := d.Profile(id)
		if p == nil {
			continue
		}
		b.profiles = append(b.profiles, p)
		if p.Same() != nil {
			b.profiles = append(b.profiles, p.WithoutSame())
		}
	}
}

func (b *Builder) dims() {
	s := &b.snap
	s.Dims = append(s.Dims, s.Supply.Dims()...)
	for _, name := range s.Demand.Dims() {
		i := slices.Index(s.Dims, name)
		if i < 0 {
			i = len(s.Dims)
			s.Dims = append(s.Dims, name)
		}
		s.DemandDim = append(s.DemandDim, i)
	}
}

func (b *Builder) classes() {
	s := &b.snap
	n, stride := s.Supply.ClassMax(), len(s.Dims)
	s.ClassVec = alloc.Make[int64](b.arena, n*stride)
	for c := range n {
		info := s.Supply.ClassInfo(uint32(c))
		s.Classes = append(s.Classes, Class{
			Price: info.Price, Probability: info.Probability, InstanceType: info.InstanceType,
			Matchers: info.Matchers, Live: info.Count > 0,
		})
		copy(s.ClassVec[c*stride:(c+1)*stride], info.Vector)
	}
}

// sum turns counts at n[1:] into where the things counted begin.
func sum(n []uint32) {
	for i := 1; i < len(n); i++ {
		n[i] += n[i-1]
	}
}

// cursors returns a copy of a list's offsets to advance while it is filled.
func (b *Builder) cursors(off []uint32) []uint32 {
	at := alloc.MakeDirty[uint32](b.arena, len(off))
	copy(at, off)
	return at
}
