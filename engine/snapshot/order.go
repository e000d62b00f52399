package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// tally is what one walk over the columns, in row order, counts; the lists are
// laid out from it and filled in their own orders.
type tally struct {
	pile        []uint32 // by row: which pile of the keep order
	piles       []uint32 // by pile + 1: rows
	idle        []uint32 // by class + 1
	speculative []uint32 // by class + 1
	bound       []uint32 // by name number: Configured and Configuring machines
	named       []bool   // by name number: some machine has the cluster
}

// count walks over the rows in row order, where the columns are read as they
// lie in memory.
func (b *Builder) count() {
	s, t := &b.snap, &b.tally
	v := &s.View
	prices, priceRank := b.priceRanks()
	penalties, penaltyRank := b.penaltyRanks()
	rows, classes, names := s.Supply.RowMax(), len(s.Classes), s.Supply.NameIDMax()
	t.pile = alloc.MakeDirty[uint32](b.arena, rows)
	t.piles = alloc.Make[uint32](b.arena, prices*penalties+1)
	t.idle, t.speculative = alloc.Make[uint32](b.arena, classes+1), alloc.Make[uint32](b.arena, classes+1)
	t.bound, t.named = alloc.Make[uint32](b.arena, names), alloc.Make[bool](b.arena, names)
	for r := 1; r < rows; r++ {
		class := v.Class[r]
		switch v.State[r] {
		case model.StateUnspecified:
			continue
		case model.Idle:
			t.idle[class+1]++
		case model.Speculative:
			t.speculative[class+1]++
		case model.Configured, model.Configuring:
			t.bound[v.Cluster[r]]++
		}
		t.named[v.Cluster[r]] = true
		pile := priceRank[class]*uint32(penalties) + penaltyRank[v.Reclamation[r]]
		t.pile[r] = pile
		t.piles[pile+1]++
	}
}

// priceRanks returns how many distinct prices there are, and each class's
// place among them, ascending.
func (b *Builder) priceRanks() (int, []uint32) {
	s := &b.snap
	prices := alloc.Make[float64](b.arena, len(s.Classes))[:0]
	for i := range s.Classes {
		if s.Classes[i].Live {
			prices = append(prices, s.Classes[i].Price)
		}
	}
	slices.Sort(prices)
	prices = slices.Compact(prices)
	rank := alloc.Make[uint32](b.arena, len(s.Classes))
	for i := range s.Classes {
		if s.Classes[i].Live {
			at, _ := slices.BinarySearch(prices, s.Classes[i].Price)
			rank[i] = uint32(at)
		}
	}
	return len(prices), rank
}

// penaltyRanks returns how many distinct reclamation penalties there are, and
// each bucket's place among them, descending. Unspecified counts as zero.
func (b *Builder) penaltyRanks() (n int, rank [model.NumBuckets]uint32) {
	var used [model.NumBuckets]bool
	for _, p := range b.snap.View.Reclamation[:b.snap.Supply.RowMax()] {
		used[p] = true
	}
	used[model.BucketZero] = true // that of rows not in use
	for p := model.BucketPinned; p >= model.BucketZero; p-- {
		if used[p] {
			rank[p] = uint32(n)
			n++
		}
	}
	rank[model.BucketUnspecified] = rank[model.BucketZero]
	return n, rank
}

// order deals the rows, in id order, into the piles of the keep order, and the
// Speculative ones into their classes.
func (b *Builder) order() {
	s, t := &b.snap, &b.tally
	rows := s.Supply.RowMax()
	sum(t.piles)
	at, speculative := t.piles, b.cursors(s.Speculative.Off)
	s.IDRank = alloc.Make[uint32](b.arena, rows)
	s.ByKeep = alloc.MakeDirty[columnar.Row](b.arena, len(s.Order))
	s.Keep = alloc.Make[uint32](b.arena, rows)
	for i, r := range s.Order {
		s.IDRank[r] = uint32(i)
		p := t.pile[r]
		s.ByKeep[at[p]] = r
		s.Keep[r] = at[p]
		at[p]++
		if s.View.State[r] == model.Speculative {
			c := s.View.Class[r]
			s.Speculative.Rows[speculative[c]] = r
			speculative[c]++
		}
	}
}

// pools lays out the lists of Idle and Speculative machines by class.
func (b *Builder) pools() {
	s, t := &b.snap, &b.tally
	sum(t.idle)
	sum(t.speculative)
	s.Idle = Lists{Off: t.idle, Rows: alloc.MakeDirty[columnar.Row](b.arena, s.Supply.Count(model.Idle))}
	s.Speculative = Lists{Off: t.speculative, Rows: alloc.MakeDirty[columnar.Row](b.arena, s.Supply.Count(model.Speculative))}
}

// deal deals the rows, in keep order, to what lists them so: Idle ones to their
// classes, bound ones to their clusters.
func (b *Builder) deal() {
	s := &b.snap
	idle, cluster := b.cursors(s.Idle.Off), b.cursors(s.ClusterRows.Off)
	b.configuring = b.configuring[:0]
	for _, r := range s.ByKeep {
		switch s.View.State[r] {
		case model.Idle:
			c := s.View.Class[r]
			s.Idle.Rows[idle[c]] = r
			idle[c]++
		case model.Configured:
			if c := s.ClusterOf[s.View.Cluster[r]]; c >= 0 {
				s.ClusterRows.Rows[cluster[c]] = r
				cluster[c]++
			}
		case model.Configuring:
			b.configuring = append(b.configuring, r)
		}
	}
	for _, r := range b.configuring {
		if c := s.ClusterOf[s.View.Cluster[r]]; c >= 0 {
			s.ClusterRows.Rows[cluster[c]] = r
			cluster[c]++
		}
	}
	b.dealCreating(cluster)
}
