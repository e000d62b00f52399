package assign

import (
	"math"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// NotePriorities records what each of a cluster's machines is worth as a victim after its
// credit: the priority of the need that claims it, or of its stamp if none does. classes is a
// bitmap of the classes to refresh, nil = all; the values of other classes stay valid.
func (l *Worker) NotePriorities(c int, classes []uint64) {
	priority := l.p.st.Priority
	bound := l.p.Snap.BoundOf(c)
	for _, g := range l.p.Snap.GroupsOf(c) {
		if classes == nil || classes[g.Class>>6]>>(g.Class&63)&1 != 0 {
			for at := g.First + 1; at != 0; at = bound[at-1].Next {
				r := bound[at-1].Row
				priority[r] = l.p.PriorityOf(r)
			}
		}
	}
	l.findCheapest(c, classes)
}

// findCheapest finds, per class, the lowest recorded priority of a cluster's Configured
// machines. classes is a bitmap of the classes to refresh, nil = all; others keep their value.
func (l *Worker) findCheapest(c int, classes []uint64) {
	x, priority := &l.p.st.Clusters[c], l.p.st.Priority
	l.Crediting.cheapest = append(l.Crediting.cheapest[:0], x.Cheapest...)
	was := l.Crediting.cheapest
	x.Cheapest = x.Cheapest[:0]
	configured := uint32(l.p.Snap.Configured(c))
	bound := l.p.Snap.BoundOf(c)
	for _, g := range l.p.Snap.GroupsOf(c) {
		for len(was) > 0 && was[0].Class < g.Class {
			was = was[1:]
		}
		if classes != nil && classes[g.Class>>6]>>(g.Class&63)&1 == 0 && len(was) > 0 && was[0].Class == g.Class {
			x.Cheapest = append(x.Cheapest, was[0])
			continue
		}
		lowest := int32(math.MaxInt32)
		for at := g.First + 1; at != 0 && at <= configured; at = bound[at-1].Next {
			r := bound[at-1].Row
			if lowest = min(lowest, priority[r]); !l.p.Claimed(r) && l.p.Opts.Victims == plan.VictimsGang {
				lowest = math.MinInt32 // excess is there for every priority
			}
		}
		x.Cheapest = append(x.Cheapest, cycle.ClassPriority{Class: g.Class, Priority: lowest})
	}
}

// PriorityOf returns what a bound machine is worth now: the priority of the need that claims
// it, or of its stamp if none does.
func (p *Pass) PriorityOf(r columnar.Row) int32 {
	if h := p.Claims.Of(r); h != state.Unclaimed {
		return p.KindOf(h).Priority
	}
	return p.Snap.View.Priority(r)
}
