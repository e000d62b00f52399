package rollup

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// tooManyNames tells whether the rows of the roll-up name more resources than a shard
// takes.
func (g *Aggregator) tooManyNames(limits *Limits) bool {
	if len(g.dims.names) <= UnofferedMax || limits.Offered == nil && len(g.dims.names) <= DimensionsMax {
		return false
	}
	seen := make([]bool, len(g.dims.names))
	all, unoffered := 0, 0
	for i := range g.rows {
		if r := &g.rows[i]; r.round == g.round {
			for j := range r.amounts {
				dim := r.amounts[j].dim
				if seen[dim] {
					continue
				}
				seen[dim] = true
				all++
				if !limits.offers(g.dims.names[dim]) {
					unoffered++
				}
			}
		}
	}
	return all > DimensionsMax || unoffered > UnofferedMax
}

// namer is a namespace that names resources.
type namer struct {
	name  string
	asked map[string]int // by resource: how many of its requests name it
	order []string       // what it would have next, first
	taken int
}

// fairNames picks the resources that are reported when there are too many. Namespaces
// take turns, and the one with the fewest is next. Each begins with cpu, memory and pods, and goes on
// with those that most of its requests name.
func fairNames(requests []*api.CapacityRequest, rowOf []uint32, limits *Limits) map[string]bool {
	by := map[string]*namer{}
	for i, request := range requests {
		if rowOf[i] == nowhere {
			continue
		}
		n := by[request.Namespace]
		if n == nil {
			n = &namer{name: request.Namespace, asked: map[string]int{}}
			by[n.name] = n
		}
		for name, quantity := range request.Spec.Resources {
			if !quantity.IsZero() {
				n.asked[string(name)]++
			}
		}
	}
	line := make(namers, 0, len(by))
	for _, n := range by {
		for name := range n.asked {
			n.order = append(n.order, name)
		}
		slices.SortFunc(n.order, func(x, y string) int {
			return cmp.Or(compareBool(model.AlwaysOffered(y), model.AlwaysOffered(x)), cmp.Compare(n.asked[y], n.asked[x]), strings.Compare(x, y))
		})
		line = append(line, n)
	}
	heap.Init(&line)
	only, unoffered := map[string]bool{}, 0
	if _, is := limits.Offered[string(corev1.ResourcePods)]; is {
		only[string(corev1.ResourcePods)] = true // every request has its pod, and none names it
	}
	for len(line) > 0 {
		n := line[0]
		if len(n.order) == 0 {
			heap.Pop(&line)
			continue
		}
		name, strange := n.order[0], !limits.offers(n.order[0])
		n.order = n.order[1:]
		if !only[name] {
			if len(only) == DimensionsMax || strange && unoffered == UnofferedMax {
				continue
			}
			only[name] = true
			if strange {
				unoffered++
			}
		}
		n.taken++
		heap.Fix(&line, 0)
	}
	return only
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}

// namers are a heap: whoever has the fewest names is next.
type namers []*namer

func (l namers) Len() int      { return len(l) }
func (l namers) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l namers) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].taken, l[j].taken), strings.Compare(l[i].name, l[j].name)) < 0
}
func (l *namers) Push(x any) { *l = append(*l, x.(*namer)) }
func (l *namers) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}
