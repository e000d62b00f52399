package topology

import (
	"cmp"
	"math"
	"slices"
)

// What a Place says where it says nothing.
const (
	NoCPU   = -1 // the scheduler chooses
	AnyNode = -1 // so does the system; the same number as alloc's
)

// Place is where a worker goes.
type Place struct {
	CPU  int // the only CPU to run on, or NoCPU
	Node int // NUMA node that its memory should come from, or AnyNode
}

// Width is how many workers have a CPU of their own: as many as the process may
// use CPUs, and no more than its quota pays for, rounded up. At least 1.
func (t *Topology) Width() int {
	n := len(t.CPUs)
	if t.Quota > 0 && t.Quota < float64(n) {
		n = int(math.Ceil(t.Quota))
	}
	return max(n, 1)
}

// Workers returns where each of n workers goes. Those beyond Width, and all of
// them when t is nil, are left to the scheduler. Equal machines give equal
// plans. Cost: O(n × nodes).
func (t *Topology) Workers(n int) []Place {
	out := make([]Place, max(n, 0))
	for i := range out {
		out[i] = Place{NoCPU, AnyNode}
	}
	if t == nil {
		return out
	}
	queues := t.queues()
	for i := range min(n, t.Width()) {
		q := slices.MinFunc(queues, compareQueues)
		c := q.cpus[0]
		q.cpus = q.cpus[1:]
		q.taken++
		out[i] = Place{c.ID, t.memoryNode(c.Node)}
	}
	return out
}

// queue is what is free on one node, first threads of cores first.
type queue struct {
	cpus  []CPU
	taken int
}

// compareQueues puts first what the next worker goes to: a node whose next CPU
// is the first of its core, then the one with the fewest workers. MinFunc takes
// the first of equals, the node with the lowest number.
func compareQueues(a, b *queue) int {
	return cmp.Or(cmp.Compare(a.thread(), b.thread()), cmp.Compare(a.taken, b.taken))
}

func (q *queue) thread() int {
	if len(q.cpus) == 0 {
		return math.MaxInt
	}
	return q.cpus[0].Thread
}

// queues returns one queue per node that has CPUs, by node.
func (t *Topology) queues() []*queue {
	var out []*queue
	for _, n := range t.Nodes {
		q := new(queue)
		for _, c := range t.CPUs {
			if c.Node == n.ID {
				q.cpus = append(q.cpus, c)
			}
		}
		slices.SortStableFunc(q.cpus, func(a, b CPU) int { return cmp.Compare(a.Thread, b.Thread) })
		if len(q.cpus) > 0 {
			out = append(out, q)
		}
	}
	return out
}

// memoryNode returns the node nearest to a node that has memory, itself if it
// has; AnyNode when there is no choice.
func (t *Topology) memoryNode(node int) int {
	at := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == node })
	best, least, with := AnyNode, math.MaxInt, 0
	for i, n := range t.Nodes {
		if n.MemoryBytes <= 0 {
			continue
		}
		with++
		away := math.MaxInt - 1
		if d := t.Nodes[at].distance; i == at {
			away = -1
		} else if i < len(d) {
			away = d[i]
		}
		if away < least {
			best, least = n.ID, away
		}
	}
	if with < 2 {
		return AnyNode
	}
	return best
}
