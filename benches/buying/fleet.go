package buying

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/operator/packing"
	"github.com/tonnage/tonnage/operator/pods"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/stuck"
)

// RoundsMax bounds the rounds of a run: pods that are not placed by then stay pending.
const RoundsMax = 16

const (
	cluster    = "blue"
	stuckAfter = 15 * time.Second
	keep       = 10 * time.Minute
	roundTime  = 2*stuckAfter + time.Second // in which machines come and the scheduler tries
)

// Result is what a run ended with.
type Result struct {
	Bound    float64 // dollars an hour
	Spend    float64 // of the machines that are bound
	Machines int     // bound
	Pending  int     // pods without a machine
	Rounds   int     // cycles until all pods ran, or nothing more was bought
	First    int     // pods pending after the first round
	Given    int     // machines that were given back on the way
}

// Over is how far the spend is above the bound, 0.02 = 2 %.
func (r *Result) Over() float64 { return r.Spend/r.Bound - 1 }

// site is one cluster: its pods and nodes, a scheduler, and what the operator makes of them.
type site struct {
	place    Placer
	rollup   rollup.Aggregator
	now      time.Time
	machines []packing.Machine
	nodes    []*corev1.Node
	upcoming []*api.UpcomingNode // by machine, as the operator tells
	made     int                 // pods so far
	priority int32               // of pods that come
	pods     []Pod
	objects  []*corev1.Pod
	on       []int                           // by pod: its machine, -1 = it is pending
	requests []*api.CapacityRequest          // of pods, in their order
	rowOf    []int32                         // by request: its row in what was reported last
	overhead map[string]*api.CapacityRequest // by name
	coming   []arrival                       // machines without a node, in the order in which they come
	changed  time.Time                       // when a node came last
	stuckNow int                             // pods, when they were looked for last
	held     []int                           // nodes that take no pods yet
	// nominates says that the operator nominates pods for a node before it takes any.
	nominates bool
}

// fleet is a cluster, and the engine that decides what is bought for it.
type fleet struct {
	site
	types   []Type
	supply  *supply.Table
	demand  *demand.Table
	engine  *engine.Engine
	spend   float64
	given   int
	again   int                  // machines that were bought within keep after one of their type was given back
	gone    map[string]time.Time // by type: when one was given back last
	old     []string             // pods that a deploy replaces
	latency time.Duration        // from the purchase of a machine to its node
	tries   map[string]try       // by pod: what the scheduler has tried, of [Arrive]
	whole   bool                 // of [Arriving]
}

// Run buys machines for pods, all of which are there at once, round by round, until all
// run or nothing more is bought.
func Run(types []Type, feed []Pod, place Placer, options engine.Options) (*Result, error) {
	_, out, err := start(types, feed, place, options, Churning{})
	return out, err
}

// start is Run, and returns the fleet too.
func start(types []Type, feed []Pod, place Placer, options engine.Options, c Churning) (*fleet, *Result, error) {
	f, err := newFleet(types, place, options)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range feed {
		f.come(p)
	}
	r := rand.New(rand.NewPCG(c.Seed, 3))
	for range c.Gangs {
		f.comeGang(r)
	}
	bound, err := Bound(types, f.pods)
	if err != nil {
		return nil, nil, err
	}
	if err := f.offer(peak(f.pods, c), zonesOf(c), slotsMax); err != nil {
		return nil, nil, err
	}
	out := &Result{Bound: bound}
	for idle := 0; out.Rounds < RoundsMax && f.pending() > 0 && idle < stuck.FailuresMax; {
		n, err := f.round()
		if err != nil {
			return nil, nil, err
		}
		if idle++; n > 0 {
			idle = 0
		}
		if out.Rounds++; out.Rounds == 1 {
			out.First = f.pending()
		}
	}
	out.Spend, out.Machines, out.Pending, out.Given = f.spend, len(f.machines)-f.given, f.pending(), f.given
	return f, out, nil
}

// newFleet is a cluster without pods and machines.
func newFleet(types []Type, place Placer, options engine.Options) (f *fleet, err error) {
	f = &fleet{site: newSite(place), types: types, supply: supply.New(), demand: demand.New(), gone: map[string]time.Time{}}
	f.engine, err = engine.New(options)
	return f, err
}

// newSite is a cluster without pods and nodes.
func newSite(place Placer) site {
	return site{place: place, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), overhead: map[string]*api.CapacityRequest{}}
}

// zonesOf are the zones that machines are on offer in.
func zonesOf(c Churning) []string {
	if c.Gangs > 0 {
		return []string{"a", "b", "c"}
	}
	return []string{"a"}
}

// come makes a pod and its request.
func (s *site) come(size Pod) { s.comeTo("", size) }

// comeTo is come of a pod of a gang, "" = of none.
func (s *site) comeTo(gang string, size Pod) {
	name := fmt.Sprintf("pod-%06d", s.made)
	s.made++
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	if s.priority != 0 {
		pod.Spec.Priority = new(s.priority)
	}
	pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list(&size)}}}
	delete(pod.Spec.Containers[0].Resources.Requests, corev1.ResourcePods)
	if gang != "" {
		stayTogether(pod, gang)
	}
	s.pods, s.on = append(s.pods, size), append(s.on, -1)
	s.objects = append(s.objects, pod)
	s.requests = append(s.requests, pods.Request(pod, nil))
}

func (s *site) pending() (n int) {
	for _, at := range s.on {
		if at < 0 {
			n++
		}
	}
	return n
}

// slotsMax is how many machines of a type are on offer at most.
const slotsMax = 4000

// offer puts machines of every type on offer, enough of each for twice the whole demand, at most so many.
func (f *fleet) offer(sum [dims]int64, zones []string, most int64) error {
	for i := range f.types {
		t := &f.types[i]
		slots := int64(1)
		for d, n := range sum {
			if c := t.Capacity[d]; c > 0 {
				slots = max(slots, 2*n/c+1)
			}
		}
		offer := resources(&t.Capacity)
		slots *= int64(len(zones))
		for slot := range min(slots, most) {
			m := model.Machine{
				ID: fmt.Sprintf("%s-%04d", t.Name, slot), State: model.Speculative, InstanceType: t.Name, Zone: zones[slot%int64(len(zones))],
				CapacityType: model.OnDemand, PricePerHour: t.Price, Resources: offer,
			}
			if err := f.supply.Put(&m); err != nil {
				return err
			}
		}
	}
	f.limit(f.types)
	return nil
}

// limit tells the roll-up the largest machines on offer.
func (s *site) limit(types []Type) {
	largest := map[string]int64{}
	for i := range types {
		for _, a := range resources(&types[i].Capacity) {
			largest[a.Name] = max(largest[a.Name], a.Value)
		}
	}
	s.rollup.Limit(rollup.Limits{Offered: largest})
}

// names are what the dimensions are called.
var names = [dims]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "nvidia.com/gpu", corev1.ResourcePods}

func resources(amounts *[dims]int64) model.Resources {
	var out []model.Amount
	for d, n := range amounts {
		if d == dimMemory {
			n <<= 20
		}
		if n > 0 {
			out = append(out, model.Amount{Name: string(names[d]), Value: n})
		}
	}
	return model.NewResources(out...)
}

func list(amounts *[dims]int64) corev1.ResourceList {
	out := corev1.ResourceList{}
	for d, n := range amounts {
		switch {
		case n == 0:
		case d == dimCPU:
			out[names[d]] = *resource.NewMilliQuantity(n, resource.DecimalSI)
		case d == dimMemory:
			out[names[d]] = *resource.NewQuantity(n<<20, resource.BinarySI)
		default:
			out[names[d]] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return out
}

// round reports the demand, carries out what the engine decides, lets the scheduler place pods,
// and then looks for those that are stuck. It returns how many machines were bought.
func (f *fleet) round() (int, error) {
	n, err := f.decide()
	if err != nil {
		return 0, err
	}
	f.land(n)
	f.schedule()
	f.now = f.now.Add(roundTime)
	f.lookForStuck()
	return n, nil
}

// decide reports the demand and carries out what the engine decides. It returns how many machines were bought.
func (f *fleet) decide() (int, error) {
	if err := f.report(); err != nil {
		return 0, err
	}
	plan, err := f.engine.Cycle(engine.Input{Supply: f.supply, Demand: f.demand, Now: f.now.UnixNano()})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, a := range plan.Actions {
		switch a.Kind {
		case engine.Provision:
			if err := f.bind(a.Machine, plan.Need(int(a.Need))); err != nil {
				return 0, err
			}
			n++
		case engine.Reclaim:
			f.reclaim(a.Machine)
		default:
			return 0, fmt.Errorf("a fleet of one cluster was told %s %s", a.Kind, f.supply.ID(a.Machine))
		}
	}
	for _, x := range plan.Adopted {
		f.supply.Stamp(x.Machine, plan.Stamp(int(x.Need)))
	}
	f.tell()
	return n, nil
}

// tell tells the operator what its machines are counted for, as a shard does.
func (f *fleet) tell() {
	tell := func(u *api.UpcomingNode, id string) {
		if at, some := f.supply.Lookup(id); some {
			u.Spec.Labels[model.LabelCountedFor] = f.demand.CountedFor(f.supply.Assigned(at))
		}
	}
	for i, n := range f.nodes {
		tell(f.upcoming[i], n.Name)
	}
	for _, x := range f.coming {
		tell(x.upcoming, x.node.Name)
	}
}

// report hands the roll-up to the engine.
func (f *fleet) report() error {
	needs, err := f.rows()
	if err != nil {
		return err
	}
	return f.demand.Replace(cluster, needs)
}

// rows makes the roll-up, and marks what it has in it as heard.
func (s *site) rows() ([]model.Need, error) {
	requests := slices.Clone(s.requests)
	for _, o := range s.overhead {
		requests = append(requests, o)
	}
	rolled := s.rollup.Aggregate(requests)
	if len(rolled.Refused) > 0 {
		return nil, fmt.Errorf("%d requests are not reported: %w", len(rolled.Refused), rolled.Refused[0].Err)
	}
	needs := make([]model.Need, len(rolled.Needs))
	for i, n := range rolled.Needs {
		need, err := read(n)
		if err != nil {
			return nil, err
		}
		needs[i] = need
	}
	heard := metav1.NewTime(s.now)
	for i, r := range rolled.Included[:len(s.requests)] {
		if r.Status.Phase != api.RequestAcknowledged {
			r = r.DeepCopy()
			r.Status = api.CapacityRequestStatus{Phase: api.RequestAcknowledged, AcknowledgedAt: &heard, SizeClass: new(int32(rolled.Classes[i]))}
			s.requests[i] = r
		}
	}
	s.rowOf = rolled.Rows[:len(s.requests)]
	return needs, nil
}

// hear has requests say whether the machines for their rows are there, as a shard answers.
func (s *site) hear(satisfied func(row int) bool) {
	for i, row := range s.rowOf {
		is := metav1.ConditionFalse
		if satisfied(int(row)) {
			is = metav1.ConditionTrue
		}
		if r := s.requests[i]; !meta.IsStatusConditionPresentAndEqual(r.Status.Conditions, api.ConditionSatisfied, is) {
			r = r.DeepCopy()
			meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: api.ConditionSatisfied, Status: is, LastTransitionTime: metav1.NewTime(s.now)})
			s.requests[i] = r
		}
	}
}

// read makes a Need of a row.
func read(n *bigfleet.CapacityNeed) (model.Need, error) {
	spec := model.ProfileSpec{Priority: n.Priority}
	for _, r := range n.Requirements {
		spec.Requirements = append(spec.Requirements, model.Requirement{Key: r.Key, Operator: model.Operator(r.Operator), Values: r.Values})
	}
	profile, err := model.NewProfile(spec)
	if err != nil {
		return model.Need{}, err
	}
	aggregate, faults := model.ParseResources(n.AggregateResources)
	unit, more := model.ParseResources(n.MinUnit)
	if faults = append(faults, more...); len(faults) > 0 {
		return model.Need{}, faults[0]
	}
	return model.Need{Profile: profile, Aggregate: aggregate, MinUnit: unit, Group: n.Group}, nil
}

// schedule places the pods that are pending.
func (s *site) schedule() {
	var waiting []int
	for i, at := range s.on {
		if at < 0 {
			waiting = append(waiting, i)
		}
	}
	s.placeNominated(waiting)
	s.placeAll(slices.DeleteFunc(slices.Clone(waiting), func(i int) bool { return s.on[i] >= 0 }))
	s.note(waiting)
}

// note has pods say what the scheduler has found for them.
func (s *site) note(tried []int) {
	for _, i := range tried {
		pod, at := s.objects[i], s.on[i]
		if at >= 0 {
			pod.Spec.NodeName = s.nodes[at].Name
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now)}}
		} else if len(pod.Status.Conditions) == 0 {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(s.now),
			}}
		}
	}
}

// view is what the operator sees.
func (s *site) view() *stuck.View {
	requests := slices.Clone(s.requests)
	for _, o := range s.overhead {
		requests = append(requests, o)
	}
	upcoming := slices.Clone(s.upcoming)
	for _, x := range s.coming {
		upcoming = append(upcoming, x.upcoming)
	}
	return &stuck.View{Pods: s.objects, Nodes: s.nodes, Requests: requests, Upcoming: upcoming, Now: s.now}
}

func (s *site) stuckConfig() stuck.Config { return stuck.Config{After: stuckAfter, Keep: keep} }

// lookForStuck has packing overhead written as the operator does.
func (s *site) lookForStuck() {
	plan := stuck.Plan(s.view(), s.stuckConfig())
	s.stuckNow = plan.Stuck
	for _, o := range plan.Write {
		s.overhead[o.Name] = o
	}
	for _, o := range plan.Delete {
		delete(s.overhead, o.Name)
	}
}

// reclaim empties a machine and gives it back.
func (f *fleet) reclaim(at columnar.Row) {
	id := f.supply.ID(at)
	f.spend -= f.supply.Price(at)
	f.given++
	if i := slices.IndexFunc(f.coming, func(x arrival) bool { return x.node.Name == id }); i >= 0 {
		f.landOne(i)
	}
	i := slices.IndexFunc(f.nodes, func(n *corev1.Node) bool { return n.Name == id })
	f.gone[f.nodes[i].Labels[corev1.LabelInstanceTypeStable]] = f.now
	f.empty(i)
	f.supply.Remove(id)
}

// empty takes a node away: its pods are pending again. Its place in the lists stays, without room.
func (s *site) empty(i int) {
	for pod, on := range s.on {
		if on == i {
			s.on[pod], s.objects[pod].Spec.NodeName = -1, ""
			s.objects[pod].Status.Conditions = nil
		}
	}
	s.machines[i] = packing.Machine{Capacity: make([]int64, dims), Used: make([]int64, dims)}
	s.nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.nodes[i].Name + "-gone"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	s.upcoming[i] = &api.UpcomingNode{}
}

// bind does what a shard and its provider would over some seconds.
func (f *fleet) bind(at columnar.Row, need engine.NeedResult) error {
	for _, to := range []model.State{model.Creating, model.Idle, model.Configuring, model.Configured} {
		owner := ""
		if to == model.Configuring || to == model.Configured {
			owner = cluster
		}
		if err := f.supply.Transition(at, to, owner, 0); err != nil {
			return err
		}
		if to == model.Configuring {
			f.supply.Stamp(at, model.Assignment{
				Priority: need.Profile.Priority(), Interruption: need.Profile.Interruption(), Reclamation: need.Profile.Reclamation(),
				Fingerprint: need.Profile.Fingerprint(), Group: need.Group,
			})
		}
	}
	m := f.supply.Get(at)
	t := &f.types[slices.IndexFunc(f.types, func(t Type) bool { return t.Name == m.InstanceType })]
	if last, some := f.gone[t.Name]; some && f.now.Sub(last) < keep {
		f.again++
	}
	f.expect(m.ID, m.Zone, t, f.now.Add(f.latency))
	f.spend += t.Price
	return nil
}

// expect notes a machine that will be a node at some time.
func (s *site) expect(id, zone string, t *Type, at time.Time) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id, CreationTimestamp: metav1.NewTime(s.now),
		Labels: map[string]string{corev1.LabelInstanceTypeStable: t.Name, corev1.LabelTopologyZone: zone}}}
	node.Status.Allocatable = list(&t.Capacity)
	started := metav1.NewTime(s.now)
	upcoming := &api.UpcomingNode{
		ObjectMeta: metav1.ObjectMeta{Name: "un-" + id}, Spec: api.UpcomingNodeSpec{Resources: node.Status.Allocatable, Labels: maps.Clone(node.Labels)},
		Status: api.UpcomingNodeStatus{Phase: api.NodeRegistered, ProvisioningStartTime: &started},
	}
	s.coming = append(s.coming, arrival{at, node, upcoming, packing.Machine{Capacity: t.Capacity[:], Used: make([]int64, dims)}})
}
