// Package free has the free machines by class, in the order in which a kind acquires them.
package free

import (
	"cmp"
	"math"
	"slices"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Exhausted is the key of a class without available machines.
const Exhausted = math.MaxUint32

// StageOf returns the stage in which a free machine is acquired: 0 for Idle, 1 for Speculative; late-bound
// Idle machines are among the Speculative.
func StageOf(s *snapshot.Snapshot, r columnar.Row) int {
	if s.View.State[r] == model.Speculative || s.Supply.IsLateBound(r) {
		return 1
	}
	return 0
}

// Pool holds the free machines of one stage that are not held, by class, each class in the order
// in which its machines are acquired. It keeps the head of every class: its first machine that is not
// taken. A Need's next machine is the smallest head among the classes of its kind.
type Pool struct {
	Lists *snapshot.Lists
	apart *bitmap.Dense   // held machines, which the pool skips
	Place snapshot.Places // of machines of equal cost
	At    []uint32        // by class: index in Lists.Rows of the head
	Key   []uint32        // by class: the place of the head, or Exhausted
	Left  []int32         // by class: how many machines are available; nil with AcquireCheapest
}

// NewPool returns the pool of the lists of one stage. Rewind has to be called before it is used.
func NewPool(a *alloc.Arena, lists *snapshot.Lists, place snapshot.Places, apart *bitmap.Dense) Pool {
	classes := len(lists.Off) - 1
	x := Pool{Lists: lists, apart: apart, Place: place, At: alloc.MakeDirty[uint32](a, classes), Key: alloc.MakeDirty[uint32](a, classes)}
	return x
}

// Rewind puts every head at the first machine that is available.
func (x *Pool) Rewind(taken []bool) {
	copy(x.At, x.Lists.Off)
	for c := range x.At {
		x.advance(uint32(c), taken)
	}
}

// CountLeft counts the machines that are available.
func (x *Pool) CountLeft(a *alloc.Arena, taken []bool) {
	x.Left = alloc.Make[int32](a, len(x.At))
	for c := range x.Left {
		for _, r := range x.Lists.At(c) {
			if !taken[r] && !x.apart.Has(uint32(r)) {
				x.Left[c]++
			}
		}
	}
}

// advance moves a class's head past machines that are taken or held.
func (x *Pool) advance(c uint32, taken []bool) {
	at, end := x.At[c], x.Lists.Off[c+1]
	for at < end && (taken[x.Lists.Rows[at]] || x.apart.Has(uint32(x.Lists.Rows[at]))) {
		at++
	}
	x.At[c], x.Key[c] = at, Exhausted
	if at < end {
		x.Key[c] = x.Place.Of(x.Lists.Rows[at])
	}
}

// Took notes that a machine has been taken: if it is the head, the head advances.
func (x *Pool) Took(r columnar.Row, c uint32, taken []bool) {
	if x.Left != nil && !x.apart.Has(uint32(r)) {
		x.Left[c]--
	}
	if x.Key[c] == x.Place.Of(r) {
		x.advance(c, taken)
	}
}

// TakeHead notes that the head of a class has been taken.
func (x *Pool) TakeHead(c uint32, taken []bool) {
	x.advance(c, taken)
	if x.Left != nil {
		x.Left[c]--
	}
}

// Has reports whether a class has an available machine.
func (x *Pool) Has(c uint32) bool { return x.Key[c] != Exhausted }

// Gave notes that a machine is available again: if it precedes the head, it becomes the head. O(log
// machines of the class).
func (x *Pool) Gave(r columnar.Row, c uint32) {
	if x.Left != nil {
		x.Left[c]++
	}
	if x.Place.Of(r) >= x.Key[c] {
		return
	}
	list := x.Lists.Rows[x.Lists.Off[c]:x.Lists.Off[c+1]]
	at, _ := slices.BinarySearchFunc(list, x.Place.Of(r), func(m columnar.Row, place uint32) int { return cmp.Compare(x.Place.Of(m), place) })
	x.At[c], x.Key[c] = x.Lists.Off[c]+uint32(at), x.Place.Of(r)
}

// Head returns a class's first available machine.
func (x *Pool) Head(c uint32) columnar.Row { return x.Lists.Rows[x.At[c]] }

// Rest returns a class's machines from the head on, taken and held ones included.
func (x *Pool) Rest(c uint32) []columnar.Row { return x.Lists.Rows[x.At[c]:x.Lists.Off[c+1]] }

// Ladder lists classes in ascending order of what their machines cost. A Need takes from the lowest
// step that has machines left. A step without machines is dropped for the rest of the epoch. Kinds that
// agree in matcher and penalty share a ladder.
type Ladder struct {
	Steps []Step
	Low   int    // index of the lowest step that may have machines
	Epoch uint64 // pass.epoch when it was last reopened
}

// Step is the classes of equal cost: the first live of them may have machines, the others are
// exhausted.
type Step struct {
	Classes []uint32
	Live    int
}

// Ways are the orders in which kinds acquire; they live as long as the kinds.
type Ways struct {
	OfKind   [][2]*Ladder // by kind: for Idle and for Speculative machines
	Snapshot *snapshot.Snapshot
	ladders  map[Key]*Ladder
	offers   [model.NumBuckets]offerRanks // by penalty
}

// Reset forgets all kinds.
func (x *Ways) Reset() {
	clear(x.OfKind)
	*x = Ways{OfKind: x.OfKind[:0], Snapshot: x.Snapshot, ladders: map[Key]*Ladder{}}
}

// Key names a ladder. The penalty is 0 for Idle machines, whose cost does not depend on it.
type Key struct {
	Matcher uint32
	Penalty model.Bucket
	Stage   int
}

// Add gives the next kind its ladders, of the classes that its matcher accepts.
func (x *Ways) Add(k *state.Kind, classes []uint32) {
	x.offerRanks(k.Penalty) // compute them before workers ask concurrently
	x.OfKind = append(x.OfKind, [2]*Ladder{x.ladderFor(k, classes, 0), x.ladderFor(k, classes, 1)})
}

// ladderFor returns the ladder of a kind in a stage, memoized.
func (x *Ways) ladderFor(k *state.Kind, classes []uint32, stage int) *Ladder {
	key := Key{Matcher: k.Matcher, Stage: stage}
	if stage == 1 {
		key.Penalty = k.Penalty
	}
	if x.ladders[key] == nil {
		l := NewLadder(classes, x.Costs(k, stage))
		x.ladders[key] = &l
	}
	return x.ladders[key]
}

// NewLadder groups classes into steps by what their machines cost.
func NewLadder(classes, cost []uint32) Ladder {
	list := slices.Clone(classes)
	slices.SortFunc(list, func(a, b uint32) int { return cmp.Compare(cost[a], cost[b]) })
	var steps []Step
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && cost[list[to]] == cost[list[from]] {
			to++
		}
		steps = append(steps, Step{list[from:to], to - from})
		from = to
	}
	return Ladder{Steps: steps}
}

// Next returns the class, of those that the kind accepts and that offer something of what is
// missing, whose head is cheapest; ok is false when there is none. Cost: O(classes of one step) while
// the lowest step helps, else O(classes) at most.
func (x *Ladder) Next(free *Pool, epoch uint64, classMask []uint64, k *state.Kind, missing uint64) (class uint32, ok bool) {
	key := free.Key
	if x.Epoch != epoch {
		x.Epoch = epoch
		x.Reopen()
	}
	for i := x.Low; i < len(x.Steps); i++ {
		s := &x.Steps[i]
		best := uint32(Exhausted)
		for j := 0; j < s.Live; {
			c := s.Classes[j]
			place := key[c]
			if place == Exhausted {
				s.Live--
				s.Classes[j], s.Classes[s.Live] = s.Classes[s.Live], c
				continue
			}
			if place < best && classMask[c]&missing != 0 && k.AcceptsClass(c) {
				best, class = place, c
			}
			j++
		}
		if best != Exhausted {
			return class, true
		}
		if s.Live == 0 && i == x.Low {
			x.Low++
		}
	}
	return 0, false
}

// Reopen makes a ladder begin at its lowest step again, with all classes.
func (x *Ladder) Reopen() {
	x.Low = 0
	for i := range x.Steps {
		x.Steps[i].Live = len(x.Steps[i].Classes)
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
func offerOf(c *snapshot.Class, penalty model.Bucket) offer {
	switch {
	case c.Probability == 0:
		return offer{cost: c.Price}
	case penalty >= model.BucketPinned:
		return offer{cost: math.Inf(1), probability: c.Probability, price: c.Price}
	}
	// The conversion forbids a fused multiply-add: every processor must compute the same sum.
	return offer{cost: c.Price + float64(c.Probability*penalty.Dollars())}
}

// EffectiveCost returns what a Speculative machine of a class costs a Need; see offerOf.
func EffectiveCost(c *snapshot.Class, penalty model.Bucket) float64 { return offerOf(c, penalty).cost }

// ByOffer returns each class's place in the order of effective costs; equal ones share a place.
func (x *Ways) ByOffer(penalty model.Bucket) []uint32 { return x.offerRanks(penalty).byOffer }

// offerRanks are the places of classes in the order of offers, and in the order of offers then price;
// equal classes share a place.
type offerRanks struct{ byOffer, byPriceToo []uint32 }

// Costs returns each class's place in the order in which a kind acquires machines of a stage; classes
// of equal cost share a place.
func (x *Ways) Costs(k *state.Kind, stage int) []uint32 {
	if stage == 0 {
		return x.Snapshot.PriceRank
	}
	return x.offerRanks(k.Penalty).byPriceToo
}

// offerRanks returns the places of classes for a penalty, memoized. It must not be called concurrently
// for a penalty that is new; see Add.
func (x *Ways) offerRanks(penalty model.Bucket) *offerRanks {
	o := &x.offers[penalty]
	if o.byOffer == nil {
		*o = rankOffers(x.Snapshot, penalty)
	}
	return o
}

func rankOffers(s *snapshot.Snapshot, penalty model.Bucket) offerRanks {
	type priced struct {
		offer
		class uint32
	}
	list := make([]priced, 0, len(s.Classes))
	for c := range s.Classes {
		if s.Classes[c].Live {
			list = append(list, priced{offerOf(&s.Classes[c], penalty), uint32(c)})
		}
	}
	price := func(x priced) float64 { return s.Classes[x.class].Price }
	slices.SortFunc(list, func(x, y priced) int {
		return cmp.Or(compareOffers(x.offer, y.offer), cmp.Compare(price(x), price(y)), cmp.Compare(x.class, y.class))
	})
	out := offerRanks{make([]uint32, len(s.Classes)), make([]uint32, len(s.Classes))}
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
