// Package kubetest starts a real Kubernetes API server with its etcd for tests:
// the one that tools/k8s builds, with the manifests of deploy.
package kubetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// Variables of the environment.
const (
	assetsVariable = "KUBEBUILDER_ASSETS"    // a folder of the programs that is used instead
	noneVariable   = "TONNAGE_NO_KUBERNETES" // 1: nothing is tried against them
)

// AuditLog is the name of the file into which writes are logged.
const AuditLog = "audit.jsonl"

// Cluster is a running API server.
type Cluster struct {
	// Config is that of somebody who may do everything.
	Config *rest.Config
	// Client reads and writes directly, as the same.
	Client client.WithWatch
	Scheme *k8sruntime.Scheme

	environment *envtest.Environment
}

// startPatience is how long API server and etcd may take to start, on a busy machine too. By default they are killed after 20 s, and
// started again five times.
const startPatience = 2 * time.Minute

// Start starts a cluster with our custom resources. missing says why there is
// none where the programs were not built; then the rest is nil.
func Start() (cluster *Cluster, missing string, err error) { return StartWithAudit("") }

// auditPolicy has writes be logged, each once, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata}
`

// StartWithAudit is Start, of an API server that logs all writes into a file in a folder, one JSON object a line; empty = none.
func StartWithAudit(dir string) (cluster *Cluster, missing string, err error) {
	assets, missing, err := Assets()
	if missing != "" || err != nil {
		return nil, missing, err
	}
	scheme := k8sruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, "", err
	}
	if err := api.AddToScheme(scheme); err != nil {
		return nil, "", err
	}
	e := &envtest.Environment{
		BinaryAssetsDirectory: assets, Scheme: scheme,
		CRDDirectoryPaths: []string{Root("deploy", "crds")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: startPatience,
	}
	if dir != "" {
		policy := filepath.Join(dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			return nil, "", err
		}
		e.ControlPlane.GetAPIServer().Configure().Append("audit-policy-file", policy).Append("audit-log-path", filepath.Join(dir, AuditLog))
	}
	config, err := e.Start()
	if err != nil {
		_ = e.Stop() // what did start
		return nil, "", fmt.Errorf("starting Kubernetes of %s: %w", assets, err)
	}
	c := &Cluster{Config: config, Scheme: scheme, environment: e}
	if c.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		_ = e.Stop()
		return nil, "", err
	}
	return c, "", nil
}

// Stop ends it.
func (c *Cluster) Stop() error { return c.environment.Stop() }

// User returns the configuration of a user who may do nothing until a role says so.
func (c *Cluster) User(name string) (*rest.Config, error) {
	user, err := c.environment.AddUser(envtest.User{Name: name}, &rest.Config{QPS: 1000, Burst: 1000})
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

// Root names a file of the repository, from the working folder of a test of one
// of its packages: whatever its binary was built with, and wherever.
func Root(parts ...string) string {
	dir, err := os.Getwd()
	if err != nil {
		return filepath.Join(parts...)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return filepath.Join(append([]string{at}, parts...)...)
		}
		if at == filepath.Dir(at) {
			return filepath.Join(append([]string{dir}, parts...)...)
		}
	}
}

// Assets finds the folder of the programs, and of custom resources in crds, or says what would make it.
func Assets() (dir, missing string, err error) {
	if os.Getenv(noneVariable) == "1" {
		return "", noneVariable + "=1: nothing is tried against a real Kubernetes; make test-all does it", nil
	}
	dir = os.Getenv(assetsVariable)
	if dir == "" {
		out, err := exec.Command(Root("tools", "k8s", "build"), "--print").Output()
		if err != nil {
			return "", "", fmt.Errorf("tools/k8s/build --print: %w", err)
		}
		dir = strings.TrimSpace(string(out))
	}
	if !there(filepath.Join(dir, "kube-apiserver")) {
		return "", fmt.Sprintf("there is no Kubernetes to test with in %s; make k8s-tools builds it", dir), nil
	}
	return dir, "", nil
}

func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
