package stuck

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// otherLabels is why a pod may not run on nodes of other labels.
const otherLabels = "its node selector or affinity fits no node"

// suits tells whether a pod may run on a node whatever else is on it: selector, affinity
// and taints. why says what keeps it away.
func suits(p *corev1.Pod, n *corev1.Node) (ok bool, why string) { return suitedBy(p)(n) }

// suitedBy returns suits for many nodes: what a pod requires is read once.
func suitedBy(p *corev1.Pod) func(*corev1.Node) (ok bool, why string) {
	required := nodeaffinity.GetRequiredNodeAffinity(p)
	return func(n *corev1.Node) (ok bool, why string) {
		if match, err := required.Match(n); err != nil || !match {
			return false, otherLabels
		}
		taint, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, func(t *corev1.Taint) bool {
			return (t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute) && !passing(t)
		}, true)
		if untolerated {
			return false, fmt.Sprintf("it does not tolerate the taint %s", taint.ToString())
		}
		return true, ""
	}
}

// passing tells whether a taint goes away by itself when a machine has become a node.
func passing(t *corev1.Taint) bool {
	switch t.Key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, corev1.TaintNodeNetworkUnavailable,
		corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, api.TaintNomination:
		return true
	}
	return t.Key == "node.cloudprovider.kubernetes.io/uninitialized"
}

// empty is what a node would have for a pod if only what every node of its kind has were on it.
func (f *fleet) empty(n *node) amounts {
	out := append(amounts(nil), n.allocatable...)
	for _, p := range n.pods {
		if of := metav1.GetControllerOf(p); of != nil && (of.Kind == "DaemonSet" || of.Kind == "Node") {
			for d, x := range f.asks(p) {
				out[d] -= x
			}
		}
	}
	return out
}

// covers tells whether amounts are enough.
func covers(have, want amounts) bool {
	for d, n := range want {
		if n > have[d] {
			return false
		}
	}
	return true
}

// helps tells whether some machine that the cluster has, is promised or could be given would
// run a pod if it were empty; else why not, of the machine that comes nearest.
func (f *fleet) helps(p *corev1.Pod, v *View) (ok bool, why string) {
	if name := f.unknown(p); name != "" {
		return false, fmt.Sprintf("no node has the resource %s", name)
	}
	x, asks := f.placesOf(p, v), f.asks(p)
	nearest := x.nearest
	for i := range x.list {
		switch r := &x.list[i]; {
		case !covers(r.empty, asks):
			if !r.promised {
				nearest = nearest.or(tooLarge)
			}
		case r.excluded:
			nearest = nearest.or(keptApart)
		default:
			return true, ""
		}
	}
	return false, nearest.why
}

// obstacle is what keeps a pod from a machine. The higher its rank, the nearer the pod came to run there.
type obstacle struct {
	rank int
	why  string
}

var (
	nothingThere = obstacle{0, "there is no machine to compare it with"}
	keptApart    = obstacle{3, "its anti-affinity excludes every domain that there is"}
	tooLarge     = obstacle{4, "it is larger than what an empty node has for it"}
)

// or returns the one of higher rank, the first of equal ones.
func (o obstacle) or(other obstacle) obstacle {
	if other.rank > o.rank {
		return other
	}
	return o
}

// places are the machines on which pods with equal constraints and anti-affinity may run. Machines that offer the same are one place.
type places struct {
	list    []place
	nearest obstacle // of all nodes on which these pods may not run
}

// place is what machines offer when they are empty.
type place struct {
	empty    amounts
	excluded bool // by anti-affinity
	promised bool // it is no node yet
}

// placesOf returns the places of a pod. Pods with equal constraints and anti-affinity share them: there may be many pods, but there are
// few kinds of machines.
func (f *fleet) placesOf(p *corev1.Pod, v *View) *places {
	key := constraints(p)
	if p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil {
		key += p.Namespace + textIn(p.Spec.Affinity.PodAntiAffinity)
	}
	if known := f.placesFor[key]; known != nil {
		return known
	}
	x, known := &places{nearest: nothingThere}, map[string]bool{}
	add := func(one place) {
		if text := fmt.Sprint(textOf(one.empty), one.excluded, one.promised); !known[text] {
			known[text] = true
			x.list = append(x.list, one)
		}
	}
	suits, excluded := suitedBy(p), f.excludedBy(p)
	for _, n := range f.nodes {
		switch fits, text := suits(n.Node); {
		case !fits && text == otherLabels:
			x.nearest = x.nearest.or(obstacle{1, text})
		case !fits:
			x.nearest = x.nearest.or(obstacle{2, text})
		default:
			add(place{empty: f.empty(n), excluded: slices.ContainsFunc(excluded, func(x domains) bool { return x.has[n.Labels[x.key]] })})
		}
	}
	for _, u := range v.Upcoming {
		if ok, _ := suits(becoming(u)); ok && onItsWay(u) {
			add(place{empty: f.anyPods(f.amounts(u.Spec.Resources)), promised: true})
		}
	}
	for _, h := range v.Hints {
		if h.Spec.AvailableCount > 0 && len(h.Spec.Resources) > 0 && accepts(p, h) {
			add(place{empty: f.anyPods(f.amounts(h.Spec.Resources)), promised: true})
		}
	}
	if f.placesFor == nil {
		f.placesFor = map[string]*places{}
	}
	f.placesFor[key] = x
	return x
}

// anyPods sets the number of pods in amounts to any number, and returns them: hints and promises do not say how many pods a machine takes.
func (f *fleet) anyPods(a amounts) amounts {
	if d := slices.Index(f.dims, corev1.ResourcePods); d >= 0 {
		a[d] = math.MaxInt64
	}
	return a
}

// accepts tells whether a hint is about machines that a pod's own selector accepts: it names
// the same requirements, or it is about any machine that has a type.
func accepts(p *corev1.Pod, h *api.AvailableCapacity) bool {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, r := range h.Spec.Requirements {
		if len(r.Values) > 0 {
			n.Labels[r.Key] = r.Values[0]
		}
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(&n)
	return err == nil && match
}

// promises tells whether a machine that is on its way would run a pod.
func (f *fleet) promises(u *api.UpcomingNode, p *corev1.Pod, asks amounts) bool {
	if !onItsWay(u) {
		return false
	}
	ok, _ := suits(p, becoming(u))
	return ok && covers(f.anyPods(f.amounts(u.Spec.Resources)), asks)
}

// onItsWay tells whether a machine is bound to the cluster and not yet part of it.
func onItsWay(u *api.UpcomingNode) bool {
	switch u.Status.Phase {
	case api.NodeProvisioning, api.NodeLaunched, api.NodeRegistered:
		return true
	}
	return false
}

// domains are some values of a label of nodes.
type domains struct {
	key string
	has map[string]bool
}

// excludedBy returns the domains that a pod's anti-affinity excludes, since a pod that it must not meet runs there. Single hosts are not
// looked at: an empty machine is another host.
func (f *fleet) excludedBy(p *corev1.Pod) (out []domains) {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return nil
	}
	for i := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		term := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if term.TopologyKey == corev1.LabelHostname || err != nil {
			continue
		}
		x := domains{term.TopologyKey, map[string]bool{}}
		for _, n := range f.nodes {
			domain := n.Labels[term.TopologyKey]
			x.has[domain] = x.has[domain] || slices.ContainsFunc(n.pods, func(other *corev1.Pod) bool {
				return inNamespaces(p, term, other.Namespace) && selector.Matches(labels.Set(other.Labels))
			})
		}
		out = append(out, x)
	}
	return out
}

// inNamespaces tells whether a term is about the pods of a namespace. A selector of namespaces
// counts as all of them.
func inNamespaces(p *corev1.Pod, term *corev1.PodAffinityTerm, namespace string) bool {
	if term.NamespaceSelector != nil {
		return true
	}
	if len(term.Namespaces) == 0 {
		return namespace == p.Namespace
	}
	for _, n := range term.Namespaces {
		if n == namespace {
			return true
		}
	}
	return false
}
