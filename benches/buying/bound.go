package buying

import (
	"fmt"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// Bound returns what machines for the sum of the pods cost an hour at least: the least
// sum of prices over fractions of machines whose capacities add up to the pods. It is a
// linear program with one row a dimension, solved by the simplex of gonum. No fleet on
// which all pods run costs less.
func Bound(types []Type, pods []Pod) (float64, error) {
	sum := Sum(pods)
	var rows []int
	for d, n := range sum {
		if n > 0 {
			rows = append(rows, d)
		}
	}
	if len(rows) == 0 {
		return 0, nil
	}
	// Standard form: capacity·x - surplus = demand. A column for each type and row.
	columns := len(types) + len(rows)
	a, b, c := mat.NewDense(len(rows), columns, nil), make([]float64, len(rows)), make([]float64, columns)
	for j := range types {
		c[j] = types[j].Price
		for i, d := range rows {
			a.Set(i, j, float64(types[j].Capacity[d])/float64(sum[d]))
		}
	}
	for i := range rows {
		a.Set(i, len(types)+i, -1)
		b[i] = 1
	}
	least, _, err := lp.Simplex(c, a, b, 1e-10, nil)
	if err != nil {
		return 0, fmt.Errorf("linear bound over %d types: %w", len(types), err)
	}
	return least, nil
}

// Sum adds pods up.
func Sum(pods []Pod) (sum [dims]int64) {
	for i := range pods {
		for d, n := range pods[i] {
			sum[d] += n
		}
	}
	return sum
}
