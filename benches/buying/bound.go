package buying

import (
	"errors"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

const (
	// tolerance of the simplex. Its figures are shares of what is asked for.
	tolerance = 1e-10
	// relaxation is by how much a bound of 0 is lowered, in machines.
	relaxation = 1e-7
)

// Bound returns what machines for the pods cost an hour at least. No fleet on which all pods run
// costs less. It is a linear program over fractions of machines, solved by the simplex of gonum.
//
// Pods without devices count as their sum. Those with devices run on machines that have as many: the
// program says how many of each size run on each type, where their GPUs, cores and memory come from one
// machine, and a machine takes whole pods of one size. What is left of all machines is for the others.
func Bound(types []Type, pods []Pod) (float64, error) {
	if len(pods) == 0 {
		return 0, nil
	}
	p := newProgram(types, pods)
	least, err := p.solve()
	if err != nil {
		return 0, fmt.Errorf("linear bound over %d types: %w", len(types), err)
	}
	return least, nil
}

// sized are pods of one size that ask for devices.
type sized struct {
	size Pod
	n    float64
}

// on says how many pods of a size run on machines of a type: a column of the program.
type on struct {
	size, kind int
	most       int64 // of such pods on one machine
}

// program is the linear program: rows of coefficients, each at least its bound.
type program struct {
	types []Type
	plain [dims]int64 // the sum of pods without devices
	sizes []sized
	on    []on
	rows  [][]float64
	least []float64
}

func newProgram(types []Type, pods []Pod) *program {
	p := &program{types: types}
	counts := map[Pod]int{}
	for _, x := range pods {
		if x[dimGPU] > 0 {
			counts[x]++
			continue
		}
		for d, n := range x {
			p.plain[d] += n
		}
	}
	for size, n := range counts {
		p.sizes = append(p.sizes, sized{size, float64(n)})
	}
	slices.SortFunc(p.sizes, func(a, b sized) int { return slices.Compare(a.size[:], b.size[:]) })
	for s := range p.sizes {
		for j := range types {
			if most := holds(&types[j], &p.sizes[s].size); most > 0 {
				p.on = append(p.on, on{s, j, most})
			}
		}
	}
	p.sums()
	p.machines()
	return p
}

// holds is how many pods of one size a machine takes.
func holds(t *Type, size *Pod) int64 {
	var most []int64
	for d, n := range size {
		if n > 0 {
			most = append(most, t.Capacity[d]/n)
		}
	}
	return slices.Min(most)
}

// row adds a row and returns its coefficients: of machines by type, then of p.on.
func (p *program) row(least float64) []float64 {
	row := make([]float64, len(p.types)+len(p.on))
	p.rows, p.least = append(p.rows, row), append(p.least, least)
	return row
}

// sums adds the constraints that all pods run: for pods without devices the sum of their requests, for each size
// of pod with devices the number of pods.
func (p *program) sums() {
	for d, n := range p.plain {
		if n == 0 {
			continue
		}
		row := p.row(1)
		for j := range p.types {
			row[j] = float64(p.types[j].Capacity[d]) / float64(n)
		}
		for i, x := range p.on {
			row[len(p.types)+i] = -float64(p.sizes[x.size].size[d]) / float64(n)
		}
	}
	for s := range p.sizes {
		row := p.row(1)
		for i, x := range p.on {
			if x.size == s {
				row[len(p.types)+i] = 1 / p.sizes[s].n
			}
		}
	}
}

// machines adds the rows of what machines with devices take.
func (p *program) machines() {
	for j := range p.types {
		var here []int
		for i := range p.on {
			if p.on[i].kind == j {
				here = append(here, i)
			}
		}
		if len(here) == 0 {
			continue
		}
		has := &p.types[j].Capacity
		for d, n := range has { // all that is on it, in every dimension
			if n == 0 {
				continue
			}
			row := p.row(0)
			row[j] = 1
			for _, i := range here {
				row[len(p.types)+i] = -float64(p.sizes[p.on[i].size].size[d]) / float64(n)
			}
		}
		for _, i := range here { // whole pods of one size, and of those that are a multiple of its devices
			g := p.sizes[p.on[i].size].size[dimGPU]
			row := p.row(0)
			row[j] = 1
			row[len(p.types)+i] = -1 / float64(p.on[i].most)
			if has[dimGPU]%g == 0 {
				continue
			}
			row = p.row(0)
			row[j] = 1
			for _, k := range here {
				row[len(p.types)+k] = -float64(p.sizes[p.on[k].size].size[dimGPU]/g) / float64(has[dimGPU]/g)
			}
		}
	}
}

// solve returns the least cost, in the standard form of the simplex: each row with a surplus. What must run
// has a column beside, dear, that stands for machines that there are not: so the first solution is known, which
// the simplex of gonum does not always find by itself.
func (p *program) solve() (float64, error) {
	used := p.used()
	surplus, lacking := len(used), len(used)+len(p.rows)
	a, c := mat.NewDense(len(p.rows), lacking, nil), make([]float64, lacking)
	for k, j := range used {
		if j < len(p.types) {
			c[k] = p.types[j].Price
		}
		for i, row := range p.rows {
			a.Set(i, k, row[j])
		}
	}
	first, dear := make([]int, len(p.rows)), p.dear()
	for i, least := range p.least {
		a.Set(i, surplus+i, -1)
		if first[i] = surplus + i; least > 0 {
			column := make([]float64, len(p.rows))
			column[i] = 1
			first[i] = len(c)
			c = append(c, dear)
			a = grow(a, column)
		}
	}
	least, x, err := lp.Simplex(c, a, p.relaxed(), tolerance, first)
	if err != nil {
		return 0, err
	}
	for _, n := range x[lacking:] {
		if n > 1e-6 {
			return 0, errors.New("no machine runs some of the pods")
		}
	}
	return least, nil
}

// relaxed are bounds of the rows that are lower by a little, and by a different share in each row. With many rows at
// 0 the simplex can choose a basis that is singular, or go round for ever; now no two rows reach their bounds at
// once (Charnes, Optimality and Degeneracy in Linear Programming, 1952). Less is asked for, so the result is a lower bound, too.
func (p *program) relaxed() []float64 {
	out := slices.Clone(p.least)
	for i := range out {
		if out[i] == 0 {
			out[i] = -relaxation * (1 + float64(i)/float64(len(out)))
		}
	}
	return out
}

// grow adds a column to a matrix.
func grow(a *mat.Dense, column []float64) *mat.Dense {
	r, c := a.Dims()
	out := a.Grow(0, 1).(*mat.Dense)
	for i := range r {
		out.Set(i, c, column[i])
	}
	return out
}

// used are the columns that some row has.
func (p *program) used() (out []int) {
	for j := range len(p.types) + len(p.on) {
		if slices.ContainsFunc(p.rows, func(row []float64) bool { return row[j] != 0 }) {
			out = append(out, j)
		}
	}
	return out
}

// dear is above what all that must run costs by any means.
func (p *program) dear() float64 {
	sum := 1.0
	for i := range p.types {
		most := 1.0
		for d, n := range p.plain {
			if c := p.types[i].Capacity[d]; c > 0 {
				most = max(most, float64(n)/float64(c))
			}
		}
		for _, s := range p.sizes {
			most += s.n
		}
		sum = max(sum, most*p.types[i].Price)
	}
	return float64(dims+len(p.sizes)) * sum
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
