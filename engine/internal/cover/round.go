package cover

import (
	"math"
	"sort"
)

// roundScratch is the memory of rounding.
type roundScratch struct {
	first  int // the first offer that costs something
	rows   []int
	want   []int64
	has    []int64 // by column and row: at most what is wanted
	price  []int64 // by column: the cost in fixed point
	pays   []float64
	base   []int // by column
	live   []int // columns that may complete the solution, ascending
	ample  []int // of these, those with enough machines
	basics []int // columns that are fractional in the solution
	back   []int
	rest   []int64   // by row: what base does not cover
	owed   []float64 // by row: the part of the target that base does not count for
	best   pick
	total  int64 // of the best
	chosen []int
}

// pick is at most three machines, by column, ascending; n is how many.
type pick struct {
	col [completeMax]int
	n   int
}

// fit computes the choice among offers from first on, into best. Bound is the cost of the linear solution.
func (c *Chooser) fit(first int) (bound float64, ok bool) {
	c.layOut(first)
	if !c.scale() {
		return 0, false
	}
	c.floor()
	if !c.round() {
		return 0, false
	}
	copy(c.best[first:], c.work.chosen)
	c.trim(c.best)
	return c.lin.objective(), true
}

// scalings is how often the target is scaled at most, before it is left at 1.
const scalings = 4

// scale solves the linear program for the least target, or nearly so, at which the solution covers the want
// in the plain sum. A class counts for less in the choice than in the sum, so that is at most 1.
func (c *Chooser) scale() bool {
	if !c.solve(1, false) {
		return false
	}
	target := 1.0
	for range scalings {
		covered := c.coverage()
		next := min(target/covered, 1)
		if math.Abs(next-target) <= tolerance {
			return true
		}
		target = next
		if !c.solve(target, true) {
			return false
		}
	}
	if c.coverage() < 1-tolerance {
		return c.solve(1, true)
	}
	return true
}

// solve solves the linear program, and notes how many machines of one offer it asks for.
func (c *Chooser) solve(target float64, again bool) bool {
	l := &c.lin
	if !l.solve(target, again) {
		c.ample = math.MaxInt
		return false
	}
	for _, up := range l.upper {
		if up {
			c.ample = math.MaxInt
			return true
		}
	}
	for i := range l.rows {
		if l.basis[i] < l.cols && c.ample < math.MaxInt {
			c.ample = max(c.ample, int(min(math.Ceil(l.x[i]), math.MaxInt32))+completeMax+1)
		}
	}
	return true
}

// layOut fills the linear program: the rows that are missing, the offers that cost something.
func (c *Chooser) layOut(first int) {
	w, l := &c.work, &c.lin
	w.first, w.rows, w.want = first, w.rows[:0], w.want[:0]
	for d, m := range c.missing {
		if m > 0 {
			w.rows, w.want = append(w.rows, d), append(w.want, m)
		}
	}
	l.rows, l.cols = len(w.rows), len(c.p.Offers)-first
	l.value, l.cost, l.limit, w.has, w.price = l.value[:0], l.cost[:0], l.limit[:0], w.has[:0], w.price[:0]
	_, exponent := math.Frexp(c.p.Offers[len(c.p.Offers)-1].Cost)
	step := 0.0
	for j := range l.cols {
		o := &c.p.Offers[first+j]
		c.shape(o)
		step += 1 + float64(uint32(j+1)*0x9e3779b9>>12)*0x1p-20
		cost := float64(o.Cost * (1 + float64(step*0x1p-32)))
		l.cost, l.limit = append(l.cost, cost), append(l.limit, float64(o.Count))
		w.price = append(w.price, int64(math.RoundToEven(math.Ldexp(cost, priceBits-exponent))))
	}
}

// priceBits is the precision of a cost in fixed point, relative to the dearest.
const priceBits = 40

// shape appends the values of an offer: what it counts for in the choice, in parts of what is wanted. Two discounts
// apply to each row, and the larger one holds. λ of what the offer has beyond the shape of the want does not count. Nor does
// the cube of its surplus over the scarcest row, as a part of what it has of the row; so no row counts for more than three
// times the scarcest. Rows of which the offer has nothing are left out of the scarcest.
func (c *Chooser) shape(o *Offer) {
	w, l := &c.work, &c.lin
	t, ofSome := 1.0, 1.0
	for i, d := range w.rows {
		has := min(o.Has[d], w.want[i])
		w.has = append(w.has, has)
		part := float64(has) / float64(w.want[i])
		if t = min(t, part); has > 0 {
			ofSome = min(ofSome, part)
		}
	}
	for i, d := range w.rows {
		part := float64(w.has[len(w.has)-l.rows+i]) / float64(w.want[i])
		v := t + float64((1-c.lambda)*(part-t))
		if part > ofSome {
			surplus := (part - ofSome) / part
			v = min(v, part-float64(part*float64(surplus*float64(surplus*surplus))))
		}
		v -= float64(c.epsilon * (float64(min(c.p.Unit[d], w.want[i])) / float64(w.want[i])))
		l.value = append(l.value, max(v, 0))
	}
}

// coverage returns the least part of a row's want that the linear solution has in the plain sum.
func (c *Chooser) coverage() float64 {
	l, w := &c.lin, &c.work
	least := math.Inf(1)
	for i := range l.rows {
		sum := 0.0
		for j, up := range l.upper {
			if up {
				sum += float64(float64(w.has[j*l.rows+i]) * l.limit[j])
			}
		}
		for k := range l.rows {
			if b := l.basis[k]; b < l.cols {
				sum += float64(float64(w.has[b*l.rows+i]) * l.x[k])
			}
		}
		least = min(least, sum/float64(w.want[i]))
	}
	return least
}

// floor rounds the linear solution down, into base, and lists the fractional columns.
func (c *Chooser) floor() {
	l, w := &c.lin, &c.work
	w.base, w.basics = resize(w.base, l.cols), w.basics[:0]
	for j, up := range l.upper {
		if up {
			w.base[j] = int(l.limit[j])
		}
	}
	for k := range l.rows {
		b := l.basis[k]
		if b >= l.cols {
			continue
		}
		n := math.Floor(l.x[k] + tolerance)
		w.base[b] = int(max(n, 0))
		if l.x[k]-n > tolerance {
			w.basics = append(w.basics, b)
		}
	}
	sort.Ints(w.basics)
}

// backMax is how many machines of each fractional column are taken back, at most, if there are at most
// backColumns such columns; else none is.
const (
	backMax     = 2
	backColumns = 4
)

// round finds the cheapest of: the linear solution rounded up; and rounded down, with up to backMax
// machines of each fractional column taken back, completed by up to three machines. A completed solution covers the
// want and counts for the target, as the linear solution does: a cheap machine of another shape would cover the
// last of a sum, and pods would not fit it. One machine alone only covers the want: all pods fit it together.
// The first of equally cheap ones is taken.
func (c *Chooser) round() bool {
	l, w := &c.lin, &c.work
	c.listLive()
	c.findPays()
	w.total = math.MaxInt64
	w.back = resize(w.back, len(w.basics))
	w.rest, w.owed = resize(w.rest, l.rows), resize(w.owed, l.rows)
	w.chosen = resize(w.chosen, l.cols)
	up := int64(0)
	for j, n := range w.base {
		up += w.price[j] * int64(n)
	}
	for _, b := range w.basics {
		up += w.price[b]
	}
	if c.coversUp() {
		w.total = up
		copy(w.chosen, w.base)
		for _, b := range w.basics {
			w.chosen[b]++
		}
	}
	for {
		c.tryBack()
		if !w.next() {
			break
		}
	}
	return w.total < math.MaxInt64
}

// next advances to the next combination of machines taken back; false after the last.
func (w *roundScratch) next() bool {
	if len(w.basics) > backColumns {
		return false
	}
	for i := len(w.back) - 1; i >= 0; i-- {
		if w.back[i] < min(backMax, w.base[w.basics[i]]) {
			w.back[i]++
			return true
		}
		w.back[i] = 0
	}
	return false
}

// coversUp reports whether the solution rounded up covers the want.
func (c *Chooser) coversUp() bool {
	w, rows := &c.work, c.lin.rows
	for i, want := range w.want {
		for j, n := range w.base {
			want -= scaled(w.has[j*rows+i], n)
			if want <= 0 {
				break
			}
		}
		for _, b := range w.basics {
			want -= w.has[b*rows+i]
		}
		if want > 0 {
			return false
		}
	}
	return true
}

// findPays computes prices of the rows at which no column costs less than it counts for: those of the linear
// program without limits. They bound what it costs at least to count for the rest of the target.
func (c *Chooser) findPays() {
	l, w := &c.lin, &c.work
	x := &c.endless
	x.rows, x.cols, x.value = l.rows, len(w.live), x.value[:0]
	x.cost, x.limit = x.cost[:0], x.limit[:0]
	for _, j := range w.live {
		for i := range l.rows {
			x.value = append(x.value, l.value[j*l.rows+i])
		}
		x.cost, x.limit = append(x.cost, float64(w.price[j])), append(x.limit, math.Inf(1))
	}
	w.pays = resize(w.pays, l.rows)
	if x.solve(1, false) {
		for i := range l.rows {
			w.pays[i] = max(x.y[i], 0)
		}
	}
}

// listLive lists the columns that may complete a solution: those for which no earlier one, of which
// there are enough, has as much.
func (c *Chooser) listLive() {
	l, w := &c.lin, &c.work
	w.live, w.ample = w.live[:0], w.ample[:0]
	for j := range l.cols {
		if c.isDominated(j) {
			continue
		}
		w.live = append(w.live, j)
		if float64(w.base[j]+completeMax) <= l.limit[j] {
			w.ample = append(w.ample, j)
		}
	}
}

// isDominated compares what columns have, and what they count for: one that has next to nothing of a row counts for less
// than one that has nothing of it.
func (c *Chooser) isDominated(j int) bool {
	w, rows := &c.work, c.lin.rows
	has, value := w.has[j*rows:(j+1)*rows], c.lin.value[j*rows:(j+1)*rows]
next:
	for _, i := range w.ample {
		for d, h := range w.has[i*rows : (i+1)*rows] {
			if h < has[d] || c.lin.value[i*rows+d] < value[d] {
				continue next
			}
		}
		return true
	}
	return false
}

// completeMax is how many machines complete a rounded solution at most: three of up to liveForThree columns,
// two of up to liveForTwo, else one. The bounds are part of the answer.
const (
	completeMax  = 3
	liveForThree = 64
	liveForTwo   = 1024
)

// completing returns how many machines may complete a solution.
func (w *roundScratch) completing() int {
	switch {
	case len(w.live) <= liveForThree:
		return completeMax
	case len(w.live) <= liveForTwo:
		return completeMax - 1
	}
	return 1
}

// tryBack completes the rounded solution without the machines that are taken back.
func (c *Chooser) tryBack() {
	l, w := &c.lin, &c.work
	for i, d := range w.basics {
		w.base[d] -= w.back[i]
	}
	base, machines := int64(0), 0
	copy(w.rest, w.want)
	for i := range w.owed {
		w.owed[i] = l.target
	}
	for j, n := range w.base {
		if n > 0 {
			base += w.price[j] * int64(n)
			machines += n
			for i := range l.rows {
				w.rest[i] -= min(w.rest[i], scaled(w.has[j*l.rows+i], n))
				w.owed[i] -= float64(l.value[j*l.rows+i] * float64(n))
			}
		}
	}
	if found, cost := c.complete(machines, w.total-base); found {
		w.total = base + cost
		copy(w.chosen, w.base)
		for _, j := range w.best.col[:w.best.n] {
			w.chosen[j]++
		}
	}
	for i, d := range w.basics {
		w.base[d] += w.back[i]
	}
}

// complete finds the cheapest set of up to three machines that completes base, of so many machines, for less than
// limit, into best. Among equally cheap ones the first: fewer machines, then earlier columns.
func (c *Chooser) complete(machines int, limit int64) (found bool, cost int64) {
	w := &c.work
	if limit <= 0 {
		return false, 0
	}
	s := search{c: c, limit: limit}
	if s.alone = machines == 1; isZero(w.rest) && s.counts(w.owed) {
		w.best.n = 0
		return true, 0
	}
	for n := 1; n <= w.completing(); n++ {
		s.size, s.alone = n, machines+n == 1
		s.extend(0, 0, 0, w.rest, w.owed)
	}
	if s.found {
		w.best = s.best
	}
	return s.found, s.limit
}

// search is the state of complete: the set at hand and the best one.
type search struct {
	c     *Chooser
	limit int64 // what the best one costs
	size  int
	alone bool // base and the set are one machine in all
	found bool
	at    pick
	best  pick
}

// counts reports whether nothing of the target is owed any more, or need not be, since base and the set are one machine.
func (s *search) counts(owed []float64) bool {
	if s.alone {
		return true
	}
	for _, part := range owed {
		if part > tolerance {
			return false
		}
	}
	return true
}

// extend adds the machine number depth to the set at hand, which costs spent, from a column on.
func (s *search) extend(depth, from int, spent int64, rest []int64, owed []float64) {
	w, l := &s.c.work, &s.c.lin
	left := int64(s.size - depth)
	least := 0.0
	if !s.alone {
		for i, part := range owed {
			least += float64(w.pays[i] * max(part-tolerance, 0))
		}
	}
	if float64(spent)+least >= float64(s.limit)*(1+1e-9) {
		return
	}
	if left == 1 {
		from += sort.Search(len(w.live)-from, func(i int) bool { return float64(w.price[w.live[from+i]])*(1+1e-9) >= least })
	}
	var restNext [RowsMax]int64
	var owedNext [RowsMax]float64
	for at := from; at < len(w.live); at++ {
		j := w.live[at]
		if spent+left*w.price[j] >= s.limit {
			return // later columns cost as much or more
		}
		if !s.isLeft(j, depth) {
			continue
		}
		s.at.col[depth] = j
		for i := range l.rows {
			restNext[i] = max(rest[i]-w.has[j*l.rows+i], 0)
			owedNext[i] = owed[i] - l.value[j*l.rows+i]
		}
		if left > 1 {
			s.extend(depth+1, at, spent+w.price[j], restNext[:l.rows], owedNext[:l.rows])
		} else if isZero(restNext[:l.rows]) && s.counts(owedNext[:l.rows]) {
			s.limit, s.found = spent+w.price[j], true
			s.best = s.at
			s.best.n = s.size
			return
		}
	}
}

// isLeft reports whether one more machine of a column is there.
func (s *search) isLeft(j, depth int) bool {
	n := s.c.work.base[j] + 1
	for _, k := range s.at.col[:depth] {
		if k == j {
			n++
		}
	}
	return float64(n) <= s.c.lin.limit[j]
}
