package stuck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
)

// Every machine of a row has to hold the largest of its pods. So one pod that no machine on offer can hold keeps all others of its row from
// machines that are smaller. Once a shard has none for the row, its largest pods are asked for apart, more of them each minute, until it has some for
// the rest. The sizes that were set apart last have a row each, in case there is a machine for one of them; all larger ones share a row.

// parting is how many sizes of pods are asked for apart.
type parting struct {
	sizes string    // "kind=n,…": of each kind of rows, how many from the largest on; "" = none
	at    time.Time // when the last was set apart
}

// partingOf reads what a plan says.
func partingOf(o *api.CapacityRequest) (p parting) {
	if o != nil {
		p.sizes, p.at = o.Annotations[annotationApart], timeOf(o, annotationParted)
	}
	return p
}

// counts are the numbers of sizes by kind.
func (p *parting) counts() map[string]int {
	out := map[string]int{}
	for field := range strings.SplitSeq(p.sizes, ",") {
		kind, text, _ := strings.Cut(field, "=")
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			out[kind] = n
		}
	}
	return out
}

// textOfCounts writes them.
func textOfCounts(counts map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s=%d", kind, counts[kind]))
	}
	return strings.Join(out, ",")
}

// kindOf is the kind of a row, as its tag has it.
func kindOf(r *row) string {
	kind, _, _ := strings.Cut(r.Tag, "-")
	return kind
}

// waiting are pods that find no machine: those that are stuck, and those of which nobody knows a machine that would hold them.
type waiting struct {
	pods     []*corev1.Pod        // those that find no room on a machine that comes either
	row      map[*corev1.Pod]*row // of all of them
	helpless map[*corev1.Pod]bool
}

func (x *family) waiting() waiting {
	out := waiting{row: map[*corev1.Pod]*row{}, helpless: map[*corev1.Pod]bool{}}
	for _, r := range x.rows {
		for _, p := range slices.Concat(r.stuck, r.helpless) {
			out.pods, out.row[p] = append(out.pods, p), r
		}
		for _, p := range r.helpless {
			out.helpless[p] = true
		}
	}
	return out
}

// split parts them into those of which nobody knows a machine that would hold them, and those that are stuck.
func (w *waiting) split() (helpless, stuck []*corev1.Pod) {
	for _, p := range w.pods {
		if w.helpless[p] {
			helpless = append(helpless, p)
		} else {
			stuck = append(stuck, p)
		}
	}
	return helpless, stuck
}

// waitsInVain tells whether a pod has waited long enough for a scheduler that is busy, and the shard answers that there are no machines for
// it and that none come.
func (f *fleet) waitsInVain(p *corev1.Pod, now time.Time, cfg Config) bool {
	since, is := unschedulable(p)
	if r := f.asked[p.UID]; is && r != nil && now.Sub(since) >= patience*cfg.After {
		c := meta.FindStatusCondition(r.Status.Conditions, api.ConditionSatisfied)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason != api.ReasonWaitingForMachines && c.Reason != api.ReasonWaitingForDrain
	}
	return false
}

// sizesOf returns the sizes of pods by the kind of their rows, the largest first. How large one is: its share of the largest amount of a resource, of
// the resource of which that is most.
func (f *fleet) sizesOf(w *waiting) map[string][]amounts {
	out, seen := map[string][]amounts{}, map[string]bool{}
	for _, p := range w.pods {
		kind, size := kindOf(w.row[p]), f.asks(p)
		if key := kind + " " + textOf(size); !seen[key] {
			seen[key], out[kind] = true, append(out[kind], size)
		}
	}
	for _, sizes := range out {
		top := make(amounts, len(f.dims))
		for _, a := range sizes {
			top = largest(top, a)
		}
		share := func(a amounts) (most float64) {
			for d, n := range a {
				if n > 0 && f.dims[d] != corev1.ResourcePods { // each is one
					most = max(most, float64(n)/float64(top[d]))
				}
			}
			return most
		}
		slices.SortFunc(sizes, func(a, b amounts) int { return cmp.Or(cmp.Compare(share(b), share(a)), slices.Compare(b, a)) })
	}
	return out
}

// singlesOf is how many sizes of each kind may have a row each, where one row more is for all that are larger.
func singlesOf(kinds int) int { return max(0, rollup.ApartMax/max(1, kinds)-1) }

// part has more sizes asked for apart, of those kinds of which pods wait in vain: half as many again, and no more than have a row each for a while. One
// size of each kind is not apart. What is apart stays so for as long as pods of the kind find no machine.
func (f *fleet) part(w *waiting, kinds map[string][]amounts, was parting, now time.Time, cfg Config) parting {
	due, bands := map[string]bool{}, bandsOf(kinds, was)
	for _, p := range w.pods {
		kind := kindOf(w.row[p])
		due[kind] = due[kind] || now.Sub(was.at) >= patience*cfg.After && f.waitsInVain(p, now, cfg) &&
			!slices.ContainsFunc(bands, func(b band) bool { return b.has(f, w.row[p], p) })
	}
	before, counts, out := was.counts(), map[string]int{}, parting{at: was.at}
	for kind, sizes := range kinds {
		n := before[kind]
		if due[kind] && n < len(sizes)-1 {
			n = min(len(sizes)-1, n+max(1, min(n/2, singlesOf(len(kinds)))))
			out.at = now
		}
		if n > 0 {
			counts[kind] = n
		}
	}
	if out.sizes = textOfCounts(counts); out.sizes == "" {
		return parting{}
	}
	return out
}

// band is what one row asks for apart.
type band struct {
	kind  string
	sizes map[string]bool // as textOf writes them
}

// bandsOf are the rows that are asked for apart, of the sizes of each kind.
func bandsOf(kinds map[string][]amounts, p parting) (out []band) {
	counts := p.counts()
	if len(counts) == 0 {
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		sizes := kinds[kind]
		sizes = sizes[:min(counts[kind], len(sizes)-1)]
		shared := max(0, len(sizes)-singlesOf(len(kinds)))
		for i, a := range sizes {
			if i == 0 || i >= shared {
				out = append(out, band{kind, map[string]bool{}})
			}
			out[len(out)-1].sizes[textOf(a)] = true
		}
	}
	return out[:min(len(out), rollup.ApartMax)]
}

// has tells whether a band is for a pod of a row.
func (b *band) has(f *fleet, r *row, p *corev1.Pod) bool {
	return b.kind == kindOf(r) && b.sizes[textOf(f.asks(p))]
}

// notApart are those pods of a row that no band is for.
func (f *fleet) notApart(r *row, pods []*corev1.Pod, bands []band) []*corev1.Pod {
	if len(bands) == 0 {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
		return slices.ContainsFunc(bands, func(b band) bool { return b.has(f, r, p) })
	})
}

// missedApart is what the bands miss: what waits, as often as more was asked for in vain, and what has come since beyond what there is room for.
func (f *fleet) missedApart(x *family, w *waiting, bands []band, room amounts, often int) (out []missing) {
	for i := range bands {
		m, fresh := missing{asks: make(amounts, len(f.dims)), unit: make(amounts, len(f.dims))}, make(amounts, len(f.dims))
		for _, p := range w.pods {
			if a := f.asks(p); bands[i].has(f, w.row[p], p) {
				m.asks, m.unit = f.plus(m.asks, a), largest(m.unit, a)
			}
		}
		for d := range m.asks {
			m.asks[d] <<= often
		}
		for _, r := range x.rows {
			for _, p := range r.pending {
				if w.row[p] == nil && bands[i].has(f, r, p) {
					fresh = f.plus(fresh, f.asks(p))
				}
			}
		}
		for d, n := range fresh {
			m.asks[d] += max(0, n-room[d])
			room[d] = max(0, room[d]-n)
		}
		out = append(out, m)
	}
	return out
}
