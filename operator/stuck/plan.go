package stuck

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/packing"
	"github.com/tonnage/tonnage/operator/rollup"
)

// FailuresMax is how often machines come for a row's overhead on which its pods do not run either,
// before nothing more is asked for.
const FailuresMax = 5

// Annotations of a request that is overhead.
const (
	annotationRaised   = "tonnage.dev/raised-at" // RFC 3339
	annotationAbsorbed = "tonnage.dev/raised-absorbed"
	annotationInVain   = "tonnage.dev/raised-in-vain"
)

// Reason says what a pod is told.
type Reason string

// The reasons of events.
const (
	Added   Reason = "MachineAsked"       // more was asked for
	NoHelp  Reason = "NoMachineWouldHelp" // it would not run on an empty machine either
	GivenUp Reason = "MachinesDidNotHelp" // what was added has not helped
)

// Note is what a pod is told.
type Note struct {
	Pod     *corev1.Pod
	Reason  Reason
	Message string
}

// Config says how patient a planner is.
type Config struct {
	// After is how long a pod is unschedulable, and its request acknowledged, before it is stuck.
	After time.Duration
	// Keep is how long overhead is kept at the least.
	Keep time.Duration
}

// Result is what is to be done. Write has whole objects without status.
type Result struct {
	Write  []*api.CapacityRequest
	Delete []*api.CapacityRequest
	Notes  []Note
	// Stuck is how many pods are stuck and would run on an empty machine, NoHelp how many would not.
	Stuck, NoHelp int
}

// row is a row of the cluster's roll-up.
type row struct {
	rollup.Row
	of      *api.CapacityRequest // one of its requests
	pods    []*corev1.Pod        // on nodes
	pending []*corev1.Pod        // without one
	stuck   []*corev1.Pod
	nodes   []*node // whose room counts as the row's
	had     *api.CapacityRequest
}

// Plan says what is to be done. It depends on the view alone. Without pods that could be
// stuck and without overhead it looks at each pod once and at nothing else.
func Plan(v *View, cfg Config) *Result {
	var waiting []*corev1.Pod
	for _, p := range v.Pods {
		if since, is := unschedulable(p); is && v.Now.Sub(since) >= cfg.After {
			waiting = append(waiting, p)
		}
	}
	had := overheads(v)
	out := &Result{}
	if len(waiting) == 0 && len(had) == 0 {
		return out
	}
	f := look(v)
	rows := f.rows(v, had)
	f.attribute(rows)
	requests := requestsByPod(v)
	for _, p := range waiting {
		r := requests[p.UID]
		if r == nil || r.Status.AcknowledgedAt == nil || v.Now.Sub(r.Status.AcknowledgedAt.Time) < cfg.After || len(r.Spec.TopologySpread) > 0 {
			continue
		}
		id, err := rollup.RowOf(r)
		if err != nil {
			continue
		}
		if ok, why := f.helps(p, v); !ok {
			out.NoHelp++
			out.Notes = append(out.Notes, Note{p, NoHelp, "no machine would help: " + why})
			continue
		}
		rows[id.Key].stuck = append(rows[id.Key].stuck, p)
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if r := rows[key]; len(r.stuck) > 0 {
			f.raise(v, r, cfg, out)
		} else if r.had != nil {
			f.lower(v, r, cfg, out)
		}
	}
	kept := map[*api.CapacityRequest]bool{}
	for _, r := range rows {
		kept[r.had] = true
	}
	for _, o := range had {
		if !kept[o] {
			out.Delete = append(out.Delete, o) // nobody is in its row any more
		}
	}
	return out
}

// overheads returns the requests that are overhead.
func overheads(v *View) (out []*api.CapacityRequest) {
	for _, r := range v.Requests {
		if r.Labels[api.LabelPackingOverhead] != "" && r.DeletionTimestamp == nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *api.CapacityRequest) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// rows returns the rows of all pods whose requests were acknowledged, by key.
func (f *fleet) rows(v *View, had []*api.CapacityRequest) map[string]*row {
	rows := map[string]*row{}
	requests := requestsByPod(v)
	for _, p := range v.Pods {
		request := requests[p.UID]
		if request == nil || ended(p) {
			continue
		}
		id, err := rollup.RowOf(request)
		if err != nil {
			continue
		}
		r := rows[id.Key]
		if r == nil {
			r = &row{Row: id, of: request}
			rows[id.Key] = r
		}
		if p.Spec.NodeName != "" {
			r.pods = append(r.pods, p)
		} else {
			r.pending = append(r.pending, p)
		}
	}
	names := map[string]*api.CapacityRequest{}
	for _, o := range had {
		names[o.Name] = o
	}
	for _, r := range rows {
		r.had = names[nameOf(r.Key)]
	}
	return rows
}

// nameOf is the name of a row's overhead.
func nameOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "packing-overhead-" + hex.EncodeToString(sum[:8])
}

// attribute says whose the room of each node is: the row's whose pods take up the largest
// share of any of the node's resources.
func (f *fleet) attribute(rows map[string]*row) {
	byPod := map[types.UID]*row{}
	for _, r := range rows {
		for _, p := range r.pods {
			byPod[p.UID] = r
		}
	}
	for _, n := range f.nodes {
		sums := map[*row]amounts{}
		for _, p := range n.pods {
			r := byPod[p.UID]
			if r == nil {
				continue
			}
			if sums[r] == nil {
				sums[r] = make(amounts, len(f.dims))
			}
			for d, x := range f.asks(p) {
				sums[r][d] += x
			}
		}
		var owner *row
		most := 0.0
		for r, sum := range sums {
			share := 0.0
			for d, x := range sum {
				if n.allocatable[d] > 0 {
					share = max(share, float64(x)/float64(n.allocatable[d]))
				}
			}
			if owner == nil || share > most || share == most && r.Key < owner.Key {
				owner, most = r, share
			}
		}
		if owner != nil {
			n.owner, owner.nodes = owner, append(owner.nodes, n)
		}
	}
}

// raise asks for more for a row with pods that are stuck.
func (f *fleet) raise(v *View, r *row, cfg Config, out *Result) {
	out.Stuck += len(r.stuck)
	for _, u := range v.Upcoming {
		if f.promises(u, r.stuck[0], f.asks(r.stuck[0])) {
			return // it may be what they wait for
		}
	}
	s := f.surroundings(r)
	if r.had == nil {
		if covers(s.room, f.sum(r.pending)) { // else the shard knows that something is missing
			f.ask(v, r, s.unused, attempts{}, out)
		}
		return
	}
	if v.Now.Sub(raisedAt(r.had)) < 2*cfg.After {
		return
	}
	tried := attemptsOf(r.had)
	if slices.ContainsFunc(s.nodes, func(n *node) bool {
		return !n.CreationTimestamp.Time.Before(raisedAt(r.had)) && covers(f.empty(n), f.asks(r.stuck[0]))
	}) {
		tried.inVain++
	} else {
		tried.absorbed++
	}
	if tried.inVain >= FailuresMax {
		for _, p := range r.stuck {
			out.Notes = append(out.Notes, Note{p, GivenUp, "machines came that were asked for, and the pod runs on none; look at why the scheduler refuses it"})
		}
		return
	}
	// What was asked for went to machines of the row that have others' pods on them: more. At most
	// all that its nodes have, and the pods twice: then a machine is missing by any account.
	had, stuck := f.amounts(r.had.Spec.Resources), f.sum(r.stuck)
	changed := false
	for d := range s.unused {
		more := max(s.unused[d], had[d]) + stuck[d]<<min(max(0, tried.absorbed-1), doublingsMax)
		s.unused[d] = max(had[d], min(more, s.others[d]+2*stuck[d]))
		changed = changed || s.unused[d] != had[d]
	}
	if changed {
		f.ask(v, r, s.unused, tried, out)
	}
}

// doublingsMax bounds how fast overhead grows.
const doublingsMax = 16

// surroundings are the nodes on which a row's pods may run.
type surroundings struct {
	nodes  []*node
	room   amounts // what they have left
	unused amounts // what those have left whose room is the row's
	others amounts // what they have, less what is the row's own
}

func (f *fleet) surroundings(r *row) *surroundings {
	s := &surroundings{room: make(amounts, len(f.dims)), unused: make(amounts, len(f.dims)), others: make(amounts, len(f.dims))}
	for _, n := range f.nodes {
		if ok, _ := suits(r.stuck[0], n.Node); !ok || n.Spec.Unschedulable {
			continue
		}
		s.nodes = append(s.nodes, n)
		for d, x := range n.free() {
			s.room[d] += x
			s.others[d] += n.allocatable[d]
			if n.owner == r {
				s.unused[d] += x
			}
		}
	}
	for d, x := range f.sum(r.pods) {
		s.others[d] = max(0, s.others[d]-x)
	}
	return s
}

// ask has a row's overhead written.
func (f *fleet) ask(v *View, r *row, of amounts, tried attempts, out *Result) {
	out.Write = append(out.Write, f.overhead(r, of, tried, v.Now))
	for _, p := range r.stuck {
		out.Notes = append(out.Notes, Note{p, Added, "its row has room that it cannot use; more was asked for"})
	}
}

// attempts are how often a row's overhead was raised without effect.
type attempts struct {
	absorbed int // no machine came
	inVain   int // machines came, and pods are stuck nevertheless
}

func attemptsOf(o *api.CapacityRequest) (a attempts) {
	a.absorbed, _ = strconv.Atoi(o.Annotations[annotationAbsorbed])
	a.inVain, _ = strconv.Atoi(o.Annotations[annotationInVain])
	return a
}

// sum adds up what pods ask for.
func (f *fleet) sum(pods []*corev1.Pod) amounts {
	out := make(amounts, len(f.dims))
	for _, p := range pods {
		for d, x := range f.asks(p) {
			out[d] += x
		}
	}
	return out
}

func raisedAt(o *api.CapacityRequest) time.Time {
	at, err := time.Parse(time.RFC3339, o.Annotations[annotationRaised])
	if err != nil {
		return o.CreationTimestamp.Time
	}
	return at
}

// lower takes overhead back: what is more than the room that the row's nodes have left, and what
// the largest of them has if the row's pods, packed anew, fit on the others.
func (f *fleet) lower(v *View, r *row, cfg Config, out *Result) {
	if v.Now.Sub(raisedAt(r.had)) < cfg.Keep || len(r.pending) > 0 || len(r.nodes) == 0 {
		return
	}
	largest := slices.MaxFunc(r.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(f.size(a), f.size(b)), -strings.Compare(a.Name, b.Name))
	})
	had, left := f.amounts(r.had.Spec.Resources), make(amounts, len(f.dims))
	for _, n := range r.nodes {
		for d, x := range n.free() {
			left[d] += x
		}
	}
	without := f.fitsWithout(r, largest)
	some := false
	for d := range left {
		if left[d] = min(left[d], had[d]); without {
			left[d] = max(0, left[d]-largest.allocatable[d])
		}
		some = some || left[d] > 0 && f.dims[d] != corev1.ResourcePods
	}
	switch {
	case !some:
		out.Delete = append(out.Delete, r.had)
	case !slices.Equal(left, had):
		out.Write = append(out.Write, f.overhead(r, left, attempts{}, v.Now))
	}
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

// fitsWithout tells whether the pods of a row fit on its nodes without one of them.
func (f *fleet) fitsWithout(r *row, gone *node) bool {
	var machines []packing.Machine
	var nodes []*node
	own := map[types.UID]bool{}
	for _, p := range r.pods {
		own[p.UID] = true
	}
	var pods []packing.Pods
	for _, n := range r.nodes {
		others := make(amounts, len(f.dims))
		for _, p := range n.pods {
			asks := f.asks(p)
			if own[p.UID] {
				pods = append(pods, packing.Pods{Size: asks, Count: 1, On: func(i int) bool {
					ok, _ := suits(p, nodes[i].Node)
					return ok
				}})
				continue
			}
			for d, x := range asks {
				others[d] += x
			}
		}
		if n != gone {
			nodes = append(nodes, n)
			machines = append(machines, packing.Machine{Capacity: n.allocatable, Used: others})
		}
	}
	for i, placed := range packing.Aligned(machines, pods) {
		if len(placed) < pods[i].Count {
			return false
		}
	}
	return true
}

// overhead makes the request that stands for a row's overhead.
func (f *fleet) overhead(r *row, of amounts, tried attempts, now time.Time) *api.CapacityRequest {
	out := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(r.Key), Namespace: r.of.Namespace, Labels: map[string]string{api.LabelPackingOverhead: r.Tag},
		Annotations: map[string]string{
			annotationRaised: now.UTC().Format(time.RFC3339), annotationAbsorbed: strconv.Itoa(tried.absorbed), annotationInVain: strconv.Itoa(tried.inVain),
		},
	}}
	if r.had != nil {
		out.Namespace = r.had.Namespace
	}
	out.Spec = *r.of.Spec.DeepCopy()
	out.Spec.Resources = f.list(of)
	return out
}

// quantity writes an amount of a resource.
func quantity(name corev1.ResourceName, n int64) resource.Quantity {
	switch name {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}
