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

// exhausted is the key of a class without available machines.
const exhausted = math.MaxUint32

// pool holds the free machines of one state that are not held, by class, each class in the order
// in which its machines are acquired. It keeps the head of every class: its first machine that is not
// taken. A Need's next machine is the smallest head among the classes of its kind.
type pool struct {
	lists *snapshot.Lists
	apart *lowerHeld // held machines, which the pool skips
	place []uint32   // by row: its place in the order of machines of equal cost
	at    []uint32   // by class: index in lists.Rows of the head
	key   []uint32   // by class: the place of the head, or exhausted
	left  []int32    // by class: how many machines are available; nil with AcquireCheapest
}

func newPool(a *alloc.Arena, lists *snapshot.Lists, place []uint32, apart *lowerHeld) pool {
	classes := len(lists.Off) - 1
	x := pool{lists: lists, apart: apart, place: place, at: alloc.MakeDirty[uint32](a, classes), key: alloc.MakeDirty[uint32](a, classes)}
	return x
}

// rewind puts every head at the first machine that is available.
func (x *pool) rewind(taken []bool) {
	copy(x.at, x.lists.Off)
	for c := range x.at {
		x.advance(uint32(c), taken)
	}
}

// countLeft counts the machines that are available.
func (x *pool) countLeft(a *alloc.Arena, taken []bool) {
	x.left = alloc.Make[int32](a, len(x.at))
	for c := range x.left {
		for _, r := range x.lists.At(c) {
			if !taken[r] && !x.apart.has(r) {
				x.left[c]++
			}
		}
	}
}

// advance moves a class's head past machines that are taken or held.
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

// took notes that a machine has been taken: if it is the head, the head advances.
func (x *pool) took(r columnar.Row, c uint32, taken []bool) {
	if x.left != nil && !x.apart.has(r) {
		x.left[c]--
	}
	if x.key[c] == x.place[r] {
		x.advance(c, taken)
	}
}

// gave notes that a machine is available again: if it precedes the head, it becomes the head. O(log
// machines of the class).
func (x *pool) gave(r columnar.Row, c uint32) {
	if x.left != nil {
		x.left[c]++
	}
	if x.place[r] >= x.key[c] {
		return
	}
	list := x.lists.Rows[x.lists.Off[c]:x.lists.Off[c+1]]
	at, _ := slices.BinarySearchFunc(list, x.place[r], func(m columnar.Row, place uint32) int { return cmp.Compare(x.place[m], place) })
	x.at[c], x.key[c] = x.lists.Off[c]+uint32(at), x.place[r]
}

// head returns a class's first available machine.
func (x *pool) head(c uint32) columnar.Row { return x.lists.Rows[x.at[c]] }

// rest returns a class's machines from the head on, taken and held ones included.
func (x *pool) rest(c uint32) []columnar.Row { return x.lists.Rows[x.at[c]:x.lists.Off[c+1]] }

// stateOf are the states of the machines in pass.free, by stage.
var stateOf = [2]model.State{model.Idle, model.Speculative}

// ladder lists classes in ascending order of what their machines cost. A Need takes from the lowest
// step that has machines left. A step without machines is dropped for the rest of the epoch. Kinds that
// agree in matcher and penalty share a ladder.
type ladder struct {
	steps []step
	low   int    // index of the lowest step that may have machines
	epoch uint64 // pass.epoch when it was last reopened
}

// step is the classes of equal cost: the first live of them may have machines, the others are
// exhausted.
type step struct {
	classes []uint32
	live    int
}

// ladderKey names a ladder. The penalty is 0 for Idle machines, whose cost does not depend on it.
type ladderKey struct {
	matcher uint32
	penalty model.Bucket
	stage   int
}

// ladderFor returns the ladder of a kind in a stage, memoized.
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

// climb groups classes into steps by what their machines cost.
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

// nextClass returns the class, of those that the kind accepts and that offer something of what is
// missing, whose head is cheapest; ok is false when there is none. Cost: O(classes of one step) while
// the lowest step helps, else O(classes) at most.
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

// any reports whether a ladder has a machine left for a kind.
func (p *pass) any(x *ladder, k *kind, stage int) bool {
	_, ok := p.nextClass(x, k, stage, ^uint64(0))
	return ok
}

// reopen makes a ladder begin at its lowest step again, with all classes.
func (x *ladder) reopen() {
	x.low = 0
	for i := range x.steps {
		x.steps[i].live = len(x.steps[i].classes)
	}
}

// offer is what a Speculative machine costs a Need, as a sort key. Finite effective costs come first.
// For a pinned Need, machines that may be interrupted follow, by probability, then price.
type offer struct{ cost, probability, price float64 }

func compareOffers(a, b offer) int {
	return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.probability, b.probability), cmp.Compare(a.price, b.price))
}

// offerOf computes the effective cost: price + probability × penalty, where the penalty is the bucket's
// upper bound in dollars. Pinned stands for an infinite penalty; probability 0 is tested first, since 0
// × ∞ is NaN.
func (p *pass) offerOf(class uint32, penalty model.Bucket) offer {
	c := &p.s.Classes[class]
	switch {
	case c.Probability == 0:
		return offer{cost: c.Price}
	case penalty >= model.BucketPinned:
		return offer{cost: math.Inf(1), probability: c.Probability, price: c.Price}
	}
	// The conversion forbids a fused multiply-add: every processor must compute the same sum.
	return offer{cost: c.Price + float64(c.Probability*penalty.Dollars())}
}

// offerRanks are the places of classes in the order of offers, and in the order of offers then price;
// equal classes share a place.
type offerRanks struct{ byOffer, byPriceToo []uint32 }

// costs returns each class's place in the order in which a kind acquires machines of a stage; classes
// of equal cost share a place.
func (p *pass) costs(k *kind, stage int) []uint32 {
	if stage == 0 {
		return p.s.PriceRank
	}
	return p.offerRanks(k.penalty).byPriceToo
}

// offerRanks returns the places of classes for a penalty, memoized. It must not be called concurrently
// for a penalty that is new; see layLadders.
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
