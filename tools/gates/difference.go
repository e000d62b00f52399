package main

import (
	"fmt"
	"math"
	"slices"
)

// A difference is one to act on from these on, both together. Where a process's
// memory happens to lie moves the figures of small cycles by several percent, in
// the same direction for many processes in a row; a finer sieve than this cries
// wolf, and instructions and allocations are held to far less.
const (
	significantP = 0.05
	worsePercent = 10.0
)

// figure is what one pair, or the pairs of one figure, measured.
type figure struct {
	before, after float64 // ns of processor time
	ratio         float64 // after / before
}

// figureOf is the figure of pairs, each measured one right after the other: the median of their
// ratios. Other load on the machine slows both halves of a pair, or spoils few pairs.
func figureOf(pairs [][2]float64) figure {
	var before, after, ratios []float64
	for _, pair := range pairs {
		ratio := 1.0 // also where the clock is too coarse to say
		if pair[0] > 0 {
			ratio = pair[1] / pair[0]
		}
		before, after, ratios = append(before, pair[0]), append(after, pair[1]), append(ratios, ratio)
	}
	return figure{before: median(before), after: median(after), ratio: median(ratios)}
}

// difference is what separates two sides.
type difference struct {
	before, after float64 // medians
	ratio         float64 // the median of the figures' ratios
	p             float64 // of the sign test, that both are alike
}

// differenceOf compares by the figures' ratios: their median, and the sign test, which assumes nothing of how
// ratios are spread (Dixon and Mood 1946, "The statistical sign test").
func differenceOf(figures []figure) difference {
	var before, after, ratios []float64
	less, more := 0, 0
	for _, f := range figures {
		before, after, ratios = append(before, f.before), append(after, f.after), append(ratios, f.ratio)
		switch {
		case f.ratio < 1:
			less++
		case f.ratio > 1:
			more++
		}
	}
	return difference{before: median(before), after: median(after), ratio: median(ratios), p: signTest(less, more)}
}

// signTest is the probability that of less + more throws of a coin, the rarer side comes at most
// as often as it did: two-sided, 1 at most.
func signTest(less, more int) float64 {
	n := less + more
	sum, ways := 0.0, 1.0 // ways to choose k of n
	for k := range min(less, more) + 1 {
		sum += ways
		ways *= float64(n-k) / float64(k+1)
	}
	return min(1, 2*sum/math.Pow(2, float64(n)))
}

// median is 0 of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percent is by how much the second is more than the first.
func (d *difference) percent() float64 { return 100 * (d.ratio - 1) }

// line is the difference as a table has it.
func (d *difference) line() string {
	return fmt.Sprintf("%12.0f ns %12.0f ns  %+6.1f %%  p=%.3f", d.before, d.after, d.percent(), d.p)
}

func (d *difference) worse() bool { return d.p < significantP && d.percent() >= worsePercent }

func (d *difference) better() bool { return d.p < significantP && d.percent() <= -worsePercent }
