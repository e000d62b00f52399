package cover

import (
	"math"
	"slices"
)

// The constants of the choice, from 0 to 1.
const (
	// LambdaDefault is λ: the part of what a class has beyond the shape of the want that does not
	// count in the choice, at least.
	LambdaDefault = 0.2
	// EpsilonDefault is ε: the part of a minimum unit that every machine loses, on average, since
	// units do not fill it.
	EpsilonDefault = 0.03
)

// RowsMax is the largest number of dimensions of a problem.
const RowsMax = 8

// WantMax is the largest amount of a dimension: up to it float64 holds every integer.
const WantMax = 1 << 53

// Offer is a class of machines that are equal in cost and capacity.
type Offer struct {
	// Has is what one machine offers, by dimension of the want; at least 0, somewhere positive.
	Has []int64
	// Cost is what one machine costs, finite and at least 0.
	Cost float64
	// Count is how many machines there are, at least 1.
	Count int
}

// Run is so many machines of an offer, by its index, taken in sequence.
type Run struct{ Offer, Count int }

// Problem is a covering problem. Offers are sorted by cost, ascending.
type Problem struct {
	// Want is what is to be covered, by dimension; all values are positive. The order of dimensions
	// decides ties.
	Want []int64
	// Unit is the largest indivisible part of the want, by dimension, at least 0. Each machine covers it.
	Unit   []int64
	Offers []Offer
	// Mixed, if not nil, lists what `cheapest` takes of offers from to to, which cost the same,
	// while missing is not covered. Nil takes them offer by offer.
	Mixed func(from, to int, missing []int64) []Run
}

// Choice is the answer to a problem.
type Choice struct {
	// Counts are how many machines to take, by offer. Valid until the next call.
	Counts []int
	// Fit says that the choice is cheaper than what `cheapest` takes; otherwise it is that.
	Fit bool
	// Cost is what the choice costs, Cheapest what `cheapest` costs, and Bound the least that any choice
	// of the same shape can cost (0 = not computed: nothing can be cheaper than `cheapest`).
	Cost, Cheapest, Bound float64
	// Ample is how many machines of each offer are so many that more change nothing: if every
	// offer has as many, the choice is that for any other numbers of which this is true. math.MaxInt:
	// some offer has fewer.
	Ample int
}

// Chooser solves problems and reuses its memory. It is not safe for concurrent use.
type Chooser struct {
	lambda, epsilon float64

	p       *Problem
	has     []int64 // by offer and row: what it has, at most what is wanted
	rows    int
	runs    []Run // what `cheapest` picks, in its order
	cheap   []int // what it keeps, by offer
	best    []int
	missing []int64
	left    []int64 // of walk
	sum     []int64
	ample   int    // how many machines of one offer were asked for, at most
	lin     linear // of the choice
	endless linear // without limits
	work    roundScratch
}

// New returns a chooser with the constants λ and ε, each from 0 to 1.
func New(lambda, epsilon float64) *Chooser { return &Chooser{lambda: lambda, epsilon: epsilon} }

// Choose solves a problem. ok is false when the offers do not cover the want, or when the problem has
// more than RowsMax dimensions or an amount above WantMax: then `cheapest` decides.
func (c *Chooser) Choose(p *Problem) (choice Choice, ok bool) {
	if !c.accepts(p) {
		return Choice{}, false
	}
	choice, first := c.cheapest(p)
	if !c.isLeast(first, choice.Cost) {
		c.improve(&choice, first)
	}
	return choice, true
}

// cheapest chooses as `cheapest` does. First is the first offer that is not free of charge and that it takes, or the number of
// offers.
func (c *Chooser) cheapest(p *Problem) (choice Choice, first int) {
	c.load(p)
	c.ample = 0
	first = c.walk()
	copy(c.best, c.cheap[:first]) // what costs nothing is taken, whatever the choice
	c.trimRuns()
	choice = Choice{Counts: c.cheap, Cheapest: c.cost(c.cheap), Ample: c.ampleAll()}
	choice.Cost = choice.Cheapest
	return choice, first
}

// improve replaces what `cheapest` takes by what fits, if that costs less.
func (c *Chooser) improve(choice *Choice, first int) {
	bound, ok := c.fit(first)
	if choice.Ample = c.ampleAll(); !ok {
		return
	}
	choice.Bound = bound
	if cost := c.cost(c.best); cost < choice.Cheapest-float64(choice.Cheapest*costSlack) {
		choice.Counts, choice.Fit, choice.Cost = c.best, true, cost
	}
}

// isLeast reports whether no choice can cost less than that of `cheapest`, where that is seen without a search. False may mean "not
// known".
func (c *Chooser) isLeast(first int, cost float64) bool {
	if len(c.p.Offers)-first <= 1 {
		return true // nothing that costs anything is needed, or only one offer costs something and the fewest machines of it are taken
	}
	return cost <= c.p.Offers[first].Cost // one machine of it, or of another at the same cost
}

// ampleAll returns Choice.Ample for what was computed so far.
func (c *Chooser) ampleAll() int {
	for i := range c.p.Offers {
		if c.p.Offers[i].Count < c.ample {
			return math.MaxInt
		}
	}
	return c.ample
}

// costSlack is by how much of its cost a choice must be cheaper: above the error of sums.
const costSlack = 1e-9

// accepts reports whether the offers cover the want, and the problem is within its limits.
func (c *Chooser) accepts(p *Problem) bool {
	if len(p.Want) == 0 || len(p.Want) > RowsMax {
		return false
	}
	for d, want := range p.Want {
		if want > WantMax {
			return false
		}
		left := want
		for i := range p.Offers {
			if left -= scaled(min(p.Offers[i].Has[d], want), p.Offers[i].Count); left <= 0 {
				break
			}
		}
		if left > 0 {
			return false
		}
	}
	return true
}

// scaled multiplies, saturating; both are at least 0.
func scaled(has int64, count int) int64 {
	if has != 0 && int64(count) > math.MaxInt64/has {
		return math.MaxInt64
	}
	return has * int64(count)
}

// load makes a problem the one at work.
func (c *Chooser) load(p *Problem) {
	n := len(p.Offers)
	c.p, c.rows = p, len(p.Want)
	c.has = slices.Grow(c.has[:0], n*c.rows)
	for i := range p.Offers {
		for d, want := range p.Want {
			c.has = append(c.has, min(p.Offers[i].Has[d], want)) // more covers no more
		}
	}
	c.cheap, c.best = resize(c.cheap, n), resize(c.best, n)
	c.sum = resize(c.sum, c.rows)
}

// hasOf returns what a machine of an offer has, by dimension, at most what is wanted.
func (c *Chooser) hasOf(i int) []int64 { return c.has[i*c.rows : (i+1)*c.rows] }

// cost sums what counts of the offers cost, in the order of the offers.
func (c *Chooser) cost(counts []int) float64 {
	total := 0.0
	for i, n := range counts {
		if n > 0 {
			total += float64(c.p.Offers[i].Cost * float64(n))
		}
	}
	return total
}

// trimRuns gives back what `cheapest` is covered without: the last picked first.
func (c *Chooser) trimRuns() {
	sum := c.total(c.cheap)
	for i := len(c.runs) - 1; i >= 0; i-- {
		c.giveBack(c.cheap, c.runs[i], sum)
	}
}

// giveBack gives back as many machines of a run as the sum covers the want without.
func (c *Chooser) giveBack(counts []int, r Run, sum []int64) {
	most := int64(r.Count)
	for d, has := range c.hasOf(r.Offer) {
		if has > 0 {
			most = min(most, (sum[d]-c.p.Want[d])/has)
		}
	}
	if most <= 0 {
		return
	}
	counts[r.Offer] -= int(most)
	for d, has := range c.hasOf(r.Offer) {
		sum[d] -= has * most
	}
}

// walk computes what the rule `cheapest` takes: offers by cost, as many machines of each as help. It
// leaves in missing what the offers that cost nothing do not cover, and returns the first offer that
// costs something, or the number of offers when it is not needed.
func (c *Chooser) walk() (first int) {
	p := c.p
	c.missing = append(c.missing[:0], p.Want...)
	missing := c.missing
	c.runs = c.runs[:0]
	first = -1
	c.left = append(c.left[:0], missing...)
	left := c.left
	for from := 0; from < len(p.Offers) && !isZero(left); {
		if p.Offers[from].Cost > 0 && first < 0 {
			first = from
			copy(missing, left)
		}
		to := from + 1
		for to < len(p.Offers) && p.Offers[to].Cost == p.Offers[from].Cost {
			to++
		}
		if c.useful(from, to, left) > 1 && p.Mixed != nil {
			c.ample = math.MaxInt // which machines come first decides
			for _, r := range p.Mixed(from, to, left) {
				c.takeRun(r, left)
			}
		} else {
			for i := from; i < to; i++ {
				n := c.helping(i, left)
				c.ample = max(c.ample, n)
				c.takeRun(Run{i, min(p.Offers[i].Count, n)}, left)
			}
		}
		from = to
	}
	if first < 0 {
		return len(p.Offers)
	}
	return first
}

// useful counts the offers in a range that have something of what is missing.
func (c *Chooser) useful(from, to int, missing []int64) (n int) {
	for i := from; i < to; i++ {
		if c.helping(i, missing) > 0 {
			n++
		}
	}
	return n
}

// helping returns how many machines of an offer help: all that it has of what is missing is covered
// with them, and is not with one less.
func (c *Chooser) helping(i int, missing []int64) int {
	most := int64(0)
	for d, has := range c.hasOf(i) {
		if has > 0 && missing[d] > 0 {
			most = max(most, (missing[d]+has-1)/has)
		}
	}
	return int(min(most, math.MaxInt32))
}

// takeRun counts a run in, and subtracts it from what is missing.
func (c *Chooser) takeRun(r Run, missing []int64) {
	if r.Count == 0 {
		return
	}
	c.runs = append(c.runs, r)
	c.cheap[r.Offer] += r.Count
	for d, has := range c.hasOf(r.Offer) {
		missing[d] -= min(missing[d], scaled(has, r.Count))
	}
}

// trim gives back machines without which the want is still covered, the last offers first.
func (c *Chooser) trim(counts []int) {
	sum := c.total(counts)
	for i := len(counts) - 1; i >= 0; i-- {
		if counts[i] > 0 {
			c.giveBack(counts, Run{i, counts[i]}, sum)
		}
	}
}

// total sums what counts of the offers have, saturating.
func (c *Chooser) total(counts []int) []int64 {
	clear(c.sum)
	for i, n := range counts {
		if n == 0 {
			continue
		}
		for d, has := range c.hasOf(i) {
			if c.sum[d] += scaled(has, n); c.sum[d] < 0 {
				c.sum[d] = math.MaxInt64
			}
		}
	}
	return c.sum
}

func isZero(v []int64) bool {
	for _, x := range v {
		if x > 0 {
			return false
		}
	}
	return true
}

// resize returns a slice of n zero elements, reusing memory.
func resize[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}
