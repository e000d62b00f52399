package stuck

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	podresource "k8s.io/component-helpers/resource"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/mirror"
)

// View is what a cluster looks like. It is not modified.
type View struct {
	Pods     []*corev1.Pod
	Nodes    []*corev1.Node
	Requests []*api.CapacityRequest
	Upcoming []*api.UpcomingNode
	Hints    []*api.AvailableCapacity
	Now      time.Time
}

// settled is a view in which pods are on the nodes that they are nominated for: their room is kept there, and nobody else's.
func settled(v *View) *View {
	there := make(map[string]bool, len(v.Nodes))
	for _, n := range v.Nodes {
		there[n.Name] = true
	}
	out := *v
	out.Pods = slices.Clone(v.Pods)
	for i, p := range out.Pods {
		if p.Spec.NodeName == "" && there[p.Status.NominatedNodeName] {
			p = p.DeepCopy()
			p.Spec.NodeName = p.Status.NominatedNodeName
			out.Pods[i] = p
		}
	}
	return &out
}

// amounts of the resources that a fleet has, in the order of dims: cpu in thousandths,
// everything else in pieces or bytes.
type amounts []int64

// node is a node with what is on it.
type node struct {
	*corev1.Node
	allocatable amounts
	used        amounts
	pods        []*corev1.Pod
	machine     amounts // what the shard counts it as, at most; nil = it is no machine of the shard's, or it is on its way out
	countedFor  string  // what the shard counts it for, see model.LabelCountedFor; "" = it does not say
	owner       *row    // whose its room is; nil = no row's
}

// free is what is left of each resource, at least 0.
func (n *node) free() amounts {
	out := make(amounts, len(n.allocatable))
	for d := range out {
		out[d] = max(0, n.allocatable[d]-n.used[d])
	}
	return out
}

// fleet is a view in figures.
type fleet struct {
	dims      []corev1.ResourceName
	nodes     []*node
	read      map[*corev1.Pod]amounts // what pods ask for, once it was looked at
	asked     map[types.UID]*api.CapacityRequest
	placesFor map[string]*places // see placesOf
}

// look reads nodes, in the order of their names, and the pods that are on them. It counts the resources that nodes have, and those
// of more lists; where there are none, cores, memory and pods.
func look(v *View, more ...corev1.ResourceList) *fleet {
	f := &fleet{read: make(map[*corev1.Pod]amounts, len(v.Pods))}
	for _, n := range v.Nodes {
		more = append(more, n.Status.Allocatable)
	}
	for _, list := range more {
		for name := range list {
			if !slices.Contains(f.dims, name) {
				f.dims = append(f.dims, name)
			}
		}
	}
	if len(f.dims) == 0 {
		f.dims = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods}
	}
	slices.Sort(f.dims)
	byName := make(map[string]*node, len(v.Nodes))
	for _, n := range v.Nodes {
		x := &node{Node: n, allocatable: f.amounts(n.Status.Allocatable), used: make(amounts, len(f.dims))}
		byName[n.Name] = x
		f.nodes = append(f.nodes, x)
	}
	slices.SortFunc(f.nodes, func(a, b *node) int { return strings.Compare(a.Name, b.Name) })
	machines := newMachines(v.Upcoming)
	for _, n := range f.nodes {
		if u := machines.of(n.Node); u != nil && !n.Spec.Unschedulable && u.Status.Phase != api.NodeDraining {
			n.machine, n.countedFor = f.atMost(n.allocatable, u.Spec.Resources), u.Spec.Labels[model.LabelCountedFor]
		}
	}
	for _, p := range v.Pods {
		if n := byName[p.Spec.NodeName]; n != nil && !ended(p) {
			n.pods = append(n.pods, p)
			for d, x := range f.asks(p) {
				n.used[d] += x
			}
		}
	}
	return f
}

// atMost is amounts, each no more than a list says, where it says something.
func (f *fleet) atMost(have amounts, list corev1.ResourceList) amounts {
	out, said := append(amounts(nil), have...), f.amounts(list)
	for d, name := range f.dims {
		if _, ok := list[name]; ok {
			out[d] = min(out[d], said[d])
		}
	}
	return out
}

// machines finds what the shard says of a node.
type machines struct{ byNode, byProvider, byName map[string]*api.UpcomingNode }

func newMachines(all []*api.UpcomingNode) *machines {
	m := &machines{map[string]*api.UpcomingNode{}, map[string]*api.UpcomingNode{}, map[string]*api.UpcomingNode{}}
	for _, u := range all {
		switch u.Status.Phase {
		case api.NodeRegistered, api.NodeReady, api.NodeDraining:
		default:
			continue // it has no node, or none that stays
		}
		if u.Status.NodeRef != nil {
			m.byNode[u.Status.NodeRef.Name] = u
		}
		if u.Status.ProviderID != "" {
			m.byProvider[u.Status.ProviderID] = u
		}
		m.byName[u.Name] = u
	}
	return m
}

// of returns the machine of a node: by the name that the shard told, by its provider id, by the
// machine's id; nil if there is none.
func (m *machines) of(n *corev1.Node) *api.UpcomingNode {
	id := n.Spec.ProviderID
	for _, u := range []*api.UpcomingNode{m.byNode[n.Name], m.byProvider[id], m.byProvider[id[strings.LastIndexByte(id, '/')+1:]], m.byName[mirror.NodeName(n.Name)]} {
		if u != nil {
			return u
		}
	}
	return nil
}

// ended tells whether a pod has left its node.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// amounts reads a list of resources. What no node has is left out.
func (f *fleet) amounts(list corev1.ResourceList) amounts {
	out := make(amounts, len(f.dims))
	for d, name := range f.dims {
		q, ok := list[name]
		switch {
		case !ok:
		case name == corev1.ResourceCPU:
			out[d] = q.MilliValue()
		default:
			out[d] = q.Value()
		}
	}
	return out
}

// list writes amounts as resources, without those that are 0.
func (f *fleet) list(a amounts) corev1.ResourceList {
	out := corev1.ResourceList{}
	for d, n := range a {
		if n > 0 {
			out[f.dims[d]] = quantity(f.dims[d], n)
		}
	}
	return out
}

// asks is what a pod takes up of a node, its own place included. It is not modified.
func (f *fleet) asks(p *corev1.Pod) amounts {
	if known := f.read[p]; known != nil {
		return known
	}
	out := f.amounts(podresource.PodRequests(p, podresource.PodResourcesOptions{}))
	if d := slices.Index(f.dims, corev1.ResourcePods); d >= 0 {
		out[d] = 1
	}
	f.read[p] = out
	return out
}

// unknown returns a resource that a pod asks for and no node has; "" = there is none.
func (f *fleet) unknown(p *corev1.Pod) corev1.ResourceName {
	for name, q := range podresource.PodRequests(p, podresource.PodResourcesOptions{}) {
		if !q.IsZero() && !slices.Contains(f.dims, name) {
			return name
		}
	}
	return ""
}

// unschedulable returns since when the scheduler finds no node for a pod.
func unschedulable(p *corev1.Pod) (since time.Time, is bool) {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || ended(p) {
		return time.Time{}, false
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// requestsByPod returns the requests that stand for pods.
func requestsByPod(v *View) map[types.UID]*api.CapacityRequest {
	out := make(map[types.UID]*api.CapacityRequest, len(v.Requests))
	for _, r := range v.Requests {
		if uid := r.Labels[api.LabelOwnedByPod]; uid != "" && r.DeletionTimestamp == nil {
			out[types.UID(uid)] = r
		}
	}
	return out
}
