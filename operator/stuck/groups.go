package stuck

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/rollup"
)

// A group is decided as a whole: a shard buys its machines in one domain. The scheduler knows nothing of that. It may place the first pod of a group in
// another domain, on a machine that was bought for somebody else; then the rest must run there as well, and finds no room, while the
// machines of the group stand idle. So once pods of groups are stuck, groups say where they are. What is stuck then is
// asked for once more.

// group is pods that must be in one domain: a row of the roll-up.
type group struct {
	members
	domain string // in which all of its pods are that are on nodes; "" = none, or the shard does not know it by that name
}

// planGroups finds the groups, and has those that need it say where they are, or ask for more.
func (f *fleet) planGroups(v *View, had []*api.CapacityRequest, cfg Config, out *Result) map[string]*group {
	groups := f.groups(v, had)
	if len(groups) == 0 {
		return nil
	}
	byName, known := make(map[string]*node, len(f.nodes)), newMachines(v.Upcoming)
	for _, n := range f.nodes {
		byName[n.Name] = n
	}
	stuck, moving := false, false
	keys := slices.Sorted(maps.Keys(groups))
	for _, key := range keys {
		groups[key].locate(byName, known)
	}
	room := roomThatComes(v, f.asked, cfg)
	for _, key := range slices.SortedStableFunc(slices.Values(keys), func(a, b string) int { return f.compareGroups(groups[a], groups[b]) }) {
		g := groups[key]
		f.findStuckOfGroup(g, room, v, cfg, out)
		stuck = stuck || len(g.stuck) > 0
	}
	for _, g := range groups {
		// What it has elsewhere others may be given, and where it is others find room. After that time a shard has decided, and
		// what it buys is among what comes.
		moving = moving || stuck && g.moves() || g.had != nil && !f.asksForMore(g) && v.Now.Sub(raisedAt(g.had)) < cfg.After
	}
	for _, key := range keys {
		g := groups[key]
		f.countGroup(g, out)
		switch tried := attemptsOf(g.had); {
		case stuck && g.moves():
			out.Write = append(out.Write, f.groupRequest(g, f.leastOfGroup(g), g.domain, state{raised: v.Now}))
		case len(g.stuck) > 0 && (!moving || longest(g.stuck, v.Now) >= patience*cfg.After):
			f.raiseGroup(v, g, cfg, out)
		case len(g.stuck) == 0 && tried != attempts{}: // it is forgotten
			out.Write = append(out.Write, f.groupRequest(g, f.leastOfGroup(g), saidDomain(g.had), state{raised: raisedAt(g.had)}))
		}
	}
	return groups
}

// moves tells whether a group is where it has not said that it is.
func (g *group) moves() bool { return g.domain != "" && g.domain != saidDomain(g.had) }

// longest is how long one of some pods has been unschedulable.
func longest(pods []*corev1.Pod, now time.Time) (most time.Duration) {
	for _, p := range pods {
		if since, is := unschedulable(p); is {
			most = max(most, now.Sub(since))
		}
	}
	return most
}

// asksForMore tells whether a group asks for more than its pods do.
func (f *fleet) asksForMore(g *group) bool {
	wanted := f.sum(append(slices.Clone(g.pods), g.pending...))
	for d, n := range f.leastOfGroup(g) {
		if n > wanted[d] {
			return true
		}
	}
	return false
}

// groups returns the groups of which there are pods, by the keys of their rows.
func (f *fleet) groups(v *View, had []*api.CapacityRequest) map[string]*group {
	staying := slices.DeleteFunc(slices.Clone(v.Pods), func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	groups := map[string]*group{}
	for key, m := range f.gatherBy(rollup.GroupOf, staying, had) {
		groups[key] = &group{members: *m}
	}
	return groups
}

// locate finds the domain of a group. It counts only if the shard knows the machines by that label, too.
func (g *group) locate(nodes map[string]*node, known *machines) {
	key := g.of.Spec.CoLocation.TopologyKey
	for _, p := range g.pods {
		n := nodes[p.Spec.NodeName]
		if n == nil {
			continue
		}
		u, domain := known.of(n.Node), n.Labels[key]
		if u == nil || domain == "" || u.Spec.Labels[key] != domain || g.domain != "" && g.domain != domain {
			g.domain = ""
			return
		}
		g.domain = domain
	}
}

// saidDomain is where a group's overhead says that it is.
func saidDomain(had *api.CapacityRequest) string {
	if had == nil {
		return ""
	}
	return had.Annotations[api.AnnotationDomain]
}

// room is what machines have that are on their way or so new that the scheduler has not come to them yet.
type room struct {
	of   *fleet // with what these promise
	bins *bins
}

// roomThatComes is that room, less what is nominated for it.
func roomThatComes(v *View, asked map[types.UID]*api.CapacityRequest, cfg Config) room {
	f, all := allBins(v, asked, cfg)
	out := &bins{}
	for i, n := range all.nodes {
		if n.Name == "" || v.Now.Sub(n.CreationTimestamp.Time) < cfg.After || all.held[i] { // a machine without a node has no name
			out.machines, out.nodes, out.held = append(out.machines, all.machines[i]), append(out.nodes, n), append(out.held, all.held[i])
		}
	}
	return room{f, out}
}

// findStuckOfGroup finds the pods of a group that are stuck: no machine that is new or on its way has room for them that no pod of this
// group or of the ones before it takes.
func (f *fleet) findStuckOfGroup(g *group, room room, v *View, cfg Config, out *Result) {
	key := g.of.Spec.CoLocation.TopologyKey
	var waiting []*corev1.Pod
	for _, p := range g.pending {
		request := f.asked[p.UID]
		if since, is := unschedulable(p); !is || v.Now.Sub(since) < cfg.After {
			continue
		}
		if at := request.Status.AcknowledgedAt; request.Status.Phase != api.RequestAcknowledged || at == nil || v.Now.Sub(at.Time) < cfg.After {
			continue
		}
		waiting = append(waiting, p)
	}
	placed := room.of.pack(room.bins.machines, room.bins.nodes, waiting, func(n *corev1.Node) bool {
		domain, is := n.Labels[key]
		return !is || g.domain == "" || domain == g.domain
	})
	for _, p := range waiting {
		if _, comes := placed[p]; comes {
			continue
		}
		if ok, why := f.helps(p, v); !ok {
			out.NoHelp++
			out.Notes = append(out.Notes, Note{p, NoHelp, "no machine would help: " + why})
			continue
		}
		g.stuck = append(g.stuck, p)
	}
	out.Stuck += len(g.stuck)
}

// raiseGroup asks for more for a group with pods that are stuck: for these once more, and twice as much each time that no
// machine came.
func (f *fleet) raiseGroup(v *View, g *group, cfg Config, out *Result) {
	raised, tried, apart := raisedAt(g.had), attemptsOf(g.had), cfg.After
	if f.asksForMore(g) {
		apart = 2 * cfg.After // a machine comes, and its node is there
	}
	if !raised.IsZero() && v.Now.Sub(raised) < apart {
		return
	}
	least := f.leastOfGroup(g)
	wanted, stuck, all := f.sum(append(slices.Clone(g.pods), g.pending...)), f.sum(g.stuck), f.sum(g.pending)
	if f.asksForMore(g) {
		if slices.ContainsFunc(f.nodes, func(n *node) bool {
			return !n.CreationTimestamp.Time.Before(raised) && covers(f.empty(n), f.asks(g.stuck[0])) &&
				(g.domain == "" || n.Labels[g.of.Spec.CoLocation.TopologyKey] == g.domain)
		}) {
			tried.inVain++
		} else if tried.absorbed++; f.unmet(g.stuck[0]) {
			return // the machines are not there yet
		}
	}
	if tried.inVain >= FailuresMax {
		for _, p := range g.stuck {
			out.Notes = append(out.Notes, Note{p, GivenUp, "machines came that were asked for, and the pod runs on none; look at why the scheduler refuses it"})
		}
		return
	}
	for _, n := range f.nodes {
		for d, x := range n.allocatable {
			all[d] += x
		}
	}
	changed := g.had == nil || tried.inVain != attemptsOf(g.had).inVain
	for d, had := range least {
		if stuck[d] > 0 {
			least[d] = max(had, min(max(had, wanted[d])+stuck[d]<<min(max(0, tried.absorbed-1), doublingsMax), all[d]+2*stuck[d]))
			changed = changed || least[d] != had
		}
	}
	if !changed {
		return
	}
	out.Write = append(out.Write, f.groupRequest(g, least, saidDomain(g.had), state{tried: tried, raised: v.Now}))
	for _, p := range g.stuck {
		out.Notes = append(out.Notes, Note{p, Added, "the capacity of its group suffices by sums, but no node has room where it runs; more was asked for"})
	}
}

// leastOfGroup is what a group asks for at the least.
func (f *fleet) leastOfGroup(g *group) amounts {
	if g.had == nil {
		return f.amounts(g.of.Spec.Resources)
	}
	return f.amounts(g.had.Spec.Resources)
}

// countGroup adds up what a group asks for beyond the sum of its pods.
func (f *fleet) countGroup(g *group, out *Result) {
	if g.had == nil {
		return
	}
	wanted := f.sum(append(slices.Clone(g.pods), g.pending...))
	for d, n := range f.leastOfGroup(g) {
		q := quantity(f.dims[d], max(0, n-wanted[d]))
		out.Overhead[f.dims[d]] += q.AsApproximateFloat64()
	}
}

// groupRequest makes the request that says where a group is, and what it asks for at the least. It stays as long as the group.
func (f *fleet) groupRequest(g *group, least amounts, domain string, now state) *api.CapacityRequest {
	out := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(g.Key), Namespace: g.of.Namespace, Labels: map[string]string{api.LabelPackingOverhead: g.Tag},
		Annotations: map[string]string{annotationAbsorbed: strconv.Itoa(now.tried.absorbed), annotationInVain: strconv.Itoa(now.tried.inVain)},
	}}
	if domain != "" {
		out.Annotations[api.AnnotationDomain] = domain
	}
	if !now.raised.IsZero() {
		out.Annotations[annotationRaised] = now.raised.UTC().Format(time.RFC3339)
	}
	out.Spec = *g.of.Spec.DeepCopy()
	out.Spec.Resources = f.list(least)
	return out
}
