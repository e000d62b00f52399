package buying

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/operator/packing"
	"github.com/tonnage/tonnage/operator/stuck"
)

const (
	// lookEvery is how often the operator looks for stuck pods, as its runner does.
	lookEvery = 5 * time.Second
	// backoffMax is how long a scheduler leaves a pod alone at the most that found no node; it begins with a second and doubles.
	backoffMax = 10 * time.Second
)

// Arriving says how pods and machines come, second by second: pods in the order of the feed, and machines some time after
// they were bought, one after the other, while the scheduler places what waits.
type Arriving struct {
	PodsPerSecond  int
	NodesPerSecond int           // at the most
	Latency        time.Duration // from the purchase of a machine to its node
	Decide         time.Duration // between two roll-ups and decisions
	Limit          time.Duration // of the whole
	// Whole has the nodes of machines that were bought together take pods once all of them are there.
	Whole bool
	// Nominate has the operator nominate pods for a node before it takes any.
	Nominate bool
	Gangs    int // as of [Churning]; they come with the first pods
	Seed     uint64
}

// ArriveResult is what arrivals ended with.
type ArriveResult struct {
	Result
	// Took is how long it was until all pods ran.
	Took time.Duration
	// Stuck is how many pods were pending when one was stuck first.
	Stuck int
}

// BySize returns pods in the order in which a cluster makes those of several deployments: all of one size, then all of the next.
func BySize(feed []Pod) []Pod {
	rank := map[Pod]int{}
	for _, p := range feed {
		if _, known := rank[p]; !known {
			rank[p] = len(rank)
		}
	}
	return slices.SortedStableFunc(slices.Values(feed), func(a, b Pod) int { return cmp.Compare(rank[a], rank[b]) })
}

// Arrive has pods come in their order, and buys machines for them, until all run or the limit is over. What is bought, and how
// pods are packed, depends on when pods and machines come: [Run] has all of them at once.
func Arrive(types []Type, feed []Pod, place Placer, options engine.Options, a Arriving) (*ArriveResult, error) {
	f, err := newFleet(types, place, options)
	if err != nil {
		return nil, err
	}
	f.latency, f.tries = a.Latency, map[string]try{}
	f.whole, f.nominates = a.Whole, a.Nominate
	r := rand.New(rand.NewPCG(a.Seed, 3))
	for range a.Gangs {
		f.comeGang(r)
	}
	gangs := f.made
	bound, err := Bound(types, append(slices.Clone(f.pods), feed...))
	if err != nil {
		return nil, err
	}
	c := Churning{Gangs: a.Gangs}
	if err := f.offer(peak(feed, c), zonesOf(c), slotsMax); err != nil {
		return nil, err
	}
	out, begun := &ArriveResult{Result: Result{Bound: bound}}, f.now
	for ; f.now.Sub(begun) < a.Limit; f.now = f.now.Add(time.Second) {
		for range min(a.PodsPerSecond, gangs+len(feed)-f.made) {
			f.come(feed[f.made-gangs])
		}
		f.land(a.NodesPerSecond)
		f.scheduleQueued()
		since := f.now.Sub(begun)
		if since%lookEvery == 2*time.Second {
			f.lookForStuck()
			if out.Stuck == 0 && f.stuckNow > 0 {
				out.Stuck = f.pending()
			}
		}
		if since%a.Decide == 0 {
			if _, err := f.decide(); err != nil {
				return nil, err
			}
		}
		if f.made == gangs+len(feed) && f.pending() == 0 {
			break
		}
	}
	out.Took = f.now.Sub(begun)
	out.Spend, out.Machines, out.Pending, out.Given = f.spend, len(f.machines)+len(f.coming)-f.given, f.pending(), f.given
	return out, nil
}

// arrival is a machine that was bought and has no node yet.
type arrival struct {
	at       time.Time
	node     *corev1.Node
	upcoming *api.UpcomingNode
	machine  packing.Machine
}

// land makes the nodes of machines whose time has come, at most so many. Those that wait for nominations, or for others that were
// bought with them, are released then.
func (f *fleet) land(most int) {
	for n := 0; n < most && len(f.coming) > 0 && !f.coming[0].at.After(f.now); n++ {
		f.landOne(0)
		if f.whole || f.nominates {
			f.hold()
		}
	}
	if len(f.held) > 0 && (!f.whole || len(f.coming) == 0 || f.coming[0].at.After(f.now)) {
		f.open()
	}
}

// hold has the node that came last take no pods.
func (s *site) hold() {
	s.held = append(s.held, len(s.nodes)-1)
	s.nodes[len(s.nodes)-1].Spec.Taints = []corev1.Taint{{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule}}
}

// open has the nodes that are held take pods, those first that the operator nominates for them.
func (s *site) open() {
	if s.nominates {
		for _, n := range stuck.Nominate(s.view(), s.stuckConfig()) {
			n.Pod.Status.NominatedNodeName = n.Node
		}
	}
	for _, i := range s.held {
		s.nodes[i].Spec.Taints = nil
	}
	s.held = nil
	s.changed = s.now
}

// landOne makes the node of a machine that is coming.
func (s *site) landOne(i int) {
	x := s.coming[i]
	s.coming = slices.Delete(s.coming, i, i+1)
	x.node.CreationTimestamp = metav1.NewTime(s.now)
	x.upcoming.Status.Phase, x.upcoming.Status.NodeRef = api.NodeReady, &corev1.ObjectReference{Name: x.node.Name}
	s.nodes, s.upcoming, s.machines = append(s.nodes, x.node), append(s.upcoming, x.upcoming), append(s.machines, x.machine)
	s.changed = s.now
}

// try is what a scheduler has tried for a pod: it tries again when a node has come and its backoff is over.
type try struct {
	n     int
	at    time.Time
	again time.Time // not before
}

// scheduleQueued has the scheduler try the pods whose turn it is.
func (f *fleet) scheduleQueued() {
	var turn []int
	for i, at := range f.on {
		t, tried := f.tries[f.objects[i].Name]
		if at < 0 && (!tried || !t.again.After(f.now) && !f.changed.Before(t.at)) {
			turn = append(turn, i)
		}
	}
	slices.SortStableFunc(turn, func(a, b int) int {
		return f.tries[f.objects[a].Name].again.Compare(f.tries[f.objects[b].Name].again)
	})
	f.placeNominated(turn)
	f.placeAll(slices.DeleteFunc(slices.Clone(turn), func(i int) bool { return f.on[i] >= 0 }))
	for _, i := range turn {
		t := f.tries[f.objects[i].Name]
		t.n, t.at = t.n+1, f.now
		t.again = f.now.Add(min(backoffMax, time.Second<<min(t.n-1, 4)))
		f.tries[f.objects[i].Name] = t
	}
	f.note(turn)
}

// placeNominated places the pods whose turn it is on the nodes that they are nominated for.
func (s *site) placeNominated(turn []int) {
	for _, i := range turn {
		at := slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == s.objects[i].Status.NominatedNodeName })
		if at < 0 || !fits(&s.machines[at], s.pods[i][:]) {
			continue
		}
		gang := s.objects[i].Labels[gangLabel]
		if zone := s.zoneOf(gang); gang != "" && zone != "" && zone != s.nodes[at].Labels[corev1.LabelTopologyZone] {
			continue
		}
		for d, n := range s.pods[i] {
			s.machines[at].Used[d] += n
		}
		s.on[i] = at
	}
}

// nominated is what of each machine is kept for pods that are nominated for it.
func (s *site) nominated() map[int]*Pod {
	out := map[int]*Pod{}
	for i, p := range s.objects {
		if s.on[i] >= 0 || p.Status.NominatedNodeName == "" {
			continue
		}
		at := slices.IndexFunc(s.nodes, func(n *corev1.Node) bool { return n.Name == p.Status.NominatedNodeName })
		if at < 0 {
			continue
		}
		if out[at] == nil {
			out[at] = &Pod{}
		}
		for d, n := range s.pods[i] {
			out[at][d] += n
		}
	}
	return out
}
