package stuck

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
)

// Every machine of a row has to hold the largest of its pods. So one pod that no machine on offer can hold keeps all others of its row from
// machines that are smaller. Once a shard has none for the row, its largest pods are asked for apart, size by size, until it has some for the rest.

// waitsInVain tells whether some of these pods have waited long enough for a scheduler that is busy, and the shard has no machines for their row.
func (f *fleet) waitsInVain(pods []*corev1.Pod, now time.Time, cfg Config) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		since, is := unschedulable(p)
		return is && now.Sub(since) >= patience*cfg.After && f.none(p)
	})
}

// none tells whether the shard answers that there are no machines for a pod, and that none come.
func (f *fleet) none(p *corev1.Pod) bool {
	r := f.asked[p.UID]
	if r == nil {
		return false
	}
	is := meta.FindStatusCondition(r.Status.Conditions, api.ConditionSatisfied)
	return is != nil && is.Status == metav1.ConditionFalse && is.Reason != api.ReasonWaitingForMachines && is.Reason != api.ReasonWaitingForDrain
}

// sizesOf returns the sizes of pods by the kind of their rows, the largest first: by the largest share of a resource in the largest amount of it.
func (f *fleet) sizesOf(x *family, pods []*corev1.Pod) [][]amounts {
	kinds := map[string][]amounts{}
	for _, r := range x.rows {
		for _, p := range r.stuck {
			if slices.Contains(pods, p) && !slices.ContainsFunc(kinds[r.Kind], func(a amounts) bool { return slices.Equal(a, f.asks(p)) }) {
				kinds[r.Kind] = append(kinds[r.Kind], f.asks(p))
			}
		}
	}
	var out [][]amounts
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		sizes := kinds[kind]
		top := make(amounts, len(f.dims))
		for _, a := range sizes {
			top = largest(top, a)
		}
		share := func(a amounts) (most float64) {
			for d, n := range a {
				if n > 0 {
					most = max(most, float64(n)/float64(top[d]))
				}
			}
			return most
		}
		slices.SortFunc(sizes, func(a, b amounts) int { return cmp.Or(cmp.Compare(share(b), share(a)), slices.Compare(b, a)) })
		out = append(out, sizes)
	}
	return out
}

// mayPart tells whether one size more can be asked for apart.
func (f *fleet) mayPart(x *family, stuck []*corev1.Pod, apart int) bool {
	return apart < rollup.ApartMax && slices.ContainsFunc(f.sizesOf(x, stuck), func(sizes []amounts) bool { return len(sizes) > apart+1 })
}

// apart are the sizes that are asked for apart: the largest of each kind, but for its smallest.
func (f *fleet) apart(x *family, stuck []*corev1.Pod, n int) (out []amounts) {
	for _, sizes := range f.sizesOf(x, stuck) {
		out = append(out, sizes[:min(n, len(sizes)-1)]...)
	}
	return out[:min(len(out), rollup.ApartMax)]
}

// missedApart is what the pods of some sizes miss.
func (f *fleet) missedApart(x *family, sizes []amounts) (out []missing) {
	for _, size := range sizes {
		m := missing{asks: make(amounts, len(f.dims)), unit: size}
		for _, r := range x.rows {
			for _, p := range r.pending {
				if slices.Equal(f.asks(p), size) {
					m.asks = f.plus(m.asks, size)
				}
			}
		}
		out = append(out, m)
	}
	return out
}

// ofOtherSizes are pods of other sizes.
func (f *fleet) ofOtherSizes(pods []*corev1.Pod, sizes []amounts) []*corev1.Pod {
	if len(sizes) == 0 {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return slices.ContainsFunc(sizes, func(a amounts) bool { return slices.Equal(a, f.asks(p)) })
	})
}
