package engine

import (
	"slices"
	"sync"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
)

// unmet returns the first reason that applies to a Need; UnmetNone if it is satisfied.
func (p *pass) unmet(need int32) Unmet {
	n, k := &p.lines[need], p.kindOf(need)
	unoffered := p.unoffered(need)
	switch {
	case n.is(isSatisfied) && len(unoffered.Aggregate) == 0:
		return UnmetNone
	case p.rests(need):
		return UnmetParked
	case unoffered.Some():
		return UnmetNoMatchingSupply
	}
	x := p.limitOf(need)
	switch {
	case x.nothing:
		return UnmetNoMatchingSupply
	case n.is(isAwaiting) && (n.is(hasCandidates) || !n.is(countsOnDrain)):
		return UnmetAwaitingDrain
	case n.is(hasCandidates):
		return UnmetPreemptionExhausted
	case k.same && !x.covers(p.aggregate(need)):
		return UnmetTopology
	case n.is(isSkewBlocked):
		return UnmetSpread
	case !x.covers(p.aggregate(need)):
		return UnmetInsufficientSupply
	}
	return UnmetPriorityStarved
}

// rests reports whether a Need is parked by its cluster. The flag isParked is also set for a row that
// waits for a resource which no machine offers.
func (p *pass) rests(need int32) bool {
	n := &p.lines[need]
	if !n.is(isParked) || n.is(isFold) || !p.unoffered(need).Waits(p.kindOf(need).same) {
		return n.is(isParked)
	}
	src := &p.sources[n.cluster]
	return src.block.Parked(int(need - src.base))
}

// limits memoizes, by kind, what all machines in usable states could give, without regard to claims.
// Only reasons need it, so it is computed when a cycle's first reason asks for it.
type limits struct {
	mu    sync.Mutex
	stale bool // holds values of another cycle
	kinds []limit
	keys  []int   // Same keys that have been asked for
	bins  [][]bin // by index in keys
	sum   []int64 // scratch
}

// limit is what a kind could be given.
type limit struct {
	known   bool
	nothing bool // some wanted dimension is offered nowhere
	// tops are the maximal totals of domains: none covers another. Without Same there is one, the total
	// of all machines.
	tops [][]int64
}

// bin counts the machines of one class with one value of a key.
type bin struct{ value, class, count uint32 }

// covers reports whether so much could be had together, in one domain with Same.
func (x *limit) covers(want []int64) bool {
	return slices.ContainsFunc(x.tops, func(has []int64) bool { return columnar.Covers(has, want) })
}

// limitOf returns what a Need's kind could be given, memoized per cycle.
func (p *pass) limitOf(need int32) *limit {
	x := &p.e.store.limits
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stale {
		x.stale = false
		x.kinds, x.sum = resize(x.kinds, len(p.kinds)), resize(x.sum, p.dims)
		x.keys, x.bins = x.keys[:0], x.bins[:0]
	}
	at := p.lines[need].kind
	limit, k := &x.kinds[at], &p.kinds[at]
	switch {
	case limit.known:
	case k.same:
		x.findIn(p, k, limit)
	default:
		x.find(p, k, limit)
	}
	limit.known = true
	return limit
}

// find sums the usable machines that the kind accepts.
func (x *limits) find(p *pass, k *kind, limit *limit) {
	sum := make([]int64, p.dims)
	for _, c := range k.classes {
		columnar.SatAddScaled(sum, p.vector(c), int64(p.s.Usable[c]))
	}
	limit.nothing = positive(sum)&k.mask != k.mask
	limit.tops = [][]int64{sum}
}

// findIn sums the usable machines that the kind accepts, domain by domain.
func (x *limits) findIn(p *pass, k *kind, limit *limit) {
	some := uint64(0)
	for bins := x.binsOf(p, p.s.Supply.SameKey(k.matcher)); len(bins) > 0; {
		n := 1
		for n < len(bins) && bins[n].value == bins[0].value {
			n++
		}
		if _, permitted := p.s.Supply.DomainOf(k.matcher, bins[0].value); permitted {
			clear(x.sum)
			for _, c := range bins[:n] {
				if k.acceptsClass(c.class) {
					columnar.SatAddScaled(x.sum, p.vector(c.class), int64(c.count))
				}
			}
			some |= positive(x.sum)
			limit.raise(x.sum)
		}
		bins = bins[n:]
	}
	limit.nothing = some&k.mask != k.mask
}

// raise adds a domain's total to tops unless another one covers it.
func (x *limit) raise(total []int64) {
	if x.covers(total) {
		return
	}
	x.tops = slices.DeleteFunc(x.tops, func(top []int64) bool { return columnar.Covers(total, top) })
	x.tops = append(x.tops, slices.Clone(total))
}

// binsOf counts the usable machines by value of a key and by class, sorted by value. O(machines), once
// per cycle and key.
func (x *limits) binsOf(p *pass, key int) []bin {
	at := slices.Index(x.keys, key)
	if at < 0 {
		at = len(x.keys)
		x.keys, x.bins = append(x.keys, key), append(x.bins, p.countBins(key))
	}
	return x.bins[at]
}

// countBins is binsOf without its memory: a counting sort by value, then a sort by class.
func (p *pass) countBins(key int) []bin {
	values, classes := p.s.Supply.Values(key), p.s.View.Class
	from := make([]uint32, p.s.Supply.ValueIDMax()+1) // by value
	counts := func(r int) bool { return values[r] != 0 && mayServe[p.s.View.State[r]] }
	n := uint32(0)
	for r := range values {
		if counts(r) {
			from[values[r]]++
			n++
		}
	}
	sum := uint32(0)
	for v, count := range from {
		from[v], sum = sum, sum+count
	}
	byValue := make([]uint32, n) // the classes of machines
	for r := range values {
		if counts(r) {
			v := values[r]
			byValue[from[v]] = classes[r]
			from[v]++ // ends where the next value begins
		}
	}
	var bins []bin
	begin := uint32(0)
	for v, end := range from {
		of := byValue[begin:end]
		slices.Sort(of)
		for i, class := range of {
			if i == 0 || class != of[i-1] {
				bins = append(bins, bin{uint32(v), class, 0})
			}
			bins[len(bins)-1].count++
		}
		begin = end
	}
	return bins
}

// mayServe are the states from which a machine may come to serve a Need.
var mayServe = [model.NumStates]bool{
	model.Speculative: true, model.Creating: true, model.Idle: true,
	model.Configuring: true, model.Configured: true, model.Draining: true,
}
