package web

import "slices"

// windowCycles is how many cycles the percentiles look back on: ten minutes of
// the cycle of one second.
const windowCycles = 600

// window keeps the times of the last cycles, by phase and in all.
type window struct {
	cycles [windowCycles][len(Phases) + 1]float32 // the last column is the whole cycle
	n      int                                    // how many were ever added
}

func (w *window) add(f *Frame) {
	c := &w.cycles[w.n%windowCycles]
	for i, ms := range f.PhaseMillis {
		c[i] = float32(ms)
	}
	c[len(Phases)] = float32(f.CycleMillis)
	w.n++
}

// Quantiles are cycle times in milliseconds over the window; the arrays follow Phases.
type Quantiles struct {
	Cycles    int       `json:"cycles"`
	P50       float64   `json:"p50"`
	P99       float64   `json:"p99"`
	Max       float64   `json:"max"`
	PhasesP50 []float64 `json:"phasesP50"`
	PhasesP99 []float64 `json:"phasesP99"`
}

func (w *window) quantiles() Quantiles {
	n := min(w.n, windowCycles)
	q := Quantiles{Cycles: n, PhasesP50: make([]float64, len(Phases)), PhasesP99: make([]float64, len(Phases))}
	if n == 0 {
		return q
	}
	column := make([]float32, n)
	for c := range w.cycles[0] {
		for i := range column {
			column[i] = w.cycles[i][c]
		}
		slices.Sort(column)
		p50, p99 := digits(float64(column[rankOf(n, 50)])), digits(float64(column[rankOf(n, 99)]))
		if c < len(Phases) {
			q.PhasesP50[c], q.PhasesP99[c] = p50, p99
			continue
		}
		q.P50, q.P99, q.Max = p50, p99, digits(float64(column[n-1]))
	}
	return q
}

// rankOf returns the index of a percentile among n sorted values, by nearest
// rank: no value is shown that was not measured.
func rankOf(n, percent int) int {
	return max((n*percent+99)/100-1, 0)
}
