package stuck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/mirror"
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

// node adds a node of zone a, and the machine that the shard says it is.
func (c *cluster) node(name, allocatable string, change ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "a"}}}
	n.Status.Allocatable = resources(allocatable)
	for _, f := range change {
		f(n)
	}
	c.Nodes = append(c.Nodes, n)
	c.Upcoming = append(c.Upcoming, &api.UpcomingNode{
		ObjectMeta: metav1.ObjectMeta{Name: mirror.NodeName(name)}, Spec: api.UpcomingNodeSpec{Resources: n.Status.Allocatable, Labels: n.Labels},
		Status: api.UpcomingNodeStatus{Phase: api.NodeReady},
	})
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
func (c *cluster) after(d time.Duration) string { return c.with(d, cfg) }

// with is after, for a planner that is as patient as that.
func (c *cluster) with(d time.Duration, cfg Config) string {
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

// Its nodes have 8 cores and 32 GiB. What is held is these; what is added is these and what the pod asks for.
const (
	held  = "write cpu=8 memory=32Gi pods=220"
	added = "write cpu=10 memory=36Gi pods=221; c: MachineAsked"
)

func TestRaise(t *testing.T) {
	for name, c := range map[string]struct {
		cluster *cluster
		at      time.Duration
		want    string
	}{
		"room in pieces":             {inPieces(), 0, added},
		"not before its time":        {inPieces(), -50 * time.Second, held},
		"the sums do not cover it":   {func() *cluster { c := inPieces(); c.pod("d", "", "cpu=2"); return c }(), 0, "write cpu=12 memory=36Gi pods=222; c: MachineAsked; d: MachineAsked"},
		"it is larger than any node": {func() *cluster { c := inPieces(); c.pod("d", "", "cpu=5"); return c }(), 0, "write cpu=13 memory=36Gi pods=221; d: NoMachineWouldHelp; c: MachineAsked"},
		"it comes to a new node": {func() *cluster {
			c := inPieces()
			c.node("n3", "cpu=8 memory=32Gi pods=110", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-5 * time.Second)) })
			return c
		}(), 0, "write cpu=16 memory=64Gi pods=330"},
		"a machine is on its way":      {withUpcoming(inPieces(), api.NodeLaunched, "cpu=8 memory=32Gi"), 0, "write cpu=16 memory=64Gi pods=220"},
		"one that is too small is not": {withUpcoming(inPieces(), api.NodeLaunched, "cpu=1 memory=32Gi"), 0, "write cpu=11 memory=68Gi pods=221; c: MachineAsked"},
		"one that failed is not":       {withUpcoming(inPieces(), api.NodeFailed, "cpu=8 memory=32Gi"), 0, added},
		"a taint that it does not tolerate": {func() *cluster {
			c := inPieces()
			for _, n := range c.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			}
			return c
		}(), 0, held + "; c: NoMachineWouldHelp"},
		"a taint that it tolerates": {func() *cluster {
			c := inPieces(func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
			})
			for _, n := range c.Nodes {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			}
			return c
		}(), 0, added},
		"a selector that no node fits": {inPieces(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }), 0, held + "; c: NoMachineWouldHelp"},
		"a resource that no node has":  {inPieces(func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["gpu.io/gpu"] = resource.MustParse("1") }), 0, held + "; c: NoMachineWouldHelp"},
		"anti-affinity by host":        {inPieces(away(corev1.LabelHostname)), 0, added},
		"anti-affinity by zone":        {inPieces(away(corev1.LabelTopologyZone)), 0, held + "; c: NoMachineWouldHelp"},
		"what a DaemonSet takes is not there on an empty node either": {func() *cluster {
			c := inPieces()
			for _, n := range []string{"n1", "n2"} {
				c.pod("ds-"+n, n, "cpu=1", func(p *corev1.Pod) {
					p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "ds", Controller: new(true)}}
				})
			}
			c.Pods[2].Spec.Containers[0].Resources.Requests = resources("cpu=3500m memory=1Gi")
			return c
		}(), 0, "write cpu=11500m memory=33Gi pods=221; c: NoMachineWouldHelp"},
		"spread is left to the shard": {func() *cluster {
			c := inPieces()
			c.Requests[2].Spec.TopologySpread = []api.TopologySpread{{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule}}
			return c
		}(), 0, held},
		"a group asks for itself": {func() *cluster {
			c := inPieces()
			c.Requests[2].Spec.CoLocation = &api.CoLocation{TopologyKey: "rack"}
			return c
		}(), 0, held + "; write cpu=4 memory=8Gi pods=2; c: MachineAsked"},
		"nobody acknowledged it": {func() *cluster { c := inPieces(); c.Requests[2].Status = api.CapacityRequestStatus{}; return c }(), 0, added},
		"it is left out": {func() *cluster {
			c := inPieces()
			c.Requests[2].Status = api.CapacityRequestStatus{Conditions: []metav1.Condition{{Type: api.ConditionReported, Status: metav1.ConditionFalse}}}
			return c
		}(), 0, held},
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
		{30 * time.Second, nil, strings.TrimSuffix(added, "; c: MachineAsked")}, // no machine came
		{time.Minute, nil, "write cpu=12 memory=40Gi pods=222"},                 // again
		{90 * time.Second, nil, "write cpu=16 memory=48Gi pods=224"},
		{105 * time.Second, nil, ""},
		{2 * time.Minute, func() { // a machine comes, and the pod does not run
			c.node("n3", "cpu=8 memory=32Gi pods=110", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(91 * time.Second)) })
		}, "write cpu=18 memory=68Gi pods=331"},
		// It runs. The three nodes are held, and are more than is needed.
		{4 * time.Minute, func() { c.Pods[2].Spec.NodeName, c.Pods[2].Status.Conditions = "n3", nil }, "write cpu=16 memory=64Gi pods=330"},
		{13 * time.Minute, nil, ""},
		{14 * time.Minute, nil, "write cpu=8 memory=32Gi pods=110"}, // a and b find room on n3
		{14*time.Minute + 50*time.Second, nil, ""},
		{15*time.Minute + 10*time.Second, func() { // n1 leaves
			c.Nodes[0].Spec.Unschedulable, c.Pods[0].Spec.NodeName = true, "n3"
		}, "write cpu=8 memory=32Gi pods=110"},
		{16 * time.Minute, func() { c.pod("e", "n3", "cpu=3 memory=1Gi") }, ""},
		{17 * time.Minute, nil, "write cpu=12 memory=48Gi pods=220"}, // n2 has stayed, and is needed
		{50 * time.Minute, nil, ""},
		{51 * time.Minute, func() { c.Nodes[1].Spec.Unschedulable, c.Nodes[2].Spec.Unschedulable = true, true }, "delete"}, // the sums say it all
		{52 * time.Minute, nil, ""},
	} {
		if step.do != nil {
			step.do()
		}
		if got := c.after(step.at); got != step.want {
			t.Errorf("after %v: %q, want %q", step.at, got, step.want)
		}
	}
}

// TestEpisodes: what did not help some pods says nothing about those that are stuck later.
func TestEpisodes(t *testing.T) {
	c := inPieces()
	for i := range 3 * FailuresMax {
		from := time.Duration(i) * 10 * time.Minute
		if got := c.after(from); !strings.Contains(got, "MachineAsked") {
			t.Fatalf("the %d. time: %q", i+1, got)
		}
		c.Pods[2].Spec.NodeName, c.Pods[2].Status.Conditions = "n3", nil
		c.node("n3", "cpu=2 memory=8Gi pods=110", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(from + time.Minute)) })
		c.after(from + 2*time.Minute)
		// It goes with its node, and another comes that does not fit.
		c.Nodes, c.Upcoming = c.Nodes[:2], c.Upcoming[:2]
		c.Pods[2].Spec.NodeName = ""
		c.Pods[2].Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon),
		}}
	}
}

// TestUnmet: while the shard answers that the machines are not there, nobody else took them, and no more is asked for.
func TestUnmet(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster)
		more   string
	}{
		"in a plan": {func(*cluster) {}, "write cpu=10 memory=36Gi pods=221, write cpu=12 memory=40Gi pods=222"},
		"as overhead": {func(c *cluster) { // others have the plan
			for _, n := range []string{"m1", "m2", "m3"} {
				c.node(n, "cpu=4 memory=16Gi pods=110")
				c.pod("on-"+n, n, "cpu=3 memory=4Gi", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "a"} })
			}
		}, "write cpu=12 memory=40Gi pods=222; c: MachineAsked, write cpu=16 memory=48Gi pods=224; c: MachineAsked"},
	} {
		t.Run(name, func(t *testing.T) {
			k := inPieces()
			c.change(k)
			if got := k.after(0); !strings.Contains(got, "MachineAsked") {
				t.Fatalf("at first %q", got)
			}
			asked := slices.IndexFunc(k.Requests, func(r *api.CapacityRequest) bool { return r.Name == "cr-c" })
			answer := func(is metav1.ConditionStatus) {
				k.Requests[asked].Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: is}}
			}
			answer(metav1.ConditionFalse)
			for at := 15 * time.Second; at < 10*time.Minute; at += 15 * time.Second {
				if got := k.after(at); got != "" {
					t.Fatalf("after %v: %q", at, got)
				}
			}
			answer(metav1.ConditionTrue)
			got := k.after(10*time.Minute) + ", " + k.after(10*time.Minute+2*cfg.After)
			if got != c.more {
				t.Errorf("when others took them %q, want %q", got, c.more)
			}
		})
	}
}

// TestHeld: what counts as a machine that a row uses.
func TestHeld(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster)
		want   string
	}{
		"both":                            {func(*cluster) {}, "write cpu=8 memory=32Gi pods=220"},
		"one that is no machine":          {func(c *cluster) { c.Upcoming = c.Upcoming[1:] }, "write cpu=4 memory=16Gi pods=110"},
		"one that the shard counts lower": {func(c *cluster) { c.Upcoming[0].Spec.Resources = resources("cpu=3500m memory=20Gi") }, "write cpu=7500m memory=32Gi pods=220"},
		"one that leaves":                 {func(c *cluster) { c.Nodes[0].Spec.Unschedulable = true }, "write cpu=4 memory=16Gi pods=110"},
		"one that is to leave":            {func(c *cluster) { c.Upcoming[0].Status.Phase = api.NodeDraining }, "write cpu=4 memory=16Gi pods=110"},
		"by its provider id": {func(c *cluster) {
			c.Nodes[0].Spec.ProviderID = "made://host-7"
			c.Upcoming[0].Name, c.Upcoming[0].Status.ProviderID = "un-x", "host-7"
		}, "write cpu=8 memory=32Gi pods=220"},
		"by its node's name": {func(c *cluster) {
			c.Upcoming[0].Name, c.Upcoming[0].Status.NodeRef = "un-x", &corev1.ObjectReference{Name: "n1"}
		}, "write cpu=8 memory=32Gi pods=220"},
		"with pods of nobody": {func(c *cluster) {
			c.pod("ds", "n1", "cpu=1")
			c.Requests = c.Requests[:2]
		}, "write cpu=8 memory=32Gi pods=220"},
		"not where others have more, in a group": {func(c *cluster) {
			c.pod("g", "n1", "cpu=1 memory=12Gi")
			c.Requests[2].Spec.CoLocation = &api.CoLocation{TopologyKey: "rack"}
		}, "write cpu=4 memory=16Gi pods=110"},
		"where another row has less": {func(c *cluster) { c.pod("g", "n1", "cpu=1"); c.Requests[2].Spec.Priority = 5 }, "write cpu=8 memory=32Gi pods=220"},
		"one that is too small for the row's largest pod": {func(c *cluster) {
			c.node("n3", "cpu=1 memory=16Gi pods=110")
			c.pod("d", "n3", "cpu=1 memory=4Gi")
		}, "write cpu=9 memory=48Gi pods=330"},
		"what nobody asks for is not held": {func(c *cluster) {
			c.Nodes[0].Status.Allocatable = resources("cpu=4 memory=16Gi pods=110 ephemeral-storage=8Gi hugepages-2Mi=1Gi")
		}, "write cpu=8 memory=32Gi pods=220"},
		"one with a device that nobody asks for": {func(c *cluster) {
			c.Nodes[0].Status.Allocatable = resources("cpu=4 memory=16Gi pods=110 gpu.io/gpu=8")
		}, "write cpu=4 memory=16Gi pods=110"},
		"one without pods":                   {func(c *cluster) { c.node("n3", "cpu=4 memory=16Gi pods=110") }, "write cpu=12 memory=48Gi pods=330"},
		"one without pods that has a device": {func(c *cluster) { c.node("n3", "cpu=4 memory=16Gi pods=110 gpu.io/gpu=1") }, "write cpu=8 memory=32Gi pods=220"},
		"one without pods, beside pods that wait for a device": {func(c *cluster) {
			c.node("n3", "cpu=4 memory=16Gi pods=110")
			c.pod("g", "", "cpu=4 gpu.io/gpu=1")
			c.Requests[2].Spec.CoLocation, c.Requests[2].Status = &api.CoLocation{TopologyKey: "rack"}, api.CapacityRequestStatus{}
		}, "write cpu=12 memory=48Gi pods=330"},
		"one without pods that others wait for": {func(c *cluster) {
			c.node("n3", "cpu=4 memory=16Gi pods=110")
			c.pod("g", "", "cpu=4")
			c.Requests[2].Spec.CoLocation, c.Requests[2].Status = &api.CoLocation{TopologyKey: "rack"}, api.CapacityRequestStatus{}
		}, "write cpu=8 memory=32Gi pods=220"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &cluster{}
			k.node("n1", "cpu=4 memory=16Gi pods=110")
			k.node("n2", "cpu=4 memory=16Gi pods=110")
			k.pod("a", "n1", "cpu=2500m memory=4Gi") // no two of them find room on one
			k.pod("b", "n2", "cpu=2500m memory=4Gi")
			c.change(k)
			if got := k.after(0); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if got := k.after(5 * time.Second); got != "" {
				t.Errorf("and then %q", got)
			}
		})
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

// TestNearest: of several nodes that would not do, the one that comes nearest says why.
func TestNearest(t *testing.T) {
	c := inPieces(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	c.node("n9", "cpu=4 memory=16Gi pods=110", func(n *corev1.Node) {
		n.Labels = map[string]string{"disk": "ssd"}
		n.Spec.Taints = []corev1.Taint{{Key: "fleet", Value: "shared", Effect: corev1.TaintEffectNoSchedule}}
	})
	c.Now = noon
	for _, n := range Plan(&c.View, cfg).Notes {
		if n.Reason == NoHelp && strings.Contains(n.Message, "it does not tolerate the taint fleet=shared:NoSchedule") {
			return
		}
	}
	t.Errorf("nothing names the taint: %v", Plan(&c.View, cfg).Notes)
}

// TestManyLeave: of a row that uses little of what it has, a quarter of its machines is taken back at a time.
func TestManyLeave(t *testing.T) {
	c := &cluster{}
	for i := range 16 {
		name := fmt.Sprintf("n%02d", i)
		c.node(name, "cpu=4 memory=16Gi pods=110")
		c.pod("p-"+name, name, "cpu=1 memory=1Gi")
	}
	want := []string{"write cpu=64 memory=256Gi pods=1760", "", "write cpu=48 memory=192Gi pods=1320", "", ""} // at last the shard keeps them
	for i, at := range []time.Duration{0, time.Minute, 11 * time.Minute, 13 * time.Minute, time.Hour} {
		if got := c.after(at); got != want[i] {
			t.Errorf("after %v: %q, want %q", at, got, want[i])
		}
	}
}

// TestOthersLeave: where a shard gives back other machines than those that were spare, no more are given back.
func TestOthersLeave(t *testing.T) {
	c := &cluster{}
	for i := range 16 {
		name := fmt.Sprintf("n%02d", i)
		c.node(name, "cpu=4 memory=16Gi pods=110")
		c.pod("p-"+name, name, "cpu=1 memory=1Gi")
	}
	c.after(0)
	const less = "write cpu=48 memory=192Gi pods=1320"
	if got := c.after(11 * time.Minute); got != less {
		t.Fatalf("%q, want %q", got, less)
	}
	for i := range 4 {
		c.Pods[i].Spec.NodeName = c.Nodes[4+i].Name
	}
	c.Nodes, c.Upcoming = c.Nodes[4:], c.Upcoming[4:]
	if got := c.after(11*time.Minute + 30*time.Second); got != less {
		t.Errorf("%q, and four machines have left", got)
	}
}

// TestSoon: one that keeps what is spare for less than a minute takes it back sooner.
func TestSoon(t *testing.T) {
	c := &cluster{}
	for i := range 16 {
		name := fmt.Sprintf("n%02d", i)
		c.node(name, "cpu=4 memory=16Gi pods=110")
		c.pod("p-"+name, name, "cpu=1 memory=1Gi")
	}
	soon := Config{After: cfg.After, Keep: 10 * time.Second}
	for i, want := range []string{"write cpu=64 memory=256Gi pods=1760", "", "write cpu=48 memory=192Gi pods=1320", ""} {
		if got := c.with(time.Duration(i)*5*time.Second, soon); got != want {
			t.Errorf("after %d s: %q, want %q", 5*i, got, want)
		}
	}
	if c.Nodes = c.Nodes[:12]; c.with(20*time.Second, soon) == "" { // four machines have left
		t.Error("after a step nothing is looked at for as long as where spare machines are kept for minutes")
	}
}

// TestSmallSteps: a shard gives back what it likes, so a machine is not taken back when another of its
// size cannot be missed.
func TestSmallSteps(t *testing.T) {
	c := &cluster{}
	c.node("n1", "cpu=4 memory=16Gi pods=110")
	c.node("n2", "cpu=4 memory=16Gi pods=110")
	c.node("n3", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n1", "cpu=1 memory=1Gi")
	c.pod("b", "n2", "cpu=4 memory=1Gi")
	c.pod("c", "n3", "cpu=4 memory=1Gi")
	c.pod("d", "n3", "cpu=2 memory=1Gi")
	c.after(0)
	if got := c.after(time.Minute); got != "" {
		t.Errorf("%q, and b has nowhere to go", got)
	}
	c.Pods[1].Spec.Containers[0].Resources.Requests = resources("cpu=1 memory=1Gi")
	if got := c.after(2 * time.Minute); got == "" {
		t.Error("nothing is spare, and either of a and b has room elsewhere")
	}
}

// TestAnotherMayGo: a shard that is asked for less gives back any machine that offers no more than the spare one, the dearest
// first, so nothing is given back where one of these cannot be missed.
func TestAnotherMayGo(t *testing.T) {
	c := &cluster{}
	c.node("n1", "cpu=8 memory=16Gi pods=110")
	c.node("n2", "cpu=8 memory=16Gi pods=110")
	c.node("n3", "cpu=8 memory=32Gi pods=110")
	c.node("n4", "cpu=8 memory=32Gi pods=110")
	full := c.pod("a", "n1", "cpu=7 memory=14Gi")
	c.pod("b", "n2", "cpu=4 memory=4Gi")
	c.pod("c", "n3", "cpu=4 memory=4Gi")
	c.pod("d", "n4", "cpu=2 memory=1Gi")
	c.after(0)
	if got := c.after(11 * time.Minute); got != "" {
		t.Errorf("%q, and a has nowhere to go if n1 leaves", got)
	}
	full.Spec.Containers[0].Resources.Requests = resources("cpu=2 memory=2Gi")
	c.after(12 * time.Minute)
	if got := c.after(23 * time.Minute); got != "write cpu=16 memory=64Gi pods=220" {
		t.Errorf("%q, and n1 and n2 could be missed: they lack memory that the others have", got)
	}
}

// TestAskedOften: what is asked for grows no more after a few times, and then nothing is written any more.
func TestAskedOften(t *testing.T) {
	c := inPieces()
	wrote := 0
	for i := range 40 {
		if got := c.after(time.Duration(i) * 31 * time.Second); strings.HasPrefix(got, "write") {
			wrote = i
		}
	}
	if wrote == 0 || wrote > 5 {
		t.Errorf("the last write is in round %d", wrote)
	}
}

// TestCost: what a round makes of a view in which nothing is pending.
func TestCost(t *testing.T) {
	c := &cluster{}
	c.node("n1", "cpu=64")
	for i := range 1000 {
		c.pod(fmt.Sprint("p", i), "n1", "cpu=10m")
	}
	c.after(0)
	if n := testing.AllocsPerRun(3, func() { Plan(&c.View, cfg) }); n > 20_000 {
		t.Errorf("%v objects are made for 1,000 pods", n)
	}
}
