package operator_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/go-logr/logr"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator"
	"github.com/tonnage/tonnage/operator/kubetest"
)

// shared is the one API server of this package's tests.
var shared struct {
	once    sync.Once
	cluster *kubetest.Cluster
	missing string
	err     error
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stopping Kubernetes:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// kube returns the API server.
func kube(t *testing.T) *kubetest.Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.missing, shared.err = kubetest.Start() })
	if shared.missing != "" {
		t.Skip(shared.missing)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// fresh returns the API server with nothing of ours in it.
func fresh(t *testing.T) *kubetest.Cluster {
	t.Helper()
	k := kube(t)
	ctx := t.Context()
	for _, o := range []client.Object{&api.UpcomingNode{}, &api.AvailableCapacity{}, &corev1.Node{}} {
		if err := k.Client.DeleteAllOf(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []client.Object{&api.CapacityRequest{}, &corev1.Pod{}, &coordinationv1.Lease{}} {
		if err := k.Client.DeleteAllOf(ctx, o, client.InNamespace("default"), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// role gives a user what a manifest of deploy/rbac says, and returns its rules.
func role(t *testing.T, k *kubetest.Cluster, user, manifest string) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(kubetest.Root("deploy", "rbac", manifest))
	if err != nil {
		t.Fatal(err)
	}
	var cluster rbacv1.ClusterRole
	var own rbacv1.Role
	parts := splitYAML(text)
	if len(parts) != 2 || yaml.UnmarshalStrict(parts[0], &cluster) != nil || yaml.UnmarshalStrict(parts[1], &own) != nil {
		t.Fatalf("%s is not a ClusterRole and a Role", manifest)
	}
	own.Namespace = "default"
	subject := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}
	for _, o := range []client.Object{&cluster, &own,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cluster.Name}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: "default"}, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: own.Name}},
	} {
		if err := k.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	return append(cluster.Rules, own.Rules...)
}

// newManager makes a manager as the command does.
func newManager(t *testing.T, k *kubetest.Cluster, cfg *rest.Config, lease string, objects map[client.Object]cache.ByObject) manager.Manager {
	t.Helper()
	m, err := makeManager(k, cfg, lease, objects)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func makeManager(k *kubetest.Cluster, cfg *rest.Config, lease string, objects map[client.Object]cache.ByObject) (manager.Manager, error) {
	short := func(d time.Duration) *time.Duration { return &d }
	return manager.New(cfg, manager.Options{
		Scheme: k.Scheme, Cache: cache.Options{ByObject: objects}, Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: lease != "", LeaderElectionID: lease, LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		LeaseDuration: short(3 * time.Second), RenewDeadline: short(2 * time.Second), RetryPeriod: short(200 * time.Millisecond),
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
}

// start runs a manager until stop is called or the test ends.
func start(t *testing.T, m manager.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// operate runs an operator until stop is called or the test ends.
func operate(t *testing.T, k *kubetest.Cluster, cfg *rest.Config, lease string, change ...func(*operator.Config)) (stop func()) {
	t.Helper()
	m := newManager(t, k, cfg, lease, operator.CacheOptions())
	direct, err := client.New(cfg, client.Options{Scheme: k.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := operator.Config{
		ClusterID: "blue", RollupInterval: 200 * time.Millisecond, AckConcurrency: 4, SettleAfter: time.Hour,
	}
	for _, f := range change {
		f(&c)
	}
	if _, err := operator.New(t.Context(), m, direct, c, nil, slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
		t.Fatal(err)
	}
	return start(t, m)
}

func shards(addresses ...string) func(*operator.Config) {
	return func(c *operator.Config) { c.Shards = addresses }
}

// eventually waits until a condition holds; it says what is not so yet.
func eventually(t *testing.T, what func() string) {
	t.Helper()
	within(t, patience, what)
}

// within is eventually with another limit.
func within(t *testing.T, most time.Duration, what func() string) {
	t.Helper()
	limit := time.Now().Add(most)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		why := what()
		if why == "" {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("still: %s", why)
		}
		<-tick.C
	}
}

// phaseIs is a condition of eventually: a machine's object is in a phase.
func phaseIs(t *testing.T, k *kubetest.Cluster, name string, want api.NodePhase) func() string {
	return func() string {
		var n api.UpcomingNode
		err := k.Client.Get(t.Context(), client.ObjectKey{Name: name}, &n)
		if err != nil {
			return err.Error()
		}
		if n.Status.Phase != want {
			return fmt.Sprintf("%s is %s, want %s (%s)", name, n.Status.Phase, want, n.Status.LastError)
		}
		return ""
	}
}

// goneIs is a condition of eventually: there is no such object.
func goneIs(t *testing.T, k *kubetest.Cluster, o client.Object, name string) func() string {
	return func() string {
		o.SetName(name)
		err := k.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%s is there (%v)", name, err)
	}
}

// makeNode makes a node.
func makeNode(t *testing.T, k *kubetest.Cluster, name, providerID string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	if err := k.Client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// makePod makes a pod that runs on a node ("" = waits for one).
func makePod(t *testing.T, k *kubetest.Cluster, name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: new(int64(300)),
			Containers: []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")},
			}}},
		},
	}
	for _, f := range change {
		f(p)
	}
	status := p.Status
	if err := k.Client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if status.Phase != "" {
		p.Status = status
		if err := k.Client.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// makeRequest makes a request.
func makeRequest(t *testing.T, k *kubetest.Cluster, name string, change ...func(*api.CapacityRequest)) *api.CapacityRequest {
	t.Helper()
	r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	r.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
	for _, f := range change {
		f(r)
	}
	if err := k.Client.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// kubelet ends pods that are asked to end, as a node's kubelet would.
func kubelet(t *testing.T, k *kubetest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var list corev1.PodList
			if k.Client.List(ctx, &list) == nil {
				for i := range list.Items {
					if list.Items[i].DeletionTimestamp != nil {
						_ = k.Client.Delete(ctx, &list.Items[i], client.GracePeriodSeconds(0))
					}
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
}
