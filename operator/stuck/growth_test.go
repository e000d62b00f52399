package stuck

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// growing are clusters with ten pods a node, of which twice as large ones are about twice the work for the planner.
var growing = []struct {
	name string
	node func(i int, n *corev1.Node)
	pod  func(i int, p *corev1.Pod, request *api.CapacityRequest) // of every second one, which has no node; nil = all have one
}{
	{"half of the room is free", nil, nil},
	{"machines of many sizes", func(i int, n *corev1.Node) {
		n.Status.Allocatable = resources(fmt.Sprintf("cpu=%d memory=%dGi pods=110", 16<<(i%3), 64<<(i/3%4)))
	}, nil},
	{"new nodes that pods fit on", func(_ int, n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon) }, func(int, *corev1.Pod, *api.CapacityRequest) {}},
	{"new nodes that are too small for pods of many rows", func(_ int, n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon) }, func(i int, p *corev1.Pod, request *api.CapacityRequest) {
		request.Spec.Priority = int32(i % 50)
		p.Spec.Containers[0].Resources.Requests = resources("cpu=12 memory=40Gi")
	}},
	{"pods of a size of their own each that no machine holds", nil, func(i int, p *corev1.Pod, _ *api.CapacityRequest) {
		p.Spec.Containers[0].Resources.Requests = resources(fmt.Sprintf("cpu=%dm memory=1Gi", 20_000+i))
	}},
	{"pods that no node is labelled for", nil, func(_ int, p *corev1.Pod, _ *api.CapacityRequest) {
		p.Spec.NodeSelector = map[string]string{"no": "such"}
	}},
	{"pods that must not meet, and are in every zone", nil, func(_ int, p *corev1.Pod, _ *api.CapacityRequest) {
		p.Labels = map[string]string{"app": "x"}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "y"}}},
		}}}
	}},
	{"new nodes without room while the scheduler is busy", func(_ int, n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon) }, func(i int, p *corev1.Pod, _ *api.CapacityRequest) {
		p.Spec.Containers[0].Resources.Requests = resources("cpu=12 memory=40Gi")
		if i == 0 {
			p.Status.Conditions[0].Status, p.Status.Conditions[0].LastTransitionTime = corev1.ConditionTrue, metav1.NewTime(noon)
		}
	}},
	{"groups of four", nil, func(i int, _ *corev1.Pod, request *api.CapacityRequest) {
		request.Spec.CoLocation = &api.CoLocation{TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": fmt.Sprint(i / 8)}}}
	}},
	{"groups of four that say whom they are with", nil, func(i int, p *corev1.Pod, request *api.CapacityRequest) {
		with := &metav1.LabelSelector{MatchLabels: map[string]string{"group": fmt.Sprint(i / 8)}}
		request.Spec.CoLocation = &api.CoLocation{TopologyKey: corev1.LabelTopologyZone, LabelSelector: with}
		p.Labels = with.MatchLabels
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: with}}}}
	}},
	{"groups on one host each while nodes wait for nominations", func(i int, n *corev1.Node) {
		n.Labels = map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelHostname: n.Name}
		if i%2 == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule}}
		}
	}, func(i int, p *corev1.Pod, request *api.CapacityRequest) {
		p.Spec.Containers[0].Resources.Requests = resources("cpu=2 memory=8Gi")
		request.Spec.CoLocation = &api.CoLocation{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": fmt.Sprint(i / 8)}}}
	}},
	{"nodes that wait for nominations", func(i int, n *corev1.Node) {
		if i%2 == 0 {
			n.Spec.Taints = []corev1.Taint{{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule}}
		}
	}, func(int, *corev1.Pod, *api.CapacityRequest) {}},
}

// grow makes a cluster of so many pods.
func grow(pods int, node func(int, *corev1.Node), pod func(int, *corev1.Pod, *api.CapacityRequest)) *cluster {
	const perNode = 10
	c, r := &cluster{}, rand.New(rand.NewPCG(1, 0))
	for i := range pods / perNode {
		c.node(fmt.Sprint("n", i), "cpu=16 memory=64Gi pods=110", func(n *corev1.Node) {
			if node != nil {
				node(i, n)
			}
		})
	}
	for i := range pods {
		on, asks := c.Nodes[i%len(c.Nodes)].Name, fmt.Sprintf("cpu=%dm memory=%dMi", 500+100*r.IntN(10), 1024+256*r.IntN(8))
		if pod != nil && i/len(c.Nodes)%2 == 0 {
			on = ""
		}
		p := c.pod(fmt.Sprint("p", i), on, asks)
		if on == "" {
			pod(i, p, c.Requests[len(c.Requests)-1])
		}
	}
	last := c.Pods[len(c.Pods)-1]
	last.Labels = map[string]string{"app": "y"}
	c.Now = noon
	return c
}

// TestPlanGrowsWithTheCluster: what planning allocates in a cluster of twice the size is at most three times as much. Where pods or
// machines were compared with all others, it was four or eight times.
func TestPlanGrowsWithTheCluster(t *testing.T) {
	for _, x := range growing {
		t.Run(x.name, func(t *testing.T) {
			var mallocs [2]int64
			var took [2]time.Duration
			for i, pods := range []int{1500, 3000} {
				c := grow(pods, x.node, x.pod)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				since := time.Now()
				Plan(&c.View, cfg)
				Nominate(&c.View, cfg)
				took[i] = time.Since(since)
				runtime.ReadMemStats(&after)
				mallocs[i] = int64(after.Mallocs - before.Mallocs)
			}
			t.Logf("allocations: %d, in %v", mallocs, took)
			if mallocs[1] > 3*mallocs[0] {
				t.Errorf("%d allocations, %d in a cluster of twice the size", mallocs[0], mallocs[1])
			}
		})
	}
}

// BenchmarkPlan plans for 20,000 pods on 2,000 nodes.
func BenchmarkPlan(b *testing.B) {
	for _, x := range growing {
		b.Run(x.name, func(b *testing.B) {
			c := grow(20_000, x.node, x.pod)
			for b.Loop() {
				Plan(&c.View, cfg)
				Nominate(&c.View, cfg)
			}
		})
	}
}
