package stuck

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tonnage/tonnage/operator/packing"
)

const (
	// roomyMax is how many machines are looked at first for the pods of a single one: those with the most room.
	roomyMax = 32
	// emptyingsMax is how often the pods of single machines are looked for room on all others, in one plan. A machine that is not looked
	// at stays.
	emptyingsMax = 256
)

// emptying moves the pods of machines that are to go to those that stay. All other pods stay where they are. It finds a way, not the
// best one: pods that have moved move again only when their machine is to go, too.
type emptying struct {
	f     *fleet
	nodes []*node
	at    map[*node]int
	used  []amounts       // by node: what is used, with what has moved there
	moved [][]*corev1.Pod // by node: the pods that have moved there
	gone  []bool          // by node
	roomy []int           // the nodes with the most room, before any was emptied
	tries int             // of single machines on all others
}

// emptying is of the machines of a row; nothing has moved yet.
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

// empty moves the pods of some more machines; false if they do not find room on those that stay, and then nothing changes.
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

// fit tells whether the pods of some more machines find room on those that stay.
func (e *emptying) fit(more []*node) bool {
	return e.fitOn(e.podsOf(more), e.staying(more))
}

// fitOn tells whether pods find room on some nodes.
func (e *emptying) fitOn(pods []*corev1.Pod, nodes []int) bool {
	_, places := e.place(pods, nodes)
	return len(places) == len(pods)
}

// fitsAlone is fit for one machine: on those with the most room, or else, while few were looked for there, on all.
func (e *emptying) fitsAlone(n *node) bool {
	pods := e.podsOf([]*node{n})
	roomy := slices.DeleteFunc(slices.Clone(e.roomiest()), func(at int) bool { return e.gone[at] || e.nodes[at] == n })
	if e.fitOn(pods, roomy) {
		return true
	}
	e.tries++
	return e.tries <= emptyingsMax && e.fitOn(pods, e.staying([]*node{n}))
}

// roomiest returns the nodes of which the largest part is free, of the resource of which that is least.
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

// staying are the nodes that have not gone and are not among some more.
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

// podsOf are the pods that have to leave some machines. Those that run on every node stay.
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

// place looks for room for pods on some nodes. It returns these as machines with the pods on them, and the machines of the pods that
// found room.
func (e *emptying) place(pods []*corev1.Pod, on []int) (machines []packing.Machine, places map[*corev1.Pod]int) {
	machines, nodes := make([]packing.Machine, len(on)), make([]*corev1.Node, len(on))
	for i, at := range on {
		machines[i], nodes[i] = packing.Machine{Capacity: e.nodes[at].allocatable, Used: slices.Clone(e.used[at])}, e.nodes[at].Node
	}
	return machines, e.f.pack(machines, nodes, pods, nil)
}
