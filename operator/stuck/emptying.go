package stuck

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/operator/packing"
)

const (
	// roomyMax is how many machines, those with the most room, are tried first for the pods of a single machine.
	roomyMax = 32
	// emptyingsMax is how many single machines one search may try in vain before it ends: each is compared with all others. Machines that
	// were not tried stay.
	emptyingsMax = 256
)

// emptying moves pods from machines that are to go to machines that stay. All other pods stay where they are. A pod that has moved moves
// again only if its new machine is to go as well, so a search may miss a way that moves more pods.
type emptying struct {
	f     *fleet
	nodes []*node
	at    map[*node]int
	used  []amounts       // by node: what is used, with what has moved there
	moved [][]*corev1.Pod // by node: the pods that have moved there
	gone  []bool          // by node
	roomy []int           // see roomiest
	tries int             // how often fitsAlone has looked at all nodes
}

// emptying returns the machines of a row, from which nothing has moved yet.
func (f *fleet) emptying(r *row) *emptying {
	e := &emptying{f: f, at: map[*node]int{}}
	for _, n := range r.nodes {
		if n.machine != nil {
			e.at[n] = len(e.nodes)
			e.nodes, e.used = append(e.nodes, n), append(e.used, n.used)
		}
	}
	e.moved, e.gone = make([][]*corev1.Pod, len(e.nodes)), make([]bool, len(e.nodes))
	return e
}

// empty marks some more machines as gone and moves their pods. It returns false, and changes nothing, if the machines that stay have no
// room for the pods.
func (e *emptying) empty(more []*node) bool {
	pods := e.podsOf(more)
	stay := e.staying(more)
	machines, places := e.place(pods, stay)
	if len(places) < len(pods) {
		return false
	}
	for _, n := range more {
		e.gone[e.at[n]] = true
	}
	for i, at := range stay {
		e.used[at] = machines[i].Used
	}
	for _, p := range pods {
		at := stay[places[p]]
		e.moved[at] = append(e.moved[at], p)
	}
	return true
}

// fit tells whether the machines that stay have room for the pods of some more machines.
func (e *emptying) fit(more []*node) bool {
	return e.fitOn(e.podsOf(more), e.staying(more))
}

// fitOn tells whether some nodes have room for pods.
func (e *emptying) fitOn(pods []*corev1.Pod, nodes []int) bool {
	_, places := e.place(pods, nodes)
	return len(places) == len(pods)
}

// fitsAlone is fit for one machine, before any has gone. It tries the machines with the most room first, then all; after emptyingsMax
// of the latter it returns false.
func (e *emptying) fitsAlone(n *node) bool {
	pods := e.podsOf([]*node{n})
	roomy := slices.DeleteFunc(slices.Clone(e.roomiest()), func(at int) bool { return e.nodes[at] == n })
	if e.fitOn(pods, roomy) {
		return true
	}
	e.tries++
	return e.tries <= emptyingsMax && e.fitOn(pods, e.staying([]*node{n}))
}

// roomiest returns the nodes with the largest free share. The share of a node is that of its scarcest resource.
func (e *emptying) roomiest() []int {
	if e.roomy != nil {
		return e.roomy
	}
	all, share := make([]int, len(e.nodes)), make([]float64, len(e.nodes))
	for i, n := range e.nodes {
		all[i], share[i] = i, 1
		for d, has := range n.allocatable {
			if has > 0 {
				share[i] = min(share[i], float64(has-n.used[d])/float64(has))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(share[b], share[a]) })
	e.roomy = all[:min(roomyMax+1, len(all))] // one of them may be the machine itself
	return e.roomy
}

// staying returns the nodes that stay once some more have gone.
func (e *emptying) staying(more []*node) (out []int) {
	goes := make(map[int]bool, len(more))
	for _, n := range more {
		goes[e.at[n]] = true
	}
	for i := range e.nodes {
		if !e.gone[i] && !goes[i] {
			out = append(out, i)
		}
	}
	return out
}

// podsOf returns the pods that have to leave some machines. Pods of DaemonSets and static pods end with the machine.
func (e *emptying) podsOf(nodes []*node) (out []*corev1.Pod) {
	for _, n := range nodes {
		for _, p := range n.pods {
			if of := metav1.GetControllerOf(p); of == nil || of.Kind != "DaemonSet" && of.Kind != "Node" {
				out = append(out, p)
			}
		}
		out = append(out, e.moved[e.at[n]]...)
	}
	return out
}

// place packs pods onto some nodes. It returns the nodes as machines with these pods on them, and by pod the index of its machine. Pods
// without room are not among them.
func (e *emptying) place(pods []*corev1.Pod, on []int) (machines []packing.Machine, places map[*corev1.Pod]int) {
	machines, nodes := make([]packing.Machine, len(on)), make([]*corev1.Node, len(on))
	for i, at := range on {
		machines[i], nodes[i] = packing.Machine{Capacity: e.nodes[at].allocatable, Used: slices.Clone(e.used[at])}, e.nodes[at].Node
	}
	return machines, e.f.pack(machines, nodes, pods, nil)
}
