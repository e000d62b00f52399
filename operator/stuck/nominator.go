package stuck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	// nominateAtOnce is how many requests are under way at a time, and nominateTogether how many nominations are written, but for the rest of
	// those of a node, before it is seen whether the round has lasted long enough.
	nominateAtOnce   = 16
	nominateTogether = 64
	roundLasts       = 2 * time.Second
	// placedWithin is how long a node that is ready waits at the most until the pods that are nominated for it are there.
	placedWithin = 10 * time.Second
	// shownWithin is how long the cache takes at the most to show what was written.
	shownWithin = 2 * time.Second
	// refusedFor is for how long a pod whose nomination was refused is not nominated again.
	refusedFor = 10 * time.Second
	// tolerationsMost is how many nodes a pod is nominated for in its life: each leaves a toleration.
	tolerationsMost = 10
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
			Name: "tonnage_operator_node_awaits_nomination_seconds", Help: "How long new nodes took no pods but those that were nominated for them.",
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
	refused   map[types.UID]time.Time // pods, and when
	freed     map[types.UID]time.Time // nodes whose taint was taken away, until the cache shows that
	held      map[types.UID]heldNode  // nodes for which pods are nominated
}

// heldNode is since when a node waits for pods.
type heldNode struct {
	nominated time.Time // the first of them
	ready     time.Time // no other taint that goes by itself was left; zero = one is
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
		if before, ok := was.(*corev1.Pod); !ok || before.Status.NominatedNodeName == is.Status.NominatedNodeName &&
			(before.Spec.NodeName == is.Spec.NodeName || before.Status.NominatedNodeName == "") {
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

// round lets nodes take others whose nominated pods are there, and nominates pods for those that wait. waits: there are such.
func (r *Nominator) round(ctx context.Context) (waits bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	v, err := readView(ctx, r.Client, r.Now())
	if err != nil {
		return true, err
	}
	r.showFreed(v)
	awaiting := map[string]*corev1.Node{}
	for _, n := range v.Nodes {
		if Awaiting(n) {
			awaiting[n.Name] = n
		}
	}
	pending, lost := r.remember(v)
	r.takeBack(ctx, pending, v)
	lost = slices.DeleteFunc(lost, func(n Nomination) bool { return r.nominated[n.Pod.UID].node != n.Node })
	all := slices.DeleteFunc(byNode(append(lost, Nominate(v, r.Config)...)), func(n Nomination) bool { return v.Now.Sub(r.refused[n.Pod.UID]) < refusedFor })
	maps.DeleteFunc(r.refused, func(_ types.UID, at time.Time) bool { return v.Now.Sub(at) >= refusedFor })
	waits, err = r.free(ctx, awaiting, all, v.Now)
	for began := time.Now(); len(all) > 0 && time.Since(began) < roundLasts; {
		var now []Nomination
		now, all = firstOf(all)
		r.write(ctx, now, awaiting)
	}
	if len(all) > 0 {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return waits, err
}

// showFreed takes the taint from nodes in the view from which it was taken a moment ago.
func (r *Nominator) showFreed(v *View) {
	maps.DeleteFunc(r.freed, func(_ types.UID, at time.Time) bool { return v.Now.Sub(at) >= shownWithin })
	for i, n := range v.Nodes {
		if _, freed := r.freed[n.UID]; freed && Awaiting(n) {
			n = n.DeepCopy()
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintNomination })
			v.Nodes[i] = n
		}
	}
}

// free lets those of the nodes that wait take pods for which none is to be nominated, and none is on its way.
func (r *Nominator) free(ctx context.Context, awaiting map[string]*corev1.Node, planned []Nomination, now time.Time) (waits bool, err error) {
	expected := map[string]bool{}
	for _, x := range planned {
		expected[x.Node] = true
	}
	for _, x := range r.nominated {
		if n := awaiting[x.node]; n != nil && x.ours {
			expected[x.node] = true
			r.hold(n, now)
		}
	}
	there := map[types.UID]bool{}
	for _, n := range awaiting {
		there[n.UID] = true
	}
	maps.DeleteFunc(r.held, func(uid types.UID, _ heldNode) bool { return !there[uid] })
	var due []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(awaiting)) {
		if n := awaiting[name]; expected[name] && !r.held[n.UID].isDue(now) {
			waits = true
		} else {
			due = append(due, n)
		}
	}
	errs := make([]error, len(due))
	atOnce(len(due), func(i int) { errs[i] = Release(ctx, r.Client, due[i]) })
	for i, n := range due {
		if errs[i] == nil {
			r.released(n)
		}
	}
	err = errors.Join(errs...)
	return waits || err != nil, err
}

// hold notes that pods are nominated for a node, and whether it is ready.
func (r *Nominator) hold(n *corev1.Node, now time.Time) {
	h := r.held[n.UID]
	if h.nominated.IsZero() {
		h.nominated = now
	}
	if h.ready.IsZero() && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key != api.TaintNomination && passing(&t) }) {
		h.ready = now
	}
	if r.held == nil {
		r.held = map[types.UID]heldNode{}
	}
	r.held[n.UID] = h
}

// isDue tells whether a node has waited long enough for the pods that are nominated for it.
func (h heldNode) isDue(now time.Time) bool {
	if h.nominated.IsZero() {
		return false
	}
	waited := now.Sub(h.nominated)
	return waited >= NominatedFor || waited >= placedWithin && !h.ready.IsZero() && now.Sub(h.ready) >= placedWithin
}

// remember brings what was written and what the cache shows together: the view gets nominations that the cache does not show. It
// returns the pods that are nominated and pending, and the nominations that were lost: a scheduler clears that of a pod when it
// tries it in vain.
func (r *Nominator) remember(v *View) (pending []*corev1.Pod, lost []Nomination) {
	now, nodes := map[types.UID]nominated{}, map[string]*corev1.Node{}
	for _, n := range v.Nodes {
		nodes[n.Name] = n
	}
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
			if had.seen || v.Now.Sub(had.written) >= shownWithin {
				lost = append(lost, Nomination{p, had.node})
			}
		case !known || had.node != shown:
			// After a restart, the toleration shows that the pod controller made the nomination.
			had = nominated{node: shown, since: v.Now, written: v.Now, seen: true, ours: nodes[shown] != nil && tolerates(p, nodes[shown])}
		default:
			had.seen = true
		}
		now[p.UID] = had
		pending = append(pending, p)
	}
	r.nominated = now
	return pending, lost
}

// released notes that a node takes all pods now.
func (r *Nominator) released(n *corev1.Node) {
	if r.freed == nil {
		r.freed = map[types.UID]time.Time{}
	}
	r.freed[n.UID] = r.Now()
	delete(r.held, n.UID)
	if r.Metrics != nil {
		r.Metrics.held.Observe(max(0, r.Now().Sub(n.CreationTimestamp.Time).Seconds()))
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

// write nominates pods, and lets them come to nodes that wait. What fails is left to the scheduler for a while.
func (r *Nominator) write(ctx context.Context, all []Nomination, awaiting map[string]*corev1.Node) {
	at := map[string]int{} // of nodes
	var nodes []*corev1.Node
	for _, x := range all {
		if _, known := at[x.Node]; !known && awaiting[x.Node] != nil {
			at[x.Node] = len(nodes)
			nodes = append(nodes, awaiting[x.Node])
		}
	}
	unmarked := make([]error, len(nodes))
	atOnce(len(nodes), func(i int) { unmarked[i] = mark(ctx, r.Client, nodes[i]) })
	errs, when := make([]error, len(all)), make([]time.Time, len(all))
	atOnce(len(all), func(i int) {
		x := all[i]
		if n := awaiting[x.Node]; n != nil {
			if errs[i] = unmarked[at[x.Node]]; errs[i] == nil {
				errs[i] = tolerate(ctx, r.Client, x.Pod, n)
			}
		}
		if errs[i] == nil {
			_, errs[i] = r.apply(ctx, x.Pod, x.Node)
		}
		when[i] = r.Now()
	})
	came := map[string]int{}
	for i, n := range all {
		x := awaiting[n.Node]
		switch err := errs[i]; {
		case err == nil:
			r.Metrics.count("written")
			came[n.Node]++
			had, known := r.nominated[n.Pod.UID]
			if !known {
				had.since = when[i]
			}
			r.nominated[n.Pod.UID] = nominated{node: n.Node, since: had.since, written: when[i], ours: true}
			if x != nil {
				r.hold(x, when[i])
			}
		case x != nil && apierrors.IsInvalid(unmarked[at[n.Node]]): // its taints have changed: in the next round
		default:
			r.refuse(ctx, n, err, when[i])
		}
	}
	written := 0
	for _, pods := range came {
		written += pods
	}
	for _, n := range nodes {
		if pods := came[n.Name]; pods > 0 {
			r.Event(n, fmt.Sprintf("%d pods are nominated for this node; it takes others once these are there", pods))
		}
	}
	r.Log.Info("pods are nominated", "pods", written)
}

// refuse notes that a pod could not be nominated.
func (r *Nominator) refuse(ctx context.Context, n Nomination, err error, at time.Time) {
	if ctx.Err() != nil {
		return // in the next round
	}
	pod := n.Pod.Namespace + "/" + n.Pod.Name
	switch {
	case apierrors.IsInvalid(err): // it has its node already
		r.Log.Debug("a pod is not nominated", "pod", pod, "node", n.Node, "error", err)
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err): // it is gone, or somebody else has nominated it
		r.Metrics.count("refused")
	default:
		r.Metrics.count("refused")
		r.Log.Warn("a pod could not be nominated", "pod", pod, "node", n.Node, "error", err)
	}
	if r.refused == nil {
		r.refused = map[types.UID]time.Time{}
	}
	r.refused[n.Pod.UID] = at
}

// takeBack takes nominations back that are in vain, or have stood too long. Those of others stay: an apply takes away only what its
// owner set.
func (r *Nominator) takeBack(ctx context.Context, pods []*corev1.Pod, v *View) {
	vain := r.inVain(pods, v)
	old := slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return v.Now.Sub(r.nominated[p.UID].since) < NominatedFor && !vain[p.UID] })
	left, errs := make([]string, len(old)), make([]error, len(old))
	atOnce(len(old), func(i int) { left[i], errs[i] = r.apply(ctx, old[i], "") })
	for i, p := range old {
		x := r.nominated[p.UID]
		switch {
		case client.IgnoreNotFound(errs[i]) != nil:
			r.Log.Warn("a nomination could not be taken back", "pod", p.Namespace+"/"+p.Name, "error", errs[i])
		case left[i] == "":
			r.Metrics.count("taken_back")
			delete(r.nominated, p.UID)
		default:
			x.since = v.Now // those of others are tried again
			r.nominated[p.UID] = x
		}
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
			f, byName = look(promisedToo(v, pair(v, r.Config))), map[string]*node{}
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

// same is the step of a patch that fails unless an object is the one that was seen.
func same(o client.Object) step { return step{"test", "/metadata/uid", o.GetUID()} }

// mark gives the taint of a node its value.
func mark(ctx context.Context, c client.Client, n *corev1.Node) error {
	steps := []step{same(n)}
	for i, t := range n.Spec.Taints {
		if at := fmt.Sprintf("/spec/taints/%d", i); t.Key == api.TaintNomination && t.Value != markOf(n) {
			steps = append(steps, step{"test", at + "/key", t.Key}, step{"add", at + "/value", markOf(n)})
		}
	}
	if len(steps) == 1 {
		return nil
	}
	if err := patch(ctx, c, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, steps); err != nil {
		return fmt.Errorf("node %s: taint %s: %w", n.Name, api.TaintNomination, err)
	}
	return nil
}

// tolerates tells whether a pod may come to a node that waits.
func tolerates(p *corev1.Pod, n *corev1.Node) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == api.TaintNomination && t.Value == markOf(n) })
}

// tolerate lets a pod come to a node that waits. Tolerations are what may be added to the spec of a pod.
func tolerate(ctx context.Context, c client.Client, p *corev1.Pod, n *corev1.Node) error {
	if tolerates(p, n) {
		return nil
	}
	add := corev1.Toleration{Key: api.TaintNomination, Operator: corev1.TolerationOpEqual, Value: markOf(n)}
	to := step{"add", "/spec/tolerations/-", add}
	if len(p.Spec.Tolerations) == 0 {
		to = step{"add", "/spec/tolerations", []corev1.Toleration{add}}
	}
	return patch(ctx, c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}, []step{same(p), to})
}

// Release takes the taint of nominations from a node. Where others changed its taints meanwhile it fails, and is called again.
func Release(ctx context.Context, c client.Client, n *corev1.Node) error {
	steps := []step{same(n)}
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
