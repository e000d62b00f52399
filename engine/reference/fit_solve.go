package reference

import (
	"math"
	"slices"
)

// fitProblem is one choice. Its linear program is solved by trying every basis: so many columns as
// there are rows determine the prices of the rows; the prices say of every other column whether
// it is used as far as there are machines, or not at all; what is left determines the columns of the basis.
// The least of the solutions that keep within the bounds is the optimum. Costs are told apart by a
// small part that grows with the place in the order, so there is one.
type fitProblem struct {
	want, unit []int64
	offers     []fitOffer
	options    Options

	value  [][]float64 // by offer and row: what it counts for, in parts of what is wanted
	cost   []float64   // by offer, told apart
	price  []int64     // the same, as integers
	target float64     // of the solution: what it counts for in each row
	base   []int       // the solution rounded down
}

// solve returns how many machines of each offer to take.
func (x *fitProblem) solve() ([]int, bool) {
	x.tellApart()
	x.discount()
	solution, ok := x.scale()
	if !ok {
		return nil, false
	}
	var fractional []int
	for i, v := range solution {
		n := math.Floor(v + fitTolerance)
		x.base = append(x.base, int(max(n, 0)))
		if v-n > fitTolerance {
			fractional = append(fractional, i)
		}
	}
	best, ok := x.round(fractional)
	if !ok {
		return nil, false
	}
	for i := len(best) - 1; i >= 0; i-- { // give back, the dearest first
		for best[i] > 0 {
			if best[i]--; !coversAll(x.offers, best, x.want) {
				best[i]++
				break
			}
		}
	}
	return best, true
}

// tellApart makes costs differ that are equal, by less than 2⁻²² of a cost for a thousand offers.
func (x *fitProblem) tellApart() {
	_, exponent := math.Frexp(x.offers[len(x.offers)-1].cost)
	step := 0.0
	for i, o := range x.offers {
		step += 1 + float64((uint32(i+1)*0x9e3779b9)>>12)*0x1p-20
		cost := float64(o.cost * (1 + float64(step*0x1p-32)))
		x.cost = append(x.cost, cost)
		x.price = append(x.price, int64(math.RoundToEven(math.Ldexp(cost, 40-exponent))))
	}
}

// discount computes the values: the shape of the want in full, the rest less λ, and less the cube of the surplus over
// the scarcest of what the machine has, all of it less ε of the minimum unit.
func (x *fitProblem) discount() {
	for _, o := range x.offers {
		t, scarcest := 1.0, 1.0
		for d, w := range x.want {
			part := float64(o.has[d]) / float64(w)
			t = min(t, part)
			if part > 0 {
				scarcest = min(scarcest, part)
			}
		}
		var v []float64
		for d, w := range x.want {
			part := float64(o.has[d]) / float64(w)
			lost := float64(x.options.Fit.Epsilon * (float64(x.unit[d]) / float64(w)))
			counts := t + float64((1-x.options.Fit.Lambda)*(part-t))
			if part > scarcest {
				s := (part - scarcest) / part
				counts = min(counts, part-float64(part*float64(s*float64(s*s))))
			}
			v = append(v, max(0, counts-lost))
		}
		x.value = append(x.value, v)
	}
}

// scale solves the program for the least target at which the solution covers the want in the plain sum, as
// far as four steps find it.
func (x *fitProblem) scale() ([]float64, bool) {
	x.target = 1
	first, ok := x.linear(x.target)
	if !ok {
		return nil, false
	}
	solution := first
	for range 4 {
		next := min(x.target/x.covered(solution), 1)
		if math.Abs(next-x.target) <= fitTolerance {
			return solution, true
		}
		x.target = next
		if solution, ok = x.linear(x.target); !ok {
			return nil, false
		}
	}
	if x.covered(solution) < 1-fitTolerance {
		x.target = 1
		return first, true
	}
	return solution, true
}

// covered is the least part of the want that a solution has in the plain sum.
func (x *fitProblem) covered(solution []float64) float64 {
	least := math.Inf(1)
	for d, w := range x.want {
		sum := 0.0
		for i, o := range x.offers {
			sum += float64(float64(o.has[d]) * solution[i])
		}
		least = min(least, sum/float64(w))
	}
	return least
}

// linear returns the optimum: columns are the offers, then the surplus of each row.
func (x *fitProblem) linear(target float64) (best []float64, ok bool) {
	columns := x.undominated()
	for d := range x.want {
		columns = append(columns, len(x.offers)+d)
	}
	least := math.Inf(1)
	each := func(basis []int) {
		if solution, cost, ok := x.basic(basis, columns, target); ok && cost < least {
			best, least = solution, cost
		}
	}
	choose(columns, len(x.want), nil, each)
	return best, best != nil
}

// choose calls f for every set of n columns.
func choose(columns []int, n int, chosen []int, f func([]int)) {
	if n == 0 {
		f(chosen)
		return
	}
	for i := 0; i+n <= len(columns); i++ {
		choose(columns[i+1:], n-1, append(chosen, columns[i]), f)
	}
}

// undominated leaves out the offers that no optimum uses: an earlier one has as much, and its machines alone
// are enough.
func (x *fitProblem) undominated() []int {
	var out []int
	enough := func(i int) bool {
		for d := range x.want {
			if float64(len(x.offers[i].machines))*x.value[i][d] < 1 {
				return false
			}
		}
		return true
	}
	for j := range x.offers {
		if !slices.ContainsFunc(out, func(i int) bool { return enough(i) && hasAsMuch(x.value[i], x.value[j]) }) {
			out = append(out, j)
		}
	}
	return out
}

func hasAsMuch[T int64 | float64](a, b []T) bool {
	for d := range a {
		if a[d] < b[d] {
			return false
		}
	}
	return true
}

// entry is the coefficient of a column in a row.
func (x *fitProblem) entry(column, row int) float64 {
	if at := column - len(x.offers); at >= 0 {
		if at == row {
			return -1
		}
		return 0
	}
	return x.value[column][row]
}

// basic computes the solution of a basis, and whether it is within the bounds.
func (x *fitProblem) basic(basis, columns []int, target float64) (solution []float64, cost float64, ok bool) {
	m := len(basis)
	matrix, across := make([][]float64, m), make([][]float64, m)
	costs, rest := make([]float64, m), make([]float64, m)
	for i := range m {
		matrix[i], across[i] = make([]float64, m), make([]float64, m)
		rest[i] = target
		for j := range m {
			matrix[i][j], across[i][j] = x.entry(basis[j], i), x.entry(basis[i], j)
		}
		if basis[i] < len(x.offers) {
			costs[i] = x.cost[basis[i]]
		}
	}
	prices, ok := gauss(across, costs)
	if !ok {
		return nil, 0, false
	}
	solution = make([]float64, len(x.offers))
	for _, j := range columns {
		if slices.Contains(basis, j) {
			continue
		}
		reduced := 0.0
		if j < len(x.offers) {
			reduced = x.cost[j]
		}
		for d := range m {
			reduced -= float64(prices[d] * x.entry(j, d))
		}
		switch {
		case reduced >= 0:
		case j >= len(x.offers):
			return nil, 0, false // there is no bound to it
		default:
			solution[j] = float64(len(x.offers[j].machines))
			for d := range m {
				rest[d] -= float64(solution[j] * x.entry(j, d))
			}
			cost += float64(solution[j] * x.cost[j])
		}
	}
	part, ok := gauss(matrix, rest)
	if !ok {
		return nil, 0, false
	}
	for i, j := range basis {
		limit := math.Inf(1)
		if j < len(x.offers) {
			limit = float64(len(x.offers[j].machines))
			solution[j] = part[i]
			cost += float64(part[i] * x.cost[j])
		}
		if part[i] < -fitTolerance || part[i] > limit+fitTolerance {
			return nil, 0, false
		}
	}
	return solution, cost, true
}

// gauss solves a system of linear equations by elimination with the largest pivot; false: it has no unique
// solution.
func gauss(a [][]float64, b []float64) ([]float64, bool) {
	m := len(b)
	b = slices.Clone(b)
	for k := range m {
		at := k
		for i := k; i < m; i++ {
			if math.Abs(a[i][k]) > math.Abs(a[at][k]) {
				at = i
			}
		}
		if math.Abs(a[at][k]) < 1e-12 {
			return nil, false
		}
		a[k], a[at], b[k], b[at] = a[at], a[k], b[at], b[k]
		for i := range m {
			if i == k || a[i][k] == 0 {
				continue
			}
			f := a[i][k] / a[k][k]
			for j := k; j < m; j++ {
				a[i][j] -= float64(f * a[k][j])
			}
			b[i] -= float64(f * b[k])
		}
	}
	for k := range m {
		b[k] /= a[k][k]
	}
	return b, true
}

// round returns the cheapest of: the solution rounded up; the solution rounded down, with up to two machines of each
// fractional offer taken back (none where more than four are fractional), completed by a set of few machines such that
// it counts for the target. One machine alone need only cover what is wanted. The first of equally cheap ones.
func (x *fitProblem) round(fractional []int) (best []int, ok bool) {
	least := int64(math.MaxInt64)
	spent := func(counts []int) (total int64) {
		for i, n := range counts {
			total += x.price[i] * int64(n)
		}
		return total
	}
	up := slices.Clone(x.base)
	for _, i := range fractional {
		up[i]++
	}
	if coversAll(x.offers, up, x.want) {
		best, least = slices.Clone(up), spent(up)
	}
	try := func(counts []int) bool {
		total := spent(counts)
		if total < least && coversAll(x.offers, counts, x.want) && x.counts(counts) {
			best, least = slices.Clone(counts), total
		}
		return total < least
	}
	live := x.live()
	var takeBack func(at int, counts []int)
	takeBack = func(at int, counts []int) {
		if at == len(fractional) || len(fractional) > 4 {
			for size := range x.completing(live) + 1 {
				x.complete(live, size, counts, try)
			}
			return
		}
		i := fractional[at]
		for back := range min(2, counts[i]) + 1 {
			less := slices.Clone(counts)
			less[i] -= back
			takeBack(at+1, less)
		}
	}
	takeBack(0, x.base)
	return best, best != nil
}

// counts: so many machines of each offer count for the target, or are one machine in all.
func (x *fitProblem) counts(counts []int) bool {
	machines, sums := 0, make([]float64, len(x.want))
	for i, n := range counts {
		machines += n
		for d := range sums {
			sums[d] += float64(x.value[i][d] * float64(n))
		}
	}
	return machines == 1 || slices.Min(sums) >= x.target-fitTolerance
}

// live are the offers that may complete a solution: those for which no earlier one, with three machines left, has as much and
// counts for as much.
func (x *fitProblem) live() []int {
	var out []int
	for j := range x.offers {
		if !slices.ContainsFunc(out, func(i int) bool {
			return x.base[i]+3 <= len(x.offers[i].machines) && hasAsMuch(x.offers[i].has, x.offers[j].has) && hasAsMuch(x.value[i], x.value[j])
		}) {
			out = append(out, j)
		}
	}
	return out
}

// completing is how many machines may complete a solution.
func (x *fitProblem) completing(live []int) int {
	switch {
	case len(live) <= 64:
		return 3
	case len(live) <= 1024:
		return 2
	}
	return 1
}

// complete tries all sets of a size, in the order of the offers. Larger sets of what is too dear already are
// not tried.
func (x *fitProblem) complete(live []int, size int, counts []int, try func([]int) bool) {
	if !try(counts) || size == 0 {
		return
	}
	for at, i := range live {
		if counts[i] < len(x.offers[i].machines) {
			counts[i]++
			x.complete(live[at:], size-1, counts, try)
			counts[i]--
		}
	}
}
