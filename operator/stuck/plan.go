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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
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
	annotationSpare    = "tonnage.dev/spare-since" // RFC 3339
	annotationLowered  = "tonnage.dev/lowered-at"  // RFC 3339
	annotationApart    = "tonnage.dev/asked-apart" // of each kind of rows, how many sizes
	annotationParted   = "tonnage.dev/parted-at"   // RFC 3339
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
	// Selector selects by their labels the pods that are nominated; nil = all.
	Selector labels.Selector
}

// Result is what is to be done. Write has whole objects without status.
type Result struct {
	Write  []*api.CapacityRequest
	Delete []*api.CapacityRequest
	Notes  []Note
	// Stuck is how many pods are stuck and would run on an empty machine, NoHelp how many would not.
	Stuck, NoHelp int
	// Overhead is what rows ask for beyond the sums of their pods, in cores, bytes and pieces.
	Overhead map[corev1.ResourceName]float64
}

// members are the pods of a row of the cluster's roll-up.
type members struct {
	rollup.Row
	of      *api.CapacityRequest // one of its requests
	pods    []*corev1.Pod        // on nodes
	pending []*corev1.Pod        // without one
	stuck   []*corev1.Pod
	// helpless are those that are unschedulable as long, and of which nobody knows a machine that would hold them.
	helpless []*corev1.Pod
	had      *api.CapacityRequest // its overhead, nil = none
}

// row is a row whose pods may be anywhere.
type row struct {
	members
	nodes []*node // whose room counts as the row's
}

// Plan says what is to be done. It depends on the view alone.
func Plan(v *View, cfg Config) *Result {
	out := &Result{Overhead: map[corev1.ResourceName]float64{}}
	v = settled(v)
	had := overheads(v)
	f := look(v)
	f.asked = requestsByPod(v)
	rows := f.rows(v, had)
	f.attribute(rows)
	exact := f.familyOf(v, rows, had, cfg)
	if exact != nil {
		f.adopt(exact, v)
		f.findStuckOf(exact, v, cfg, out)
	}
	f.findStuck(v, rows, exact, cfg, out)
	kept := map[*api.CapacityRequest]bool{}
	if exact != nil {
		f.gather(exact, v, cfg)
		f.plan(exact, v, cfg, out)
		kept[exact.had] = exact.planned
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		r := rows[key]
		if exact != nil && r.Family == exact.key && exact.planned {
			r.had = nil // the family's plan says it
			continue
		}
		f.count(r, out)
		switch {
		case len(r.stuck) > 0:
			f.raise(v, r, cfg, out)
		case r.had != nil && len(r.of.Spec.TopologySpread) == 0:
			f.lower(v, r, cfg, out)
		}
	}
	for _, r := range rows {
		kept[r.had] = true
	}
	for _, g := range f.planGroups(v, had, cfg, out) {
		kept[g.had] = true
	}
	for _, o := range had {
		if !kept[o] {
			out.Delete = append(out.Delete, o) // nobody is in its row any more
		}
	}
	return out
}

// findStuck gives rows the pods that are stuck, and has those told that no machine would help.
func (f *fleet) findStuck(v *View, rows map[string]*row, exact *family, cfg Config, out *Result) {
	young := f.young(v.Now, cfg.After)
	for _, p := range v.Pods {
		if since, is := unschedulable(p); !is || v.Now.Sub(since) < cfg.After {
			continue
		}
		r := f.asked[p.UID]
		if r == nil || r.Status.AcknowledgedAt == nil || v.Now.Sub(r.Status.AcknowledgedAt.Time) < cfg.After || len(r.Spec.TopologySpread) > 0 {
			continue
		}
		id, err := rollup.RowOf(r)
		if err != nil || exact != nil && slices.Contains(exact.rows, rows[id.Key]) {
			continue
		}
		if f.comes(p, young) {
			continue
		}
		if ok, why := f.helps(p, v); !ok {
			out.NoHelp++
			out.Notes = append(out.Notes, Note{p, NoHelp, "no machine would help: " + why})
			continue
		}
		rows[id.Key].stuck = append(rows[id.Key].stuck, p)
	}
}

// youngNode is a node that the scheduler may not have come to yet, and the room on it.
type youngNode struct {
	*corev1.Node
	free amounts
}

// young are the nodes that are younger than newFor and take pods.
func (f *fleet) young(now time.Time, newFor time.Duration) (out []youngNode) {
	for _, n := range f.nodes {
		if now.Sub(n.CreationTimestamp.Time) < newFor && !n.Spec.Unschedulable {
			out = append(out, youngNode{n.Node, n.free()})
		}
	}
	return out
}

// comes tells whether there is room for a pod on a young node.
func (f *fleet) comes(p *corev1.Pod, young []youngNode) bool {
	return slices.ContainsFunc(young, func(n youngNode) bool {
		if !covers(n.free, f.asks(p)) {
			return false
		}
		ok, _ := suits(p, n.Node)
		return ok
	})
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
	for key, m := range f.gatherBy(rollup.RowOf, v.Pods, had) {
		rows[key] = &row{members: *m}
	}
	return rows
}

// gatherBy gathers pods whose requests were acknowledged by the rows that rowOf finds, by key; those that it refuses
// are left out.
func (f *fleet) gatherBy(rowOf func(*api.CapacityRequest) (rollup.Row, error), pods []*corev1.Pod, had []*api.CapacityRequest) map[string]*members {
	out := map[string]*members{}
	for _, p := range pods {
		request := f.asked[p.UID]
		if request == nil || ended(p) {
			continue
		}
		id, err := rowOf(request)
		if err != nil {
			continue
		}
		m := out[id.Key]
		if m == nil {
			m = &members{Row: id, of: request}
			out[id.Key] = m
		}
		if p.Spec.NodeName != "" {
			m.pods = append(m.pods, p)
		} else {
			m.pending = append(m.pending, p)
		}
	}
	names := map[string]*api.CapacityRequest{}
	for _, o := range had {
		names[o.Name] = o
	}
	for _, m := range out {
		m.had = names[nameOf(m.Key)]
	}
	return out
}

// nameOf is the name of a row's overhead.
func nameOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "packing-overhead-" + hex.EncodeToString(sum[:8])
}

// attribute says whose the room of each node is: the row's whose pods take up the largest
// share of any of the node's resources. Where pods without a row do, such as those of a group, it is nobody's.
func (f *fleet) attribute(rows map[string]*row) {
	byPod, nobody := map[types.UID]*row{}, &row{}
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
				r = nobody
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
		if owner != nil && owner != nobody {
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
	// What its pods ask for and the room that they cannot use, and what is pending.
	had, held, pending := f.least(r), f.held(r), f.sum(r.pending)
	asked := f.sum(r.pods)
	for d := range asked {
		asked[d] += s.unused[d] + pending[d]
	}
	if raisedAt(r.had).IsZero() {
		// Else the sums alone say that something is missing, and the shard is at it.
		if covers(s.room, pending) || covers(held, f.wanted(r)) {
			f.ask(v, r, largest(asked, had), attempts{}, out)
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
	} else if tried.absorbed++; f.unmet(r.stuck[0]) {
		return
	}
	if tried.inVain >= FailuresMax {
		for _, p := range r.stuck {
			out.Notes = append(out.Notes, Note{p, GivenUp, "machines came that were asked for, and the pod runs on none; look at why the scheduler refuses it"})
		}
		return
	}
	// What was asked for went to machines of the row that have others' pods on them: more. At most
	// all that its nodes have, and the pods twice: then a machine is missing by any account.
	stuck, wanted := f.sum(r.stuck), f.wanted(r)
	changed := false
	for d := range asked {
		more := max(asked[d], had[d]) + stuck[d]<<min(max(0, tried.absorbed-1), doublingsMax)
		asked[d] = max(had[d], min(more, s.all[d]+2*stuck[d]))
		changed = changed || wanted[d] > 0 && asked[d] != had[d] // what nobody asks for is not written
	}
	if changed {
		f.ask(v, r, asked, tried, out)
	}
}

// largest returns the larger amount of each resource.
func largest(a, b amounts) amounts {
	out := slices.Clone(a)
	for d, x := range b {
		out[d] = max(out[d], x)
	}
	return out
}

// doublingsMax bounds how fast overhead grows.
const doublingsMax = 16

// surroundings are the nodes on which a row's pods may run.
type surroundings struct {
	nodes  []*node
	room   amounts // what they have left
	unused amounts // what those have left whose room is the row's
	all    amounts // what they have, and what is pending
}

func (f *fleet) surroundings(r *row) *surroundings {
	s := &surroundings{room: make(amounts, len(f.dims)), unused: make(amounts, len(f.dims)), all: f.sum(r.pending)}
	for _, n := range f.nodes {
		if ok, _ := suits(r.stuck[0], n.Node); !ok || n.Spec.Unschedulable {
			continue
		}
		s.nodes = append(s.nodes, n)
		for d, x := range n.free() {
			s.room[d] += x
			s.all[d] += n.allocatable[d]
			if n.owner == r {
				s.unused[d] += x
			}
		}
	}
	return s
}

// ask has a row's overhead written.
func (f *fleet) ask(v *View, r *row, of amounts, tried attempts, out *Result) {
	out.Write = append(out.Write, f.overhead(r, of, state{tried: tried, raised: v.Now}))
	for _, p := range r.stuck {
		out.Notes = append(out.Notes, Note{p, Added, "its row has room that it cannot use; more was asked for"})
	}
}

// state is what is written beside the amounts of a row's overhead. A zero time is never.
type state struct {
	tried   attempts
	raised  time.Time // when pods were stuck last
	spare   time.Time // since when some of it is spare
	lowered time.Time // when some of it was taken back
	parted  parting
}

func stateOf(o *api.CapacityRequest) state {
	return state{attemptsOf(o), timeOf(o, annotationRaised), timeOf(o, annotationSpare), timeOf(o, annotationLowered), partingOf(o)}
}

// attempts are how often a row's overhead was raised without effect.
type attempts struct {
	absorbed int // no machine came
	inVain   int // machines came, and pods are stuck nevertheless
}

func attemptsOf(o *api.CapacityRequest) (a attempts) {
	if o == nil {
		return a
	}
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

// raisedAt is when more was asked for since pods were stuck, zero = never.
func raisedAt(o *api.CapacityRequest) time.Time { return timeOf(o, annotationRaised) }

// timeOf reads a time in an annotation, zero = there is none.
func timeOf(o *api.CapacityRequest, annotation string) time.Time {
	if o == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, o.Annotations[annotation])
	if err != nil {
		return time.Time{}
	}
	return at
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
