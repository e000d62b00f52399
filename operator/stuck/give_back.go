package stuck

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// goneOf returns the machines that are given back and are still there; none once the shard has given back others instead.
func (f *fleet) goneOf(x *family, now time.Time, cfg Config) map[string]bool {
	out := map[string]bool{}
	if x.had == nil || now.Sub(stateOf(x.had).lowered) >= cfg.step() {
		return out // what is still there then has stayed
	}
	names := strings.Split(x.had.Annotations[annotationGone], ",")
	stay := make(amounts, len(f.dims))
	for i := range x.machines {
		if m := &x.machines[i]; slices.Contains(names, m.name) {
			out[m.name] = true
		} else {
			stay = f.plus(stay, m.amounts)
		}
	}
	if !covers(stay, x.only(f.amounts(x.had.Spec.Resources))) {
		return nil
	}
	return out
}

// giveBack finds the machines that can be missed: those whose pods find room on the others, and that a shard gives back when the
// rows ask for the others alone.
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
	if x.had == nil || x.had.Annotations[annotationGone] != namesOf(spare) { // else they have stayed, and it rests at that
		now.lowered = v.Now
	}
	return spare
}

// namesOf lists machines in an annotation.
func namesOf(machines map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(machines)), ",")
}

// spare are the machines that could be given back together, at most a quarter. What stays has as much as all pods ask for: the rows never ask for
// less, also where pods are on machines that are not the family's, so a shard would buy another.
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
	found := f.emptied(x, all, sorted)
	out := useless(x, nodes, found)
	canGo := f.canGo(all)
	for n := len(found); len(out) == 0 && n > 0; n = fewer(n) {
		if f.anyMayGo(x, all, found[:n], canGo) {
			out = found[:n]
		}
	}
	names := map[string]bool{}
	for _, n := range out {
		names[n.Name] = true
	}
	return names
}

// emptied returns machines that can be missed together, in their order: the machines that stay offer as much as all pods ask for, and have
// room for the pods. It tries twice as many at once after each success, and half as many after a failure; one at a time would pack all
// pods that move once for each machine.
func (f *fleet) emptied(x *family, all *row, sorted []*node) (out []*node) {
	others, most := f.emptying(all), max(2, len(sorted)/stepShare)
	stays, wanted := f.askedBy(x, nil, nil), x.only(f.wantedOf(x))
	failed := 0
	for at, step := 0, 1; at < len(sorted) && len(out) < most && failed < emptyingsMax; {
		var more []*node
		left, next := stays, at
		for ; next < len(sorted) && len(more) < min(step, most-len(out)); next++ {
			if less := minus(left, x.only(sorted[next].machine)); covers(less, wanted) {
				more, left = append(more, sorted[next]), less
			}
		}
		switch {
		case len(more) == 0 || others.empty(more):
			out, stays, at, step = append(out, more...), left, next, 2*step
		case len(more) > 1:
			step = len(more) / 2
		default:
			at, step = next, 1
			failed++
		}
	}
	return out
}

// fewer is how many machines are tried after n of them were too many: half of them, or one less of a few.
func fewer(n int) int {
	const few = 8
	if n > few {
		return n / 2
	}
	return n - 1
}

// useless returns those of the machines that are to go that no row has a use for: each offers less of some resource than every machine
// that stays.
func useless(x *family, all, gone []*node) []*node {
	for {
		goes := map[*node]bool{}
		for _, n := range gone {
			goes[n] = true
		}
		var least amounts
		for _, o := range all {
			if !goes[o] {
				least = smallest(least, x.only(o.machine))
			}
		}
		out := slices.DeleteFunc(slices.Clone(gone), func(n *node) bool { return least == nil || covers(n.machine, least) })
		if len(out) == len(gone) {
			return out
		}
		gone = out
	}
}

// anyMayGo tells whether it does not matter which machines a shard gives back when the rows ask for all but some. It keeps those that
// come first in its own order, by price for the most part, and leaves out any others that offer no more together than those
// do. So each that offers no more could be missed, and so could as many of the fullest as offer no more, and no larger number
// offers as little.
func (f *fleet) anyMayGo(x *family, all *row, gone []*node, canGo func(*node) bool) bool {
	most := make(amounts, len(f.dims))
	for _, n := range gone {
		most = f.plus(most, x.only(n.machine))
	}
	var may, fullest []*node
	for _, o := range all.nodes {
		if covers(most, x.only(o.machine)) {
			may = append(may, o)
		}
	}
	slices.SortStableFunc(may, func(a, b *node) int { return cmp.Compare(len(b.pods), len(a.pods)) })
	var sum amounts
	for _, o := range may {
		if more := f.plus(x.only(o.machine), sum); covers(most, more) {
			fullest, sum = append(fullest, o), more
		}
	}
	return f.offerMore(x, may, len(gone)+1, most) && f.emptying(all).fit(fullest) &&
		!slices.ContainsFunc(may, func(o *node) bool { return !canGo(o) })
}

// canGo returns what tells whether a machine alone could be missed. It packs the pods of each but once.
func (f *fleet) canGo(all *row) func(*node) bool {
	known, others := map[*node]bool{}, f.emptying(all)
	return func(n *node) bool {
		is, some := known[n]
		if !some {
			is = others.fitsAlone(n)
			known[n] = is
		}
		return is
	}
}

// offerMore tells whether any so many of some machines offer more of some resource than there is; true where there are fewer.
func (f *fleet) offerMore(x *family, nodes []*node, n int, of amounts) bool {
	if len(nodes) < n {
		return true
	}
	for d := range f.dims {
		var offers []int64
		for _, o := range nodes {
			offers = append(offers, x.only(o.machine)[d])
		}
		slices.Sort(offers)
		sum := int64(0)
		for _, a := range offers[:n] {
			sum += a
		}
		if sum > of[d] {
			return true
		}
	}
	return false
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
