package buying

import (
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/operator/packing"
)

const (
	gangLabel   = "gang"
	gangPods    = 4
	gangGPUsMax = 3 // as a power of two
)

// gangSize is a pod of a gang with 2^g GPUs.
func gangSize(g int) Pod {
	n := int64(1) << g
	return Pod{4000 * n, 16 << 10 * n, n, 1}
}

// comeGang makes the pods of another gang.
func (s *site) comeGang(r *rand.Rand) {
	gang, size := fmt.Sprintf("gang-%06d", s.made), gangSize(r.IntN(gangGPUsMax+1))
	for range gangPods {
		s.comeTo(gang, size)
	}
}

// leaveGang takes the pods of a gang away: the n-th of those that are there.
func (s *site) leaveGang(n int) {
	var gangs []string
	for _, p := range s.objects {
		if gang := p.Labels[gangLabel]; gang != "" && !slices.Contains(gangs, gang) {
			gangs = append(gangs, gang)
		}
	}
	for i := len(s.objects) - 1; i >= 0; i-- {
		if s.objects[i].Labels[gangLabel] == gangs[n] {
			s.leave(i)
		}
	}
}

// stayTogether has a pod run in the zone of its gang alone.
func stayTogether(pod *corev1.Pod, gang string) {
	pod.Labels = map[string]string{gangLabel: gang}
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: corev1.LabelTopologyZone},
	}}}
}

// peak estimates the largest sum of what pods ask for in a run: all plain pods, and half of the gangs' pods, each of the largest size.
func peak(pods []Pod, c Churning) [dims]int64 {
	sum := Sum(pods)
	for range c.Gangs * gangPods / 2 {
		for d, n := range gangSize(gangGPUsMax) {
			sum[d] += n
		}
	}
	return sum
}

// placeAll places pods in their order. Those of a gang go where one of it is; the first goes anywhere. What others are
// nominated for is left to them.
func (s *site) placeAll(waiting []int) {
	kept := s.nominated()
	for at, sum := range kept {
		for d, n := range sum {
			s.machines[at].Used[d] += n
		}
	}
	defer func() {
		for at, sum := range kept {
			for d, n := range sum {
				s.machines[at].Used[d] -= n
			}
		}
	}()
	for len(waiting) > 0 {
		n := slices.IndexFunc(waiting, func(i int) bool { return s.objects[i].Labels[gangLabel] != "" })
		zone := ""
		switch n {
		case -1:
			n = len(waiting)
		case 0:
			n, zone = 1, s.zoneOf(s.objects[waiting[0]].Labels[gangLabel])
		}
		machines := s.openIn(zone)
		sizes := make([]Pod, n)
		for k, i := range waiting[:n] {
			sizes[k] = s.pods[i]
		}
		for k, at := range s.place(machines, sizes) {
			s.on[waiting[k]] = at
		}
		waiting = waiting[n:]
	}
}

// zoneOf is where pods of a gang are, "" = nowhere.
func (s *site) zoneOf(gang string) string {
	for i, p := range s.objects {
		if s.on[i] >= 0 && p.Labels[gangLabel] == gang {
			return s.nodes[s.on[i]].Labels[corev1.LabelTopologyZone]
		}
	}
	return ""
}

// openIn are the machines, of which those of other zones and those that take no pods yet have nothing.
func (s *site) openIn(zone string) []packing.Machine {
	if zone == "" && len(s.held) == 0 {
		return s.machines
	}
	out := slices.Clone(s.machines)
	for i, n := range s.nodes {
		if zone != "" && n.Labels[corev1.LabelTopologyZone] != zone || slices.Contains(s.held, i) {
			out[i].Capacity = make([]int64, dims)
		}
	}
	return out
}
