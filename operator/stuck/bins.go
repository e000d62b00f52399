package stuck

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/packing"
)

// pair finds the machines of nodes, by the names of these. The shard says later than the API server that a machine has become a
// node: until then a new node is taken for the first machine on its way that it may be.
func pair(v *View, cfg Config) map[string]*api.UpcomingNode {
	out, has, known := map[string]*api.UpcomingNode{}, map[*api.UpcomingNode]bool{}, newMachines(v.Upcoming)
	for _, n := range v.Nodes {
		if u := known.of(n); u != nil {
			out[n.Name], has[u] = u, true
		}
	}
	nodes, upcoming := slices.Clone(v.Nodes), slices.Clone(v.Upcoming)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(upcoming, func(a, b *api.UpcomingNode) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		if out[n.Name] != nil {
			continue
		}
		i := slices.IndexFunc(upcoming, func(u *api.UpcomingNode) bool { return !has[u] && awaited(u, v.Now, cfg) && maybe(n, u) })
		if i >= 0 {
			out[n.Name], has[upcoming[i]] = upcoming[i], true
		}
	}
	return out
}

// maybe tells whether a node may be a machine: it is younger, and both say the same of type and zone, and of cores and
// memory to a quarter.
func maybe(n *corev1.Node, u *api.UpcomingNode) bool {
	if at := u.Status.ProvisioningStartTime; at == nil || n.CreationTimestamp.Before(at) {
		return false
	}
	for _, key := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone} {
		if has, says := n.Labels[key], u.Spec.Labels[key]; has != "" && says != "" && has != says {
			return false
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		has, says := n.Status.Allocatable[name], u.Spec.Resources[name]
		if a, b := has.AsApproximateFloat64(), says.AsApproximateFloat64(); min(a, b) < 0.75*max(a, b) {
			return false
		}
	}
	return true
}

// promisedToo is a view in which nodes that wait for nominations, or whose machines are still on their way for the shard, have what
// their machines promise: a kubelet tells of devices later.
func promisedToo(v *View, pairs map[string]*api.UpcomingNode) *View {
	out := *v
	out.Nodes = slices.Clone(v.Nodes)
	for i, n := range out.Nodes {
		u := pairs[n.Name]
		if u == nil || !Awaiting(n) && !onItsWay(u) {
			continue
		}
		n = n.DeepCopy()
		if n.Status.Allocatable == nil {
			n.Status.Allocatable = corev1.ResourceList{}
		}
		for name, q := range u.Spec.Resources {
			if has := n.Status.Allocatable[name]; has.IsZero() {
				n.Status.Allocatable[name] = q
			}
		}
		out.Nodes[i] = n
	}
	return &out
}

// allBins are the bins of all nodes and of the machines that are to become nodes, and a fleet in which new nodes have what their machines
// promise.
func allBins(v *View, asked map[types.UID]*api.CapacityRequest, cfg Config) (*fleet, *bins) {
	pairs := pair(v, cfg)
	var promised []corev1.ResourceList
	for _, u := range v.Upcoming {
		promised = append(promised, u.Spec.Resources)
	}
	f := look(promisedToo(v, pairs), promised...)
	f.asked = asked
	return f, f.bins(v, pairs, cfg)
}

// bins are the machines that pods are packed into.
type bins struct {
	machines []packing.Machine
	nodes    []*corev1.Node // what a scheduler would look at
	held     []bool
	domains  map[string][]binDomain // by key; see domainsOf
	suited   map[string][]bool      // by constraints; see suitedTo
}

// binDomain is the bins whose nodes have one value of a label.
type binDomain struct {
	name string
	at   []int
}

// domainsOf returns the domains of a label, by name.
func (b *bins) domainsOf(key string) []binDomain {
	if known, is := b.domains[key]; is {
		return known
	}
	at := map[string][]int{}
	for i, n := range b.nodes {
		if d := n.Labels[key]; d != "" {
			at[d] = append(at[d], i)
		}
	}
	var out []binDomain
	for _, name := range slices.Sorted(maps.Keys(at)) {
		out = append(out, binDomain{name, at[name]})
	}
	if b.domains == nil {
		b.domains = map[string][]binDomain{}
	}
	b.domains[key] = out
	return out
}

// hasRoom tells whether the bins of a domain have so much free together.
func (b *bins) hasRoom(x *binDomain, of amounts) bool {
	for d, n := range of {
		for _, at := range x.at {
			n -= max(0, b.machines[at].Capacity[d]-b.machines[at].Used[d])
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// suitedTo returns, by bin, whether it suits a pod. Pods with equal constraints share the answer.
func (b *bins) suitedTo(p *corev1.Pod) []bool {
	key := constraints(p)
	if known := b.suited[key]; known != nil {
		return known
	}
	suits, out := suitedBy(p), make([]bool, len(b.nodes))
	for i, n := range b.nodes {
		out[i], _ = suits(n)
	}
	if b.suited == nil {
		b.suited = map[string][]bool{}
	}
	b.suited[key] = out
	return out
}

// replace puts machines in the place of the bins of a domain.
func (b *bins) replace(x *binDomain, machines []packing.Machine) {
	for i, at := range x.at {
		b.machines[at] = machines[i]
	}
}

// bins are the nodes, with what is on them, is nominated there and runs on every node, and the machines that are to become nodes.
func (f *fleet) bins(v *View, pairs map[string]*api.UpcomingNode, cfg Config) *bins {
	b, nominated, daemons := &bins{}, map[string][]*corev1.Pod{}, daemonsOf(v.Pods)
	for _, p := range v.Pods {
		if n := p.Status.NominatedNodeName; n != "" && p.Spec.NodeName == "" && !ended(p) {
			nominated[n] = append(nominated[n], p)
		}
	}
	add := func(n *corev1.Node, has, used amounts, there []*corev1.Pod, waits bool) {
		for _, p := range nominated[n.Name] {
			used = f.plus(used, f.asks(p))
		}
		for of, p := range daemons {
			if ok, _ := suits(p, n); ok && !slices.ContainsFunc(there, func(x *corev1.Pod) bool { return daemonOf(x) == of }) {
				used = f.plus(used, f.asks(p))
			}
		}
		b.machines, b.nodes, b.held = append(b.machines, packing.Machine{Capacity: has, Used: used}), append(b.nodes, n), append(b.held, waits)
	}
	has := map[*api.UpcomingNode]bool{}
	for _, n := range f.nodes {
		has[pairs[n.Name]] = true
		if !n.Spec.Unschedulable && n.DeletionTimestamp == nil {
			add(n.Node, n.allocatable, slices.Clone(n.used), n.pods, Awaiting(n.Node))
		}
	}
	for _, u := range v.Upcoming {
		if has[u] || !awaited(u, v.Now, cfg) {
			continue
		}
		n := becoming(u)
		capacity := f.amounts(u.Spec.Resources)
		if d := slices.Index(f.dims, corev1.ResourcePods); d >= 0 && capacity[d] == 0 {
			capacity[d] = int64(len(v.Pods)) // it takes enough
		}
		add(n, capacity, make(amounts, len(f.dims)), nil, false)
	}
	return b
}

// becoming is the node that a machine on its way will be, as far as a scheduler looks at it.
func becoming(u *api.UpcomingNode) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: u.Spec.Labels}, Spec: corev1.NodeSpec{Taints: u.Spec.Taints}}
}

// plus is the sum of amounts.
func (f *fleet) plus(a, b amounts) amounts {
	out := slices.Clone(a)
	for d, n := range b {
		out[d] += n
	}
	return out
}

// minus is the difference of amounts.
func minus(a, b amounts) amounts {
	out := slices.Clone(a)
	for d, n := range b {
		out[d] -= n
	}
	return out
}

// daemonOf is the DaemonSet of a pod, "" = none.
func daemonOf(p *corev1.Pod) types.UID {
	if of := metav1.GetControllerOf(p); of != nil && of.Kind == "DaemonSet" {
		return of.UID
	}
	return ""
}

// daemonsOf returns a pod of each DaemonSet, as it would be on any node: a new node gets one once it takes pods.
func daemonsOf(pods []*corev1.Pod) map[types.UID]*corev1.Pod {
	out := map[types.UID]*corev1.Pod{}
	for _, p := range pods {
		of := daemonOf(p)
		if of == "" || out[of] != nil || ended(p) {
			continue
		}
		p = p.DeepCopy()
		if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			for i := range terms {
				terms[i].MatchFields = nil // the node's name
			}
			if !slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return len(t.MatchExpressions) > 0 }) {
				a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			}
		}
		out[of] = p
	}
	return out
}
