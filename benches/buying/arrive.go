package buying

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/operator/packing"
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
	bound, err := Bound(types, feed)
	if err != nil {
		return nil, err
	}
	if err := f.offer(peak(feed, Churning{}), zonesOf(Churning{}), slotsMax); err != nil {
		return nil, err
	}
	out, begun := &ArriveResult{Result: Result{Bound: bound}}, f.now
	for ; f.now.Sub(begun) < a.Limit; f.now = f.now.Add(time.Second) {
		for range min(a.PodsPerSecond, len(feed)-f.made) {
			f.come(feed[f.made])
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
		if f.made == len(feed) && f.pending() == 0 {
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

// land makes the nodes of machines whose time has come, at most so many.
func (f *fleet) land(most int) {
	for range most {
		if len(f.coming) == 0 || f.coming[0].at.After(f.now) {
			return
		}
		f.landOne(0)
	}
}

// landOne makes the node of a machine that is coming.
func (f *fleet) landOne(i int) {
	x := f.coming[i]
	f.coming = slices.Delete(f.coming, i, i+1)
	x.node.CreationTimestamp = metav1.NewTime(f.now)
	x.upcoming.Status.Phase, x.upcoming.Status.NodeRef = api.NodeReady, &corev1.ObjectReference{Name: x.node.Name}
	f.nodes, f.upcoming, f.machines = append(f.nodes, x.node), append(f.upcoming, x.upcoming), append(f.machines, x.machine)
	f.changed = f.now
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
	f.placeAll(turn)
	for _, i := range turn {
		t := f.tries[f.objects[i].Name]
		t.n, t.at = t.n+1, f.now
		t.again = f.now.Add(min(backoffMax, time.Second<<min(t.n-1, 4)))
		f.tries[f.objects[i].Name] = t
	}
	f.note(turn)
}
