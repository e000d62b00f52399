package packing

import (
	"math"
	"slices"
)

const (
	// dealRounds and dealWork bound the rounds in which pods are dealt: each round looks at every class for every
	// entry of pods.
	dealRounds = 400
	dealWork   = 20 << 20
	// dealStep is how fast the prices of rooms follow what they are asked for.
	dealStep = 0.1
	// loadMax bounds what one round counts of an overload.
	loadMax = 3.0
)

// dealt places pods as aligned does, but each class of machines takes the pods that are dealt to it: what
// fits on none of these machines goes anywhere in the end. Where machines have
// different shapes, the pods that are most like each must go there: the leanest to the leanest. Going by
// size, the biggest that are only leaner than most would come first. It returns nil where rooms have one shape.
func dealt(machines []Machine, pods []Pods, weights []float64) (placed [][]int) {
	c := classify(machines, pods, weights)
	if len(c.room) < 2 {
		return nil
	}
	counts := c.deal(pods)
	rest := make([][]float64, len(c.room)) // by class: what is still to be placed on it, as shares of all
	for k := range rest {
		rest[k] = make([]float64, len(weights))
		for i := range pods {
			addShares(rest[k], &pods[i], float64(counts[i][k]), weights)
		}
	}
	placed = make([][]int, len(pods))
	for _, at := range biggestFirst(pods, weights) {
		for k, n := range counts[at] {
			if n == 0 {
				continue
			}
			addShares(rest[k], &pods[at], -float64(n), weights)
			part := Pods{Size: pods[at].Size, Count: n, On: func(m int) bool { return c.of[m] == k && pods[at].mayUse(m) }}
			placed[at] = append(placed[at], placeAligned(machines, &part, weights, rest[k])...)
		}
	}
	left := slices.Clone(pods)
	for i := range left {
		left[i].Count -= len(placed[i])
	}
	for i, more := range aligned(machines, left, weights) {
		placed[i] = append(placed[i], more...)
	}
	return placed
}

// addShares adds n pods to sums of shares, none of which falls below 0.
func addShares(to []float64, p *Pods, n float64, weights []float64) {
	for d, x := range p.Size {
		to[d] = max(0, to[d]+n*float64(x)*weights[d])
	}
}

// classes are machines whose free rooms have nearly the same shape.
type classes struct {
	of   []int       // by machine, -1 = it has no room
	room [][]float64 // by class: what is free, by dimension
	may  [][]bool    // by entry of pods and class: one of these pods fits on one of these machines
}

// classify puts machines together that have most room, as a share of all, in the same dimension, and in the others at most twice as much as each other.
func classify(machines []Machine, pods []Pods, weights []float64) *classes {
	c := &classes{of: make([]int, len(machines)), may: make([][]bool, len(pods))}
	index := map[string]int{}
	for i := range machines {
		shape, some := machines[i].shape(weights)
		if c.of[i] = -1; !some {
			continue
		}
		at, known := index[shape]
		if !known {
			at = len(c.room)
			index[shape] = at
			c.room = append(c.room, make([]float64, len(weights)))
		}
		c.of[i] = at
		for d := range weights {
			c.room[at][d] += float64(max(0, machines[i].free(d)))
		}
	}
	for i := range pods {
		c.may[i] = make([]bool, len(c.room))
		for m, k := range c.of {
			if k >= 0 && !c.may[i][k] && machines[m].fits(pods[i].Size) && pods[i].mayUse(m) {
				c.may[i][k] = true
			}
		}
	}
	return c
}

// shape is which dimension most is free of, and how much less of the others, as powers of 2; false if nothing is free.
func (m *Machine) shape(weights []float64) (string, bool) {
	most := 0.0
	for d, w := range weights {
		most = max(most, float64(m.free(d))*w)
	}
	if most <= 0 {
		return "", false
	}
	shape := make([]byte, len(weights))
	for d, w := range weights {
		less := float64(math.MaxUint8) // next to nothing
		if part := float64(m.free(d)) * w / most; part > 0 {
			less = min(less, math.Ceil(-math.Log2(part)))
		}
		shape[d] = byte(less)
	}
	return string(shape), true
}

// deal says how many pods of each entry go to each class, so that the fullest class is as empty as can be in the dimension that
// it has least of. It is the method of multiplicative weights for fractional packing (Plotkin, Shmoys, Tardos, Fast
// Approximation Algorithms for Fractional Packing and Covering Problems, 1995): round by round all pods go where
// their room is cheapest, and room gets dearer where much was asked for.
func (c *classes) deal(pods []Pods) [][]int {
	rounds := min(dealRounds, max(1, dealWork/(len(pods)*len(c.room))))
	times := make([][]int, len(pods)) // by entry and class: in how many rounds it went there
	for i := range times {
		times[i] = make([]int, len(c.room))
	}
	price, load := make([][]float64, len(c.room)), make([][]float64, len(c.room))
	for k := range price {
		price[k], load[k] = make([]float64, len(c.room[k])), make([]float64, len(c.room[k]))
		for d := range price[k] {
			price[k][d] = 1
		}
	}
	for range rounds {
		for k := range load {
			clear(load[k])
		}
		for i := range pods {
			if k := c.cheapest(i, &pods[i], price); k >= 0 {
				times[i][k]++
				for d, n := range pods[i].Size {
					load[k][d] += float64(n) * float64(pods[i].Count)
				}
			}
		}
		c.reprice(price, load)
	}
	counts := make([][]int, len(pods))
	for i := range pods {
		counts[i] = divide(pods[i].Count, times[i])
	}
	return counts
}

// cheapest is the class whose room costs least for a pod of an entry, -1 = none has room.
func (c *classes) cheapest(entry int, p *Pods, price [][]float64) int {
	best, least := -1, math.Inf(1)
	for k, may := range c.may[entry] {
		if !may {
			continue
		}
		cost := 0.0
		for d, n := range p.Size {
			if n > 0 {
				cost += price[k][d] * float64(n) / c.room[k][d]
			}
		}
		if cost < least {
			best, least = k, cost
		}
	}
	return best
}

// reprice makes room dearer by what was asked for, of what there is. Prices add up to 1.
func (c *classes) reprice(price, load [][]float64) {
	sum := 0.0
	for k := range price {
		for d, room := range c.room[k] {
			if room > 0 {
				price[k][d] *= math.Exp(dealStep * min(loadMax, load[k][d]/room))
			}
			sum += price[k][d]
		}
	}
	for k := range price {
		for d := range price[k] {
			price[k][d] /= sum
		}
	}
}

// divide divides a count in proportion to parts, the largest remainders first; nothing where all parts are 0.
func divide(count int, parts []int) []int {
	out, all, left := make([]int, len(parts)), 0, count
	for _, n := range parts {
		all += n
	}
	if all == 0 {
		return out
	}
	order := make([]int, len(parts))
	for k, n := range parts {
		out[k], order[k] = count*n/all, k
		left -= out[k]
	}
	slices.SortStableFunc(order, func(a, b int) int { return count*parts[b]%all - count*parts[a]%all })
	for _, k := range order[:left] {
		out[k]++
	}
	return out
}
