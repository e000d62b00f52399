package stuck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	nominateOwner = client.FieldOwner("tonnage-operator-nominate")
	// nominateAtOnce is how many nominations are written at a time, and nominateTogether how many, but for the rest of those of a node,
	// before these nodes take pods.
	nominateAtOnce   = 16
	nominateTogether = 16
	// seenWithin is how long a node waits at the most until the cache shows its nominations. By then a scheduler knows them, too.
	seenWithin = 2 * time.Second
	// NominatedFor is how long a nomination stands at the most: the scheduler keeps the pod's room on the node meanwhile.
	NominatedFor = time.Minute
	// vainAfter is how long one stands at the least that is in vain: the cache shows what is on the node by then.
	vainAfter  = 5 * time.Second
	roundLimit = 10 * time.Second
	// roundLasts is after how long a round begins no further nominations, shownWithin how long it waits until the cache shows some.
	roundLasts  = 2 * time.Second
	shownWithin = 200 * time.Millisecond
)

// NominatorMetrics are the series of a nominator.
type NominatorMetrics struct {
	nominations *prometheus.CounterVec
	held        prometheus.Histogram
}

// NewNominatorMetrics registers the series.
func NewNominatorMetrics(r prometheus.Registerer) *NominatorMetrics {
	m := &NominatorMetrics{
		nominations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tonnage_operator_nominations_total", Help: "Nominations of pods for nodes: written, taken back where the node has no room for the pod any more or after a minute, refused.",
		}, []string{"outcome"}),
		held: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tonnage_operator_node_awaits_nomination_seconds", Help: "How long new nodes took no pods until these were nominated.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	r.MustRegister(m.nominations, m.held)
	return m
}

func (m *NominatorMetrics) count(outcome string) {
	if m != nil {
		m.nominations.WithLabelValues(outcome).Inc()
	}
}

// Nominator nominates pods for new nodes, and then lets these take pods. It runs in a manager, in one replica at a time.
type Nominator struct {
	Client  client.Client // reads from a cache of pods, requests and what CacheOptions names, and writes
	Config  Config
	Metrics *NominatorMetrics // may be nil
	Log     *slog.Logger
	// Now is the wall clock: it is compared with times that the cluster wrote.
	Now func() time.Time
	// Event tells a node something.
	Event func(n *corev1.Node, note string)

	wake      chan struct{}
	nominated map[types.UID]nominated
	freed     map[types.UID]bool // nodes whose taint was taken away, until the cache shows that
}

// nominated is a nomination that stands.
type nominated struct {
	pod     client.ObjectKey
	node    string
	since   time.Time
	written time.Time // last
	seen    bool      // in the cache
	ours    bool      // this process has written it
}

// SetupNominator adds a nominator to a manager whose cache has CacheOptions and those of pods.
func SetupNominator(ctx context.Context, m manager.Manager, cfg Config, metrics *NominatorMetrics, log *slog.Logger) error {
	recorder := m.GetEventRecorder("tonnage-operator-pods")
	r := &Nominator{
		Client: m.GetClient(), Config: cfg, Metrics: metrics, Log: log, Now: time.Now, wake: make(chan struct{}, 1),
		Event: func(n *corev1.Node, note string) {
			recorder.Eventf(n, nil, corev1.EventTypeNormal, "PodsNominated", "Nominate", "%s", note)
		},
	}
	for _, o := range []client.Object{&corev1.Node{}, &corev1.Pod{}} {
		informer, err := m.GetCache().GetInformer(ctx, o)
		if err != nil {
			return fmt.Errorf("informer of %T: %w", o, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { r.notice(nil, o) },
			UpdateFunc: r.notice,
		}); err != nil {
			return fmt.Errorf("handler of %T: %w", o, err)
		}
	}
	return m.Add(r)
}

// notice wakes the nominator when a node waits, or a nomination was seen.
func (r *Nominator) notice(was, is any) {
	switch is := is.(type) {
	case *corev1.Node:
		if !Awaiting(is) {
			return
		}
	case *corev1.Pod:
		if before, ok := was.(*corev1.Pod); !ok || before.Status.NominatedNodeName == is.Status.NominatedNodeName {
			return
		}
	}
	r.again()
}

// again begins another round at once.
func (r *Nominator) again() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection tells the manager that one replica at a time runs it.
func (r *Nominator) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (r *Nominator) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		waits, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("nominations: not everything could be done; it is tried again", "error", err)
		}
		pause := every
		if waits || err != nil {
			pause = time.Second
		}
		timer := time.NewTimer(pause)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// round nominates pods for the nodes that wait, and lets those take pods whose nominations were seen. waits: there are others.
func (r *Nominator) round(ctx context.Context) (waits bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	v, err := readView(ctx, r.Client, r.Now())
	if err != nil {
		return true, err
	}
	pending, lost := r.remember(v)
	r.takeBack(ctx, pending, v)
	lost = slices.DeleteFunc(lost, func(n Nomination) bool { return r.nominated[n.Pod.UID].node != n.Node })
	freed := map[types.UID]bool{}
	defer func() { r.freed = freed }()
	awaiting := map[string]*corev1.Node{}
	for _, n := range v.Nodes {
		if Awaiting(n) {
			awaiting[n.Name] = n
		}
	}
	release := func(name string) {
		n := awaiting[name]
		if n == nil {
			return
		}
		delete(awaiting, name)
		w, e := r.release(ctx, n, freed)
		waits, err = waits || w, errors.Join(err, e)
	}
	// Node by node: a scheduler that tries a pod while its node has the taint takes the nomination back, so that time is short.
	all, began := byNode(append(lost, Nominate(v, r.Config)...)), time.Now()
	for len(all) > 0 && time.Since(began) < roundLasts {
		var now []Nomination
		now, all = firstOf(all)
		r.write(ctx, now, r.Now())
		r.await(ctx, now)
		for _, n := range now {
			release(n.Node)
		}
	}
	for _, n := range all {
		delete(awaiting, n.Node) // in the next round
	}
	for _, name := range slices.Sorted(maps.Keys(awaiting)) {
		release(name)
	}
	if len(all) > 0 {
		r.again()
	}
	return waits, err
}

// release lets a node take pods, unless a nomination for it is still to be seen. waits: it is.
func (r *Nominator) release(ctx context.Context, n *corev1.Node, freed map[types.UID]bool) (waits bool, err error) {
	if r.freed[n.UID] {
		freed[n.UID] = true
		return false, nil
	}
	if !r.stand(ctx, n.Name) {
		return true, nil
	}
	if err := Release(ctx, r.Client, n); err != nil {
		return true, err
	}
	freed[n.UID] = true
	r.released(n)
	return false, nil
}

// stand tells whether the cache shows all nominations for a node, or has had its time to. A scheduler takes one back when it tries the pod
// while the node has its taint; without it the node would take others' pods.
func (r *Nominator) stand(ctx context.Context, node string) bool {
	for _, x := range r.nominated {
		if x.node != node || !x.ours {
			continue
		}
		var p corev1.Pod
		if err := r.Client.Get(ctx, x.pod, &p); err == nil && !x.stands(&p, r.Now()) {
			return false
		}
	}
	return true
}

// stands tells whether the cache shows a nomination, or the pod on a node, or has had its time to.
func (x *nominated) stands(p *corev1.Pod, now time.Time) bool {
	return p.Spec.NodeName != "" || p.Status.NominatedNodeName == x.node || !x.seen && now.Sub(x.written) >= seenWithin
}

// await waits until the cache shows nominations, or for a while.
func (r *Nominator) await(ctx context.Context, all []Nomination) {
	for until := time.Now().Add(shownWithin); time.Now().Before(until) && ctx.Err() == nil; time.Sleep(shownWithin / 20) {
		if !slices.ContainsFunc(all, func(n Nomination) bool { return !r.stand(ctx, n.Node) }) {
			return
		}
	}
}

// remember brings what was written and what the cache shows together: the view gets nominations that the cache does not show. It
// returns the pods that are nominated and pending, and the nominations that were lost: a scheduler clears that of a pod when it
// tries it in vain, as it does while the node has its taint.
func (r *Nominator) remember(v *View) (pending []*corev1.Pod, lost []Nomination) {
	now := map[types.UID]nominated{}
	for i, p := range v.Pods {
		had, known := r.nominated[p.UID]
		if p.Spec.NodeName != "" || ended(p) || p.DeletionTimestamp != nil {
			continue
		}
		switch shown := p.Status.NominatedNodeName; {
		case shown == "" && (!had.ours || v.Now.Sub(had.since) >= NominatedFor):
			continue
		case shown == "":
			p = p.DeepCopy()
			p.Status.NominatedNodeName = had.node
			v.Pods[i] = p
			if had.seen {
				lost = append(lost, Nomination{p, had.node})
			}
		case !known || had.node != shown:
			had = nominated{pod: client.ObjectKeyFromObject(p), node: shown, since: v.Now, written: v.Now, seen: true}
		default:
			had.seen = true
		}
		now[p.UID] = had
		pending = append(pending, p)
	}
	r.nominated = now
	return pending, lost
}

// released says that a node takes pods now.
func (r *Nominator) released(n *corev1.Node) {
	if r.Metrics != nil {
		r.Metrics.held.Observe(max(0, r.Now().Sub(n.CreationTimestamp.Time).Seconds()))
	}
	pods := 0
	for _, x := range r.nominated {
		if x.node == n.Name {
			pods++
		}
	}
	if pods > 0 {
		r.Event(n, fmt.Sprintf("%d pods are nominated for this node; it takes pods now", pods))
	}
}

// byNode brings the nominations of each node together, in the order of the first of each.
func byNode(all []Nomination) []Nomination {
	first := map[string]int{}
	for i, n := range all {
		if _, known := first[n.Node]; !known {
			first[n.Node] = i
		}
	}
	slices.SortStableFunc(all, func(a, b Nomination) int { return cmp.Compare(first[a.Node], first[b.Node]) })
	return all
}

// firstOf returns the nominations that are written next, and the others: those of a node are written together.
func firstOf(all []Nomination) (now, later []Nomination) {
	for i := nominateTogether; i < len(all); i++ {
		if all[i].Node != all[i-1].Node {
			return all[:i], all[i:]
		}
	}
	return all, nil
}

// write nominates pods. What fails is left to the scheduler.
func (r *Nominator) write(ctx context.Context, all []Nomination, now time.Time) {
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(nominateAtOnce, len(all)) {
		wg.Go(func() {
			for i := range next {
				_, errs[i] = r.apply(ctx, all[i].Pod, all[i].Node)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
	for i, n := range all {
		switch err := errs[i]; {
		case err == nil:
			r.Metrics.count("written")
			had, known := r.nominated[n.Pod.UID]
			if !known {
				had.since = now
			}
			r.nominated[n.Pod.UID] = nominated{pod: client.ObjectKeyFromObject(n.Pod), node: n.Node, since: had.since, written: now, ours: true}
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // it is gone, or somebody else has nominated it
			r.Metrics.count("refused")
		default:
			r.Metrics.count("refused")
			r.Log.Warn("a pod could not be nominated", "pod", n.Pod.Namespace+"/"+n.Pod.Name, "node", n.Node, "error", err)
		}
	}
	if len(all) > 0 {
		r.Log.Info("pods are nominated", "pods", len(all))
	}
}

// takeBack takes nominations back that are in vain, or have stood too long. Those of others stay: an apply takes away only what its
// owner set.
func (r *Nominator) takeBack(ctx context.Context, pods []*corev1.Pod, v *View) {
	vain, now := r.inVain(pods, v), v.Now
	for _, p := range pods {
		x := r.nominated[p.UID]
		if now.Sub(x.since) < NominatedFor && !vain[p.UID] {
			continue
		}
		left, err := r.apply(ctx, p, "")
		if client.IgnoreNotFound(err) != nil {
			r.Log.Warn("a nomination could not be taken back", "pod", p.Namespace+"/"+p.Name, "error", err)
			continue
		}
		if left == "" {
			r.Metrics.count("taken_back")
			delete(r.nominated, p.UID)
			continue
		}
		x.since = now // those of others are tried again
		r.nominated[p.UID] = x
	}
}

// inVain finds the nominations of this process whose node takes pods and has no room for the pod any more, since others were
// placed there: a scheduler would keep the pod waiting for it, and nothing would be bought for the pod.
func (r *Nominator) inVain(pods []*corev1.Pod, v *View) map[types.UID]bool {
	out := map[types.UID]bool{}
	var byName map[string]*node
	var f *fleet
	for _, p := range pods {
		x := r.nominated[p.UID]
		if !x.ours || v.Now.Sub(x.written) < vainAfter {
			continue
		}
		if f == nil {
			f, byName = look(v), map[string]*node{}
			for _, n := range f.nodes {
				byName[n.Name] = n
			}
		}
		n := byName[x.node]
		if n == nil || Awaiting(n.Node) {
			continue // it is on its way, or takes no pods yet
		}
		free := n.free()
		for d, asks := range f.asks(p) {
			if asks > free[d] {
				out[p.UID] = true
				break
			}
		}
	}
	return out
}

// apply sets a pod's nomination, "" = takes it away, and returns what it is then. That of somebody else is a conflict.
func (r *Nominator) apply(ctx context.Context, p *corev1.Pod, node string) (is string, err error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	u.SetNamespace(p.Namespace)
	u.SetName(p.Name)
	u.SetUID(p.UID)
	if node != "" {
		u.Object["status"] = map[string]any{"nominatedNodeName": node}
	}
	err = r.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), nominateOwner)
	is, _, _ = unstructured.NestedString(u.Object, "status", "nominatedNodeName")
	return is, err
}

// Release takes the taint of nominations from a node. Where others changed its taints meanwhile it fails, and is called again.
func Release(ctx context.Context, c client.Client, n *corev1.Node) error {
	type step struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value string `json:"value,omitempty"`
	}
	var steps []step
	for i, t := range slices.Backward(n.Spec.Taints) {
		if at := fmt.Sprintf("/spec/taints/%d", i); t.Key == api.TaintNomination {
			steps = append(steps, step{"test", at + "/key", t.Key}, step{"remove", at, ""})
		}
	}
	patch, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, client.RawPatch(types.JSONPatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("node %s: taint %s: %w", n.Name, api.TaintNomination, err)
	}
	return nil
}
