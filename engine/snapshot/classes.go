package snapshot

import (
	"slices"

	"github.com/tonnage/tonnage/alloc"
)

// classes lays out what is known by class and describes all.
func (b *Builder) classes() {
	s := &b.snap
	n := s.Supply.ClassMax()
	most := room(n)
	s.ClassVec = alloc.MakeDirty[int64](b.arena, most*len(s.Dims))
	s.PriceRank = alloc.MakeDirty[uint32](b.arena, most)
	s.Usable = alloc.Make[uint32](b.arena, most)[:n]
	b.unusable = alloc.Make[uint32](b.arena, most)[:n]
	b.describeClasses()
}

// describeClasses writes down what each class's machines have in common. There
// is room for them.
func (b *Builder) describeClasses() {
	s := &b.snap
	n, stride := s.Supply.ClassMax(), len(s.Dims)
	clear(s.Classes)
	s.Classes = s.Classes[:0]
	s.ClassVec = s.ClassVec[:n*stride]
	clear(s.ClassVec)
	for c := range n {
		info := s.Supply.ClassInfo(uint32(c))
		s.Classes = append(s.Classes, Class{
			Price: info.Price, Probability: info.Probability, InstanceType: info.InstanceType,
			Matchers: info.Matchers, Live: info.Count > 0,
		})
		for i, x := range info.Vector {
			s.ClassVec[c*stride+b.scratch.dims[i]] = x
		}
	}
	b.rankPrices()
}

// rankPrices finds each class's place among the distinct prices, ascending.
func (b *Builder) rankPrices() {
	s := &b.snap
	prices := b.scratch.prices[:0]
	for i := range s.Classes {
		if s.Classes[i].Live {
			prices = append(prices, s.Classes[i].Price)
		}
	}
	b.scratch.prices = prices
	slices.Sort(prices)
	prices = slices.Compact(prices)
	s.PriceRank = s.PriceRank[:len(s.Classes)]
	for i := range s.Classes {
		s.PriceRank[i] = 0
		if s.Classes[i].Live {
			at, _ := slices.BinarySearch(prices, s.Classes[i].Price)
			s.PriceRank[i] = uint32(at)
		}
	}
}

// sameClasses reports whether every class number has the meaning that it had at
// the Build before.
func (b *Builder) sameClasses() bool {
	s := &b.snap
	if s.Supply.ClassMax() != len(s.Classes) {
		return false
	}
	for c := range s.Classes {
		if s.Supply.ClassBorn(uint32(c)) > b.version || s.Classes[c].Live != (s.Supply.ClassCount(uint32(c)) > 0) {
			return false
		}
	}
	return true
}

// useClasses counts the machines of classes that may yet serve.
func (b *Builder) useClasses() {
	s := &b.snap
	for c := range s.Classes {
		s.Usable[c] = uint32(s.Supply.ClassCount(uint32(c))) - b.unusable[c]
	}
}
