package kubee2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// sighting is what was seen of one pod, by the clock of this process; a zero time
// is never.
type sighting struct {
	kind    string
	created time.Time
	asked   time.Time // its request was there
	placed  time.Time // on a node
	node    string
	running time.Time
	gone    bool
	ended   time.Time // when it was gone, or said to go
	moved   bool      // it was to go while its node was taken out of use
}

// cordon is a node that was taken out of use.
type cordoned struct {
	node  string
	at    time.Time
	empty time.Time // when its last pod had gone; zero = not yet
}

// watch sees a cluster from outside.
type watch struct {
	t *testing.T
	c *cluster

	mu      sync.Mutex
	pods    map[string]*sighting    // by UID
	live    map[string]*corev1.Pod  // by UID
	nodes   map[string]*corev1.Node // by name
	stood   map[string]time.Time    // since when a node was there, by name
	cordons []*cordoned             // in order
	floors  map[string]int          // by kind: fewer must not run
	broken  []string                // floors that were
}

func watchCluster(t *testing.T, c *cluster) *watch {
	t.Helper()
	w := &watch{t: t, c: c, pods: map[string]*sighting{}, live: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, stood: map[string]time.Time{}, floors: map[string]int{}}
	set, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	f := informers.NewSharedInformerFactory(set, 0)
	_, err = f.Core().V1().Pods().Informer().AddEventHandler(handler(w.pod))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Core().V1().Nodes().Informer().AddEventHandler(handler(w.node)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	f.Start(stop)
	f.WaitForCacheSync(stop)
	t.Cleanup(func() { close(stop); f.Shutdown() })
	w.watchRequests()
	return w
}

// watchRequests has the requests of pods be seen.
func (w *watch) watchRequests() {
	w.t.Helper()
	requests, err := ctrlcache.New(w.c.config, ctrlcache.Options{Scheme: w.c.client.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	informer, err := requests.GetInformer(ctx, &api.CapacityRequest{}, ctrlcache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(handler(w.request))
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := requests.Start(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); running.Wait() })
}

func (w *watch) request(r *api.CapacityRequest, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.pods[r.Labels[api.LabelOwnedByPod]]; s != nil && !gone && s.asked.IsZero() {
		s.asked = time.Now()
	}
}

// handler calls see with every object as it is now, and whether it is gone.
func handler[T any](see func(x T, gone bool)) cache.ResourceEventHandlerFuncs {
	one := func(x any, gone bool) {
		if last, ok := x.(cache.DeletedFinalStateUnknown); ok {
			x = last.Obj
		}
		if o, ok := x.(T); ok {
			see(o, gone)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(x any) { one(x, false) }, UpdateFunc: func(_, x any) { one(x, false) }, DeleteFunc: func(x any) { one(x, true) },
	}
}

func runs(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
}

func (w *watch) pod(p *corev1.Pod, gone bool) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	uid := string(p.UID)
	s := w.pods[uid]
	if s == nil {
		s = &sighting{kind: p.Labels[kindLabel], created: now}
		w.pods[uid] = s
	}
	if s.placed.IsZero() && p.Spec.NodeName != "" {
		s.placed, s.node = now, p.Spec.NodeName
	}
	if s.running.IsZero() && p.Status.Phase == corev1.PodRunning {
		s.running = now
	}
	if s.ended.IsZero() && (gone || p.DeletionTimestamp != nil) {
		s.ended = now
		n := w.nodes[p.Spec.NodeName]
		s.moved = n != nil && n.Spec.Unschedulable
	}
	if s.gone = gone; gone {
		delete(w.live, uid)
	} else {
		w.live[uid] = p
	}
	if floor, n := w.floors[s.kind], w.runningLocked(s.kind); n < floor {
		w.broken = append(w.broken, fmt.Sprintf("%s: %d pods of %s run, %d must", w.c.name, n, s.kind, floor))
	}
	w.emptied(now)
}

func (w *watch) node(n *corev1.Node, gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.nodes[n.Name]
	if gone {
		delete(w.nodes, n.Name)
	} else {
		w.nodes[n.Name] = n
		if before == nil {
			w.stood[n.Name] = time.Now()
		}
		if n.Spec.Unschedulable && (before == nil || !before.Spec.Unschedulable) {
			w.cordons = append(w.cordons, &cordoned{node: n.Name, at: time.Now()})
		}
	}
	w.emptied(time.Now())
}

// emptied notes which of the nodes that were taken out of use have no pods.
func (w *watch) emptied(now time.Time) {
	for _, c := range w.cordons {
		if c.empty.IsZero() && !w.occupied(c.node) {
			c.empty = now
		}
	}
}

func (w *watch) occupied(node string) bool {
	for _, p := range w.live {
		if p.Spec.NodeName == node {
			return true
		}
	}
	return false
}

func (w *watch) runningLocked(kind string) int {
	n := 0
	for _, p := range w.live {
		if p.Labels[kindLabel] == kind && runs(p) {
			n++
		}
	}
	return n
}

// running returns how many pods of a kind run; all kinds if it is "".
func (w *watch) running(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.live {
		if (kind == "" || p.Labels[kindLabel] == kind) && runs(p) {
			n++
		}
	}
	return n
}

// runningOnNodes is running, of pods whose node is there: of a machine that was lost, pods seem to
// run until somebody removes them.
func (w *watch) runningOnNodes(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.live {
		if p.Labels[kindLabel] == kind && runs(p) && w.nodes[p.Spec.NodeName] != nil {
			n++
		}
	}
	return n
}

// counts returns how many pods and nodes there are.
func (w *watch) counts() (pods, nodes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.live), len(w.nodes)
}

// guard begins to watch that so many pods of a kind always run.
func (w *watch) guard(kind string, floor int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.floors[kind] = floor
}

func (w *watch) faults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// drains returns the nodes that were taken out of use.
func (w *watch) drains() []cordoned {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]cordoned, len(w.cordons))
	for i, c := range w.cordons {
		out[i] = *c
	}
	return out
}

// waits returns how long the pods of a kind took to run, in order.
func (w *watch) waits(kind string) (out []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.pods {
		if s.kind == kind && !s.running.IsZero() {
			out = append(out, s.running.Sub(s.created))
		}
	}
	slices.Sort(out)
	return out
}
