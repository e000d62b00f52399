package cover

import (
	"math"
)

// linear is the linear program of a choice: minimise Σ cost x subject to Σ value x ≥ target in each
// row, 0 ≤ x ≤ limit. It is solved by the dual simplex method with bounded variables, whose start is
// feasible since no cost is negative: no column in use, every row short by its target.
//
// Each iteration takes the row that violates its bounds most out of the basis. The ratio test
// passes over columns that may go to their other bound as a whole, so a choice among many classes
// with few machines each takes few iterations.
type linear struct {
	rows, cols int
	value      []float64 // by column and row
	cost       []float64 // by column
	limit      []float64 // by column
	target     float64   // the same for every row

	// The columns after cols are the rows' surpluses: cost 0, value −1, no limit.
	basis   [RowsMax]int
	inverse [RowsMax][RowsMax]float64
	x       [RowsMax]float64 // of the basis
	y       [RowsMax]float64 // the rows' prices
	upper   []bool           // by column: it is out of the basis, at its limit
	inBasis []bool
	heap    []breakpoint
}

// breakpoint is a column that may enter the basis, with the ratio at which its reduced cost is 0.
type breakpoint struct {
	ratio, slope float64
	col          int
}

// tolerance is the error that x may have, in parts of what is wanted or in machines.
const tolerance = 1e-9

// smallest is the least absolute value of a pivot.
const smallest = 1e-11

// solve solves the program for a target, going on from the last basis if again. false: it has no
// solution.
func (l *linear) solve(target float64, again bool) bool {
	l.target = target
	if !again {
		l.begin()
	}
	for range 16*l.rows + 4*l.cols {
		l.computeX()
		row, below := l.leaving()
		if row < 0 {
			return true
		}
		if !l.pivot(row, below) {
			return false
		}
	}
	return false
}

// begin puts every column at 0 and the surpluses into the basis.
func (l *linear) begin() {
	l.upper, l.inBasis = resize(l.upper, l.cols), resize(l.inBasis, l.cols+l.rows)
	l.inverse = [RowsMax][RowsMax]float64{}
	for d := range l.rows {
		l.basis[d], l.inBasis[l.cols+d] = l.cols+d, true
		l.inverse[d][d] = -1
		l.y[d] = 0
	}
}

// computeX computes the values of the basis.
func (l *linear) computeX() {
	var rest [RowsMax]float64
	for d := range l.rows {
		rest[d] = l.target
	}
	for j, up := range l.upper {
		if up {
			for d, v := range l.value[j*l.rows : (j+1)*l.rows] {
				rest[d] -= float64(v * l.limit[j])
			}
		}
	}
	for i := range l.rows {
		l.x[i] = 0
		for d := range l.rows {
			l.x[i] += float64(l.inverse[i][d] * rest[d])
		}
	}
}

func (l *linear) limitOf(col int) float64 {
	if col >= l.cols {
		return math.Inf(1)
	}
	return l.limit[col]
}

// leaving returns the row of the basis that violates its bounds most, −1 when none does; below says which
// bound.
func (l *linear) leaving() (row int, below bool) {
	row, worst := -1, tolerance
	for i := range l.rows {
		if v := -l.x[i]; v > worst {
			row, worst, below = i, v, true
		}
		if limit := l.limitOf(l.basis[i]); l.x[i]-limit > worst {
			row, worst, below = i, l.x[i]-limit, false
		}
	}
	return row, below
}

// pivot moves the row's column to the bound that it violates, and another one into the basis. false:
// none can enter, and the program has no solution.
func (l *linear) pivot(row int, below bool) bool {
	violation := -l.x[row]
	if !below {
		violation = l.x[row] - l.limitOf(l.basis[row])
	}
	l.listBreakpoints(row, below)
	enters := -1
	for len(l.heap) > 0 {
		b := l.popBreakpoint()
		if violation -= b.slope; violation < 0 || len(l.heap) == 0 && violation <= tolerance {
			enters = b.col
			break
		}
		l.upper[b.col] = !l.upper[b.col] // as a whole to its other bound
	}
	if enters < 0 {
		return false
	}
	leaves := l.basis[row]
	l.inBasis[leaves], l.inBasis[enters] = false, true
	if leaves < l.cols {
		l.upper[leaves] = !below
	}
	if enters < l.cols {
		l.upper[enters] = false
	}
	l.exchange(row, enters)
	return true
}

// alpha returns a row of the basis times a column.
func (l *linear) alpha(row, col int) float64 {
	if col >= l.cols {
		return -l.inverse[row][col-l.cols]
	}
	sum := 0.0
	for d, v := range l.value[col*l.rows : (col+1)*l.rows] {
		sum += float64(l.inverse[row][d] * v)
	}
	return sum
}

// reduced returns the reduced cost of a column: what it costs beyond what the rows pay for it.
func (l *linear) reduced(col int) float64 {
	if col >= l.cols {
		return l.y[col-l.cols]
	}
	sum := l.cost[col]
	for d, v := range l.value[col*l.rows : (col+1)*l.rows] {
		sum -= float64(l.y[d] * v)
	}
	return sum
}

// listBreakpoints makes heap the columns that bring the row's column back within its bounds.
func (l *linear) listBreakpoints(row int, below bool) {
	l.heap = l.heap[:0]
	for j := range l.cols + l.rows {
		if l.inBasis[j] {
			continue
		}
		a := l.alpha(row, j)
		if !below {
			a = -a
		}
		if j < l.cols && l.upper[j] {
			a = -a
		}
		if a > -smallest {
			continue
		}
		l.heap = append(l.heap, breakpoint{ratio: math.Abs(l.reduced(j)) / -a, slope: float64(-a * l.limitOf(j)), col: j})
	}
	for i := len(l.heap)/2 - 1; i >= 0; i-- {
		l.sift(i)
	}
}

// before orders breakpoints by ratio, equal ones by column.
func (b *breakpoint) before(o *breakpoint) bool {
	if b.ratio != o.ratio {
		return b.ratio < o.ratio
	}
	return b.col < o.col
}

func (l *linear) popBreakpoint() breakpoint {
	top, last := l.heap[0], len(l.heap)-1
	l.heap[0] = l.heap[last]
	l.heap = l.heap[:last]
	l.sift(0)
	return top
}

func (l *linear) sift(i int) {
	h := l.heap
	for {
		small := i
		for _, k := range [...]int{2*i + 1, 2*i + 2} {
			if k < len(h) && h[k].before(&h[small]) {
				small = k
			}
		}
		if small == i {
			return
		}
		h[i], h[small] = h[small], h[i]
		i = small
	}
}

// exchange makes a column the row's of the basis, and updates the inverse and the prices.
func (l *linear) exchange(row, col int) {
	var a [RowsMax]float64
	for i := range l.rows {
		a[i] = l.alpha(i, col)
	}
	l.basis[row] = col
	for d := range l.rows {
		l.inverse[row][d] /= a[row]
	}
	for i := range l.rows {
		if i == row || a[i] == 0 {
			continue
		}
		for d := range l.rows {
			l.inverse[i][d] -= float64(a[i] * l.inverse[row][d])
		}
	}
	for d := range l.rows {
		l.y[d] = 0
		for i := range l.rows {
			if b := l.basis[i]; b < l.cols {
				l.y[d] += float64(l.cost[b] * l.inverse[i][d])
			}
		}
	}
}

// objective returns what the solution costs.
func (l *linear) objective() float64 {
	total := 0.0
	for j, up := range l.upper {
		if up {
			total += float64(l.cost[j] * l.limit[j])
		}
	}
	for i := range l.rows {
		if b := l.basis[i]; b < l.cols {
			total += float64(l.cost[b] * l.x[i])
		}
	}
	return total
}
