package kubee2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
)

// capiNamespace is where Clusters of the fleet are.
const capiNamespace = "fleet"

// machinesAtOnce is how many machines Cluster API works on at the same time: of its default of 100 most only wait for the API server
// of a small host, and try again and again what failed since the cache they read from lags behind.
const machinesAtOnce = "--machine-concurrency=8"

// management is a cluster with Cluster API.
type management struct {
	*cluster
	tools string // folder of what tools/capi builds
	core  *process
}

// newManagement starts a cluster with Cluster API's core controllers, and gives the provider its rights there.
func newManagement(t *testing.T, p programs) *management {
	t.Helper()
	m := &management{cluster: (&cluster{t: t, name: "management", p: p, scheduler: schedulerDefaults, audit: true, bare: true}).begin(), tools: toolsOf(t, "capi")}
	m.ca.server("tls") // of the webhooks; the names of its files are those that controllers look for
	eventually(t, startLimit, "there is a namespace for Clusters", func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := m.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: capiNamespace}}); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
	m.core = m.start("core")
	m.giveTo(capiNamespace, m.ca.file("admin.kubeconfig"), kubetest.Root("deploy", "rbac", "provider-cluster-api.yaml"))
	ctx, cancel := brief()
	defer cancel()
	err := m.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: capiNamespace, Name: "tonnage-provider"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tonnage-provider-cluster-api"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "tonnage-provider"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.ca.user("tonnage-provider", "", m.address)
	return m
}

// start starts one of Cluster API's programs with its custom resources and webhooks, which the API server finds by URL.
func (m *management) start(program string) *process {
	m.t.Helper()
	port := freeport.Take(m.t)
	_, number, _ := strings.Cut(port, ":")
	ca, err := os.ReadFile(m.ca.file("ca.crt"))
	if err != nil {
		m.t.Fatal(err)
	}
	at := func(path string) map[string]any {
		return map[string]any{"url": "https://" + port + path, "caBundle": ca}
	}
	infrastructure := program != "core"
	files, err := filepath.Glob(filepath.Join(m.tools, "crds", "*.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	var crds []map[string]any
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "infrastructure.") != infrastructure {
			continue
		}
		for _, o := range documents(m.t, file) {
			m.set(o, "Webhook", "spec", "conversion", "strategy")
			m.set(o, []any{"v1"}, "spec", "conversion", "webhook", "conversionReviewVersions")
			m.set(o, at("/convert"), "spec", "conversion", "webhook", "clientConfig")
			// Cluster API's own manifests put these on; they name the versions that follow a version of its contract.
			m.set(o, "v1beta1", "metadata", "labels", "cluster.x-k8s.io/v1beta1")
			m.set(o, "v1beta2", "metadata", "labels", "cluster.x-k8s.io/v1beta2")
			crds = append(crds, o)
		}
	}
	admin := m.ca.file("admin.kubeconfig")
	m.give(admin, m.list(program+"-crds.json", crds))
	arguments := []string{
		"KUBECONFIG=" + m.ca.user("capi-"+program, "system:masters", m.address), "POD_IP=127.0.0.1", "POD_NAMESPACE=" + capiNamespace,
		filepath.Join(m.tools, program), "--webhook-port=" + number, "--webhook-cert-dir=" + m.ca.dir, "--health-addr=0", "--diagnostics-address=0", "--v=2",
	}
	if program == "core" {
		arguments = append(arguments, machinesAtOnce)
	}
	p := startAgain(m.t, true, m.dir, "capi-"+program, "/usr/bin/env", arguments...)
	hooks := documents(m.t, filepath.Join(m.tools, "webhooks", program+".yaml"))
	for _, o := range hooks {
		m.set(o, program+"-"+field(o, "metadata", "name").(string), "metadata", "name")
		for _, w := range o["webhooks"].([]any) {
			hook := w.(map[string]any)
			m.set(hook, at(field(hook, "clientConfig", "service", "path").(string)), "clientConfig")
		}
	}
	m.give(admin, m.list(program+"-webhooks.json", hooks))
	return p
}

func (m *management) set(o map[string]any, value any, path ...string) {
	m.t.Helper()
	for _, key := range path[:len(path)-1] {
		below, ok := o[key].(map[string]any)
		if !ok {
			below = map[string]any{}
			o[key] = below
		}
		o = below
	}
	o[path[len(path)-1]] = value
}

func field(o map[string]any, path ...string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(o, path...)
	return v
}

// make creates an object in the namespace of Clusters, with its status. Webhooks may still be on their way up.
func (m *management) make(o client.Object) {
	m.t.Helper()
	o.SetNamespace(capiNamespace)
	var status any
	u, isMap := o.(*unstructured.Unstructured)
	if isMap {
		status = u.Object["status"]
	}
	eventually(m.t, startLimit, "the management cluster takes "+o.GetName(), func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := m.client.Create(ctx, o); client.IgnoreAlreadyExists(err) != nil {
			return err.Error()
		}
		return ""
	})
	if status == nil {
		return
	}
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := brief()
	defer cancel()
	if err := m.client.Status().Patch(ctx, u, client.RawPatch("application/merge-patch+json", text)); err != nil {
		m.t.Fatal(err)
	}
}

// all lists the objects of a kind in the namespace of Clusters.
func (m *management) all(apiVersion, kind string, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	ctx, cancel := brief()
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(apiVersion)
	list.SetKind(kind + "List")
	err := m.client.List(ctx, list, append(options, client.InNamespace(capiNamespace))...)
	return list.Items, err
}
