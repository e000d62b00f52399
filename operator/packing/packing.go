package packing

import (
	"cmp"
	"container/heap"
	"slices"
)

// Machine is a machine with what is on it. Capacity and Used have one amount a
// dimension, in the caller's units; all machines and pods have the same dimensions in
// the same order.
type Machine struct {
	Capacity []int64
	Used     []int64
}

// free is what is free of a dimension.
func (m *Machine) free(d int) int64 { return m.Capacity[d] - m.Used[d] }

// fits tells whether there is room for a pod.
func (m *Machine) fits(pod []int64) bool {
	for d, n := range pod {
		if n > m.free(d) {
			return false
		}
	}
	return true
}

// add puts a pod on the machine.
func (m *Machine) add(pod []int64) {
	for d, n := range pod {
		m.Used[d] += n
	}
}

// Pods are some pods of one size.
type Pods struct {
	Size  []int64
	Count int
	// On tells whether a machine, by its index, is one on which these pods may run;
	// nil = every machine is.
	On func(machine int) bool
}

// mayUse tells whether these pods may run on a machine.
func (p *Pods) mayUse(machine int) bool { return p.On == nil || p.On(machine) }

// Place places pods, and adds them to the used amounts of the machines. It returns for each entry of pods the machines
// that its pods were placed on, one for each placed pod.
//
// It places the biggest pods first, each where it brings the free capacity of a machine closest to the
// shape of the demand that is left. If pods are left and free rooms differ in shape, it tries again and first deals pods to
// the shapes of rooms; and it keeps what leaves less over, by the largest share of a dimension.
//
// A pod is as big as its largest share of what all machines have. Cost:
// O(sizes × machines + pods × log machines), and for a second try once more, with at most dealWork steps to deal.
func Place(machines []Machine, pods []Pods) (placed [][]int) {
	weights := weigh(machines, pods)
	first := withUsed(machines)
	placed = aligned(first, pods, weights)
	if least := leftOver(pods, placed, weights); least > 0 {
		second := withUsed(machines)
		if other := dealt(second, pods, weights); other != nil && leftOver(pods, other, weights) < least {
			first, placed = second, other
		}
	}
	for i := range machines {
		copy(machines[i].Used, first[i].Used)
	}
	return placed
}

// withUsed are machines whose used amounts are copies.
func withUsed(machines []Machine) []Machine {
	out := slices.Clone(machines)
	for i := range out {
		out[i].Used = slices.Clone(out[i].Used)
	}
	return out
}

// leftOver is how much found no place: the largest share of a dimension.
func leftOver(pods []Pods, placed [][]int, weights []float64) float64 {
	sums := make([]float64, len(weights))
	for i := range pods {
		addShares(sums, &pods[i], float64(pods[i].Count-len(placed[i])), weights)
	}
	return slices.Max(append(sums, 0))
}

// aligned is the first try of [Place].
func aligned(machines []Machine, pods []Pods, weights []float64) (placed [][]int) {
	placed = make([][]int, len(pods))
	rest := make([]float64, len(weights)) // what is still to be placed, as shares of all
	for i := range pods {
		addShares(rest, &pods[i], float64(pods[i].Count), weights)
	}
	for _, at := range biggestFirst(pods, weights) {
		addShares(rest, &pods[at], -float64(pods[at].Count), weights)
		placed[at] = placeAligned(machines, &pods[at], weights, rest)
	}
	return placed
}

// biggestFirst orders entries of pods by the size of one pod.
func biggestFirst(pods []Pods, weights []float64) []int {
	order, size := make([]int, len(pods)), make([]float64, len(pods))
	for i := range pods {
		order[i] = i
		for d, n := range pods[i].Size {
			size[i] = max(size[i], float64(n)*weights[d])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return order
}

// weigh returns for each dimension what one unit is of all that the machines have. A
// dimension that no machine has weighs nothing: no pod that asks for it fits anyway.
func weigh(machines []Machine, pods []Pods) []float64 {
	if len(pods) == 0 {
		return nil
	}
	weights := make([]float64, len(pods[0].Size))
	for d := range weights {
		total := 0.0
		for i := range machines {
			total += float64(machines[i].Capacity[d])
		}
		if total > 0 {
			weights[d] = 1 / total
		}
	}
	return weights
}

// placeAligned places pods of one size and returns the machine of each.
func placeAligned(machines []Machine, pods *Pods, weights, rest []float64) (placed []int) {
	if pods.Count == 0 {
		return nil
	}
	h := candidates{}
	for i := range machines {
		if machines[i].fits(pods.Size) && pods.mayUse(i) {
			h = append(h, candidate{i, alignment(&machines[i], pods.Size, weights, rest)})
		}
	}
	heap.Init(&h)
	for len(placed) < pods.Count && len(h) > 0 {
		best := &h[0]
		placed = append(placed, best.machine)
		m := &machines[best.machine]
		m.add(pods.Size)
		if !m.fits(pods.Size) {
			heap.Pop(&h)
			continue
		}
		best.score = alignment(m, pods.Size, weights, rest)
		heap.Fix(&h, 0)
	}
	return placed
}

// candidate is a machine with room for the pods at hand.
type candidate struct {
	machine int
	score   float64
}

// candidates is a heap, the best score first.
type candidates []candidate

func (h candidates) Len() int { return len(h) }
func (h candidates) Less(i, j int) bool {
	if h[i].score != h[j].score {
		return h[i].score > h[j].score
	}
	return h[i].machine < h[j].machine
}
func (h candidates) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *candidates) Push(x any)   { *h = append(*h, x.(candidate)) }
func (h *candidates) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
