package clusterapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/go-logr/logr"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

const (
	namespace = "fleet"
	// within is how long what should come to pass may take.
	within = 30 * time.Second
)

// The one API server of the package's tests: it is management cluster and fleet cluster.
var (
	kubernetes *kubetest.Cluster
	missing    string
	auditDir   string // of the log of all writes
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctrl.SetLogger(logr.Discard())
		var err error
		if auditDir, err = os.MkdirTemp("", "clusterapi"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(auditDir)
		if kubernetes, missing, err = kubetest.StartWithAudit(auditDir); err != nil {
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
		stop, err := collector()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = stop() }()
		return m.Run()
	}())
}

// collector runs the real collector of what lost its owner.
func collector() (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "clusterapi")
	if err != nil {
		return nil, err
	}
	end, err := kubernetes.Controllers(dir, "garbage-collector-controller")
	return func() error { return errors.Join(end(), os.RemoveAll(dir)) }, err
}

// prepare installs Cluster API's resources and ours, and begins the played controllers.
func prepare(ctx context.Context) error {
	dir, err := coreCRDs()
	if err != nil {
		return err
	}
	if err := tryVersions(ctx, filepath.Join(dir, "cluster.x-k8s.io_machines.yaml")); err != nil {
		return err
	}
	for _, file := range []string{"cluster.x-k8s.io_machines.yaml", "cluster.x-k8s.io_clusters.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if err := apply(ctx, text); err != nil {
			return err
		}
	}
	rights, err := os.ReadFile(kubetest.Root("deploy", "rbac", "provider-cluster-api.yaml"))
	if err != nil {
		return err
	}
	for _, text := range [][]byte{played.CRDs, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + namespace + "}}"), rights} {
		if err := apply(ctx, text); err != nil {
			return err
		}
	}
	if err := bindRights(ctx); err != nil {
		return err
	}
	m, err := ctrl.NewManager(kubernetes.Config, ctrl.Options{
		Scheme: kubernetes.Scheme, Metrics: server.Options{BindAddress: "0"}, Logger: logr.Discard(), Client: played.Cached,
	})
	if err != nil {
		return err
	}
	if err := (&played.Infrastructure{Kubelet: true}).Add(m); err != nil {
		return err
	}
	if err := (&played.Core{Fleet: kubernetes.Client}).Add(m); err != nil {
		return err
	}
	go func() { _ = m.Start(ctx) }()
	return nil
}

// The Cluster API whose resources are tried against.
const (
	coreModule = "sigs.k8s.io/cluster-api@v1.14.2"
	coreSum    = "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA="
)

// coreCRDs returns the folder of Cluster API's custom resources, which are downloaded as a module.
func coreCRDs() (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", coreModule).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", coreModule, err, out)
	}
	var m struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", err
	}
	if m.Sum != coreSum {
		return "", fmt.Errorf("%s has the sum %s, not %s", coreModule, m.Sum, coreSum)
	}
	return filepath.Join(m.Dir, "core", "config", "crd", "bases"), nil
}

// What Open says of a cluster without Cluster API, and of one with an old one.
var errWithout, errOld error

// tryVersions opens a driver before Cluster API is installed, and with v1beta1 of it.
func tryVersions(ctx context.Context, crd string) error {
	open := func() error {
		e := kube.Fixed("the test's", kubernetes.Config)
		d, err := clusterapi.OpenAt(ctx, &clusterapi.Settings{Namespace: namespace}, "versions", slog.New(slog.DiscardHandler), e)
		if err == nil {
			_ = d.Close()
		}
		return err
	}
	errWithout = open()
	text, err := os.ReadFile(crd)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &u.Object); err != nil {
		return err
	}
	all, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	old := slices.DeleteFunc(all, func(v any) bool { return v.(map[string]any)["name"] != "v1beta1" })
	for _, v := range old {
		v.(map[string]any)["storage"], v.(map[string]any)["served"] = true, true
	}
	if err := unstructured.SetNestedSlice(u.Object, old, "spec", "versions"); err != nil {
		return err
	}
	if err := kubernetes.Create(ctx, u); err != nil {
		return err
	}
	errOld = open()
	return kubernetes.Delete(ctx, u)
}

// apply creates the objects of a manifest, and waits until resources are served.
func apply(ctx context.Context, text []byte) error {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(u); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if u.Object == nil {
			continue
		}
		if u.GetKind() == "Role" {
			u.SetNamespace(namespace)
		}
		if err := kubernetes.Create(ctx, u); err != nil {
			return err
		}
	}
}

// The users of the tests, who may do what the roles of deploy say and nothing else.
const (
	providerUser = "tonnage-provider"
	nodesUser    = "tonnage-provider-nodes"
)

func bindRights(ctx context.Context) error {
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: providerUser},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tonnage-provider-cluster-api"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: providerUser}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: nodesUser},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tonnage-provider-nodes"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: nodesUser}},
		},
	} {
		if err := kubernetes.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// kubeconfig writes the credentials of a configuration as a kubeconfig.
func kubeconfig(t *testing.T, c *rest.Config) []byte {
	t.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData, Token: c.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func userConfig(t *testing.T, name string) []byte {
	t.Helper()
	c, err := kubernetes.User(name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig(t, c)
}

// rig is a driver with a Cluster of its own.
type rig struct {
	*clusterapi.Driver
	t        *testing.T
	cluster  string
	file     string // kubeconfig of the management cluster
	blob     []byte
	settings *clusterapi.Settings
	log      lockedBuffer
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

// newRig starts a driver. config is put into its settings, in YAML.
func newRig(t *testing.T, config string) *rig {
	t.Helper()
	if missing != "" {
		t.Skip(missing)
	}
	t.Parallel()
	r := &rig{t: t, cluster: "c" + strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())), file: filepath.Join(t.TempDir(), "kubeconfig"), blob: kubeconfig(t, kubernetes.Config)}
	r.cluster = r.cluster[:min(40, len(r.cluster))]
	if err := os.WriteFile(r.file, userConfig(t, providerUser), 0o600); err != nil {
		t.Fatal(err)
	}
	r.addCluster(r.cluster)
	s, err := clusterapi.ParseSettings([]byte(fmt.Sprintf("kubeconfig: %s\nnamespace: %s\n%s", r.file, namespace, config)))
	if err != nil {
		t.Fatal(err)
	}
	r.settings = s
	r.reopen()
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// reopen starts the driver, again when there was one.
func (r *rig) reopen() driver.Driver {
	r.t.Helper()
	if r.Driver != nil {
		if err := r.Close(); err != nil {
			r.t.Error(err)
		}
	}
	d, err := clusterapi.Open(r.t.Context(), r.settings, r.cluster, slog.New(slog.NewTextHandler(&r.log, nil)))
	if err != nil {
		r.t.Fatal(err)
	}
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

// addCluster makes a Cluster with its kubeconfig.
func (r *rig) addCluster(name string) {
	r.t.Helper()
	ctx := r.t.Context()
	cluster, control := played.NewCluster(namespace, name, "localhost", 6443)
	status := control.Object["status"]
	r.must(kubernetes.Client.Create(ctx, control))
	control.Object["status"] = status
	r.must(kubernetes.Client.Status().Update(ctx, control))
	r.must(kubernetes.Client.Create(ctx, cluster))
	r.must(kubernetes.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": userConfig(r.t, nodesUser)},
	}))
}

// addTemplate makes a template of machines of 4 processors.
func (r *rig) addTemplate(name string, spec map[string]any) {
	r.t.Helper()
	u := played.Object(played.Templates)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.Object["spec"] = map[string]any{"template": map[string]any{"spec": spec, "metadata": map[string]any{"labels": map[string]any{"team": "a"}}}}
	r.must(kubernetes.Client.Create(r.t.Context(), u))
}

var capacity = map[string]any{"cpu": "4", "memory": "8Gi", "pods": "110"}

// offer is an offer whose template is of that name.
func (r *rig) offer(name string) driver.Offer {
	has := model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: 8 << 30}, model.Amount{Name: "pods", Value: 110})
	return driver.Offer{
		Key:       driver.Key{Pool: "p", InstanceType: "big", Zone: "z1", CapacityType: model.OnDemand},
		Resources: has, Allocatable: has,
		Labels: map[string]string{"accelerator": "none", "node-role.kubernetes.io/worker": ""}, Taints: []driver.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}},
		Template: fmt.Appendf(nil, `{"infrastructure": {"templateRef": {"apiGroup": %q, "kind": "PlayedMachineTemplate", "name": %q}, "overrides": [{"spec": {"instanceType": "${instanceType}"}}]}, "bootstrap": {"blob": {"format": "cloud-config"}}}`, played.Group, name),
	}
}

// machine is a late-bound machine that is of that template.
func (r *rig) machine(id, template string) *driver.Machine {
	return &driver.Machine{ID: r.cluster + "/" + id, Generation: 1, LateBound: true, Offer: r.offer(template)}
}

func (r *rig) binding() *driver.Binding {
	return &driver.Binding{Owner: driver.Owner{Shard: "s", Epoch: 7, Sequence: 9}, Cluster: r.cluster, Blob: r.blob, Metadata: map[string]string{"a": "b"}}
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
			r.t.Fatalf("%s: %s: %+v\n%s", id, why, o, r.log.b.String())
		}
		_ = kubetest.Pause(ctx)
	}
}

// is says that an observation is not of a phase.
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

// get reads an object of a machine.
func (r *rig) get(u client.Object, m *driver.Machine) error {
	return kubernetes.Client.Get(r.t.Context(), client.ObjectKey{Namespace: namespace, Name: driver.ObjectName(m.ID, m.Generation)}, u)
}

// gone waits until an object is not there.
func (r *rig) gone(u client.Object, m *driver.Machine) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for {
		err := r.get(u, m)
		if apierrors.IsNotFound(err) {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("%T of %s is still there: %v", u, m.ID, err)
		}
		_ = kubetest.Pause(ctx)
	}
}

// withToken is a configuration with credentials that nobody knows.
func withToken(t *testing.T) *rest.Config {
	t.Helper()
	c := rest.AnonymousClientConfig(kubernetes.Config)
	c.BearerToken = "expired"
	return c
}
