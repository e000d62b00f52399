package buying

import (
	"math"
	"math/rand/v2"

	"github.com/tonnage/tonnage/operator/packing"
)

// Score is how a scheduler likes a machine for a pod that fits it: of two, it takes the
// one with the higher score. Only the dimensions named in scored count.
type Score func(m *packing.Machine, pod []int64, scored []int) float64

// LeastAllocated likes machines that stay empty: the mean of what is free of each
// dimension once the pod is there, 0 to 100, as the kube-scheduler's NodeResourcesFit with
// that strategy.
func LeastAllocated(m *packing.Machine, pod []int64, scored []int) float64 {
	sum := 0.0
	for _, d := range scored {
		if m.Capacity[d] > 0 {
			sum += 100 * (1 - usedWith(m, pod, d))
		}
	}
	return sum / float64(len(scored))
}

// MostAllocated likes machines that become full: the reverse of LeastAllocated.
func MostAllocated(m *packing.Machine, pod []int64, scored []int) float64 {
	return 100 - LeastAllocated(m, pod, scored)
}

// BalancedAllocation likes machines whose dimensions are used alike once the pod is there:
// 100 less the standard deviation of the used shares in percent, as NodeResourcesBalancedAllocation of
// older kube-schedulers.
func BalancedAllocation(m *packing.Machine, pod []int64, scored []int) float64 {
	mean, n := 0.0, 0.0
	for _, d := range scored {
		if m.Capacity[d] > 0 {
			mean += usedWith(m, pod, d)
			n++
		}
	}
	mean /= n
	variance := 0.0
	for _, d := range scored {
		if m.Capacity[d] > 0 {
			variance += (usedWith(m, pod, d) - mean) * (usedWith(m, pod, d) - mean)
		}
	}
	return 100 * (1 - math.Sqrt(variance/n))
}

// BalanceGained likes machines whose dimensions are used more alike with the pod than without it, in
// whole points, as NodeResourcesBalancedAllocation of Kubernetes 1.36: 75 where the pod changes
// nothing, up to 100 where it helps.
func BalanceGained(m *packing.Machine, pod []int64, scored []int) float64 {
	with, without := math.Floor(BalancedAllocation(m, pod, scored)), math.Floor(BalancedAllocation(m, make([]int64, len(pod)), scored))
	return 50 + math.Floor((50+with-without)/2)
}

// Default is the sum that a kube-scheduler of Kubernetes 1.36 uses unless it is told otherwise, of
// what looks at resources: LeastAllocated and BalanceGained.
func Default(m *packing.Machine, pod []int64, scored []int) float64 {
	return math.Floor(LeastAllocated(m, pod, scored)) + BalanceGained(m, pod, scored)
}

// Tonnage is the same with the weights of deploy/scheduler.
func Tonnage(m *packing.Machine, pod []int64, scored []int) float64 {
	return math.Floor(LeastAllocated(m, pod, scored)) + 10*BalanceGained(m, pod, scored)
}

// OlderDefault is the same of older ones.
func OlderDefault(m *packing.Machine, pod []int64, scored []int) float64 {
	return LeastAllocated(m, pod, scored) + BalancedAllocation(m, pod, scored)
}

// usedWith is the share of a dimension that is used once the pod is there.
func usedWith(m *packing.Machine, pod []int64, d int) float64 {
	return float64(m.Used[d]+pod[d]) / float64(m.Capacity[d])
}

// schedule places one pod after the other, each on the machine that fits and has the
// highest score, one of them by chance where several have it, and returns the machine of each, -1 where none had room. It adds
// them to what is used of the machines. Equal calls give equal answers. A real kube-scheduler, above
// 100 nodes, scores a part of those that fit. Cost: O(pods × machines).
func schedule(machines []packing.Machine, pods [][]int64, score Score, scored []int) (placed []int) {
	r := rand.New(rand.NewPCG(uint64(len(machines)), uint64(len(pods))))
	placed = make([]int, len(pods))
	for i, pod := range pods {
		best, most, ties := -1, math.Inf(-1), 0
		for j := range machines {
			if !fits(&machines[j], pod) {
				continue
			}
			s := score(&machines[j], pod, scored)
			if s > most {
				best, most, ties = j, s, 1
			} else if s == most {
				if ties++; r.IntN(ties) == 0 {
					best = j
				}
			}
		}
		if placed[i] = best; best >= 0 {
			for d, n := range pod {
				machines[best].Used[d] += n
			}
		}
	}
	return placed
}

// fits tells whether a machine has room for a pod.
func fits(m *packing.Machine, pod []int64) bool {
	for d, n := range pod {
		if n > m.Capacity[d]-m.Used[d] {
			return false
		}
	}
	return true
}
