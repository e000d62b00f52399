package exact

import (
	"math"
	"math/bits"
)

// Ratios decide between units and between domains, in steps of θ = 1/20. They are computed in
// integers, so that every processor gets the same result.
const (
	// ThetaSteps is the number of steps in one.
	ThetaSteps = 20
	// ratioBits is the number of binary places of a ratio.
	ratioBits = 32
)

// ratio returns have × 2³² / want, rounded down, or up if up is set; math.MaxInt64 if it would
// be larger. have is not negative, want is positive.
func ratio(have, want int64, up bool) int64 {
	hi, lo := bits.Mul64(uint64(have), 1<<ratioBits)
	if hi >= uint64(want) {
		return math.MaxInt64
	}
	q, rest := bits.Div64(hi, lo, uint64(want))
	if up && rest > 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

// ROISteps returns the ROI of a gang, what breaking it gives here over what it destroys
// everywhere, measured on what is missing, in steps from 0 to ThetaSteps. Gains are rounded up
// and costs down, so that an exact number of steps is not rounded away.
func ROISteps(local, global, missing []int64) int64 {
	var gain, cost int64
	for d, m := range missing {
		if m > 0 {
			gain = SatSum(gain, ratio(min(local[d], m), m, true))
			cost = SatSum(cost, ratio(global[d], m, false))
		}
	}
	hi, lo := bits.Mul64(uint64(gain), ThetaSteps)
	if hi >= uint64(cost) { // it costs nothing, or the quotient has more than 64 bits
		return ThetaSteps
	}
	q, _ := bits.Div64(hi, lo, uint64(cost))
	return int64(min(q, ThetaSteps))
}

// CostSteps returns Σ global/want over the dimensions that are wanted, in steps.
func CostSteps(global, want []int64) int64 {
	var cost int64
	for d, w := range want {
		if w > 0 {
			cost = SatSum(cost, ratio(global[d], w, false))
		}
	}
	hi, lo := bits.Mul64(uint64(cost), ThetaSteps)
	return int64(hi<<(64-ratioBits) | lo>>ratioBits)
}

// StepsOf returns ⌊has/share ÷ θ⌋, saturated at math.MaxInt64. share is positive.
func StepsOf(has, share int64) int64 {
	hi, lo := bits.Mul64(uint64(has), ThetaSteps)
	if hi >= uint64(share) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(share))
	return int64(min(q, math.MaxInt64))
}
