package workload

import "slices"

// rng is splitmix64: small, fast, and the same on every machine and Go
// release, which a generator of reference workloads must be.
type rng struct{ state uint64 }

// newRNG returns the stream of a seed that belongs to a purpose.
func newRNG(seed, purpose uint64) *rng {
	r := &rng{state: seed}
	r.state = r.next() ^ purpose*0x9e3779b97f4a7c15
	return r
}

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number in [0, n); the bias of at most n/2^32 does not matter
// here.
func (r *rng) below(n int) int { return int(r.next() >> 32 * uint64(n) >> 32) }

// float returns a number in [0, 1).
func (r *rng) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// shuffle puts a slice in random order.
func shuffle[T any](r *rng, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		j := r.below(i + 1)
		s[i], s[j] = s[j], s[i]
	}
}

// apportion splits n by weights, by largest remainder: every part is its exact
// share rounded down or up, and the parts sum to n. Ties go to the earlier
// part. No weight at all gives nothing to anybody.
func apportion(n int, weights []float64) []int {
	parts := make([]int, len(weights))
	var sum float64
	for _, w := range weights {
		sum += w
	}
	if !(sum > 0) {
		return parts
	}
	rest := n
	order := make([]int, len(weights))
	frac := make([]float64, len(weights))
	for i, w := range weights {
		exact := float64(n) * w / sum
		parts[i] = int(exact)
		frac[i] = exact - float64(parts[i])
		rest -= parts[i]
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case frac[a] > frac[b]:
			return -1
		case frac[a] < frac[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:max(0, min(rest, len(order)))] {
		parts[i]++
	}
	return parts
}

// apportionAtLeastOne is apportion with no part of positive weight left empty;
// what that takes comes from the largest parts. With fewer items than parts
// the first parts get one each.
func apportionAtLeastOne(n int, weights []float64) []int {
	parts := apportion(n, weights)
	for i, w := range weights {
		if w <= 0 || parts[i] > 0 {
			continue
		}
		largest := 0
		for j, p := range parts {
			if p > parts[largest] {
				largest = j
			}
		}
		if parts[largest] < 2 {
			break
		}
		parts[largest]--
		parts[i]++
	}
	return parts
}

// evenly deals n items to k parts as evenly as possible; which parts get one
// more is drawn.
func evenly(r *rng, n, k int) []int {
	parts := make([]int, k)
	for i := range parts {
		parts[i] = n / k
		if i < n%k {
			parts[i]++
		}
	}
	shuffle(r, parts)
	return parts
}

// drawReplicas returns the replicas of n plain objects, stratified, in random
// order.
func drawReplicas(r *rng, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		at := (float64(i) + 0.5) / float64(n) * 100
		for b, band := range replicaBands {
			if at < band.percent || b == len(replicaBands)-1 {
				out[i] = band.min + int32(at/band.percent*float64(band.max-band.min+1))
				out[i] = min(out[i], band.max)
				break
			}
			at -= band.percent
		}
	}
	shuffle(r, out)
	return out
}

// drawUniform returns n whole numbers in [lo, hi], stratified, in random order.
func drawUniform(r *rng, n int, lo, hi int32) []int32 {
	out := make([]int32, n)
	for i := range out {
		at := (float64(i) + 0.5) / float64(n)
		out[i] = lo + int32(at*float64(hi-lo+1))
	}
	shuffle(r, out)
	return out
}

// everyNth reports whether the i-th of a sequence belongs to the fraction p,
// spread as evenly over the sequence as possible.
func everyNth(i int, p float64) bool {
	const eps = 1e-9 // so that p = 0.2 takes exactly the fifth, tenth …
	return int(float64(i+1)*p+eps) > int(float64(i)*p+eps)
}
