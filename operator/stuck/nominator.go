package stuck

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
	// nominateAtOnce is how many nominations are written at a time.
	nominateAtOnce = 16
	// placedWithin is how long a node waits at the most until the pods that are nominated for it are there.
	placedWithin = 10 * time.Second
	// NominatedFor is how long a nomination stands at the most: the scheduler keeps the pod's room on the node meanwhile.
	NominatedFor = time.Minute
	// vainAfter is how long one stands at the least that is in vain: the cache shows what is on the node by then.
	vainAfter  = 5 * time.Second
	roundLimit = 10 * time.Second
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

// notice wakes the nominator when a node waits, when a nomination was seen, and when a pod has its node.
func (r *Nominator) notice(was, is any) {
	switch is := is.(type) {
	case *corev1.Node:
		if !Awaiting(is) {
			return
		}
	case *corev1.Pod:
		if before, ok := was.(*corev1.Pod); !ok || before.Status.NominatedNodeName == is.Status.NominatedNodeName && before.Spec.NodeName == is.Spec.NodeName {
			return
		}
	}
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

// round nominates pods for the nodes that wait, and lets those take others whose pods are there. waits: there are others.
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
	awaiting := map[string]*corev1.Node{}
	for _, n := range v.Nodes {
		if Awaiting(n) {
			awaiting[n.Name] = n
		}
	}
	r.write(ctx, append(lost, Nominate(v, r.Config)...), awaiting, v.Now)
	freed := map[types.UID]bool{}
	defer func() { r.freed = freed }()
	for _, name := range slices.Sorted(maps.Keys(awaiting)) {
		n := awaiting[name]
		switch {
		case r.freed[n.UID]:
			freed[n.UID] = true
			continue
		case r.expects(name, v.Now):
			waits = true
			continue
		}
		if e := Release(ctx, r.Client, n); e != nil {
			waits, err = true, e
			continue
		}
		freed[n.UID] = true
		r.released(n)
	}
	return waits, err
}

// expects tells whether a pod is to come to a node that was nominated for it lately.
func (r *Nominator) expects(node string, now time.Time) bool {
	for _, x := range r.nominated {
		if x.node == node && x.ours && now.Sub(x.since) < placedWithin {
			return true
		}
	}
	return false
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
			had = nominated{node: shown, since: v.Now, written: v.Now, seen: true}
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
}

// atOnce does n things, some of them at a time.
func atOnce(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(nominateAtOnce, n) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// write nominates pods, and lets them come to nodes that wait. What fails is left to the scheduler.
func (r *Nominator) write(ctx context.Context, all []Nomination, awaiting map[string]*corev1.Node, now time.Time) {
	var nodes []*corev1.Node
	for _, x := range all {
		if n := awaiting[x.Node]; n != nil && !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	unmarked := make([]error, len(nodes))
	atOnce(len(nodes), func(i int) { unmarked[i] = mark(ctx, r.Client, nodes[i]) })
	errs := make([]error, len(all))
	atOnce(len(all), func(i int) {
		x := all[i]
		if n := awaiting[x.Node]; n != nil {
			if errs[i] = unmarked[slices.Index(nodes, n)]; errs[i] == nil {
				errs[i] = tolerate(ctx, r.Client, x.Pod, n)
			}
		}
		if errs[i] == nil {
			_, errs[i] = r.apply(ctx, x.Pod, x.Node)
		}
	})
	came := map[string]int{}
	for i, n := range all {
		switch err := errs[i]; {
		case err == nil:
			r.Metrics.count("written")
			came[n.Node]++
			had, known := r.nominated[n.Pod.UID]
			if !known {
				had.since = now
			}
			r.nominated[n.Pod.UID] = nominated{node: n.Node, since: had.since, written: now, ours: true}
		case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // it is gone, or somebody else has nominated it
			r.Metrics.count("refused")
		default:
			r.Metrics.count("refused")
			r.Log.Warn("a pod could not be nominated", "pod", n.Pod.Namespace+"/"+n.Pod.Name, "node", n.Node, "error", err)
		}
	}
	for _, n := range nodes {
		if pods := came[n.Name]; pods > 0 {
			r.Event(n, fmt.Sprintf("%d pods are nominated for this node; it takes others once these are there", pods))
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

// step is one of a JSON patch.
type step struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func patch(ctx context.Context, c client.Client, o client.Object, steps []step) error {
	text, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	return c.Patch(ctx, o, client.RawPatch(types.JSONPatchType, text))
}

// markOf is the value of a node's taint that the pods which are nominated for the node tolerate.
func markOf(n *corev1.Node) string {
	h := fnv.New64a()
	h.Write([]byte(n.UID))
	return fmt.Sprintf("%016x", h.Sum64())
}

// mark gives the taint of a node its value.
func mark(ctx context.Context, c client.Client, n *corev1.Node) error {
	for i, t := range n.Spec.Taints {
		if t.Key != api.TaintNomination || t.Value == markOf(n) {
			continue
		}
		at := fmt.Sprintf("/spec/taints/%d", i)
		if err := patch(ctx, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, []step{{"test", at + "/key", t.Key}, {"add", at + "/value", markOf(n)}}); err != nil {
			return fmt.Errorf("node %s: taint %s: %w", n.Name, api.TaintNomination, err)
		}
	}
	return nil
}

// tolerate lets a pod come to a node that waits. Tolerations are what may be added to the spec of a pod.
func tolerate(ctx context.Context, c client.Client, p *corev1.Pod, n *corev1.Node) error {
	for _, t := range n.Spec.Taints {
		if t.Key != api.TaintNomination {
			continue
		}
		add := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: markOf(n), Effect: t.Effect}
		if slices.Contains(p.Spec.Tolerations, add) {
			continue
		}
		to := step{"add", "/spec/tolerations/-", add}
		if len(p.Spec.Tolerations) == 0 {
			to = step{"add", "/spec/tolerations", []corev1.Toleration{add}}
		}
		if err := patch(ctx, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}, []step{{"test", "/metadata/uid", p.UID}, to}); err != nil {
			return err
		}
	}
	return nil
}

// Release takes the taint of nominations from a node. Where others changed its taints meanwhile it fails, and is called again.
func Release(ctx context.Context, c client.Client, n *corev1.Node) error {
	var steps []step
	for i, t := range slices.Backward(n.Spec.Taints) {
		if at := fmt.Sprintf("/spec/taints/%d", i); t.Key == api.TaintNomination {
			steps = append(steps, step{"test", at + "/key", t.Key}, step{Op: "remove", Path: at})
		}
	}
	if err := patch(ctx, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, steps); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("node %s: taint %s: %w", n.Name, api.TaintNomination, err)
	}
	return nil
}
