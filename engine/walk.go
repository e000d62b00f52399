package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// order says by what the rows of a source compare with those of others.
type order uint8

const (
	// orderBound: Configured, Configuring, Creating; keep order within each.
	orderBound order = iota
	// orderIdle: keep order.
	orderIdle
	// orderSpeculative: effective cost, price (both the class's), id.
	orderSpeculative
)

// source is a list of machines that a need may draw from, in the order in
// which it would take them: of one class, or, with vec nil, of many.
type source struct {
	rows   []columnar.Row
	at     int
	class  uint32
	vec    []int64 // of the class; nil = the rows' classes differ
	order  order
	rank   uint32  // of the class among the speculative ones
	cursor *uint32 // remembers, between needs, how much of the head is taken
	// Rows outside the domain are passed over; domainOf 0 = no such limit.
	domainOf uint32
	domain   uint32
	fresh    bool // key is that of the head
	key      uint64
}

// follow starts the source where the cursor stands, and moves the cursor with
// it: only rows that are taken for good are ever passed.
func (s *source) follow(cursor *uint32) {
	s.cursor = cursor
	s.at = int(*cursor)
}

// walk claims heads of the sources, smallest first, until the need is covered
// or nothing is left that holds anything it lacks. Cost: O(claims × sources).
func (p *pass) walk(need int) {
	for !columnar.IsZero(p.missing) {
		best := p.smallestHead(need)
		if best < 0 {
			return
		}
		src := &p.sources[best]
		p.claim(src.rows[src.at], need)
		src.fresh = false
	}
}

// smallestHead returns the source with the smallest head, −1 when none has
// any. Sources that are empty, or hold nothing of what is missing, are dropped
// for the rest of the walk: what is missing only shrinks.
func (p *pass) smallestHead(need int) int {
	best := -1
	for i := 0; i < len(p.sources); {
		src := &p.sources[i]
		if !p.head(src, need) {
			p.sources[i] = p.sources[len(p.sources)-1]
			p.sources = p.sources[:len(p.sources)-1]
			continue
		}
		if best < 0 || src.key < p.sources[best].key {
			best = i
		}
		i++
	}
	return best
}

// head moves the source to its next row that is free and holds something of
// what is missing; false when there is none.
func (p *pass) head(src *source, need int) bool {
	if src.vec != nil && !columnar.Helps(src.vec, p.missing) {
		return false
	}
	if src.fresh {
		if src.vec != nil || columnar.Helps(p.vec(src.rows[src.at]), p.missing) {
			return true
		}
		src.fresh = false
	}
	prefix := src.cursor != nil && src.at == int(*src.cursor)
	for ; src.at < len(src.rows); src.at++ {
		r := src.rows[src.at]
		p.probes++
		if p.taken.Has(uint32(r)) {
			continue
		}
		if prefix {
			*src.cursor, prefix = uint32(src.at), false
		}
		if p.passesOver(src, r, need) {
			continue
		}
		src.key, src.fresh = p.key(src, r), true
		return true
	}
	if prefix {
		*src.cursor = uint32(src.at)
	}
	return false
}

// passesOver reports whether a source's free row is not for this need.
func (p *pass) passesOver(src *source, r columnar.Row, need int) bool {
	if src.vec == nil && (!p.suitsClass(p.s.View.Class[r], need) || !columnar.Helps(p.vec(r), p.missing)) {
		return true
	}
	if src.domainOf != 0 {
		v, ok := p.s.Supply.Domain(src.domainOf, r)
		return !ok || v != src.domain
	}
	return false
}

func (p *pass) key(src *source, r columnar.Row) uint64 {
	switch src.order {
	case orderBound:
		return uint64(boundPlace(p.s.View.State[r]))<<32 | uint64(p.s.Keep[r])
	case orderIdle:
		return uint64(p.s.Keep[r])
	}
	return uint64(src.rank)<<32 | uint64(p.s.IDRank[r])
}

// boundPlace orders the states in which machines count for a cluster.
func boundPlace(s model.State) uint32 {
	switch s {
	case model.Configured:
		return 0
	case model.Configuring:
		return 1
	}
	return 2
}

// offer is what a Speculative machine costs a need, as an order: finite
// effective costs first; for a pinned need the risky ones after them, by
// probability, then price.
type offer struct{ cost, probability, price float64 }

func compareOffers(a, b offer) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.probability, b.probability), cmp.Compare(a.price, b.price))
}

// offerOf computes effective cost = price + probability × penalty, the bucket's
// upper bound. Pinned is an infinite penalty: it must not meet probability 0.
func (p *pass) offerOf(class uint32, penalty model.Bucket) offer {
	c := &p.s.Classes[class]
	switch {
	case c.Probability == 0:
		return offer{cost: c.Price}
	case penalty >= model.BucketPinned:
		return offer{cost: math.Inf(1), probability: c.Probability, price: c.Price}
	}
	// The conversion keeps the compiler from fusing the two operations on
	// processors that could: every machine must get the same sum.
	return offer{cost: c.Price + float64(c.Probability*penalty.Dollars())}
}

// speculativeRank returns a class's place in the order of effective cost, then
// price, for needs of this penalty; equal classes share a place.
func (p *pass) speculativeRank(n *ranked, class uint32) uint32 {
	b := n.profile.Interruption()
	if p.scratch.ranks[b] == nil {
		p.scratch.ranks[b] = p.rankOffers(b)
	}
	return p.scratch.ranks[b][class]
}

func (p *pass) rankOffers(b model.Bucket) []uint32 {
	type priced struct {
		offer
		class uint32
	}
	list := make([]priced, 0, len(p.s.Classes))
	for c := range p.s.Classes {
		if p.s.Classes[c].Live && len(p.s.Speculative.At(c)) > 0 {
			list = append(list, priced{p.offerOf(uint32(c), b), uint32(c)})
		}
	}
	compare := func(x, y priced) int {
		return cmp.Or(compareOffers(x.offer, y.offer), cmp.Compare(p.s.Classes[x.class].Price, p.s.Classes[y.class].Price))
	}
	slices.SortFunc(list, func(x, y priced) int { return cmp.Or(compare(x, y), cmp.Compare(x.class, y.class)) })
	ranks := alloc.Make[uint32](p.e.arena, len(p.s.Classes))
	for i := range list {
		if i > 0 && compare(list[i-1], list[i]) == 0 {
			ranks[list[i].class] = ranks[list[i-1].class]
		} else {
			ranks[list[i].class] = uint32(i)
		}
	}
	return ranks
}

// scratch is working memory that one need hands to the next.
type scratch struct {
	// suits remembers, by class, the answer for the need at work: need<<1 | yes.
	suits  []uint64
	ranks  [model.NumBuckets][]uint32
	spread spreadScratch
	domain domainScratch
	sites  siteScratch
}
