package order

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// With AcquireFit a Same-row that one machine could hold folds only if that costs no more than
// several smaller ones in a domain, or if it has such a machine already. The price is compared by
// classes of free machines, whatever their number. A row that does not fold can still take the
// one machine, in whichever domain it is.

// partsKey says what the answer of isCheaperInParts depends on, beside the free classes.
type partsKey struct{ profile, aggregate, unit uint32 }

// isCheaperInParts reports whether free machines of one class that hold a part of what a Same-row asks
// for cost less than what holds all of it. A machine that could hold several such rows counts with
// its share. Memoized for the cycle, for all clusters; O(classes that match).
func (f *Folder) isCheaperInParts(profile, aggregate, unit uint32) bool {
	key := partsKey{profile, aggregate, unit}
	cheaper, known := f.inParts[key]
	if known {
		return cheaper
	}
	p, s := f.p, f.p.Snap
	full := s.Demand.Profile(profile)
	matcher, penalty := s.Supply.Matcher(full), full.Interruption()
	want, least := s.Demand.Vector(aggregate), s.Demand.Vector(unit)
	whole, parts := math.Inf(1), math.Inf(1)
	for _, c := range p.ClassesOf[matcher] {
		if !p.isFreeFor(matcher, c, full.Priority()) {
			continue
		}
		has, price := p.Vector(c), free.EffectiveCost(&s.Classes[c], penalty)
		switch {
		case columnar.Covers(has, want):
			whole = min(whole, price/float64(howMany(has, want)))
		case columnar.Covers(has, least):
			if n := howFew(has, want); n > 0 {
				parts = min(parts, price*float64(n))
			}
		}
	}
	cheaper = parts < whole
	f.inParts[key] = cheaper
	return cheaper
}

// howMany is how many times a machine that covers an aggregate does so.
func howMany(has, want []int64) int64 {
	most := int64(math.MaxInt64)
	for d, w := range want {
		if w > 0 {
			most = min(most, has[d]/w)
		}
	}
	return most
}

// howFew is how many such machines cover an aggregate together; 0 = however many do not.
func howFew(has, want []int64) int64 {
	least := int64(1)
	for d, w := range want {
		switch {
		case w > 0 && has[d] <= 0:
			return 0
		case w > 0:
			least = max(least, (w-1)/has[d]+1)
		}
	}
	return least
}

// isNoDearer reports whether a class costs no Need more than another.
func isNoDearer(a, b *snapshot.Class) bool {
	return a.Price <= b.Price && a.Probability <= b.Probability
}
