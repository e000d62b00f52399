package karpenter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/karpenter"
	"github.com/tonnage/tonnage/provider/kube"
)

// within is how long what should come to pass may take.
const within = 30 * time.Second

// The one API server of the package's tests: the fleet cluster.
var (
	kubernetes *kubetest.Cluster
	user       *rest.Config // of somebody who may do what the role of deploy says and nothing else
	missing    string
	errWithout error // what a claim is refused with where there is no Karpenter

	theKarpenter *played // of the one API server
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctrl.SetLogger(logr.Discard())
		var err error
		if kubernetes, missing, err = kubetest.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if missing != "" {
			return m.Run()
		}
		defer func() { _ = kubernetes.Stop() }()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := prepare(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		theKarpenter = &played{Client: kubernetes.Client}
		go theKarpenter.run(ctx)
		return m.Run()
	}())
}

// The Karpenter whose resource is tried against.
const (
	module = "sigs.k8s.io/karpenter@v1.14.1"
	sum    = "h1:GjqvOHLjl2+OXM0ti5VEZSQuvcitB0pETd8zdChXEtI="
)

// prepare tries the driver without Karpenter, then installs its resource, which is downloaded as a module, and the role of
// deploy.
func prepare(ctx context.Context) (err error) {
	if user, err = letIn(ctx, kubernetes); err != nil {
		return err
	}
	if err := tryWithout(ctx); err != nil {
		return err
	}
	return claims(ctx, kubernetes)
}

// letIn makes the role of deploy in a cluster, and returns how somebody reaches it who may do what that says and nothing else.
func letIn(ctx context.Context, c *kubetest.Cluster) (*rest.Config, error) {
	rights, err := os.ReadFile(kubetest.Root("deploy", "rbac", "provider-karpenter.yaml"))
	if err != nil {
		return nil, err
	}
	if err := create(ctx, c, rights); err != nil {
		return nil, err
	}
	const name = "tonnage-provider"
	if err := c.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tonnage-provider-karpenter"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}); err != nil {
		return nil, err
	}
	return c.User(name)
}

// claims has a cluster have Karpenter's NodeClaims.
func claims(ctx context.Context, c *kubetest.Cluster) error {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("go mod download %s: %w: %s", module, err, out)
	}
	var m struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &m); err != nil {
		return err
	}
	if m.Sum != sum {
		return fmt.Errorf("%s has the sum %s, not %s", module, m.Sum, sum)
	}
	crd, err := os.ReadFile(filepath.Join(m.Dir, "pkg", "apis", "crds", "karpenter.sh_nodeclaims.yaml"))
	if err != nil {
		return err
	}
	return create(ctx, c, crd)
}

// tryWithout asks for a machine where there is no Karpenter.
func tryWithout(ctx context.Context) error {
	d, err := karpenter.OpenAt(&karpenter.Settings{}, "without", slog.New(slog.DiscardHandler), map[string]*kube.Endpoint{"c": kube.Fixed("the test's", user)})
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	errWithout = d.Configure(ctx, &driver.Machine{ID: "m", Generation: 1, LateBound: true, Offer: offer("z1")}, &driver.Binding{Cluster: "c"})
	return nil
}

// create creates an object of a manifest.
func create(ctx context.Context, c *kubetest.Cluster, text []byte) error {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		return err
	}
	return c.Create(ctx, u)
}

// into reads an object into a typed one.
func into(u *unstructured.Unstructured, out any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out)
}

// rig is a driver with a scope of its own.
type rig struct {
	*karpenter.Driver
	t     *testing.T
	log   lockedBuffer
	delay *gate // of watches; nil = none
}

// gate holds back what watches tell while it is shut.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // closed = it is open
}

// pass waits until the gate is open.
func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

// wrap has the answers of watches pass the gate.
func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(q *http.Request) (*http.Response, error) {
		a, err := next.RoundTrip(q)
		if err == nil && q.URL.Query().Get("watch") != "" {
			a.Body = late{a.Body, g}
		}
		return a, err
	})
}

type roundTrip func(q *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// late is the answer of a watch.
type late struct {
	io.ReadCloser
	g *gate
}

func (l late) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	l.g.pass()
	return n, err
}

// slow has the driver start again, and hear nothing of changes until open is called.
func (r *rig) slow() (open func()) {
	r.t.Helper()
	through := make(chan struct{})
	close(through)
	r.delay = &gate{open: through}
	r.reopen()
	r.look("") // it has listed
	shut := make(chan struct{})
	r.delay.mu.Lock()
	r.delay.open = shut
	r.delay.mu.Unlock()
	return sync.OnceFunc(func() { close(shut) })
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	t.Parallel()
	r := &rig{t: t}
	r.reopen()
	t.Cleanup(func() { r.must(r.Close()) })
	return r
}

// reopen starts the driver, again when there was one.
func (r *rig) reopen() driver.Driver {
	r.t.Helper()
	if r.Driver != nil {
		r.must(r.Close())
	}
	config := rest.CopyConfig(user)
	if r.delay != nil {
		config.Wrap(r.delay.wrap)
	}
	d, err := karpenter.OpenAt(&karpenter.Settings{}, r.t.Name(), slog.New(slog.NewTextHandler(&r.log, nil)), map[string]*kube.Endpoint{"c": kube.Fixed("the test's", config)})
	r.must(err)
	r.Driver = d
	return d
}

// must ends the test on an error.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// offer is an offer in a zone.
func offer(zone string) driver.Offer {
	has := model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: 8 << 30}, model.Amount{Name: "pods", Value: 110})
	return driver.Offer{
		Key: driver.Key{Pool: "p", InstanceType: "big", Zone: zone, CapacityType: model.Spot}, Resources: has, Allocatable: has,
		Labels: map[string]string{"accelerator": "none", "node-role.kubernetes.io/worker": ""}, Taints: []driver.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}},
		Template: []byte(`{"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}`),
	}
}

func (r *rig) machine(id, zone string) *driver.Machine {
	return &driver.Machine{ID: r.t.Name() + "/" + id, Generation: 1, LateBound: true, Offer: offer(zone)}
}

func binding() *driver.Binding {
	return &driver.Binding{Owner: driver.Owner{Shard: "s", Epoch: 7, Sequence: 9}, Cluster: "c", Metadata: map[string]string{"a": "b"}}
}

// look returns what is observed of a machine, nil = nothing.
func (r *rig) look(id string) (out *driver.Observation) {
	r.t.Helper()
	r.must(r.Observe(r.t.Context(), func(o *driver.Observation) {
		if o.ID == id {
			kept := *o
			out = &kept
		}
	}))
	return out
}

// await waits until what is observed of a machine is as it should be. wrong says what is not.
func (r *rig) await(id string, wrong func(o *driver.Observation) string) *driver.Observation {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for {
		o := r.look(id)
		why := wrong(o)
		if why == "" {
			return o
		}
		if ctx.Err() != nil {
			r.t.Fatalf("%s: %s: %+v\n%s", id, why, o, r.log.String())
		}
		_ = kubetest.Pause(ctx)
	}
}

// is says that an observation is not of a phase; 0 = of none.
func is(p driver.Phase) func(o *driver.Observation) string {
	return func(o *driver.Observation) string {
		switch {
		case p == 0 && o != nil:
			return "it is there"
		case p != 0 && (o == nil || o.Phase != p):
			return "it is not " + p.String()
		}
		return ""
	}
}

// claim reads the claim of a machine.
func (r *rig) claim(m *driver.Machine) *unstructured.Unstructured {
	r.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind("NodeClaim")
	r.must(kubernetes.Client.Get(r.t.Context(), client.ObjectKey{Name: driver.ObjectName(m.ID, m.Generation)}, u))
	return u
}
