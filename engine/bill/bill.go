package bill

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/internal/cover"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// Bill is what a fleet costs an hour, in dollars, at list prices.
type Bill struct {
	// Paid is the price of all machines that are paid for; see model.State.Paid.
	Paid float64 `json:"paid"`
	// Idle is the part of Paid of machines that are Idle and that the plan does not bind.
	Idle float64 `json:"idle"`
	// Serving is the price of the machines that Needs have, those that the plan binds or creates included.
	Serving float64 `json:"serving"`
	// Effective is Serving with what interruptions of these machines cost the Needs on average: what the engine
	// makes small.
	Effective float64 `json:"effective"`
	// Bound is the least effective cost of machines for what these Needs have; 0 if nothing is known.
	Bound float64 `json:"bound"`
	// At is the time of the cycle that was billed, Unix milliseconds; 0 where nobody said it. Of does not set it.
	At int64 `json:"at,omitempty"`
}

// Over returns by which part Effective is above the bound: 0.04 is 4 %. ok is false without a bound.
func (b *Bill) Over() (over float64, ok bool) {
	if b.Bound <= 0 {
		return 0, false
	}
	return b.Effective/b.Bound - 1, true
}

// Rest is what is paid and is neither Idle nor Serving: machines that drain or are deleted, and those that no Need
// claims. It is below 0 where Needs have machines that the plan only creates: these are not paid yet.
func (b *Bill) Rest() float64 { return b.Paid - b.Serving - b.Idle }

// Plus returns the bill of two fleets, as of the earlier time.
func (b Bill) Plus(o Bill) Bill {
	at := b.At
	if at == 0 || o.At != 0 && o.At < at {
		at = o.At
	}
	return Bill{b.Paid + o.Paid, b.Idle + o.Idle, b.Serving + o.Serving, b.Effective + o.Effective, b.Bound + o.Bound, at}
}

// Of returns the bill of a plan and the table that it was decided on, before anything is changed there: Read
// and Problem.Bill.
func Of(plan *engine.Plan, table *supply.Table) Bill { return Read(plan, table).Bill() }

// Problem is what the bound is computed from: a copy, which outlives the plan and the table.
type Problem struct {
	// sums is the bill without its bound.
	sums  Bill
	types []machineType
	kinds []kind
}

// machineType is machines that are equal in price and in what they offer, and that the same kinds can use.
type machineType struct {
	price       float64
	probability float64 // of an interruption, per hour
	has         []int64
	limit       int // how many there are; unlimited if more can be bought
}

// unlimited is the limit of what can be bought.
const unlimited = math.MaxInt32

// kind is what Needs that the same machines can serve have.
type kind struct {
	held  []int64
	types []int32
	// fingerprint is of the profile, unit the minimum unit: what tells kinds apart that have as much.
	fingerprint uint64
	unit        []int64
	penalty     float64 // of an interruption, in dollars; +Inf for a Need that must not be interrupted
}

// cost returns the effective cost of a machine of a type; +Inf if the kind must not be interrupted, and
// the machine may be.
func (k *kind) cost(x *machineType) float64 {
	if x.probability == 0 {
		return x.price // 0 × ∞ is NaN
	}
	return x.price + x.probability*k.penalty
}

// Read copies from a plan, and the table that it was decided on, what the bill needs. O(Needs + machines).
func Read(plan *engine.Plan, table *supply.Table) *Problem {
	p := &Problem{}
	p.sums.count(plan, table)
	covered := plan.Covered()
	buyable := map[uint32]bool{}
	class := table.View().Class
	for it := table.InState(model.Speculative).Iterator(); it.HasNext(); {
		buyable[class[it.Next()]] = true
	}
	place := make([]int, 0, 8) // by dimension of the table: its place in the plan's, −1 = none
	for _, name := range table.Dims() {
		place = append(place, slices.Index(plan.Dims(), name))
	}
	merged := map[string]int32{} // by price, vector and matchers: the type
	typeOf := map[uint32]int32{} // by class
	for i := range covered {
		c := &covered[i]
		p.sums.Serving, p.sums.Effective = p.sums.Serving+c.Spend, p.sums.Effective+c.Effective
		k := kind{held: c.Held, fingerprint: c.Profile.Fingerprint(), unit: c.Unit, penalty: penaltyOf(c.Profile)}
		for _, class := range c.Classes {
			t, ok := typeOf[class]
			if !ok {
				info := table.ClassInfo(class)
				has := make([]int64, len(plan.Dims()))
				for d, v := range info.Vector {
					if place[d] >= 0 {
						has[place[d]] = v
					}
				}
				t = p.typeOf(info, has, buyable[class], merged)
				typeOf[class] = t
			}
			k.types = append(k.types, t)
		}
		slices.Sort(k.types)
		k.types = slices.Compact(k.types)
		p.kinds = append(p.kinds, k)
	}
	p.sort()
	return p
}

// sort puts kinds and types into an order that does not depend on their numbers in the tables: among optima that
// cost the same, the programs choose by it.
func (p *Problem) sort() {
	slices.SortFunc(p.kinds, func(a, b kind) int {
		return cmp.Or(slices.Compare(a.held, b.held), cmp.Compare(a.penalty, b.penalty), cmp.Compare(a.fingerprint, b.fingerprint), slices.Compare(a.unit, b.unit))
	})
	users := make([][]int32, len(p.types)) // by type: the kinds that can use it
	for i := range p.kinds {
		for _, t := range p.kinds[i].types {
			users[t] = append(users[t], int32(i))
		}
	}
	order := make([]int32, len(p.types))
	for t := range order {
		order[t] = int32(t)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &p.types[a], &p.types[b]
		return cmp.Or(cmp.Compare(x.price, y.price), cmp.Compare(x.probability, y.probability), slices.Compare(x.has, y.has), slices.Compare(users[a], users[b]))
	})
	place, types := make([]int32, len(order)), make([]machineType, len(order))
	for i, t := range order {
		place[t], types[i] = int32(i), p.types[t]
	}
	p.types = types
	for i := range p.kinds {
		for j, t := range p.kinds[i].types {
			p.kinds[i].types[j] = place[t]
		}
		slices.Sort(p.kinds[i].types)
	}
}

// count sums up the machines that are paid for.
func (b *Bill) count(plan *engine.Plan, table *supply.Table) {
	class := table.View().Class
	for s := range model.NumStates {
		if !model.State(s).Paid() {
			continue
		}
		for it := table.InState(model.State(s)).Iterator(); it.HasNext(); {
			r := columnar.Row(it.Next())
			price := table.ClassInfo(class[r]).Price
			b.Paid += price
			if model.State(s) == model.Idle && !plan.Claimed(r) {
				b.Idle += price
			}
		}
	}
}

// Bill returns the bill, which takes the time of Bound.
func (p *Problem) Bill() Bill {
	b := p.sums
	b.Bound = p.bound()
	for _, v := range [...]*float64{&b.Paid, &b.Idle, &b.Serving, &b.Effective, &b.Bound} {
		*v = math.Round(*v*1e6) / 1e6 // sums of prices have errors of rounding
	}
	return b
}

// penaltyOf returns what an interruption costs Needs of a profile, in dollars.
func penaltyOf(p *model.Profile) float64 {
	if p.Interruption() >= model.BucketPinned {
		return math.Inf(1)
	}
	return p.Interruption().Dollars()
}

// typeOf returns the type of a class, adding it if it is new. has is what a machine offers, over the dimensions of
// the plan.
func (p *Problem) typeOf(info supply.ClassInfo, has []int64, buyable bool, merged map[string]int32) int32 {
	key := fmt.Sprint(math.Float64bits(info.Price), math.Float64bits(info.Probability), has, info.Matchers)
	t, ok := merged[key]
	if !ok {
		t = int32(len(p.types))
		merged[key] = t
		p.types = append(p.types, machineType{price: info.Price, probability: info.Probability, has: has})
	}
	x := &p.types[t]
	if x.limit = min(x.limit+info.Count, unlimited); buyable {
		x.limit = unlimited
	}
	return t
}

// Constants of the search for the best λ. The bound is one at every step; more steps make it tighter.
const (
	// stepsMax bounds the steps.
	stepsMax = 40
	// closeEnough is the part of Effective to which the bound is improved at most.
	closeEnough = 1e-3
	// rounding is the part of a limit that counts as an error of rounding.
	rounding = 1e-9
)

// bound returns Bill.Bound: the best of a bounded number of steps. Each step solves a linear program for
// each kind, of one row a resource and one column a type. It is deterministic.
func (p *Problem) bound() float64 {
	lambda, over := make([]float64, len(p.types)), make([]float64, len(p.types))
	best, scale, failed := 0.0, 1.0, 0
	for range stepsMax {
		value := p.relaxed(lambda, over)
		if value > best {
			best, failed = value, 0
		} else if failed++; failed == 4 {
			scale, failed = scale/2, 0 // Held, Wolfe and Crowder, 1974
		}
		if best >= p.sums.Effective*(1-closeEnough) || !p.step(lambda, over, scale*(p.sums.Effective-value)) {
			break
		}
	}
	return min(best, p.sums.Effective)
}

// relaxed returns the bound for λ. over receives how many machines of each type are taken beyond its limit;
// it is negative where the limit is not reached.
func (p *Problem) relaxed(lambda, over []float64) (value float64) {
	var b cover.Bounder
	var offers []cover.Offer
	var of []int32 // by offer: the type
	var chosen []float64
	for t := range p.types {
		over[t] = 0
		if p.types[t].limit < unlimited {
			over[t] = -float64(p.types[t].limit)
			value -= lambda[t] * float64(p.types[t].limit)
		}
	}
	for i := range p.kinds {
		k := &p.kinds[i]
		offers, of = offers[:0], of[:0]
		for _, t := range k.types {
			x := &p.types[t]
			if cost := k.cost(x); !math.IsInf(cost, 1) {
				offers, of = append(offers, cover.Offer{Has: x.has, Cost: cost + lambda[t], Count: x.limit}), append(of, t)
			}
		}
		chosen = slices.Grow(chosen[:0], len(offers))[:len(offers)]
		least, ok := b.Bound(k.held, offers, chosen)
		if !ok {
			continue // nothing is known of it: it costs at least nothing
		}
		value += least
		for j, t := range of {
			over[t] += chosen[j]
		}
	}
	for t, g := range over {
		if math.Abs(g) < rounding*float64(1+p.types[t].limit) {
			over[t] = 0
		}
	}
	return value
}

// step moves λ along the subgradient, by Polyak's step for a gap. false: there is nothing to move.
func (p *Problem) step(lambda, over []float64, gap float64) bool {
	norm := 0.0
	for t, g := range over {
		if !p.moves(lambda, over, t) {
			continue
		}
		norm += g * g
	}
	if norm == 0 {
		return false
	}
	for t, g := range over {
		if p.moves(lambda, over, t) {
			lambda[t] = max(0, lambda[t]+gap/norm*g)
		}
	}
	return true
}

// moves reports whether a step changes the λ of a type: it has a limit, and is above it, or its λ can fall.
func (p *Problem) moves(lambda, over []float64, t int) bool {
	return p.types[t].limit < unlimited && (over[t] > 0 || over[t] < 0 && lambda[t] > 0)
}
