package stuck

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// member adds a pod of a group that must be in one zone.
func (c *cluster) member(name, on string, change ...func(*corev1.Pod)) {
	c.pod(name, on, "cpu=2 memory=4Gi", change...)
	c.Requests[len(c.Requests)-1].Spec.CoLocation = &api.CoLocation{
		TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": "1"}},
	}
}

func inZone(zone string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: zone} }
}

// said is what the overhead of groups says: the domain, and the cores that they ask for at the least.
func (c *cluster) said() (out string) {
	for _, r := range c.Requests {
		if r.Spec.CoLocation != nil && r.Labels[api.LabelPackingOverhead] != "" {
			out += r.Annotations[api.AnnotationDomain] + " " + r.Spec.Resources.Cpu().String()
		}
	}
	return out
}

// astray is a group of three whose machines are in zone a, and one pod of it on a machine of zone b that is full now.
func astray() *cluster {
	c := &cluster{}
	c.node("a1", "cpu=4 memory=16Gi pods=110")
	c.node("a2", "cpu=4 memory=16Gi pods=110")
	c.node("b1", "cpu=4 memory=16Gi pods=110", inZone("b"))
	c.member("g1", "b1")
	c.member("g2", "")
	c.member("g3", "")
	c.pod("full", "b1", "cpu=2 memory=4Gi")
	return c
}

// TestGroups: a group whose pods are stuck says where it is; then it asks for more.
func TestGroups(t *testing.T) {
	node := func(zone string, age time.Duration) func(*cluster) {
		return func(c *cluster) {
			c.node("new", "cpu=4 memory=16Gi pods=110", inZone(zone), func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-age)) })
		}
	}
	coming := func(zone string) func(*cluster) {
		return func(c *cluster) {
			withUpcoming(c, api.NodeProvisioning, "cpu=4 memory=16Gi pods=110")
			c.Upcoming[len(c.Upcoming)-1].Spec.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		}
	}
	for name, c := range map[string]struct {
		change      func(*cluster)
		want, later string // what the group says, and half a minute later
	}{
		"one pod is elsewhere": {func(*cluster) {}, "b 2", "b 10"},
		"not before its time":  {func(c *cluster) { stuckFor(c, 10*time.Second) }, "", "b 2"},
		"nobody has heard of it": {func(c *cluster) {
			c.Requests[1].Status.Phase, c.Requests[2].Status.Phase = api.RequestPending, api.RequestPending
		}, "", ""},
		"a machine comes there":     {coming("b"), "", ""},
		"a machine comes elsewhere": {coming("a"), "b 2", "b 10"},
		"one comes for two": {func(c *cluster) {
			withUpcoming(c, api.NodeProvisioning, "cpu=2 memory=16Gi pods=110")
			c.Upcoming[len(c.Upcoming)-1].Spec.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
		}, "b 2", "b 8"},
		"the machine of a full node comes": {func(c *cluster) { c.Upcoming[2].Status.Phase = api.NodeRegistered }, "b 2", "b 10"},
		"a new node tells of its cores later": {func(c *cluster) {
			node("b", 10*time.Second)(c)
			c.Upcoming[3].Status.Phase, c.Nodes[3].Status.Allocatable = api.NodeRegistered, resources("memory=16Gi pods=110")
		}, "", "b 2"},
		"both are nominated": {func(c *cluster) {
			c.node("b2", "cpu=4 memory=16Gi pods=110", inZone("b"))
			c.Pods[1].Status.NominatedNodeName, c.Pods[2].Status.NominatedNodeName = "b2", "b2"
		}, "", ""},
		"both were nominated for a node that is gone": {func(c *cluster) {
			c.Pods[1].Status.NominatedNodeName, c.Pods[2].Status.NominatedNodeName = "b2", "b2"
		}, "b 2", "b 10"},
		"a new node is there":  {node("b", 10*time.Second), "", "b 2"},
		"a new node elsewhere": {node("a", 10*time.Second), "b 2", "b 10"},
		"none is placed":       {func(c *cluster) { c.Pods[0].Spec.NodeName = "" }, " 10", " 14"},
		"the shard does not know the zone": {func(c *cluster) {
			for _, u := range c.Upcoming {
				u.Spec.Labels = nil
			}
		}, " 10", " 14"},
		"it is in two zones": {func(c *cluster) { c.Pods[1].Spec.NodeName = "a1" }, " 8", " 10"},
		"all run":            {func(c *cluster) { c.Pods[1].Spec.NodeName, c.Pods[2].Spec.NodeName = "b1", "b1" }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := astray()
			c.change(k)
			k.after(0)
			if got := k.said(); got != c.want {
				t.Errorf("it says %q, want %q", got, c.want)
			}
			k.after(30 * time.Second)
			if got := k.said(); got != c.later {
				t.Errorf("half a minute later it says %q, want %q", got, c.later)
			}
		})
	}
}

// TestGroupsThatMove: while one group says where it is, no other asks for more, unless it has waited for long.
func TestGroupsThatMove(t *testing.T) {
	for _, c := range []struct {
		since       time.Duration
		want, later string
	}{{20 * time.Second, "b 2", "b 10 4"}, {time.Minute, "b 2 4", "b 10 6"}} {
		k := astray()
		k.member("h1", "")
		k.Requests[len(k.Requests)-1].Spec.CoLocation.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": "2"}}
		stuckFor(k, c.since)
		k.after(0)
		if got := k.said(); got != c.want {
			t.Errorf("stuck for %v: they say %q, want %q", c.since, got, c.want)
		}
		k.after(30 * time.Second)
		if got := k.said(); got != c.later {
			t.Errorf("stuck for %v: half a minute later they say %q, want %q", c.since, got, c.later)
		}
	}
}

// TestGroupsInTheirOrder: two groups wait for the two machines that come, one of which is large enough for the second group alone, or in
// the only zone where it may run. No pod is stuck, in whatever order the groups' names are.
func TestGroupsInTheirOrder(t *testing.T) {
	const gpus = " nvidia.com/gpu="
	for name, c := range map[string]struct {
		first, second string // what a pod of each asks for
		small         string // the machine that is in zone a
	}{
		"larger pods":     {"cpu=1 memory=1Gi" + gpus + "1", "cpu=1 memory=1Gi" + gpus + "4", "cpu=8 memory=32Gi pods=110" + gpus + "1"},
		"it is in zone b": {"cpu=1 memory=1Gi" + gpus + "4", "cpu=1 memory=1Gi" + gpus + "4", "cpu=8 memory=32Gi pods=110" + gpus + "4"},
	} {
		k := &cluster{}
		k.node("b1", "cpu=4 memory=16Gi pods=110"+gpus+"4", inZone("b"))
		k.member("h0", "b1", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(c.second) })
		for _, x := range []struct{ name, asks string }{{"g1", c.first}, {"h1", c.second}} {
			k.member(x.name, "", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources(x.asks) })
			k.Requests[len(k.Requests)-1].Spec.Resources = resources(x.asks)
		}
		for i, job := range []string{"z", "a", "z"} {
			k.Requests[i].Spec.CoLocation.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": job}}
		}
		for zone, has := range map[string]string{"a": c.small, "b": "cpu=8 memory=32Gi pods=110" + gpus + "4"} {
			withUpcoming(k, api.NodeProvisioning, has)
			k.Upcoming[len(k.Upcoming)-1].Spec.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		}
		k.after(0)
		if got := k.said(); got != "" {
			t.Errorf("%s: groups say %q", name, got)
		}
	}
}

// stuckFor has all pods be unschedulable for so long.
func stuckFor(c *cluster, d time.Duration) {
	for _, p := range c.Pods {
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon.Add(-d))
		}
	}
}

// TestGroupIsGone: what was said of a group goes with its last pod.
func TestGroupIsGone(t *testing.T) {
	k := astray()
	k.after(0)
	k.Pods, k.Requests = k.Pods[3:], k.Requests[3:]
	k.after(time.Minute)
	if got := k.said(); got != "" {
		t.Errorf("it says %q", got)
	}
}

// TestGroupGetsMore: more is asked for while no machine comes, and no more once five have come in vain.
func TestGroupGetsMore(t *testing.T) {
	k := astray()
	at := time.Duration(0)
	for _, want := range []string{"b 2", "b 10", "b 14", "b 22"} {
		k.after(at)
		if got := k.said(); got != want {
			t.Errorf("after %v it says %q, want %q", at, got, want)
		}
		at += 30 * time.Second
	}
	given := false
	for i := range 2 * FailuresMax {
		k.node(string(rune('m'+i)), "cpu=4 memory=16Gi pods=110", inZone("b"), func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(at - 20*time.Second)) })
		for _, note := range Plan(&View{Pods: k.Pods, Nodes: k.Nodes, Requests: k.Requests, Upcoming: k.Upcoming, Now: noon.Add(at)}, cfg).Notes {
			given = given || note.Reason == GivenUp
		}
		k.after(at)
		at += 30 * time.Second
	}
	if !given {
		t.Error("nobody is told that machines do not help")
	}
}

// TestGroupRests: a group whose pods stay stuck asks for no more after some time, at once where the shard says that its machines
// are not there, and nothing is written any more.
func TestGroupRests(t *testing.T) {
	for name, c := range map[string]struct {
		unmet bool
		last  int // round with the last change
	}{
		"no machine comes":   {false, 10},
		"the shard has none": {true, 2},
	} {
		k, last, was := astray(), 0, ""
		for i := range 40 {
			if c.unmet {
				for _, r := range k.Requests {
					r.Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionFalse}}
				}
			}
			said := k.after(time.Duration(i) * 31 * time.Second)
			if is := k.said(); is != was || strings.Contains(said, "write") {
				last, was = i, is
			}
		}
		if was == "" || last > c.last {
			t.Errorf("%s: the last write is in round %d, and says %q", name, last, was)
		}
	}
}
