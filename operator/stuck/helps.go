package stuck

import (
	"fmt"

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
func suits(p *corev1.Pod, n *corev1.Node) (ok bool, why string) {
	if match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n); err != nil || !match {
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
	asks, nearest := f.asks(p), 0
	note := func(rank int, text string) {
		if rank > nearest {
			nearest, why = rank, text
		}
	}
	why = "there is no machine to compare it with"
	for _, n := range f.nodes {
		switch fits, text := suits(p, n.Node); {
		case !fits && text == otherLabels:
			note(1, text)
		case !fits:
			note(2, text)
		case !covers(f.empty(n), asks):
			note(4, "it is larger than what an empty node has for it")
		case keptAway(p, n, f):
			note(3, "its anti-affinity excludes every domain that there is")
		default:
			return true, ""
		}
	}
	for _, u := range v.Upcoming {
		if f.promises(u, p, asks) {
			return true, ""
		}
	}
	for _, h := range v.Hints {
		if h.Spec.AvailableCount > 0 && len(h.Spec.Resources) > 0 && covers(f.amounts(h.Spec.Resources), f.without(asks, corev1.ResourcePods)) && accepts(p, h) {
			return true, ""
		}
	}
	return false, why
}

// without returns amounts with one of them 0: hints do not say how many pods a machine takes.
func (f *fleet) without(a amounts, name corev1.ResourceName) amounts {
	out := append(amounts(nil), a...)
	for d := range out {
		if f.dims[d] == name {
			out[d] = 0
		}
	}
	return out
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
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: u.Spec.Labels}, Spec: corev1.NodeSpec{Taints: u.Spec.Taints}}
	ok, _ := suits(p, &n)
	return ok && covers(f.amounts(u.Spec.Resources), f.without(asks, corev1.ResourcePods))
}

// onItsWay tells whether a machine is bound to the cluster and not yet part of it.
func onItsWay(u *api.UpcomingNode) bool {
	switch u.Status.Phase {
	case api.NodeProvisioning, api.NodeLaunched, api.NodeRegistered:
		return true
	}
	return false
}

// keptAway tells whether a pod's anti-affinity forbids every machine in the domain of a node:
// for a domain wider than one host, a pod that it must not meet is there already.
func keptAway(p *corev1.Pod, n *node, f *fleet) bool {
	if p.Spec.Affinity == nil || p.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	for i := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		term := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i]
		if term.TopologyKey != corev1.LabelHostname && f.meets(p, term, n.Labels[term.TopologyKey]) {
			return true
		}
	}
	return false
}

// meets tells whether a domain has a pod that a term speaks of.
func (f *fleet) meets(p *corev1.Pod, term *corev1.PodAffinityTerm, domain string) bool {
	selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
	if err != nil {
		return false
	}
	for _, n := range f.nodes {
		if n.Labels[term.TopologyKey] != domain {
			continue
		}
		for _, other := range n.pods {
			if inNamespaces(p, term, other.Namespace) && selector.Matches(labels.Set(other.Labels)) {
				return true
			}
		}
	}
	return false
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
