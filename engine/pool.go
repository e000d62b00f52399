package engine

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// exhausted is the key of a class without free machines.
const exhausted = math.MaxUint32

// pool is the free machines of a state that nobody holds, class by class, each in the
// order in which it is acquired. Of every class it knows the first machine that is not
// taken: a need's next machine is the smallest of the few heads that suit it.
type pool struct {
	lists *snapshot.Lists
	apart *lowerHeld // of whose rows it has none
	place []uint32   // by row: its place in the order within equal cost
	at    []uint32   // by class: index in lists.Rows of the head
	key   []uint32   // by class: the head's place; exhausted
}

func newPool(a *alloc.Arena, lists *snapshot.Lists, place []uint32, apart *lowerHeld) pool {
	classes := len(lists.Off) - 1
	x := pool{lists: lists, apart: apart, place: place, at: alloc.MakeDirty[uint32](a, classes), key: alloc.MakeDirty[uint32](a, classes)}
	return x
}

// rewind puts every head at the first machine that is not taken.
func (x *pool) rewind(taken []bool) {
	copy(x.at, x.lists.Off)
	for c := range x.at {
		x.advance(uint32(c), taken)
	}
}

// advance moves a class's head past what is taken.
func (x *pool) advance(c uint32, taken []bool) {
	at, end := x.at[c], x.lists.Off[c+1]
	for at < end && (taken[x.lists.Rows[at]] || x.apart.has(x.lists.Rows[at])) {
		at++
	}
	x.at[c], x.key[c] = at, exhausted
	if at < end {
		x.key[c] = x.place[x.lists.Rows[at]]
	}
}

// took notes that a machine of a class is taken now.
func (x *pool) took(r columnar.Row, c uint32, taken []bool) {
	if x.key[c] == x.place[r] {
		x.advance(c, taken)
	}
}

// gave notes that a machine of a class is free again.
func (x *pool) gave(r columnar.Row, c uint32) {
	if x.place[r] >= x.key[c] {
		return
	}
	list := x.lists.Rows[x.lists.Off[c]:x.lists.Off[c+1]]
	at, _ := slices.BinarySearchFunc(list, x.place[r], func(m columnar.Row, place uint32) int { return cmp.Compare(x.place[m], place) })
	x.at[c], x.key[c] = x.lists.Off[c]+uint32(at), x.place[r]
}

// head returns a class's first free machine.
func (x *pool) head(c uint32) columnar.Row { return x.lists.Rows[x.at[c]] }

// rest returns a class's machines from the head on, and with them what is taken or held.
func (x *pool) rest(c uint32) []columnar.Row { return x.lists.Rows[x.at[c]:x.lists.Off[c+1]] }

// stateOf are the states of pass.free.
var stateOf = [2]model.State{model.Idle, model.Speculative}

// ladder is classes in the order of what a machine of them costs. A need looks
// at the lowest step that has machines left; when a step has none it is done
// with for good. Kinds that agree in matcher and penalty share one.
type ladder struct {
	steps []step
	low   int    // steps below have no machines left
	epoch uint64 // of the pass, when it was last reopened
}

// step is classes of equal cost. Those without machines move to the end.
type step struct {
	classes []uint32
	live    int
}

// ladderKey names a ladder: Idle machines cost the same whatever the penalty.
type ladderKey struct {
	matcher uint32
	penalty model.Bucket
	stage   int
}

// ladderFor returns the ladder of a kind in a pool.
func (p *pass) ladderFor(k *kind, stage int) *ladder {
	key := ladderKey{matcher: k.matcher, stage: stage}
	if stage == 1 {
		key.penalty = k.penalty
	}
	ladders := p.e.store.kinds.ladders
	x := ladders[key]
	if x == nil {
		x = &ladder{steps: p.climb(p.classesOf[k.matcher], k, stage)}
		ladders[key] = x
	}
	return x
}

// climb orders classes by what their machines cost in a pool.
func (p *pass) climb(classes []uint32, k *kind, stage int) []step {
	cost := p.costs(k, stage)
	list := slices.Clone(classes)
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Compare(cost[a], cost[b]) })
	var steps []step
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && cost[list[to]] == cost[list[from]] {
			to++
		}
		steps = append(steps, step{list[from:to], to - from})
		from = to
	}
	return steps
}

// nextClass returns, of the classes that suit a kind, the one with the cheapest
// machine that has something of what is missing; ok is false when there is
// none. Cost: O(classes of one step), while machines of the lowest step help.
func (p *pass) nextClass(x *ladder, k *kind, stage int, missing uint64) (class uint32, ok bool) {
	key := p.free[stage].key
	if x.epoch != p.epoch {
		x.epoch = p.epoch
		x.reopen()
	}
	for i := x.low; i < len(x.steps); i++ {
		s := &x.steps[i]
		best := uint32(exhausted)
		for j := 0; j < s.live; {
			c := s.classes[j]
			place := key[c]
			if place == exhausted {
				s.live--
				s.classes[j], s.classes[s.live] = s.classes[s.live], c
				continue
			}
			if place < best && p.classMask[c]&missing != 0 && k.acceptsClass(c) {
				best, class = place, c
			}
			j++
		}
		if best != exhausted {
			return class, true
		}
		if s.live == 0 && i == x.low {
			x.low++
		}
	}
	return 0, false
}

// any reports whether a ladder has a machine left that suits a kind.
func (p *pass) any(x *ladder, k *kind, stage int) bool {
	_, ok := p.nextClass(x, k, stage, ^uint64(0))
	return ok
}

// reopen lets a ladder begin at its lowest step again.
func (x *ladder) reopen() {
	x.low = 0
	for i := range x.steps {
		x.steps[i].live = len(x.steps[i].classes)
	}
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

// offerRanks are classes' places in the order of effective cost, and in that
// of effective cost, then price; equal classes share a place.
type offerRanks struct{ byOffer, byPriceToo []uint32 }

// costs returns each class's place in the order in which a kind acquires
// machines of a state; equal classes share one.
func (p *pass) costs(k *kind, stage int) []uint32 {
	if stage == 0 {
		return p.s.PriceRank
	}
	return p.offerRanks(k.penalty).byPriceToo
}

// offerRanks returns the places of classes for a penalty.
func (p *pass) offerRanks(penalty model.Bucket) *offerRanks {
	x := &p.e.store.kinds.offers[penalty]
	if x.byOffer == nil {
		*x = p.rankOffers(penalty)
	}
	return x
}

func (p *pass) rankOffers(penalty model.Bucket) offerRanks {
	type priced struct {
		offer
		class uint32
	}
	list := make([]priced, 0, len(p.s.Classes))
	for c := range p.s.Classes {
		if p.s.Classes[c].Live {
			list = append(list, priced{p.offerOf(uint32(c), penalty), uint32(c)})
		}
	}
	price := func(x priced) float64 { return p.s.Classes[x.class].Price }
	slices.SortFunc(list, func(x, y priced) int {
		return cmp.Or(compareOffers(x.offer, y.offer), cmp.Compare(price(x), price(y)), cmp.Compare(x.class, y.class))
	})
	out := offerRanks{make([]uint32, len(p.s.Classes)), make([]uint32, len(p.s.Classes))}
	for i := range list {
		c := list[i].class
		out.byOffer[c], out.byPriceToo[c] = uint32(i), uint32(i)
		if i == 0 || compareOffers(list[i-1].offer, list[i].offer) != 0 {
			continue
		}
		before := list[i-1].class
		out.byOffer[c] = out.byOffer[before]
		if price(list[i-1]) == price(list[i]) {
			out.byPriceToo[c] = out.byPriceToo[before]
		}
	}
	return out
}
