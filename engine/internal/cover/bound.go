package cover

// Bounder computes linear lower bounds and reuses its memory. It is not safe for concurrent use.
type Bounder struct{ lin linear }

// Bound returns the least cost at which fractions of machines cover a want: the optimum of the linear
// program with each offer's count as its limit. No choice of whole machines costs less. Costs are finite
// and at least 0; offers need no order. chosen, as long as offers, receives how many machines of each the
// optimum takes. ok is false when the offers do not cover the want, or when it has more than RowsMax
// dimensions. Wants and offers have values in all dimensions of the problem; dimensions in which
// nothing is wanted do not matter.
func (b *Bounder) Bound(want []int64, offers []Offer, chosen []float64) (least float64, ok bool) {
	clear(chosen)
	l := &b.lin
	var dims [RowsMax]int
	l.rows, l.cols = 0, len(offers)
	for d, v := range want {
		if v <= 0 {
			continue
		}
		if l.rows == RowsMax {
			return 0, false
		}
		dims[l.rows] = d
		l.rows++
	}
	if l.rows == 0 {
		return 0, true
	}
	l.value = resize(l.value, l.rows*l.cols)
	l.cost, l.limit = resize(l.cost, l.cols), resize(l.limit, l.cols)
	for j := range offers {
		o := &offers[j]
		l.cost[j], l.limit[j] = o.Cost, float64(o.Count)
		for i, d := range dims[:l.rows] {
			// More than what is wanted covers no more, which makes the bound tighter.
			l.value[j*l.rows+i] = float64(min(o.Has[d], want[d])) / float64(want[d])
		}
	}
	if !l.solve(1, false) {
		return 0, false
	}
	for j, up := range l.upper {
		if up {
			chosen[j] = l.limit[j]
		}
	}
	for i := range l.rows {
		if j := l.basis[i]; j < l.cols {
			chosen[j] = l.x[i]
		}
	}
	return l.objective(), true
}
