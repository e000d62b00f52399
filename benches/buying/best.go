package buying

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Best is how cheap machines for pods can be: between Least and Found dollars an hour.
type Best struct {
	Least    float64 // no machines on which the pods run cost less
	Found    float64 // of machines on which they all run
	Machines int     // of these
}

// FindBest looks for the cheapest machines for pods, whoever places them. A machine with the pods on it is a
// pattern: the least cost of patterns, in fractions, that hold every pod, is found by column generation
// (Gilmore and Gomory, A Linear Programming Approach to the Cutting-Stock Problem, 1961); a lower bound comes with it
// (Farley, A Note on Bounding a Class of Linear Programming Problems, 1990). Whole machines are found by diving: patterns
// are taken as often as the solution has them whole, and the rest is solved again. It takes pods of at most shapesMax
// sizes, without devices. Ten seconds for 2,000 pods of 30 sizes and 400 types; far longer where pods need the largest types.
func FindBest(types []Type, pods []Pod) (*Best, error) {
	c, err := newCutting(types, pods)
	if err != nil {
		return nil, err
	}
	linear, err := Bound(types, pods)
	if err != nil {
		return nil, err
	}
	out := &Best{}
	for {
		least := c.solve()
		if out.Machines == 0 {
			out.Least = max(linear, least)
		}
		before := out.Machines
		if !c.dive(out) {
			return out, nil
		}
		if out.Machines > before {
			continue
		}
		// Rounding errors have spoiled the inverse. The program starts again from patterns with pods of one shape each: the one
		// that it has most of takes a pod.
		if err := c.begin(); err != nil {
			return nil, err
		}
		c.price()
		if !c.dive(out) {
			return out, nil
		}
	}
}

const (
	shapesMax = 64
	// gain is by how much a pattern must be worth more than it costs to be added, as a part of it.
	gain = 1e-6
	// cellsMax bounds the table in which the best pattern of a type is looked for; larger machines are filled by greed, and
	// bounded by fractions of pods.
	cellsMax = 4 << 20
	// stepsMax bounds the patterns that are added for one solution.
	stepsMax = 4000
)

// pattern is a machine and how many pods of each shape are on it.
type pattern struct {
	kind int
	of   []int
}

// cutting is the linear program, in the form of the revised simplex: as many patterns are in the basis as there
// are shapes.
type cutting struct {
	types   []Type
	shapes  []Pod
	left    []int     // pods of each shape that are still to be placed
	basis   []pattern // one a row
	inverse [][]float64
	much    []float64 // how much of each pattern in the basis
	worth   []float64 // of a pod of each shape: the dual
	unit    [2]int64  // that all shapes are multiples of, of cores and memory
	table   []float64
	taken   []int8
}

func newCutting(types []Type, pods []Pod) (*cutting, error) {
	c := &cutting{types: types}
	for _, p := range pods {
		if p[dimGPU] > 0 {
			return nil, fmt.Errorf("a pod asks for %d GPUs: only pods without devices are cut", p[dimGPU])
		}
		at := slices.Index(c.shapes, p)
		if at < 0 {
			at = len(c.shapes)
			c.shapes, c.left = append(c.shapes, p), append(c.left, 0)
		}
		if c.left[at]++; len(c.shapes) > shapesMax {
			return nil, fmt.Errorf("pods of more than %d sizes", shapesMax)
		}
	}
	for d := range c.unit {
		for _, s := range c.shapes {
			c.unit[d] = gcd(c.unit[d], s[d])
		}
	}
	c.worth = make([]float64, len(c.shapes))
	return c, c.begin()
}

// begin has the basis consist of machines with pods of one shape each, of the type on which these cost least.
func (c *cutting) begin() error {
	c.basis, c.inverse = c.basis[:0], c.inverse[:0]
	for s := range c.shapes {
		best, cost := pattern{kind: -1}, math.Inf(1)
		for k := range c.types {
			n := holds(&c.types[k], &c.shapes[s])
			if n > 0 && c.types[k].Price/float64(n) < cost {
				cost = c.types[k].Price / float64(n)
				best = pattern{k, make([]int, len(c.shapes))}
				best.of[s] = int(n)
			}
		}
		if best.kind < 0 {
			return fmt.Errorf("no type holds a pod of %v", c.shapes[s])
		}
		c.basis = append(c.basis, best)
		row := make([]float64, len(c.shapes))
		row[s] = 1 / float64(best.of[s])
		c.inverse = append(c.inverse, row)
	}
	return nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// solve adds patterns until none is worth more than it costs. It returns a lower bound of what machines cost for
// the pods that are not placed yet.
func (c *cutting) solve() (least float64) {
	for range stepsMax {
		c.price()
		total := 0.0
		for i := range c.basis {
			total += c.much[i] * c.types[c.basis[i].kind].Price
		}
		best, over, most := c.findPattern()
		least = max(least, total/max(1, most)/(1+gain))
		if over <= 1+gain {
			break
		}
		if !c.enter(best) {
			break
		}
	}
	return least
}

// price finds how much of each pattern there is, and what a pod is worth.
func (c *cutting) price() {
	n := len(c.shapes)
	c.much = make([]float64, n)
	for i := range n {
		for s := range n {
			c.much[i] += c.inverse[i][s] * float64(c.left[s])
		}
	}
	for s := range n {
		c.worth[s] = 0
		for i := range n {
			c.worth[s] += c.types[c.basis[i].kind].Price * c.inverse[i][s]
		}
	}
}

// findPattern returns the pattern that is worth the most for what it costs, that quotient, and a bound of the quotient of
// all patterns.
func (c *cutting) findPattern() (best pattern, over, most float64) {
	type candidate struct {
		kind  int
		bound float64
	}
	var all []candidate
	for k := range c.types {
		if b := c.fraction(&c.types[k]) / c.types[k].Price; b > 0 {
			all = append(all, candidate{k, b})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.bound, a.bound) })
	for _, x := range all {
		if x.bound <= max(1+gain, over) { // all that follow are at most that
			most = max(most, min(x.bound, max(1+gain, over)))
			break
		}
		of, value, exact := c.fill(&c.types[x.kind])
		q := value / c.types[x.kind].Price
		if exact {
			most = max(most, q)
		} else {
			most = max(most, x.bound)
		}
		if q > over {
			best, over = pattern{x.kind, of}, q
		}
	}
	return best, over, most
}

// fraction is what a machine is worth that is filled with fractions of pods: the least that its cores and its memory
// can cost such that no pod that fits is worth more than it takes of them.
func (c *cutting) fraction(t *Type) float64 {
	var fit []int
	perCore, perMiB := 0.0, 0.0
	for s, p := range c.shapes {
		if holds(t, &p) > 0 {
			fit = append(fit, s)
			perCore, perMiB = max(perCore, c.worth[s]/float64(p[dimCPU])), max(perMiB, c.worth[s]/float64(p[dimMemory]))
		}
	}
	cores, mib := float64(t.Capacity[dimCPU]), float64(t.Capacity[dimMemory])
	least := min(perCore*cores, perMiB*mib)
	for i, s := range fit {
		for _, r := range fit[:i] { // at most two pods are worth exactly what they take
			p, q := c.shapes[s], c.shapes[r]
			det := float64(p[dimCPU]*q[dimMemory] - q[dimCPU]*p[dimMemory])
			a := (c.worth[s]*float64(q[dimMemory]) - c.worth[r]*float64(p[dimMemory])) / det
			b := (float64(p[dimCPU])*c.worth[r] - float64(q[dimCPU])*c.worth[s]) / det
			if det != 0 && a >= 0 && b >= 0 && c.covers(fit, a, b) {
				least = min(least, a*cores+b*mib)
			}
		}
	}
	return least
}

// covers tells whether no pod is worth more than it takes, at so much a thousandth of a core and so much a MiB.
func (c *cutting) covers(fit []int, a, b float64) bool {
	for _, s := range fit {
		if a*float64(c.shapes[s][dimCPU])+b*float64(c.shapes[s][dimMemory]) < c.worth[s]*(1-gain) {
			return false
		}
	}
	return true
}

// fill returns the pods that make a machine worth most, without regard to how many are left; exact unless the
// machine is too large for a table, or would take more pods than it may.
func (c *cutting) fill(t *Type) (of []int, value float64, exact bool) {
	w, h := int(t.Capacity[dimCPU]/c.unit[0]), int(t.Capacity[dimMemory]/c.unit[1])
	of = make([]int, len(c.shapes))
	if (w+1)*(h+1) > cellsMax {
		return of, c.greed(t, of), false
	}
	cells := (w + 1) * (h + 1)
	if cap(c.table) < cells {
		c.table, c.taken = make([]float64, cells), make([]int8, cells)
	}
	table, taken := c.table[:cells], c.taken[:cells]
	for i := range table {
		table[i], taken[i] = 0, -1
	}
	for s, p := range c.shapes {
		x, y, v := int(p[dimCPU]/c.unit[0]), int(p[dimMemory]/c.unit[1]), c.worth[s]
		if v <= 0 {
			continue
		}
		for i := x; i <= w; i++ {
			row, from := table[i*(h+1):(i+1)*(h+1)], table[(i-x)*(h+1):(i-x+1)*(h+1)]
			marks := taken[i*(h+1) : (i+1)*(h+1)]
			for j := y; j <= h; j++ {
				if got := from[j-y] + v; got > row[j] {
					row[j], marks[j] = got, int8(s)
				}
			}
		}
	}
	pods := int64(0)
	for i, j := w, h; ; {
		s := taken[i*(h+1)+j]
		if s < 0 {
			break
		}
		of[s]++
		value += c.worth[s]
		pods++
		i, j = i-int(c.shapes[s][dimCPU]/c.unit[0]), j-int(c.shapes[s][dimMemory]/c.unit[1])
	}
	if pods > t.Capacity[dimPods] {
		clear(of)
		return of, c.greed(t, of), false
	}
	return of, value, true
}

// greed fills a machine with one pod after the other, the one that is worth most for the part of what is free that it
// takes.
func (c *cutting) greed(t *Type, of []int) (value float64) {
	free := t.Capacity
	for {
		best, per := -1, 0.0
		for s := range c.shapes {
			rate := 0.0
			for d, n := range c.shapes[s] {
				if n > free[d] {
					rate = math.Inf(1)
				} else if n > 0 {
					rate += float64(n) / float64(free[d])
				}
			}
			if v := c.worth[s] / rate; v > per {
				best, per = s, v
			}
		}
		if best < 0 {
			return value
		}
		of[best]++
		value += c.worth[best]
		for d, n := range c.shapes[best] {
			free[d] -= n
		}
	}
}

// enter has a pattern take the place of another in the basis. It returns false where that is numerically hopeless.
func (c *cutting) enter(p pattern) bool {
	n := len(c.shapes)
	column := make([]float64, n)
	for i := range n {
		for s := range n {
			column[i] += c.inverse[i][s] * float64(p.of[s])
		}
	}
	out, least := -1, math.Inf(1)
	for i := range n {
		if column[i] > 1e-9 && max(0, c.much[i])/column[i] < least {
			out, least = i, max(0, c.much[i])/column[i]
		}
	}
	if out < 0 {
		return false
	}
	c.basis[out] = p
	for s := range n {
		c.inverse[out][s] /= column[out]
	}
	for i := range n {
		if i == out {
			continue
		}
		for s := range n {
			c.inverse[i][s] -= column[i] * c.inverse[out][s]
		}
	}
	return true
}

// dive takes patterns as often as the solution has them whole, at least the one that it has most of, and adds their machines to
// what is found. It returns whether pods are left.
func (c *cutting) dive(out *Best) bool {
	most := 0
	for i := range c.much {
		if c.much[i] > c.much[most] {
			most = i
		}
	}
	for i, p := range c.basis {
		times := int(c.much[i] + 1e-7)
		if i == most {
			times = max(times, 1)
		}
		for range times {
			c.take(&p, out)
		}
	}
	return slices.ContainsFunc(c.left, func(n int) bool { return n > 0 })
}

// take puts pods on a machine as a pattern has them, as far as they are left, and fills it with others; a cheaper
// type that holds the same pods takes its place.
func (c *cutting) take(p *pattern, out *Best) {
	used := Pod{}
	put := func(s int) bool {
		for d, n := range c.shapes[s] {
			if used[d]+n > c.types[p.kind].Capacity[d] {
				return false
			}
		}
		for d, n := range c.shapes[s] {
			used[d] += n
		}
		c.left[s]--
		return true
	}
	for s, n := range p.of {
		for ; n > 0 && c.left[s] > 0 && put(s); n-- {
		}
	}
	order := make([]int, len(c.shapes))
	for s := range order {
		order[s] = s
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.worth[b], c.worth[a]) })
	for _, s := range order {
		for c.left[s] > 0 && put(s) {
		}
	}
	if used[dimPods] == 0 {
		return
	}
	price := math.Inf(1)
	for k := range c.types {
		if t := &c.types[k]; t.Price < price && holds(t, &used) > 0 {
			price = t.Price
		}
	}
	out.Found += price
	out.Machines++
}
