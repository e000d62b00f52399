package stuck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	// every is how often a runner plans at the least, hurry how often at the most: as long as a pod has become unschedulable lately,
	// so that nothing that is due waits for the next round. Then a round may take a share of roundShare of the time.
	every      = 5 * time.Second
	hurry      = time.Second
	lately     = 2 * time.Minute
	roundShare = 10
	owner      = client.FieldOwner("tonnage-operator-stuck")
)

// CacheOptions keep in memory what a runner looks at besides pods and requests.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:           {Transform: stripNode},
		&api.UpcomingNode{}:      {Transform: cache.TransformStripManagedFields()},
		&api.AvailableCapacity{}: {Transform: cache.TransformStripManagedFields()},
	}
}

// stripNode drops what no plan looks at.
func stripNode(o any) (any, error) {
	if n, ok := o.(*corev1.Node); ok {
		n.ManagedFields, n.Annotations = nil, nil
		n.Status = corev1.NodeStatus{Allocatable: n.Status.Allocatable}
	}
	return o, nil
}

// Metrics are the series of a runner.
type Metrics struct {
	stuck, noHelp prometheus.Gauge
	overhead      *prometheus.GaugeVec
}

// NewMetrics registers the series.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		stuck: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tonnage_operator_pods_stuck", Help: "Pods that the scheduler finds no node for although the machines of their row suffice by sums.",
		}),
		noHelp: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tonnage_operator_pods_no_machine_would_help", Help: "Unschedulable pods that would not run on an empty machine either.",
		}),
		overhead: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tonnage_operator_packing_overhead", Help: "What rows ask for beyond the sums of their pods, in cores, bytes and pieces.",
		}, []string{"resource"}),
	}
	r.MustRegister(m.stuck, m.noHelp, m.overhead)
	return m
}

// note takes the result of a round over.
func (m *Metrics) note(r *Result) {
	if m == nil {
		return
	}
	m.stuck.Set(float64(r.Stuck))
	m.noHelp.Set(float64(r.NoHelp))
	m.overhead.Reset()
	for name, x := range r.Overhead {
		m.overhead.WithLabelValues(string(name)).Set(x)
	}
}

// Runner plans every five seconds, and every second while pods have become unschedulable lately, and does what the plan says. It runs
// in a manager, in one replica at a time.
type Runner struct {
	// Client reads from a cache of pods, requests and what CacheOptions names, and writes.
	Client client.Client
	Config Config
	// Event tells a pod something. Each pod is told a thing once until it changes.
	Event   func(pod *corev1.Pod, reason, note string)
	Metrics *Metrics // may be nil
	Log     *slog.Logger
	// Now is the wall clock: it is compared with times that the cluster wrote.
	Now func() time.Time

	told  map[types.UID]string
	waits bool // in the last round a pod had become unschedulable lately
}

// Setup adds a runner to a manager whose cache has CacheOptions and those of pods.
func Setup(m manager.Manager, cfg Config, metrics *Metrics, log *slog.Logger) error {
	recorder := m.GetEventRecorder("tonnage-operator-pods")
	return m.Add(&Runner{
		Client: m.GetClient(), Config: cfg, Metrics: metrics, Log: log, Now: time.Now,
		Event: func(pod *corev1.Pod, reason, note string) {
			kind := corev1.EventTypeWarning
			if reason == string(Added) {
				kind = corev1.EventTypeNormal
			}
			recorder.Eventf(pod, nil, kind, reason, "Schedule", "%s", note)
		},
	})
}

// NeedLeaderElection tells the manager that one replica at a time runs it.
func (r *Runner) NeedLeaderElection() bool { return true }

// Start runs until ctx ends.
func (r *Runner) Start(ctx context.Context) error {
	for {
		began := time.Now()
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.Log.Warn("stuck pods: not everything could be done; it is tried again", "error", err)
		}
		select {
		case <-time.After(r.pause(time.Since(began))):
		case <-ctx.Done():
			return nil
		}
	}
}

// pause is how long the runner pauses after a round that took so long.
func (r *Runner) pause(took time.Duration) time.Duration {
	if !r.waits {
		return every
	}
	return min(every, max(hurry, roundShare*took))
}

// Round plans once and does what the plan says. What fails is planned again in the next round.
func (r *Runner) Round(ctx context.Context) error {
	v, err := readView(ctx, r.Client, r.Now())
	if err != nil {
		return err
	}
	r.waits = slices.ContainsFunc(v.Pods, func(p *corev1.Pod) bool {
		since, is := unschedulable(p)
		return is && v.Now.Sub(since) < lately
	})
	plan := Plan(v, r.Config)
	r.Metrics.note(plan)
	r.tell(plan.Notes, v.Pods)
	var failed []error
	for _, w := range plan.Write {
		r.Log.Info("packing overhead of a row is changed", "request", w.Namespace+"/"+w.Name, "resources", said(w.Spec.Resources), "absorbed", w.Annotations[annotationAbsorbed], "in vain", w.Annotations[annotationInVain])
		failed = append(failed, r.apply(ctx, w))
	}
	for _, d := range plan.Delete {
		r.Log.Info("packing overhead of a row is taken back", "request", d.Namespace+"/"+d.Name)
		failed = append(failed, client.IgnoreNotFound(r.Client.Delete(ctx, d)))
	}
	return errors.Join(failed...)
}

// tell makes events of what was not told before. What a pod was told last is remembered while the pod waits.
func (r *Runner) tell(notes []Note, pods []*corev1.Pod) {
	told := make(map[types.UID]string, len(notes))
	for _, p := range pods {
		if text, is := r.told[p.UID]; is && p.Spec.NodeName == "" {
			told[p.UID] = text
		}
	}
	for _, n := range notes {
		text := string(n.Reason) + n.Message
		if r.told[n.Pod.UID] != text {
			r.Event(n.Pod, string(n.Reason), n.Message)
		}
		told[n.Pod.UID] = text
	}
	r.told = told
}

// readView reads the cache. Objects are shared with it.
func readView(ctx context.Context, c client.Reader, now time.Time) (*View, error) {
	var (
		pods     corev1.PodList
		nodes    corev1.NodeList
		requests api.CapacityRequestList
		upcoming api.UpcomingNodeList
		hints    api.AvailableCapacityList
	)
	for _, list := range []client.ObjectList{&pods, &nodes, &requests, &upcoming, &hints} {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("reading the cache: %w", err)
		}
	}
	return &View{
		Pods: pointers(pods.Items), Nodes: pointers(nodes.Items), Requests: pointers(requests.Items),
		Upcoming: pointers(upcoming.Items), Hints: pointers(hints.Items), Now: now,
	}, nil
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

// apply writes overhead.
func (r *Runner) apply(ctx context.Context, want *api.CapacityRequest) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return fmt.Errorf("overhead %s/%s: %w", want.Namespace, want.Name, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(api.SchemeGroupVersion.WithKind("CapacityRequest"))
	unstructured.RemoveNestedField(u.Object, "status")
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("overhead %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// said is a list of resources as one line, as cpu=8 memory=32Gi.
func said(list corev1.ResourceList) string {
	var parts []string
	for name, q := range list {
		parts = append(parts, string(name)+"="+q.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
