package stuck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

func awaits(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule})
	n.CreationTimestamp = metav1.NewTime(noon)
}

// nominated are the nominations, as pod>node, by name.
func (c *cluster) nominated() string {
	c.Now = noon
	var said []string
	for _, n := range Nominate(&c.View, cfg) {
		said = append(said, n.Pod.Name+">"+n.Node)
	}
	slices.Sort(said)
	return strings.Join(said, " ")
}

// daemon makes a pod one of a DaemonSet, which may run on its node alone.
func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent", UID: "agent", Controller: new(true)}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{p.Spec.NodeName}}}}},
	}}}
}

// nominating is what is there, and which pods are nominated for which nodes then.
type nominating struct {
	there func(*cluster)
	want  string
}

func checkNominated(t *testing.T, cases map[string]nominating) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			x := &cluster{}
			c.there(x)
			if got := x.nominated(); got != c.want {
				t.Errorf("nominated are %q, want %q", got, c.want)
			}
		})
	}
}

func TestNominate(t *testing.T) {
	small := func(c *cluster) { c.node("n1", "cpu=4 memory=16Gi pods=110", awaits) }
	checkNominated(t, map[string]nominating{
		"no node waits": {func(c *cluster) {
			c.node("n1", "cpu=4 memory=16Gi pods=110")
			c.pod("a", "", "cpu=1 memory=1Gi")
		}, ""},
		"the large pod before small ones, which find room on a machine on its way": {func(c *cluster) {
			small(c)
			withUpcoming(c, api.NodeProvisioning, "cpu=2 memory=4Gi pods=110")
			c.pod("a", "", "cpu=1 memory=2Gi")
			c.pod("b", "", "cpu=1 memory=2Gi")
			c.pod("large", "", "cpu=4 memory=16Gi")
		}, "large>n1"},
		"small pods find room on a node that is there": {func(c *cluster) {
			small(c)
			c.node("n0", "cpu=2 memory=4Gi pods=110")
			c.pod("a", "", "cpu=2 memory=4Gi")
			c.pod("large", "", "cpu=4 memory=16Gi")
		}, "large>n1"},
		"what is nominated keeps its room": {func(c *cluster) {
			small(c)
			c.pod("was", "", "cpu=3 memory=1Gi", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
			c.pod("a", "", "cpu=2 memory=1Gi")
			c.pod("b", "", "cpu=1 memory=1Gi")
		}, "b>n1"},
		"what is nominated for another node takes none": {func(c *cluster) {
			small(c)
			c.pod("was", "", "cpu=3 memory=1Gi", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n0" })
			c.pod("a", "", "cpu=2 memory=1Gi")
		}, "a>n1"},
		"a pod that says more about where it runs keeps its room": {func(c *cluster) {
			small(c)
			c.pod("apart", "", "cpu=3 memory=1Gi", func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway}}
			})
			c.pod("a", "", "cpu=2 memory=1Gi")
			c.pod("b", "", "cpu=1 memory=1Gi")
		}, "b>n1"},
		"nobody nominates such pods": {func(c *cluster) {
			small(c)
			affinity := func(a corev1.Affinity) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.Affinity = &a } }
			term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname}
			c.pod("anti", "", "cpu=100m", affinity(corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}))
			c.pod("near", "", "cpu=100m", affinity(corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}))
			c.pod("rather-near", "", "cpu=100m", affinity(corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}))
			c.pod("rather-there", "", "cpu=100m", affinity(corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}}}))
			c.pod("port", "", "cpu=100m", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} })
			c.pod("claim", "", "cpu=100m", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
			c.pod("volume", "", "cpu=100m", func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "v"}}}}
			})
			c.pod("gated", "", "cpu=100m", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })
			c.pod("leaves", "", "cpu=100m", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(noon)) })
			c.pod("plain", "", "cpu=100m")
		}, "plain>n1"},
		"where it may not run": {func(c *cluster) {
			small(c)
			c.Nodes[0].Spec.Taints = append(c.Nodes[0].Spec.Taints, corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule})
			c.pod("a", "", "cpu=1 memory=1Gi")
			c.pod("b", "", "cpu=1 memory=1Gi", func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "other", Operator: corev1.TolerationOpExists}}
			})
			c.pod("c", "", "cpu=1 memory=1Gi", func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "other", Operator: corev1.TolerationOpExists}}
				p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "b"}
			})
		}, "b>n1"},
		"a node that leaves": {func(c *cluster) {
			small(c)
			c.Nodes[0].Spec.Unschedulable = true
			c.pod("a", "", "cpu=1 memory=1Gi")
		}, ""},
		"room for pods of DaemonSets": {func(c *cluster) {
			small(c)
			c.node("n0", "cpu=1 memory=1Gi pods=110")
			c.pod("agent", "n0", "cpu=1 memory=1Gi", daemon)
			c.pod("a", "", "cpu=4 memory=1Gi")
			c.pod("b", "", "cpu=3 memory=1Gi")
		}, "b>n1"},
		"higher priority first": {func(c *cluster) {
			small(c)
			c.pod("a", "", "cpu=4 memory=1Gi")
			c.pod("b", "", "cpu=3 memory=1Gi", func(p *corev1.Pod) { p.Spec.Priority = new(int32(1)) })
		}, "b>n1"},
		"devices that the kubelet does not tell of yet": {func(c *cluster) {
			small(c)
			c.Upcoming[0].Spec.Resources = resources("cpu=4 memory=16Gi gpu.io/gpu=1")
			c.pod("a", "", "cpu=1 gpu.io/gpu=1")
			c.pod("b", "", "cpu=1 gpu.io/gpu=1")
		}, "a>n1"},
		"a device that the node does not have, and no node yet": {func(c *cluster) {
			small(c)
			c.pod("a", "", "cpu=1 gpu.io/gpu=1")
		}, ""},
		"a device that a machine on its way has": {func(c *cluster) {
			small(c)
			withUpcoming(c, api.NodeProvisioning, "cpu=4 memory=16Gi gpu.io/gpu=1 pods=110")
			c.pod("a", "", "cpu=4 gpu.io/gpu=1")
			c.pod("b", "", "cpu=4")
		}, "b>n1"},
		"a machine whose node the shard does not know yet counts once": {func(c *cluster) {
			withUpcoming(c, api.NodeRegistered, "cpu=4 memory=16Gi pods=110")
			c.Upcoming[0].Status.ProvisioningStartTime = new(metav1.NewTime(noon.Add(-time.Minute)))
			small(c)
			c.Upcoming = c.Upcoming[:1]
			c.pod("a", "", "cpu=2 memory=8Gi")
			c.pod("b", "", "cpu=2 memory=8Gi")
		}, "a>n1 b>n1"},
	})
}

// TestNominateSelected: pods that others buy for are nobody's business.
func TestNominateSelected(t *testing.T) {
	c := &cluster{}
	c.node("n1", "cpu=4 memory=16Gi pods=110", awaits)
	c.pod("ours", "", "cpu=2 memory=1Gi", func(p *corev1.Pod) { p.Labels = map[string]string{"fleet": "tonnage"} })
	c.pod("theirs", "", "cpu=3 memory=1Gi")
	c.Now = noon
	selected := cfg
	selected.Selector = labels.SelectorFromSet(labels.Set{"fleet": "tonnage"})
	if got := Nominate(&c.View, selected); len(got) != 1 || got[0].Pod.Name != "ours" {
		t.Errorf("nominated are %+v", got)
	}
}

// TestNominateGroups: a group goes to one domain: where it is, else to one that holds it whole. Those with most devices come first.
func TestNominateGroups(t *testing.T) {
	gang := func(c *cluster, job, on, asks string, pods ...string) {
		for _, name := range pods {
			c.pod(name, on, asks, func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone}}}}
			})
			c.Requests[len(c.Requests)-1].Spec.CoLocation = &api.CoLocation{
				TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": job}},
			}
		}
	}
	waiting := func(c *cluster, name, zone, has string) { c.node(name, has, inZone(zone), awaits) }
	checkNominated(t, map[string]nominating{
		"a domain that holds it whole": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b1", "b", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b2", "b", "cpu=4 memory=16Gi pods=110")
			gang(c, "1", "", "cpu=3 memory=4Gi", "g1", "g2")
		}, "g1>b1 g2>b2"},
		"no domain holds it whole": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b1", "b", "cpu=4 memory=16Gi pods=110")
			gang(c, "1", "", "cpu=3 memory=4Gi", "g1", "g2")
		}, ""},
		"no domain holds it whole yet, and it keeps what it finds": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b1", "b", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b2", "b", "cpu=4 memory=16Gi pods=110")
			gang(c, "1", "", "cpu=3 memory=4Gi", "g1", "g2", "g3")
			stuckFor(c, 59*time.Second)
			c.pod("plain-1", "", "cpu=2 memory=1Gi")
			c.pod("plain-2", "", "cpu=2 memory=1Gi")
			c.pod("plain-3", "", "cpu=2 memory=1Gi")
		}, "plain-1>a1 plain-2>a1"},
		"no domain holds it whole yet, and many that hold none of its pods have more room": {func(c *cluster) {
			for _, zone := range strings.Split("a b c d e f g h", " ") {
				for i := range 5 {
					c.node(fmt.Sprint(zone, i), "cpu=2 memory=16Gi pods=110", inZone(zone))
				}
			}
			waiting(c, "z1", "z", "cpu=4 memory=16Gi pods=110")
			waiting(c, "z2", "z", "cpu=4 memory=16Gi pods=110")
			gang(c, "1", "", "cpu=3 memory=4Gi", "g1", "g2", "g3")
			stuckFor(c, 59*time.Second)
			c.pod("plain", "", "cpu=3 memory=1Gi")
		}, ""},
		"where it is": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=4 memory=16Gi pods=110")
			waiting(c, "b1", "b", "cpu=4 memory=16Gi pods=110")
			c.node("b0", "cpu=4 memory=16Gi pods=110", inZone("b"))
			gang(c, "1", "b0", "cpu=3 memory=4Gi", "g1")
			gang(c, "1", "", "cpu=3 memory=4Gi", "g2")
		}, "g2>b1"},
		"before plain pods, and the largest first": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=8 memory=16Gi gpu.io/gpu=4 pods=110")
			waiting(c, "b1", "b", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110")
			gang(c, "1", "", "cpu=1 gpu.io/gpu=1", "s1", "s2")
			gang(c, "2", "", "cpu=4 gpu.io/gpu=2", "t1", "t2")
			c.pod("plain", "", "cpu=8 memory=1Gi")
		}, "s1>b1 s2>b1 t1>a1 t2>a1"},
		"the largest pods first, not the largest group": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=8 memory=16Gi gpu.io/gpu=4 pods=110")
			waiting(c, "a2", "a", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110")
			waiting(c, "a3", "a", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110")
			waiting(c, "a4", "a", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110")
			gang(c, "1", "", "cpu=1 gpu.io/gpu=2", "s1", "s2", "s3")
			gang(c, "2", "", "cpu=1 gpu.io/gpu=4", "t1")
		}, "s1>a2 s2>a3 s3>a4 t1>a1"},
		"of equal pods, those of a group that is somewhere first": {func(c *cluster) {
			waiting(c, "a1", "a", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110")
			waiting(c, "b1", "b", "cpu=8 memory=16Gi gpu.io/gpu=4 pods=110")
			c.node("a0", "cpu=8 memory=16Gi gpu.io/gpu=2 pods=110", inZone("a"))
			gang(c, "2", "a0", "cpu=1 gpu.io/gpu=2", "t1")
			gang(c, "2", "", "cpu=1 gpu.io/gpu=2", "t2")
			gang(c, "1", "", "cpu=1 gpu.io/gpu=2", "s1")
		}, "s1>b1 t2>a1"},
	})
}

// TestRemember: a nomination counts from when it was written until the pod runs, or it is old; one that is lost is written again.
func TestRemember(t *testing.T) {
	r, pod, now := &Nominator{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "p"}}, noon
	look := func(shown string, change ...func(*corev1.Pod)) string {
		t.Helper()
		p := pod.DeepCopy()
		p.Status.NominatedNodeName = shown
		for _, f := range change {
			f(p)
		}
		v := &View{Pods: []*corev1.Pod{p}, Now: now}
		said := ""
		if _, lost := r.remember(v); len(lost) > 0 {
			said = "lost "
		}
		return said + v.Pods[0].Status.NominatedNodeName
	}
	if got := look(""); got != "" {
		t.Errorf("nobody nominated it, and it is %q", got)
	}
	r.nominated = map[types.UID]nominated{"p": {node: "n1", since: noon, written: noon, ours: true}}
	if got := look(""); got != "n1" {
		t.Errorf("the cache does not show it yet, and it is %q", got)
	}
	if got := look("n1"); got != "n1" {
		t.Errorf("the cache shows it, and it is %q", got)
	}
	if got := look(""); got != "lost n1" {
		t.Errorf("a scheduler took it away, and it is %q", got)
	}
	now = noon.Add(NominatedFor)
	if got := look(""); got != "" || len(r.nominated) > 0 {
		t.Errorf("it is old, and it is %q", got)
	}
	if look("n2"); r.nominated["p"].node != "n2" {
		t.Errorf("somebody nominated it for n2, and %+v is known", r.nominated)
	}
	if got := look(""); got != "" {
		t.Errorf("whoever nominated it took it away, and it is %q", got)
	}
	look("n2")
	if look("n2", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }); len(r.nominated) > 0 {
		t.Errorf("it runs, and %+v is known", r.nominated)
	}
}

// TestNominationsInVain: a nomination of this process is in vain once its node takes pods and has no room for the pod; not before the cache
// can show what is there.
func TestNominationsInVain(t *testing.T) {
	for name, c := range map[string]struct {
		there func(*cluster)
		own   bool
		after time.Duration
		want  bool
	}{
		"others took the room":        {func(c *cluster) { c.node("n1", "cpu=4 memory=8Gi pods=10"); c.pod("q", "n1", "cpu=3 memory=1Gi") }, true, vainAfter, true},
		"there is room":               {func(c *cluster) { c.node("n1", "cpu=4 memory=8Gi pods=10"); c.pod("q", "n1", "cpu=2 memory=1Gi") }, true, vainAfter, false},
		"no place for one more pod":   {func(c *cluster) { c.node("n1", "cpu=4 memory=8Gi pods=1"); c.pod("q", "n1", "cpu=1 memory=1Gi") }, true, vainAfter, true},
		"it was written a moment ago": {func(c *cluster) { c.node("n1", "cpu=4 memory=8Gi pods=10"); c.pod("q", "n1", "cpu=3 memory=1Gi") }, true, vainAfter - 1, false},
		"the node takes no pods yet": {func(c *cluster) {
			c.node("n1", "cpu=4 memory=8Gi pods=10", awaits)
			c.pod("q", "n1", "cpu=3 memory=1Gi")
		}, true, vainAfter, false},
		"the node is not there":          {func(c *cluster) { c.node("n2", "cpu=4 memory=8Gi pods=10") }, true, vainAfter, false},
		"somebody else has nominated it": {func(c *cluster) { c.node("n1", "cpu=4 memory=8Gi pods=10"); c.pod("q", "n1", "cpu=3 memory=1Gi") }, false, vainAfter, false},
	} {
		x := &cluster{}
		c.there(x)
		x.pod("p", "", "cpu=2 memory=1Gi", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })
		p := x.Pods[len(x.Pods)-1]
		x.Now = noon.Add(c.after)
		r := &Nominator{nominated: map[types.UID]nominated{p.UID: {node: "n1", since: noon, written: noon, seen: true, ours: c.own}}}
		if got := r.inVain([]*corev1.Pod{p}, &x.View)[p.UID]; got != c.want {
			t.Errorf("%s: in vain %v, want %v", name, got, c.want)
		}
	}
}

// TestNominatedIsNotStuck: a pod that is nominated for a node has its room there: nothing is bought for it, nor is its room
// another's.
func TestNominatedIsNotStuck(t *testing.T) {
	on := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
	}
	if got := inPieces(on("n1")).after(0); got != held {
		t.Errorf("nominated for a node: %q, want %q", got, held)
	}
	if got := inPieces(on("n3")).after(0); got != added {
		t.Errorf("nominated for a node that is not there: %q, want %q", got, added)
	}
}

// TestIsDue: a node waits ten seconds for its first pods from when it is ready, and a minute at the most.
func TestIsDue(t *testing.T) {
	for _, c := range []struct {
		nominated, ready time.Duration // since when; 0 = not
		passes           bool          // another taint is there that goes by itself
		want             bool
	}{
		{0, 0, false, false},
		{9 * time.Second, 9 * time.Second, false, false},
		{10 * time.Second, 10 * time.Second, false, true},
		{time.Second, 30 * time.Second, false, false},
		{30 * time.Second, 9 * time.Second, false, false},
		{30 * time.Second, 0, true, false},
		{time.Minute, 0, true, true},
	} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "n"}}
		awaits(n)
		if c.passes {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		h := heldNode{}
		if c.nominated > 0 {
			h.nominated = noon.Add(-c.nominated)
		}
		if c.ready > 0 {
			h.ready = noon.Add(-c.ready)
		}
		r := &Nominator{held: map[types.UID]heldNode{"n": h}}
		r.hold(n, noon)
		if got := r.held["n"].isDue(noon); got != c.want {
			t.Errorf("%+v: due %v", c, got)
		}
	}
}

// TestByNode: the nominations of a node are written together.
func TestByNode(t *testing.T) {
	var all []Nomination
	for _, name := range []string{"b", "a", "b", "c", "a"} {
		all = append(all, Nomination{Node: name})
	}
	var got string
	for _, n := range byNode(all) {
		got += n.Node
	}
	if got != "bbaac" {
		t.Errorf("the order is %q", got)
	}
	many := make([]Nomination, 2*nominateTogether)
	for i := range many {
		many[i].Node = string(rune('a' + i/(nominateTogether-1)))
	}
	if now, later := firstOf(many); len(now) != 2*(nominateTogether-1) || len(later) != 2 {
		t.Errorf("%d are written together, and %d later", len(now), len(later))
	}
}
