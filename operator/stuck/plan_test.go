package stuck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

var (
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cfg  = Config{After: 15 * time.Second, Keep: 10 * time.Minute}
)

// cluster is a view that is put together.
type cluster struct{ View }

func resources(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for field := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(field, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return out
}

// node adds a node of zone a.
func (c *cluster) node(name, allocatable string, change ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
	n.Status.Allocatable = resources(allocatable)
	for _, f := range change {
		f(n)
	}
	c.Nodes = append(c.Nodes, n)
}

// pod adds a pod with its request, which was acknowledged a minute before noon; without a node it
// has been unschedulable since then.
func (c *cluster) pod(name, on, asks string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}}
	p.Spec.NodeName = on
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: resources(asks)}}}
	before := metav1.NewTime(noon.Add(-time.Minute))
	if on == "" {
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: before,
		}}
	}
	for _, f := range change {
		f(p)
	}
	r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "cr-" + name, Labels: map[string]string{api.LabelOwnedByPod: name}}}
	r.Spec.Resources = resources(asks)
	for key, value := range p.Spec.NodeSelector {
		r.Spec.Requirements = append(r.Spec.Requirements, api.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	r.Status = api.CapacityRequestStatus{Phase: api.RequestAcknowledged, AcknowledgedAt: &before, SizeClass: new(int32(1))}
	c.Pods, c.Requests = append(c.Pods, p), append(c.Requests, r)
	return p
}

// after plans a while after noon, and does what the plan says.
func (c *cluster) after(d time.Duration) string {
	c.Now = noon.Add(d)
	r := Plan(&c.View, cfg)
	var said []string
	for _, w := range r.Write {
		text := "write"
		for _, name := range []corev1.ResourceName{"cpu", "memory", "pods", "gpu.io/gpu"} {
			if q, ok := w.Spec.Resources[name]; ok {
				text += fmt.Sprintf(" %s=%s", name, q.String())
			}
		}
		said = append(said, text)
		c.drop(w.Name)
		c.Requests = append(c.Requests, w)
	}
	for _, d := range r.Delete {
		said = append(said, "delete")
		c.drop(d.Name)
	}
	for _, n := range r.Notes {
		said = append(said, fmt.Sprintf("%s: %s", n.Pod.Name, n.Reason))
	}
	return strings.Join(said, "; ")
}

func (c *cluster) drop(name string) {
	kept := c.Requests[:0]
	for _, r := range c.Requests {
		if r.Name != name {
			kept = append(kept, r)
		}
	}
	c.Requests = kept
}

// inPieces is a cluster with two nodes of 4 cores that have 1.5 cores left each, and a pod of 2.
func inPieces(change ...func(*corev1.Pod)) *cluster {
	c := &cluster{}
	c.node("n1", "cpu=4 memory=16Gi pods=110")
	c.node("n2", "cpu=4 memory=16Gi pods=110")
	c.pod("a", "n1", "cpu=2500m memory=4Gi")
	c.pod("b", "n2", "cpu=2500m memory=4Gi")
	c.pod("c", "", "cpu=2 memory=4Gi", change...)
	return c
}

const added = "write cpu=3 memory=24Gi pods=218; c: MachineAsked"

func TestRaise(t *testing.T) {
	for name, c := range map[string]struct {
		cluster *cluster
		at      time.Duration
		want    string
	}{
		"room in pieces":               {inPieces(), 0, added},
		"not before its time":          {inPieces(), -50 * time.Second, ""},
		"the sums do not cover it":     {func() *cluster { c := inPieces(); c.pod("d", "", "cpu=2"); return c }(), 0, ""},
		"it is larger than any node":   {func() *cluster { c := inPieces(); c.pod("d", "", "cpu=5"); return c }(), 0, "d: NoMachineWouldHelp"},
		"a machine is on its way":      {withUpcoming(inPieces(), api.NodeLaunched, "cpu=8 memory=32Gi"), 0, ""},
		"one that is too small is not": {withUpcoming(inPieces(), api.NodeLaunched, "cpu=1 memory=32Gi"), 0, added},
		"one that failed is not":       {withUpcoming(inPieces(), api.NodeFailed, "cpu=8 memory=32Gi"), 0, added},
		"a taint that it does not tolerate": {func() *cluster {
			c := inPieces()
			for _, n := range c.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			}
			return c
		}(), 0, "c: NoMachineWouldHelp"},
		"a taint that it tolerates": {func() *cluster {
			c := inPieces(func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
			})
			for _, n := range c.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			}
			return c
		}(), 0, added},
		"a selector that no node fits": {inPieces(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), 0, "c: NoMachineWouldHelp"},
		"a resource that no node has":  {inPieces(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["gpu.io/gpu"] = resource.MustParse("1") }), 0, "c: NoMachineWouldHelp"},
		"anti-affinity by host":        {inPieces(away(corev1.LabelHostname)), 0, added},
		"anti-affinity by zone":        {inPieces(away(corev1.LabelTopologyZone)), 0, "c: NoMachineWouldHelp"},
		"what a DaemonSet takes is not there on an empty node either": {func() *cluster {
			c := inPieces()
			for _, n := range []string{"n1", "n2"} {
				c.pod("ds-"+n, n, "cpu=1", func(p *corev1.Pod) {
					p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
				})
			}
			c.Pods[2].Spec.Containers[0].Resources.Requests = resources("cpu=3500m memory=1Gi")
			return c
		}(), 0, "c: NoMachineWouldHelp"},
		"spread is left to the shard": {func() *cluster {
			c := inPieces()
			c.Requests[2].Spec.TopologySpread = []api.TopologySpread{{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}}
			return c
		}(), 0, ""},
		"a group is left to the shard": {func() *cluster {
			c := inPieces()
			c.Requests[2].Spec.CoLocation = &api.CoLocation{TopologyKey: "rack"}
			return c
		}(), 0, ""},
		"nobody acknowledged it": {func() *cluster { c := inPieces(); c.Requests[2].Status = api.CapacityRequestStatus{}; return c }(), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.cluster.after(c.at); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func withUpcoming(c *cluster, phase api.NodePhase, has string) *cluster {
	c.Upcoming = append(c.Upcoming, &api.UpcomingNode{Spec: api.UpcomingNodeSpec{Resources: resources(has)}, Status: api.UpcomingNodeStatus{Phase: phase}})
	return c
}

// away keeps a pod from where pods with its label are, and gives both others on nodes that label.
func away(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: key, LabelSelector: &metav1.LabelSelector{}},
		}}}
	}
}

// TestStory: what is asked for when it does not help, and how it is taken back.
func TestStory(t *testing.T) {
	c := inPieces()
	for _, step := range []struct {
		at   time.Duration
		do   func()
		want string
	}{
		{0, nil, added},
		{10 * time.Second, nil, ""}, // it has its time
		{30 * time.Second, nil, "write cpu=5 memory=28Gi pods=219; c: MachineAsked"}, // no machine came
		{time.Minute, nil, "write cpu=7 memory=32Gi pods=220; c: MachineAsked"},
		{90 * time.Second, nil, ""}, // that was all that the nodes have, and the pod twice
		{2 * time.Minute, func() { // a machine comes, and the pod does not run
			c.node("n3", "cpu=8 memory=32Gi pods=110", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(80 * time.Second)) })
		}, "write cpu=11 memory=40Gi pods=222; c: MachineAsked"},
		{3 * time.Minute, nil, "write cpu=15 memory=56Gi pods=226; c: MachineAsked"},
		{4 * time.Minute, func() { c.Pods[2].Spec.NodeName, c.Pods[2].Status.Conditions = "n3", nil }, ""},
		{10 * time.Minute, nil, ""},
		// Without n3 they do not fit. What the nodes have left is kept.
		{12 * time.Minute, nil, ""},
		{13 * time.Minute, func() { c.Pods[0].Status.Phase = corev1.PodSucceeded }, "write cpu=7500m memory=40Gi pods=218"},
		{14 * time.Minute, nil, ""},
		// The others fit on n3; that one is the largest, so it is not counted out.
		{30 * time.Minute, func() { c.Pods[1].Status.Phase = corev1.PodSucceeded }, "write cpu=6 memory=28Gi pods=109"},
		// On n4 alone all fit.
		{45 * time.Minute, func() { c.node("n4", "cpu=2500m memory=8Gi pods=110"); c.pod("d", "n4", "cpu=200m") }, "delete"},
		{46 * time.Minute, nil, ""},
	} {
		if step.do != nil {
			step.do()
		}
		if got := c.after(step.at); got != step.want {
			t.Fatalf("after %v: %q, want %q", step.at, got, step.want)
		}
	}
}

// TestOverheadOfNobody: when the pods of its row are gone, it goes at once.
func TestOverheadOfNobody(t *testing.T) {
	c := inPieces()
	if got := c.after(0); got != added {
		t.Fatal(got)
	}
	c.Pods = nil
	if got := c.after(time.Second); got != "delete" {
		t.Error(got)
	}
}

// TestNothingToDo: a view without pending pods costs a look at each pod.
func TestNothingToDo(t *testing.T) {
	c := &cluster{}
	c.node("n1", "cpu=64")
	for i := range 1000 {
		c.pod(fmt.Sprint("p", i), "n1", "cpu=10m")
	}
	c.Now = noon
	if n := testing.AllocsPerRun(3, func() { Plan(&c.View, cfg) }); n > 3 {
		t.Errorf("%v objects are made", n)
	}
}
