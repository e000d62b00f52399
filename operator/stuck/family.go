package stuck

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/packing"
	"github.com/tonnage/tonnage/operator/rollup"
)

// annotationAdopted names the machines of a family that have others' pods on them, while they are there.
const annotationAdopted = "tonnage.dev/adopted"

// annotationGone names the machines that are given back, while they are there.
const annotationGone = "tonnage.dev/given-back"

// plannedDoublings is how often what is asked for is doubled when no machine comes.
const plannedDoublings = 2

// machine is one that a family has, or is promised.
type machine struct {
	name      string
	amounts   amounts // as the shard counts it
	node      *node   // nil = it is on its way
	promised  *api.UpcomingNode
	promising bool // it is on its way, or so new that the scheduler has not come to it yet
}

// family is the rows that are alike but for their sizes.
type family struct {
	key      string
	rows     []*row // by key
	machines []machine
	had      *api.CapacityRequest
	shared   bool    // others wait for machines that may be its own: what is pending has no room for certain
	asks     []bool  // by dimension: some of its pods ask for it
	leftOut  amounts // of machines that its pods are on and that it leaves to others, while a shard may count them for it
	alone    bool    // there is no other family, and no row with hard spread
	// adopted are machines that the shard counts for a row while all pods on them are of no row, by name: there was no other family when that was
	// seen first.
	adopted map[string]bool
	planned bool // the plan says what its rows ask for
}

// familyOf finds the family that is planned exactly: the one that was, or else the one that has most nodes, or, where none has any, one that waits in
// vain. nil = none.
func (f *fleet) familyOf(v *View, rows map[string]*row, had []*api.CapacityRequest, cfg Config) *family {
	families, spread := map[string]*family{}, false
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		r := rows[key]
		hasSpread := len(r.of.Spec.TopologySpread) > 0
		spread = spread || hasSpread
		if hasSpread || f.isUnknown(r) {
			continue
		}
		x := families[r.Family]
		if x == nil {
			x = &family{key: r.Family}
			families[r.Family] = x
		}
		x.rows = append(x.rows, r)
	}
	byName := map[string]*api.CapacityRequest{}
	for _, o := range had {
		if o.Namespace == api.NamespaceOfPlans {
			byName[o.Name] = o
		}
	}
	var best *family
	most := 0
	for _, key := range slices.Sorted(maps.Keys(families)) {
		x, nodes := families[key], 0
		for _, r := range x.rows {
			nodes += len(r.nodes)
		}
		if x.had = byName[planName(key)]; x.had != nil {
			nodes += len(f.nodes) + 1
		}
		if nodes > most || best == nil && slices.ContainsFunc(x.rows, func(r *row) bool {
			return slices.ContainsFunc(r.pending, func(p *corev1.Pod) bool { return f.waitsInVain(p, v.Now, cfg) })
		}) {
			best, most = x, nodes
		}
	}
	if best != nil {
		best.alone = len(families) == 1 && !spread
	}
	return best
}

// adopt gives the family the pods whose requests nobody has heard yet: their sizes have no class, and rows of their kind take
// them.
func (f *fleet) adopt(x *family, v *View) {
	for _, p := range v.Pods {
		request := f.asked[p.UID]
		if request == nil || ended(p) || p.Spec.NodeName != "" || request.Status.Phase == api.RequestAcknowledged || leftOut(request) || f.unknown(p) != "" {
			continue
		}
		id, err := rollup.KindOf(request)
		if err != nil || id.Family != x.key {
			continue
		}
		at := max(0, slices.IndexFunc(x.rows, func(r *row) bool { return r.Kind == id.Kind }))
		x.rows[at].pending = append(x.rows[at].pending, p)
	}
}

// isUnknown tells whether all pods of a row ask for something that no node has. A plan could not say that, so the row's requests do.
func (f *fleet) isUnknown(r *row) bool {
	return len(r.pods) == 0 && len(r.pending) > 0 && !slices.ContainsFunc(r.pending, func(p *corev1.Pod) bool { return f.unknown(p) == "" })
}

// leftOut tells whether the roll-up leaves a request out.
func leftOut(r *api.CapacityRequest) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == api.ConditionReported && c.Status == metav1.ConditionFalse
	})
}

// findStuckOf finds the pods of a family that are stuck. The plan says what is asked for them, so nobody need have heard
// their requests.
func (f *fleet) findStuckOf(x *family, v *View, cfg Config, out *Result) {
	for _, r := range x.rows {
		for _, p := range r.pending {
			if since, is := unschedulable(p); !is || v.Now.Sub(since) < cfg.After {
				continue
			}
			if ok, why := f.helps(p, v); !ok {
				out.NoHelp++
				out.Notes = append(out.Notes, Note{p, NoHelp, "no machine would help: " + why})
				r.helpless = append(r.helpless, p)
				continue
			}
			r.stuck = append(r.stuck, p)
		}
	}
}

// planName is the name of a family's plan.
func planName(key string) string { return nameOf("family/" + key) }

// gather finds the machines of a family: those with nodes whose pods are its own for the most part, and those that are empty
// or on their way and that nobody else waits for. Those with devices that nobody of the family asks for are left to others. Where the
// shard says what it counts a machine for, that decides: the sums that it compares are of the machines that it counts.
func (f *fleet) gather(x *family, v *View, cfg Config) {
	had := []string{}
	if x.had != nil {
		had = strings.Split(x.had.Annotations[annotationAdopted], ",")
	}
	x.adopted = map[string]bool{}
	f.noteAsks(x)
	others := f.othersWait(x, v)
	nobodys := func(have amounts) bool {
		wanted := slices.ContainsFunc(others, func(a amounts) bool { return covers(have, a) })
		x.shared = x.shared || wanted
		return !wanted
	}
	for _, n := range f.nodes {
		if n.machine != nil && f.isOf(x, n, slices.Contains(had, n.Name), nobodys) {
			x.machines = append(x.machines, machine{name: n.Name, amounts: x.only(n.machine), node: n, promising: v.Now.Sub(n.CreationTimestamp.Time) < cfg.After})
		}
	}
	for _, u := range f.withoutNode(v.Upcoming) {
		if have := f.amounts(u.Spec.Resources); awaited(u, v.Now, cfg) && !f.forOthers(x, u.Spec.Resources) && nobodys(have) {
			x.machines = append(x.machines, machine{name: u.Name, amounts: x.only(have), promised: u, promising: true})
		}
	}
}

// isOf tells whether a machine with a node is a family's. adopted: it was before, with others' pods on it.
func (f *fleet) isOf(x *family, n *node, adopted bool, nobodys func(amounts) bool) bool {
	isMine, hasDevice := n.owner != nil && slices.Contains(x.rows, n.owner), f.forOthers(x, n.Status.Allocatable)
	switch {
	case n.countedFor == model.CountedForRow && isMine:
		return true // whatever it has
	case n.countedFor == model.CountedForRow && n.owner == nil && f.used(n) && (x.alone || adopted):
		x.adopted[n.Name] = true
		return true
	case n.countedFor == model.CountedForGroup, n.owner != nil && !isMine:
		return false
	case hasDevice:
		if isMine {
			x.leftOut = f.plus(x.leftOut, x.only(n.machine))
		}
		return false
	}
	return isMine || !f.used(n) && nobodys(n.machine)
}

// withoutNode returns those machines that the shard tells of and that have no node.
func (f *fleet) withoutNode(upcoming []*api.UpcomingNode) []*api.UpcomingNode {
	nodes, there := newMachines(upcoming), map[*api.UpcomingNode]bool{}
	for _, n := range f.nodes {
		there[nodes.of(n.Node)] = true
	}
	return slices.DeleteFunc(slices.Clone(upcoming), func(u *api.UpcomingNode) bool { return there[u] })
}

// noteAsks finds the resources that some pod of a family asks for.
func (f *fleet) noteAsks(x *family) {
	x.asks, x.leftOut = make([]bool, len(f.dims)), make(amounts, len(f.dims))
	for _, r := range x.rows {
		for _, pods := range [][]*corev1.Pod{r.pods, r.pending} {
			for _, p := range pods {
				for d, n := range f.asks(p) {
					x.asks[d] = x.asks[d] || n > 0
				}
			}
		}
	}
}

// othersWait returns what each pod asks for that has no node, is not of a family, and could run on one of its machines.
func (f *fleet) othersWait(x *family, v *View) []amounts {
	var others []amounts
	for _, p := range v.Pods {
		// Those with a device that nobody of the family asks for run on no machine that could be the family's.
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil && !ended(p) && !f.forOthers(x, podresource.PodRequests(p, podresource.PodResourcesOptions{})) {
			others = append(others, f.asks(p))
		}
	}
	ours := map[string]int{}
	for _, r := range x.rows {
		for _, p := range r.pending {
			ours[textOf(f.asks(p))]++
		}
	}
	return slices.DeleteFunc(others, func(a amounts) bool {
		t := textOf(a)
		ours[t]--
		return ours[t] >= 0
	})
}

// forOthers tells whether a machine has a device that no pod of the family asks for: it was bought for others, and goes with them.
func (f *fleet) forOthers(x *family, has corev1.ResourceList) bool {
	for name, q := range has {
		if domain, _, is := strings.Cut(string(name), "/"); !is || q.IsZero() || strings.HasSuffix(domain, "kubernetes.io") {
			continue
		}
		if d := slices.Index(f.dims, name); d < 0 || !x.asks[d] {
			return true
		}
	}
	return false
}

// awaited tells whether a machine without a node is to become one: it is on its way, or it is there and its node is not yet.
func awaited(u *api.UpcomingNode, now time.Time, cfg Config) bool {
	if u.Status.Phase == api.NodeReady {
		return u.Status.ProvisioningStartTime == nil || now.Sub(u.Status.ProvisioningStartTime.Time) < cfg.Keep
	}
	return onItsWay(u)
}

func textOf(a amounts) string {
	var b []byte
	for _, n := range a {
		b = append(strconv.AppendInt(b, n, 36), ' ')
	}
	return string(b)
}

// only are amounts of what the family asks for.
func (x *family) only(a amounts) amounts {
	out := slices.Clone(a)
	for d := range out {
		if !x.asks[d] {
			out[d] = 0
		}
	}
	return out
}

// used tells whether a pod is on a node that is not on every node.
func (f *fleet) used(n *node) bool {
	return slices.ContainsFunc(n.pods, func(p *corev1.Pod) bool {
		of := metav1.GetControllerOf(p)
		return of == nil || of.Kind != "DaemonSet" && of.Kind != "Node"
	})
}

// missing is what the pods of a row need that have no room.
type missing struct {
	row  *row // nil = what is asked for apart
	asks amounts
	unit amounts
}

// plan has the rows of a family ask for the machines that it has, whole, and for what its pods need that find no room on
// these, with a smallest unit that is theirs.
func (f *fleet) plan(x *family, v *View, cfg Config, out *Result) {
	was := stateOf(x.had)
	now := state{raised: was.raised, tried: was.tried, spare: was.spare, lowered: was.lowered, parted: was.parted}
	if len(x.machines) == 0 {
		w := x.waiting()
		if f.part(&w, f.sizesOf(&w), was.parted, v.Now, cfg).sizes == "" {
			return // its requests say it all
		}
	}
	x.planned = true
	missed := f.missed(x, v, cfg, &now, out)
	gone := f.goneOf(x, v.Now, cfg)
	if len(missed) == 0 && f.pendingOf(x) == 0 {
		gone = f.giveBack(x, v, gone, cfg, &now)
	} else {
		now.spare = time.Time{}
	}
	w := f.write(x, missed, gone, now)
	f.countPlan(x, missed, gone, out)
	if x.had == nil || !sameNotes(x.had, w) {
		out.Write = append(out.Write, w)
	}
}

func (f *fleet) pendingOf(x *family) (n int) {
	for _, r := range x.rows {
		n += len(r.pending)
	}
	return n
}

// missed finds what the pods need that have no room: those that are stuck, and more at once where the machines do not
// suffice by sums either.
func (f *fleet) missed(x *family, v *View, cfg Config, now *state, out *Result) (all []missing) {
	w := x.waiting()
	if busy(v, cfg) && f.someFit(x, v.Now.Add(-patience*cfg.After)) {
		// The scheduler is about to place pods. What is bought now would be taken by those that have room, which is lost then.
		w.pods = slices.DeleteFunc(w.pods, func(p *corev1.Pod) bool {
			since, _ := unschedulable(p)
			return v.Now.Sub(since) < patience*cfg.After
		})
	}
	w.pods = f.withoutRoom(x, w.pods)
	helpless, stuck := w.split()
	out.Stuck += len(stuck)
	stuck = f.attempt(x, stuck, v, cfg, now, out)
	w.pods = slices.Concat(helpless, stuck)
	kinds := f.sizesOf(&w)
	now.parted = f.part(&w, kinds, now.parted, v.Now, cfg)
	apart := bandsOf(kinds, now.parted)
	room, often := f.roomOf(x), min(max(0, now.tried.absorbed-1), plannedDoublings)
	byRow := map[*row][]*corev1.Pod{}
	for _, p := range stuck {
		byRow[w.row[p]] = append(byRow[w.row[p]], p)
	}
	for r, pods := range byRow {
		byRow[r] = f.notApart(r, pods, apart)
	}
	set := f.missedApart(x, &w, apart, room, often)
	for _, r := range x.rows {
		m := missing{row: r, asks: make(amounts, len(f.dims)), unit: make(amounts, len(f.dims))}
		pending := f.notApart(r, r.pending, apart)
		some := false
		for d, n := range f.sum(pending) {
			if n > room[d] && x.asks[d] {
				m.asks[d], some = n-room[d], true
			}
			room[d] = max(0, room[d]-n)
		}
		if some {
			for _, p := range pending {
				m.unit = largest(m.unit, f.asks(p))
			}
		}
		for _, p := range byRow[r] {
			m.unit = largest(m.unit, f.asks(p))
		}
		for d, n := range f.sum(byRow[r]) {
			m.asks[d] = max(m.asks[d], n<<often)
		}
		if some || len(byRow[r]) > 0 {
			m.asks = largest(m.asks, m.unit)
			all = append(all, m)
		}
	}
	if len(all) > 0 && now.tried.absorbed > 0 {
		// A shard may count a machine for the family that it leaves to others: what is asked for went to that.
		all[0].asks = f.plus(all[0].asks, x.leftOut)
	}
	all = append(joined(all), set...)
	// In the order in which an engine ranks rows that are alike: the largest unit first.
	slices.SortStableFunc(all, func(a, b missing) int { return slices.Compare(b.unit, a.unit) })
	return all
}

// roomOf is what is left of a family's machines; nothing where others may come to them.
func (f *fleet) roomOf(x *family) amounts {
	room := make(amounts, len(f.dims))
	for i := range x.machines {
		if x.shared {
			break // a shard would give back machines that are left out here, before pods come to them
		}
		room = f.plus(room, x.machines[i].free())
	}
	return room
}

// joined has what rows miss that differ in their size class alone be bought together, by the first of them: each row would be
// rounded up to whole machines by itself, and small pods fill what large ones leave.
func joined(all []missing) (out []missing) {
	for _, m := range all {
		at := slices.IndexFunc(out, func(x missing) bool { return x.row.Kind == m.row.Kind })
		if at < 0 {
			out = append(out, m)
			continue
		}
		out[at].unit = largest(out[at].unit, m.unit)
		for d, n := range m.asks {
			out[at].asks[d] += n
		}
	}
	return out
}

// free is what is left of a machine.
func (m *machine) free() amounts {
	if m.node != nil {
		return m.node.free()
	}
	return m.amounts
}

// patience is for how many times [Config.After] a pod waits for a scheduler that is busy, while there is room for some.
const patience = 4

// busy tells whether the scheduler has placed a pod a moment ago.
func busy(v *View, cfg Config) bool {
	return slices.ContainsFunc(v.Pods, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && v.Now.Sub(c.LastTransitionTime.Time) < cfg.After
		})
	})
}

// someFit tells whether a node that is younger than since has room for a pod that is pending.
func (f *fleet) someFit(x *family, since time.Time) bool {
	var young []youngNode
	for i := range x.machines {
		if n := x.machines[i].node; n != nil && !n.Spec.Unschedulable && !n.CreationTimestamp.Time.Before(since) {
			young = append(young, youngNode{n.Node, n.free()})
		}
	}
	return slices.ContainsFunc(x.rows, func(r *row) bool {
		return slices.ContainsFunc(r.pending, func(p *corev1.Pod) bool { return f.comes(p, young) })
	})
}

// withoutRoom returns the pods that do not find room on machines that are on their way or new.
func (f *fleet) withoutRoom(x *family, pods []*corev1.Pod) (out []*corev1.Pod) {
	if len(pods) == 0 {
		return nil
	}
	var machines []packing.Machine
	var nodes []*corev1.Node
	for i := range x.machines {
		m := &x.machines[i]
		switch {
		case !m.promising:
		case m.node != nil:
			machines = append(machines, packing.Machine{Capacity: m.node.allocatable, Used: slices.Clone(m.node.used)})
			nodes = append(nodes, m.node.Node)
		default:
			capacity := f.amounts(m.promised.Spec.Resources)
			if _, said := m.promised.Spec.Resources[corev1.ResourcePods]; !said {
				if d := slices.Index(f.dims, corev1.ResourcePods); d >= 0 {
					capacity[d] = int64(len(pods)) // it takes enough
				}
			}
			machines = append(machines, packing.Machine{Capacity: capacity, Used: make(amounts, len(f.dims))})
			nodes = append(nodes, becoming(m.promised))
		}
	}
	places := f.pack(machines, nodes, pods, func(n *corev1.Node) bool { return !n.Spec.Unschedulable })
	for _, p := range pods {
		if _, placed := places[p]; !placed {
			out = append(out, p)
		}
	}
	return out
}

// unmet tells whether the shard answers that the machines for a pod are not there yet. Then what was asked for went to nobody
// else, and twice as much would be bought as soon as machines can be had again.
func (f *fleet) unmet(p *corev1.Pod) bool {
	r := f.asked[p.UID]
	return r != nil && meta.IsStatusConditionFalse(r.Status.Conditions, api.ConditionSatisfied)
}

// attempt notes how often more was asked for in vain, and gives up on pods that machines did not help.
func (f *fleet) attempt(x *family, stuck []*corev1.Pod, v *View, cfg Config, now *state, out *Result) []*corev1.Pod {
	if len(stuck) == 0 {
		now.tried, now.raised = attempts{}, time.Time{}
		return nil
	}
	asked := func(p *corev1.Pod) bool { // more was asked for since it is unschedulable
		since, _ := unschedulable(p)
		return !now.raised.IsZero() && !since.Add(cfg.After).After(now.raised)
	}
	at := slices.IndexFunc(stuck, asked)
	for _, p := range stuck {
		if !asked(p) {
			out.Notes = append(out.Notes, Note{p, Added, "the capacity of its row suffices by sums, but no node has room; more was asked for"})
		}
	}
	switch {
	case at < 0:
		now.tried, now.raised = attempts{}, v.Now
		return stuck
	case v.Now.Sub(now.raised) >= 2*cfg.After && now.tried.inVain < FailuresMax:
		came := slices.ContainsFunc(x.machines, func(m machine) bool {
			return m.node != nil && !m.node.CreationTimestamp.Time.Before(now.raised) && covers(f.empty(m.node), f.asks(stuck[at]))
		})
		switch {
		case came:
			now.raised, now.tried = v.Now, attempts{inVain: now.tried.inVain + 1}
		case !f.unmet(stuck[at]) && now.tried.absorbed <= plannedDoublings: // one more changes nothing
			now.raised, now.tried.absorbed = v.Now, now.tried.absorbed+1
		}
	}
	if now.tried.inVain < FailuresMax {
		return stuck
	}
	for _, p := range stuck {
		if asked(p) {
			out.Notes = append(out.Notes, Note{p, GivenUp, "machines came that were asked for, and the pod runs on none; look at why the scheduler refuses it"})
		}
	}
	return slices.DeleteFunc(stuck, asked)
}
