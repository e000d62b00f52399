package model

import (
	"math"
	"strconv"
)

// Bucket is a penalty in dollars rounded up to a power of two, so that rows
// with nearly equal penalties aggregate. The numbers are those of the wire
// enum PenaltyBucket: 0 unspecified, 1 = $0, 2 = (0, 0.50], n = 3…26 up to
// 2^(n-3) dollars, 27 = pinned.
type Bucket uint8

// The ends of the ladder.
const (
	BucketUnspecified Bucket = 0
	BucketZero        Bucket = 1
	BucketHalfDollar  Bucket = 2
	BucketOneDollar   Bucket = 3
	BucketPinned      Bucket = 27

	// NumBuckets is the number of values of Bucket.
	NumBuckets = int(BucketPinned) + 1
)

// BucketForDollars returns the smallest bucket whose bound is at least the
// value: zero and negative values (and NaN) go to BucketZero, values above
// $8,388,608 to BucketPinned.
func BucketForDollars(dollars float64) Bucket {
	if !(dollars > 0) {
		return BucketZero
	}
	for b := BucketHalfDollar; b < BucketPinned; b++ {
		if dollars <= b.Dollars() {
			return b
		}
	}
	return BucketPinned
}

// Dollars returns the bucket's upper bound; +Inf when pinned, 0 when
// unspecified.
func (b Bucket) Dollars() float64 {
	switch {
	case b <= BucketZero:
		return 0
	case b == BucketHalfDollar:
		return 0.5
	case b >= BucketPinned:
		return math.Inf(1)
	}
	return float64(uint64(1) << (b - BucketOneDollar))
}

// Valid reports whether b is one of the 28 buckets.
func (b Bucket) Valid() bool { return b <= BucketPinned }

// Label returns the bucket's metric label: unspecified, 0, 0.5, 1, 2, 4 …
// 8388608, pinned.
func (b Bucket) Label() string {
	switch {
	case b == BucketUnspecified:
		return "unspecified"
	case b >= BucketPinned:
		return "pinned"
	}
	return strconv.FormatFloat(b.Dollars(), 'f', -1, 64)
}
