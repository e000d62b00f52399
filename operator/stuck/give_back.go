package stuck

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// goneOf returns the machines that are given back and are still there.
func goneOf(x *family, now time.Time, cfg Config) map[string]bool {
	out := map[string]bool{}
	if x.had == nil || now.Sub(stateOf(x.had).lowered) >= cfg.step() {
		return out // what is still there then has stayed
	}
	names := strings.Split(x.had.Annotations[annotationGone], ",")
	for i := range x.machines {
		if slices.Contains(names, x.machines[i].name) {
			out[x.machines[i].name] = true
		}
	}
	return out
}

// giveBack finds the machines that can be missed: those whose pods find room on the others, and that are smaller than these
// in some resource, so that no row has a use for them once its smallest unit is what the others have.
func (f *fleet) giveBack(x *family, v *View, gone map[string]bool, cfg Config, now *state) map[string]bool {
	if v.Now.Sub(now.lowered) < cfg.step() {
		return gone
	}
	spare := f.spare(x)
	switch {
	case len(spare) == 0:
		now.spare = time.Time{}
		return nil
	case now.spare.IsZero():
		now.spare = v.Now
		return nil
	case v.Now.Sub(now.spare) < cfg.Keep:
		return nil
	}
	now.lowered = v.Now
	return spare
}

// spare are the machines that could be given back together, at most a quarter.
func (f *fleet) spare(x *family) map[string]bool {
	var nodes []*node
	all := &row{}
	for i := range x.machines {
		if m := &x.machines[i]; m.node != nil {
			nodes = append(nodes, m.node)
		}
	}
	if len(nodes) < 2 || len(nodes) < len(x.machines) {
		return nil
	}
	all.nodes = nodes
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b *node) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(f.size(a), f.size(b)), strings.Compare(b.Name, a.Name))
	})
	var out []*node
	for _, n := range sorted {
		if len(out) >= max(2, len(nodes)/stepShare) {
			break
		}
		if more := append(slices.Clone(out), n); f.fitsWithout(all, more) {
			out = more
		}
	}
	for keeps := -1; keeps != len(out); {
		keeps = len(out)
		gone := slices.Clone(out)
		out = slices.DeleteFunc(out, func(n *node) bool { return !f.certain(x, all, nodes, gone, n) })
	}
	names := map[string]bool{}
	for _, n := range out {
		names[n.Name] = true
	}
	return names
}

// certain tells whether a shard gives back a machine that is to go, and no other: it lacks something that all that stay
// have, so no row has a use for it; or none is larger, and each that is as large could be missed, since a row takes the
// cheapest first.
func (f *fleet) certain(x *family, row *row, all, gone []*node, n *node) bool {
	var least amounts
	for _, o := range all {
		if !slices.Contains(gone, o) {
			least = smallest(least, x.only(o.machine))
		}
	}
	if least == nil || !covers(n.machine, least) {
		return least != nil
	}
	for _, o := range all {
		if !covers(n.machine, x.only(o.machine)) || covers(o.machine, x.only(n.machine)) && !f.fitsWithout(row, []*node{o}) {
			return false
		}
	}
	return true
}

// smallest returns the smaller amount of each resource; nil stands for anything.
func smallest(a, b amounts) amounts {
	if a == nil {
		return slices.Clone(b)
	}
	out := slices.Clone(a)
	for d, x := range b {
		out[d] = min(out[d], x)
	}
	return out
}
