package snapshot

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Places in keep order are numbers made of what is compared, one above the
// other, so that a machine's changes only when what is compared does:
//
//	uint32  Keep       5 bits of penalty, 21 of id rank: among equal prices
//	uint64  KeepKey    the price's rank above that
const (
	rankBits = 21
	rankMask = 1<<rankBits - 1
	keepBits = rankBits + 5
	// stateBit is above every KeepKey; states go there where a list has machines
	// of several.
	stateBit = 62
)

// Every rank and penalty fits.
const (
	_ = uint(1<<rankBits - supply.MachinesMax)
	_ = 1<<(keepBits-rankBits) - 1 - uint(model.BucketPinned)
)

// keepOf returns the place among machines of equal price: higher penalties
// first, then ids. Unspecified is no penalty.
func keepOf(reclamation model.Bucket, idRank uint32) uint32 {
	return uint32(model.BucketPinned-max(reclamation, model.BucketZero))<<rankBits | idRank
}

// KeepKey is a machine's place in keep order, over all prices: less means
// earlier, and no two machines have the same. It is below 2⁶².
func (s *Snapshot) KeepKey(r columnar.Row) uint64 {
	return uint64(s.PriceRank[s.View.Class[r]])<<keepBits | uint64(s.Keep[r])
}

// IDRank returns the place of a machine in Order.
func (s *Snapshot) IDRank(r columnar.Row) uint32 { return s.Keep[r] & rankMask }

// Places are, by row, the places of machines in an order: a part of Keep.
type Places struct {
	keep []uint32
	mask uint32
}

// Of returns the place of a machine.
func (x Places) Of(r columnar.Row) uint32 { return x.keep[r] & x.mask }

// KeepPlaces are the places in keep order among machines of equal price: Idle machines are acquired in it.
func (s *Snapshot) KeepPlaces() Places { return Places{s.Keep, ^uint32(0)} }

// IDPlaces are the places in id order, as IDRank returns them: Speculative machines are acquired in it.
func (s *Snapshot) IDPlaces() Places { return Places{s.Keep, rankMask} }

// rank gives the rows their ranks after machines came or went.
func (b *Builder) rank(changed []columnar.Row) {
	s := &b.snap
	n := s.Supply.RowMax()
	s.Keep, b.was = s.Keep[:n], b.was[:n]
	for _, r := range changed {
		if s.View.State[r] == model.StateUnspecified {
			s.Keep[r] = 0
		}
	}
	for i, r := range s.Order {
		s.Keep[r] = s.Keep[r]&^rankMask | uint32(i)
	}
	for _, r := range changed { // new rows have no penalty yet
		if s.View.State[r] != model.StateUnspecified {
			s.Keep[r] = keepOf(s.View.Reclamation[r], s.Keep[r]&rankMask)
		}
	}
}

// sortAbove sorts keys, stably, by the bits from one on; below they are in
// order. The result lies in a or in b, which are equally long. A pass for each
// byte in which keys differ.
func sortAbove(a, b []uint64, from int) []uint64 {
	differ := uint64(0)
	for _, k := range a {
		differ |= k ^ a[0]
	}
	for ; from < 64; from += 8 {
		if byte(differ>>from) == 0 {
			continue
		}
		var at [256]uint32
		for _, k := range a {
			at[byte(k>>from)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, k := range a {
			i := byte(k >> from)
			b[at[i]] = k
			at[i]++
		}
		a, b = b, a
	}
	return a
}
