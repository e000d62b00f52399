package main

import (
	"fmt"
	"slices"

	"golang.org/x/perf/benchmath"
)

// A difference is one to act on from these on, both together. Where a process's
// memory happens to lie moves the figures of small cycles by several percent, in
// the same direction for many processes in a row; a finer sieve than this cries
// wolf, and instructions and allocations are held to far less.
const (
	significantP = 0.05
	worsePercent = 10.0
)

// difference is what separates two samples.
type difference struct {
	before, after float64 // medians
	p             float64 // of the Mann-Whitney test, that both are alike
}

// differenceOf compares as benchstat does: medians, and no assumption on how
// figures are spread.
func differenceOf(before, after []float64) difference {
	a, b := sampleOf(before), sampleOf(after)
	return difference{before: median(before), after: median(after), p: benchmath.AssumeNothing.Compare(a, b).P}
}

func sampleOf(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func median(values []float64) float64 {
	const confidence = 0.95 // of an interval that nobody asks for
	return benchmath.AssumeNothing.Summary(sampleOf(values), confidence).Center
}

// percent is by how much the second is more than the first.
func (d *difference) percent() float64 {
	if d.before == 0 {
		return 0
	}
	return 100 * (d.after/d.before - 1)
}

// line is the difference as a table has it.
func (d *difference) line() string {
	return fmt.Sprintf("%12.0f ns %12.0f ns  %+6.1f %%  p=%.3f", d.before, d.after, d.percent(), d.p)
}

func (d *difference) worse() bool { return d.p < significantP && d.percent() >= worsePercent }

func (d *difference) better() bool { return d.p < significantP && d.percent() <= -worsePercent }
