package stuck

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	// stepTime is between two times that something of a row is taken back, at the most: in it machines
	// leave, and their pods find other nodes.
	stepTime = time.Minute
	// stepShare is the part of a row's nodes that is taken back at a time, at the most.
	stepShare = 4
)

// step is the time between two times that something of a row is taken back.
func (c Config) step() time.Duration { return min(stepTime, c.Keep) }

// held is what the machines are that a row uses, as the shard counts them.
func (f *fleet) held(r *row) amounts {
	out := make(amounts, len(f.dims))
	for _, n := range f.counted(r) {
		for d, x := range n.machine {
			out[d] += x
		}
	}
	return out
}

// counted are the nodes of a row that a shard counts for it.
func (f *fleet) counted(r *row) (out []*node) {
	unit := f.unit(r)
	for _, n := range r.nodes {
		if n.machine != nil && covers(n.machine, unit) {
			out = append(out, n)
		}
	}
	return out
}

// unit is the most that a pod of a row asks for of each resource.
func (f *fleet) unit(r *row) amounts {
	out := make(amounts, len(f.dims))
	for _, pods := range [][]*corev1.Pod{r.pods, r.pending} {
		for _, p := range pods {
			out = largest(out, f.asks(p))
		}
	}
	return out
}

// wanted is what the pods of a row ask for.
func (f *fleet) wanted(r *row) amounts {
	out := f.sum(r.pods)
	for d, x := range f.sum(r.pending) {
		out[d] += x
	}
	return out
}

// least is what a row asks for at the least.
func (f *fleet) least(r *row) amounts {
	if r.had == nil {
		return make(amounts, len(f.dims))
	}
	return f.amounts(r.had.Spec.Resources)
}

// lower takes back what has been spare for [Config.Keep]: what is more than the machines that a row uses,
// and of these the smallest whose pods find room on the others.
func (f *fleet) lower(v *View, r *row, cfg Config, out *Result) {
	had, uses, wants, was := f.least(r), f.held(r), f.wanted(r), stateOf(r.had)
	if v.Now.Sub(was.lowered) < cfg.step() {
		return // the shard gives back what it is
	}
	if len(r.pending) == 0 {
		for _, n := range f.superfluous(r) {
			for d, x := range n.machine {
				uses[d] = max(0, uses[d]-x)
			}
		}
	}
	less, some := false, false
	for d := range had {
		less = less || uses[d] < had[d]
		some = some || wants[d] > 0 && uses[d] > wants[d]
	}
	now := state{spare: was.spare} // nothing is stuck
	switch {
	case !less:
		now.spare = time.Time{}
	case was.spare.IsZero():
		now.spare = v.Now
	case v.Now.Sub(was.spare) >= cfg.Keep && !some:
		out.Delete = append(out.Delete, r.had)
		return
	case v.Now.Sub(was.spare) >= cfg.Keep:
		now.lowered = v.Now
		out.Write = append(out.Write, f.overhead(r, uses, now))
		return
	}
	if now != was {
		out.Write = append(out.Write, f.overhead(r, had, now))
	}
}

// superfluous returns machines of a row whose pods find room on its other nodes, the smallest first: a
// quarter of the row's if they can be missed, else half as many, down to one. The shard knows of no
// pods, and gives machines back as it likes: so each machine that is no larger than one of these can be missed, too.
func (f *fleet) superfluous(r *row) []*node {
	ours := f.counted(r)
	slices.SortFunc(ours, func(a, b *node) int {
		return cmp.Or(cmp.Compare(f.size(a), f.size(b)), strings.Compare(a.Name, b.Name))
	})
	others := f.emptying(r)
	for k := len(ours) / stepShare; k > 1; k /= 2 {
		if others.fit(ours[:k]) {
			return ours[:k]
		}
	}
	if len(ours) < 2 {
		return nil
	}
	for _, n := range ours {
		if covers(ours[0].machine, n.machine) && !others.fitsAlone(n) {
			return nil
		}
	}
	return ours[:1]
}

// size is how large a node is among the row's: cores count as thousandths, memory as MiB.
func (f *fleet) size(n *node) (s float64) {
	for d, x := range n.allocatable {
		switch f.dims[d] {
		case corev1.ResourceCPU:
			s += float64(x)
		case corev1.ResourceMemory:
			s += float64(x) / (4 << 20)
		}
	}
	return s
}

// count adds a row's overhead up: what it asks for beyond the sum of its pods.
func (f *fleet) count(r *row, out *Result) {
	if r.had == nil {
		return
	}
	wants := f.wanted(r)
	for d, x := range f.least(r) {
		q := quantity(f.dims[d], max(0, x-wants[d]))
		out.Overhead[f.dims[d]] += q.AsApproximateFloat64()
	}
}

// overhead makes the request that says what a row asks for at the least: of what its pods ask for. A shard whose
// machines do not have the others would find none.
func (f *fleet) overhead(r *row, least amounts, now state) *api.CapacityRequest {
	out := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(r.Key), Namespace: r.of.Namespace, Labels: map[string]string{api.LabelPackingOverhead: r.Tag},
		Annotations: map[string]string{annotationAbsorbed: strconv.Itoa(now.tried.absorbed), annotationInVain: strconv.Itoa(now.tried.inVain)},
	}}
	for annotation, at := range map[string]time.Time{annotationRaised: now.raised, annotationSpare: now.spare, annotationLowered: now.lowered} {
		if !at.IsZero() {
			out.Annotations[annotation] = at.UTC().Format(time.RFC3339)
		}
	}
	if r.had != nil {
		out.Namespace = r.had.Namespace
	}
	least = slices.Clone(least)
	for d, x := range f.wanted(r) {
		if x == 0 {
			least[d] = 0
		}
	}
	out.Spec = *r.of.Spec.DeepCopy()
	out.Spec.Resources = f.list(least)
	return out
}
