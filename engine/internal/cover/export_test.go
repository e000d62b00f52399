package cover

import "math"

// Walked returns the counts of cheapest.
func (c *Chooser) Walked() []int { return c.cheap }

// Relax returns the linear bound.
func Relax(offers []Offer, want []int64) float64 {
	c := New(0, 0)
	c.load(&Problem{Want: want, Unit: make([]int64, len(want)), Offers: offers})
	c.missing = append(c.missing[:0], want...)
	c.layOut(0)
	if !c.lin.solve(1, false) {
		return math.NaN()
	}
	return c.lin.objective()
}

// FractionalCost returns what one machine of each fractional class of the linear solution costs.
func (c *Chooser) FractionalCost() (sum float64) {
	for _, b := range c.work.basics {
		sum += c.lin.cost[b]
	}
	return sum
}

// Improved is Choose that also looks for something better where it is plain that nothing is.
func (c *Chooser) Improved(p *Problem) Choice {
	choice, first := c.cheapest(p)
	if first < len(p.Offers) {
		c.improve(&choice, first)
	}
	return choice
}
