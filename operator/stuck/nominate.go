package stuck

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/packing"
)

// Nomination says on which node a pod is to run.
type Nomination struct {
	Pod  *corev1.Pod
	Node string
}

// Awaiting tells whether a node waits for nominations.
func Awaiting(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintNomination })
}

// Nominate packs the pods that are pending into the room of all nodes and of the machines that are on their way, and returns which
// of them are to run on nodes that wait for nominations. It depends on the view alone.
//
// Groups come first, those of the largest pods first, each in one domain. One that no domain holds whole keeps the room of those
// of its pods that find some, for four times Config.After: a shard tells of the machines of a group one after the other. Then come all other pods
// by priority, as [packing.Place] does. Pods that say more about where they run than the packer looks at keep their room in the
// plan, and are not nominated. The nominations come node by node, those first on which the pods run that have most devices.
func Nominate(v *View, cfg Config) []Nomination {
	if !slices.ContainsFunc(v.Nodes, Awaiting) {
		return nil
	}
	f, b := allBins(v, requestsByPod(v), cfg)
	waiting := f.waiting(v, cfg.Selector)
	places, grouped := map[*corev1.Pod]int{}, map[*corev1.Pod]bool{}
	for _, g := range f.groupsOf(waiting, v) {
		maps.Copy(places, f.placeGroup(b, g, longest(g.pending, v.Now) < patience*cfg.After))
		for _, p := range g.pending {
			grouped[p] = true
			delete(waiting, p.UID)
		}
	}
	levels := map[int32][]*corev1.Pod{}
	for _, p := range waiting {
		levels[priority(p)] = append(levels[priority(p)], p)
	}
	for _, level := range slices.Backward(slices.Sorted(maps.Keys(levels))) {
		pods := levels[level]
		slices.SortFunc(pods, older)
		maps.Copy(places, f.pack(b.machines, b.nodes, pods, nil))
	}
	var out []Nomination
	most := map[string]int64{} // devices that one pod has, by node
	for p, at := range places {
		if b.held[at] && nominable(p, grouped[p]) {
			n := b.nodes[at].Name
			out, most[n] = append(out, Nomination{p, n}), max(most[n], f.devices([]*corev1.Pod{p}))
		}
	}
	slices.SortFunc(out, func(a, b Nomination) int {
		return cmp.Or(cmp.Compare(most[b.Node], most[a.Node]), strings.Compare(a.Node, b.Node), older(a.Pod, b.Pod))
	})
	return out
}

// older orders pods by their age, then by name.
func older(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// waiting are the pods that a scheduler is to place and nobody has nominated.
func (f *fleet) waiting(v *View, selector labels.Selector) map[types.UID]*corev1.Pod {
	out := map[types.UID]*corev1.Pod{}
	for _, p := range v.Pods {
		if f.unknown(p) != "" || selector != nil && !selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		if p.Spec.NodeName == "" && p.Status.NominatedNodeName == "" && p.DeletionTimestamp == nil && !ended(p) && len(p.Spec.SchedulingGates) == 0 && daemonOf(p) == "" {
			out[p.UID] = p
		}
	}
	return out
}

// groupsOf returns the groups that have pods waiting, with these alone as pending, in the order of compareGroups.
func (f *fleet) groupsOf(waiting map[types.UID]*corev1.Pod, v *View) []*group {
	byName, all := map[string]*node{}, f.groups(v, nil)
	for _, n := range f.nodes {
		byName[n.Name] = n
	}
	var out []*group
	for _, key := range slices.Sorted(maps.Keys(all)) {
		g := all[key]
		for _, p := range append(slices.Clone(g.pods), g.pending...) {
			if n := byName[cmp.Or(p.Spec.NodeName, p.Status.NominatedNodeName)]; n != nil {
				g.domain = n.Labels[g.of.Spec.CoLocation.TopologyKey]
			}
		}
		g.pending = slices.DeleteFunc(g.pending, func(p *corev1.Pod) bool { return waiting[p.UID] == nil })
		if len(g.pending) > 0 {
			out = append(out, g)
		}
	}
	slices.SortStableFunc(out, f.compareGroups)
	return out
}

// compareGroups orders groups for packing what they have pending. Those come first whose pods have most devices each, since the fewest
// machines can hold these; of equal ones those that are in a domain already, then those with most devices together.
func (f *fleet) compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(f.mostDevices(b.pending), f.mostDevices(a.pending)), cmp.Compare(isIn(b), isIn(a)), cmp.Compare(f.devices(b.pending), f.devices(a.pending)))
}

// isIn is 1 for a group that is in a domain already, else 0.
func isIn(g *group) int {
	if g.domain != "" {
		return 1
	}
	return 0
}

// mostDevices is how many the pod has that has most.
func (f *fleet) mostDevices(pods []*corev1.Pod) (most int64) {
	for i := range pods {
		most = max(most, f.devices(pods[i:i+1]))
	}
	return most
}

// devices is how many pods ask for of resources that are not Kubernetes' own.
func (f *fleet) devices(pods []*corev1.Pod) (sum int64) {
	for d, n := range f.sum(pods) {
		if domain, _, is := strings.Cut(string(f.dims[d]), "/"); is && !strings.HasSuffix(domain, "kubernetes.io") {
			sum += n
		}
	}
	return sum
}

// partlyMax is how many domains are looked at for a part of a group: those that may hold most of its pods.
const partlyMax = 8

// placeGroup places the pods of a group in one domain: where it is, else in the first that holds it whole. It returns their
// bins, nil where none does. If it keeps room, what the domain that holds most of the pods has for them is then nobody else's: the machines
// for the others may come yet.
func (f *fleet) placeGroup(b *bins, g *group, keeps bool) map[*corev1.Pod]int {
	all := b.domainsOf(g.of.Spec.CoLocation.TopologyKey)
	if g.domain != "" {
		at, _ := slices.BinarySearchFunc(all, g.domain, func(x binDomain, name string) int { return strings.Compare(x.name, name) })
		if at == len(all) || all[at].name != g.domain {
			return nil
		}
		machines, placed := f.packIn(b, &all[at], g.pending)
		if len(placed) == 0 {
			return nil
		}
		b.replace(&all[at], machines)
		return placed
	}
	asks := f.sum(g.pending)
	for i := range all {
		if !b.hasRoom(&all[i], asks) {
			continue
		}
		if machines, placed := f.packIn(b, &all[i], g.pending); len(placed) == len(g.pending) {
			b.replace(&all[i], machines)
			return placed
		}
	}
	if !keeps {
		return nil
	}
	may, order := make([]int, len(all)), []int(nil)
	for i := range all {
		if may[i] = f.mayHold(b, &all[i], g.pending); may[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(may[j], may[i]) })
	order = order[:min(partlyMax, len(order))]
	slices.Sort(order) // of domains that hold as many the first
	best, most, kept := -1, 0, []packing.Machine(nil)
	for _, i := range order {
		if machines, placed := f.packIn(b, &all[i], g.pending); len(placed) > most {
			best, most, kept = i, len(placed), machines
		}
	}
	if best >= 0 {
		b.replace(&all[best], kept)
	}
	return nil
}

// mayHold returns an upper bound of how many of some pods a domain holds: it counts pods that ask for the least of each resource that
// any of them asks for, in the bins that suit any of them.
func (f *fleet) mayHold(b *bins, x *binDomain, pods []*corev1.Pod) (n int) {
	var least amounts
	var suited [][]bool
	for _, p := range pods {
		least = smallest(least, f.asks(p))
		if is := b.suitedTo(p); !slices.ContainsFunc(suited, func(known []bool) bool { return &known[0] == &is[0] }) {
			suited = append(suited, is)
		}
	}
	for _, at := range x.at {
		if !slices.ContainsFunc(suited, func(is []bool) bool { return is[at] }) {
			continue
		}
		fit := int64(len(pods))
		for d, asks := range least {
			if asks > 0 {
				fit = min(fit, max(0, b.machines[at].Capacity[d]-b.machines[at].Used[d])/asks)
			}
		}
		if n += int(fit); n >= len(pods) {
			return len(pods)
		}
	}
	return n
}

// packIn packs pods into the bins of a domain. It returns the domain's bins with these pods in them, and by pod the index of its bin.
// Pods without room are not among them.
func (f *fleet) packIn(b *bins, x *binDomain, pods []*corev1.Pod) (machines []packing.Machine, placed map[*corev1.Pod]int) {
	machines, nodes := make([]packing.Machine, len(x.at)), make([]*corev1.Node, len(x.at))
	for i, at := range x.at {
		machines[i], nodes[i] = packing.Machine{Capacity: b.machines[at].Capacity, Used: slices.Clone(b.machines[at].Used)}, b.nodes[at]
	}
	placed = f.pack(machines, nodes, pods, nil)
	for p, i := range placed {
		placed[p] = x.at[i]
	}
	return machines, placed
}

// pack places pods on machines that suit them and that on admits (nil = all). It returns by pod the index of its machine; pods without
// room are not among them. Nodes are the machines as a scheduler sees them.
func (f *fleet) pack(machines []packing.Machine, nodes []*corev1.Node, pods []*corev1.Pod, on func(*corev1.Node) bool) map[*corev1.Pod]int {
	var sizes []packing.Pods
	var alike [][]*corev1.Pod
	index := map[string]int{}
	for _, p := range pods {
		key := textOf(f.asks(p)) + constraints(p)
		at, known := index[key]
		if !known {
			at = len(sizes)
			index[key], alike = at, append(alike, nil)
			suits := suitedBy(p)
			sizes = append(sizes, packing.Pods{Size: f.asks(p), On: func(i int) bool {
				ok, _ := suits(nodes[i])
				return ok && (on == nil || on(nodes[i]))
			}})
		}
		sizes[at].Count++
		alike[at] = append(alike[at], p)
	}
	out := make(map[*corev1.Pod]int, len(pods))
	for i, placed := range packing.Place(machines, sizes) {
		for k, at := range placed {
			out[alike[i][k]] = at
		}
	}
	return out
}

// constraints is what [suitedBy] reads of a pod, as text: pods with equal constraints may run on the same nodes.
func constraints(p *corev1.Pod) string {
	var affinity *corev1.NodeAffinity
	if p.Spec.Affinity != nil {
		affinity = p.Spec.Affinity.NodeAffinity
	}
	return textIn([]any{p.Spec.NodeSelector, affinity, slices.DeleteFunc(slices.Clone(p.Spec.Tolerations), ofNomination)})
}

// textIn writes parts of a pod's spec as text. Such plain values can always be written.
func textIn(values any) string {
	text, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// ofNomination tells whether a toleration is of a nomination.
func ofNomination(t corev1.Toleration) bool { return t.Key == api.TaintNomination }

// priority of a pod.
func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// nominable tells whether the packer looks at all that a pod says about where it runs: what it asks for, the labels and taints
// of nodes, and the domain of its group. One that was nominated often enough is left alone.
func nominable(p *corev1.Pod, grouped bool) bool {
	s := &p.Spec
	if nominations := len(s.Tolerations) - len(slices.DeleteFunc(slices.Clone(s.Tolerations), ofNomination)); nominations >= tolerationsMost {
		return false
	}
	if len(s.TopologySpreadConstraints) > 0 || len(s.ResourceClaims) > 0 || !nominableAffinity(s.Affinity, grouped) {
		return false
	}
	if slices.ContainsFunc(s.Volumes, func(x corev1.Volume) bool { return x.PersistentVolumeClaim != nil }) {
		return false
	}
	return !slices.ContainsFunc(s.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(x corev1.ContainerPort) bool { return x.HostPort > 0 })
	})
}

func nominableAffinity(a *corev1.Affinity, grouped bool) bool {
	if a == nil {
		return true
	}
	together := 0 // terms of its group
	if grouped {
		together = 1
	}
	return a.PodAntiAffinity == nil &&
		(a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0) &&
		(a.PodAffinity == nil || len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 &&
			len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) <= together)
}
