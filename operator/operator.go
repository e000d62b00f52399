package operator

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/internal/mtls"
	"github.com/tonnage/tonnage/internal/steady"
	"github.com/tonnage/tonnage/operator/bootstrap"
	"github.com/tonnage/tonnage/operator/drain"
	"github.com/tonnage/tonnage/operator/mirror"
	"github.com/tonnage/tonnage/operator/report"
	"github.com/tonnage/tonnage/operator/rollup"
	"github.com/tonnage/tonnage/operator/session"
	"github.com/tonnage/tonnage/operator/stuck"
	"github.com/tonnage/tonnage/operator/telemetry"
)

// resumeRetry is how long it waits before it looks again for drains to resume.
const resumeRetry = time.Second

// releaseEvery is how often it looks at the least for nodes that wait for nominations in vain.
const releaseEvery = 5 * time.Second

// Operator is the part of the process that leads: it holds the session. It runs
// in a manager.
type Operator struct {
	cfg      Config
	client   client.Client // writes, and reads of nodes from the cache
	direct   client.Client // reads of the API server itself
	requests func() []*api.CapacityRequest
	informer toolscache.SharedIndexInformer // of requests
	renderer *bootstrap.Renderer
	metrics  *telemetry.Metrics
	log      *slog.Logger
	event    event
}

// CacheOptions keep in memory what the operator looks at.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:         {Transform: stripNode},
		&api.CapacityRequest{}: {Transform: stripRequest},
	}
}

// New adds an operator to a manager whose cache has CacheOptions. direct reads
// from the API server itself; the metrics may be nil.
func New(ctx context.Context, m manager.Manager, direct client.Client, cfg Config, metrics *telemetry.Metrics, log *slog.Logger) (*Operator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	renderer, err := bootstrap.New(cfg.ClusterID, cfg.BootstrapTemplate)
	if err != nil {
		return nil, err
	}
	if cfg.BootstrapTemplate == "" {
		log.Info("no bootstrap template: machines that start with what this operator sends get a stub, and join nothing; --bootstrap-template-file names one")
	}
	err = m.GetFieldIndexer().IndexField(ctx, &corev1.Node{}, drain.ProviderIndex, func(o client.Object) []string {
		if node, ok := o.(*corev1.Node); ok {
			return drain.ProviderKeys(node)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("index of nodes by provider id: %w", err)
	}
	informer, err := m.GetCache().GetInformer(ctx, &api.CapacityRequest{})
	if err != nil {
		return nil, fmt.Errorf("informer of CapacityRequests: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("informer of CapacityRequests: %T keeps no store", informer)
	}
	recorder := m.GetEventRecorder("tonnage-operator")
	o := &Operator{
		cfg: cfg, client: m.GetClient(), direct: direct, informer: shared, renderer: renderer, metrics: metrics, log: log,
		requests: func() []*api.CapacityRequest { return living(shared.GetStore().List()) },
		event: func(about runtime.Object, warning bool, reason, action, note string) {
			kind := corev1.EventTypeNormal
			if warning {
				kind = corev1.EventTypeWarning
			}
			recorder.Eventf(about, nil, kind, reason, action, "%s", note)
		},
	}
	return o, m.Add(o)
}

// NeedLeaderElection tells the manager that one replica at a time runs it.
func (o *Operator) NeedLeaderElection() bool { return true }

// Start leads until ctx ends. The manager calls it with synchronised caches.
func (o *Operator) Start(ctx context.Context) error {
	// One timeline for all that is timed here; a step of the wall clock moves none of it.
	now := steady.Clock()
	nodes := mirror.NewNodes(o.direct, o.cfg.ClusterID, o.metrics, now)
	capacities := mirror.NewCapacities(o.direct)
	drains := drain.New(ctx, drain.Config{
		Client: o.client, Pods: o.direct, Nodes: nodes, Log: o.log, Metrics: o.metrics, Now: now,
		Event: func(n *api.UpcomingNode, warning bool, reason, note string) {
			o.event(n, warning, reason, "Drain", note)
		},
	})
	defer drains.Wait()
	if !o.resume(ctx, drains) {
		return nil
	}
	reporter := report.New(report.Config{
		List: o.requests, Client: o.client, Concurrency: o.cfg.AckConcurrency, Log: o.log, Metrics: o.metrics, Now: now,
		Rolled: func(needs []*bigfleet.CapacityNeed) { capacities.Demanded(needs) },
		Refused: func(r *api.CapacityRequest, why string) {
			o.event(r, true, "NotReported", "Report", why)
		},
		Waits: func(r *api.CapacityRequest, reason, note string) { o.event(subjectOf(r), false, reason, "Wait", note) },
	})
	if o.cfg.EarlyRollups {
		unsubscribe, err := o.watchGrowth(reporter.Grow)
		if err != nil {
			return err
		}
		defer unsubscribe()
	}
	client := session.New(session.Config{
		ClusterID: o.cfg.ClusterID, Addresses: o.cfg.Shards, RollupInterval: o.cfg.RollupInterval, SettleAfter: o.cfg.SettleAfter,
		Dial: session.DialGRPC(o.cfg.TLS.DialOptionsTo(mtls.ShardServer())...), Demand: reporter, Log: o.log, Metrics: o.metrics, Now: now,
		LookInterval: o.cfg.LookInterval, Decided: reporter.Decided,
		Cluster: &site{nodes: nodes, capacities: capacities, drains: drains, renderer: o.renderer, metrics: o.metrics, now: now},
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { reporter.Run(ctx) })
	wg.Go(func() { o.collect(ctx, capacities) })
	wg.Go(func() { o.release(ctx) })
	client.Run(ctx)
	return nil
}

// subjectOf is whom an event about a request concerns: the pod that it is of, else the request itself.
func subjectOf(r *api.CapacityRequest) runtime.Object {
	for _, o := range r.OwnerReferences {
		if o.Kind == "Pod" && o.APIVersion == "v1" {
			return &corev1.Pod{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: o.Name, UID: o.UID},
			}
		}
	}
	return r
}

// watchGrowth calls grow when a request is added or asks for something else.
func (o *Operator) watchGrowth(grow func()) (unsubscribe func(), err error) {
	handle, err := o.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { grow() },
		UpdateFunc: func(was, is any) {
			before, ok := was.(*api.CapacityRequest)
			after, also := is.(*api.CapacityRequest)
			if ok && also && before.Generation != after.Generation {
				grow()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("handler of CapacityRequests: %w", err)
	}
	return func() { _ = o.informer.RemoveEventHandler(handle) }, nil
}

// resume goes on with drains that an earlier process began; false when ctx ended.
func (o *Operator) resume(ctx context.Context, drains *drain.Drainer) bool {
	for {
		err := drains.Resume(ctx)
		if err == nil {
			return true
		}
		o.log.Warn("drains cannot be resumed yet", "error", err)
		select {
		case <-time.After(resumeRetry):
		case <-ctx.Done():
			return false
		}
	}
}

// collect removes hints that nobody asks for any more, once an interval.
func (o *Operator) collect(ctx context.Context, c *mirror.Capacities) {
	tick := time.NewTicker(o.cfg.RollupInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := c.Collect(ctx, false); err != nil && ctx.Err() == nil {
				o.log.Warn("hints cannot be collected", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// release lets nodes take pods for whose nominations nobody has cared: the pod controller is not there, or does not nominate.
func (o *Operator) release(ctx context.Context) {
	tick := time.NewTicker(min(releaseEvery, max(o.cfg.ReleaseAfter, time.Second)))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		var nodes corev1.NodeList
		if err := o.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			continue // the cache is not there yet
		}
		for i := range nodes.Items {
			n := &nodes.Items[i]
			if !stuck.Awaiting(n) || time.Since(n.CreationTimestamp.Time) < o.cfg.ReleaseAfter {
				continue
			}
			if err := stuck.Release(ctx, o.client, n); err != nil && ctx.Err() == nil {
				o.log.Warn("a node cannot be let take pods; it is tried again", "error", err)
				continue
			}
			o.event(n, true, "NobodyNominates", "Nominate", "it is a minute old and still waits for nominations of pods: does tonnage-operator pods run with --nominate? It takes pods now")
		}
	}
}

// living returns the requests that are not being deleted.
func living(store []any) []*api.CapacityRequest {
	out := make([]*api.CapacityRequest, 0, len(store))
	for _, o := range store {
		if r, ok := o.(*api.CapacityRequest); ok && r.DeletionTimestamp == nil {
			out = append(out, r)
		}
	}
	return out
}

// stripRequest drops what no roll-up looks at, and what is too large for one.
func stripRequest(o any) (any, error) {
	if request, ok := o.(*api.CapacityRequest); ok {
		rollup.Trim(request)
	}
	return o, nil
}

// stripNode drops what the operator never looks at: most of a node.
func stripNode(o any) (any, error) {
	if node, ok := o.(*corev1.Node); ok {
		node.ManagedFields, node.Labels, node.Annotations = nil, nil, nil
		node.Status = corev1.NodeStatus{}
	}
	return o, nil
}
