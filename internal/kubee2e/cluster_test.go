package kubee2e

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/internal/freeport"
	"github.com/tonnage/tonnage/operator/kubetest"
)

// startLimit is how long a cluster may take to come up.
const startLimit = 2 * time.Minute

//go:embed stages.yaml
var stages []byte

//go:embed cluster.yaml
var manifests []byte

// schedulerDefaults are the scheduler's own scores. They keep pods that did not fit from waiting long for a new try.
const schedulerDefaults = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "KUBECONFIG"}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
`

// auditPolicy has what the provider writes be logged, each write once, when it is answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, verbs: [get, list, watch]}
- {level: Metadata, users: [tonnage-provider]}
- {level: None}
`

// cluster is one real cluster, and the operator's two commands in it.
type cluster struct {
	t       *testing.T
	name    string
	dir     string
	p       programs
	ca      *authority
	address string
	config  *rest.Config
	client  client.Client // of somebody who may do everything

	api         *process
	controllers *process // that make machines; nil = none
	operators   []*process
	arguments   []string // of an operator
	podsMore    []string // further arguments of the pod controller
	template    string   // file of bootstrap data; empty = none
	scheduler   string   // its configuration
	audit       bool     // what the provider writes is logged
	nominates   bool     // nodes wait until the pod controller has nominated pods for them
	bare        bool     // it has no scheduler and no kubelet: no pods run in it
}

// newCluster starts everything of a cluster but our own commands.
func newCluster(t *testing.T, p programs, name string) *cluster {
	t.Helper()
	return newClusterWith(t, p, name, schedulerDefaults)
}

// newClusterWith is newCluster with a scheduler that is configured so.
func newClusterWith(t *testing.T, p programs, name, scheduler string) *cluster {
	t.Helper()
	return (&cluster{t: t, name: name, p: p, scheduler: scheduler}).begin()
}

// begin starts it.
func (c *cluster) begin() *cluster {
	t := c.t
	t.Helper()
	c.dir = t.TempDir()
	c.ca = newAuthority(t, c.dir)
	c.startServer()
	admin := c.ca.user("admin", "system:masters", c.address)
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	c.config = config
	c.startControllers()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c.apply(admin)
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	eventually(t, startLimit, "the namespace has its service account", func() string {
		ctx, cancel := brief()
		defer cancel()
		if err := c.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return c
}

// run starts a program of Kubernetes.
func (c *cluster) run(name string, args ...string) *process {
	return start(c.t, c.dir, c.name+"-"+name, filepath.Join(c.p.kubernetes, name), args...)
}

// keep starts one that is started again when it ends by itself, as the kubelet
// does: on a busy machine the API server takes longer to come up than they wait.
func (c *cluster) keep(name string, args ...string) {
	startAgain(c.t, true, c.dir, c.name+"-"+name, filepath.Join(c.p.kubernetes, name), args...)
}

// startServer starts etcd and the API server.
func (c *cluster) startServer() {
	ports := freeport.TakeN(c.t, 3)
	store, peer := "http://"+ports[0], "http://"+ports[1]
	c.address = ports[2]
	_, port, _ := strings.Cut(c.address, ":")
	c.ca.server("server")
	c.run("etcd", "--name=e", "--data-dir="+filepath.Join(c.dir, "etcd"), "--listen-client-urls="+store, "--advertise-client-urls="+store,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=e="+peer, "--unsafe-no-fsync=true", "--log-level=warn")
	args := []string{"--etcd-servers=" + store, "--bind-address=127.0.0.1", "--secure-port=" + port, "--advertise-address=127.0.0.1",
		"--tls-cert-file=" + c.ca.file("server.crt"), "--tls-private-key-file=" + c.ca.file("server.key"), "--client-ca-file=" + c.ca.file("ca.crt"),
		"--service-account-key-file=" + c.ca.file("server.crt"), "--service-account-signing-key-file=" + c.ca.file("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
		"--authorization-mode=RBAC", "--anonymous-auth=false", "--cert-dir=" + c.dir}
	if c.audit {
		policy := filepath.Join(c.dir, "policy.yaml")
		if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
			c.t.Fatal(err)
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+c.auditFile())
	}
	c.api = c.run("kube-apiserver", args...)
}

// auditFile is where what the provider writes is logged.
func (c *cluster) auditFile() string { return filepath.Join(c.dir, kubetest.AuditLog) }

// startControllers starts controllers, scheduler and kubelet.
func (c *cluster) startControllers() {
	settings := strings.ReplaceAll(c.scheduler, "KUBECONFIG", c.ca.user("system:kube-scheduler", "", c.address))
	for name, text := range map[string][]byte{"scheduler.yaml": []byte(settings), "stages.yaml": stages, "cluster.yaml": manifests} {
		if err := os.WriteFile(filepath.Join(c.dir, name), text, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	lease := c.lease()
	c.keep("kube-controller-manager", "--kubeconfig="+c.ca.user("controllers", "system:masters", c.address), "--secure-port=0", "--leader-elect=false",
		"--controllers=*,-nodeipam,-cloud-node-lifecycle-controller,-service-lb-controller",
		"--node-monitor-grace-period="+(lease*5/4).String(), "--kube-api-qps=200", "--kube-api-burst=400", "--service-account-private-key-file="+c.ca.file("server.key"), "--root-ca-file="+c.ca.file("ca.crt"))
	if c.bare {
		return
	}
	c.keep("kube-scheduler", "--config="+filepath.Join(c.dir, "scheduler.yaml"), "--secure-port=0")
	c.keep("kwok", "--kubeconfig="+c.ca.user("kubelet", "system:masters", c.address), "--manage-all-nodes=false",
		"--manage-nodes-with-label-selector=type=kwok", "--config="+filepath.Join(c.dir, "stages.yaml"), fmt.Sprintf("--node-lease-duration-seconds=%d", int(lease/time.Second)))
}

const (
	// leaseDefault is how long a node is believed to be alive that kwok keeps; it says so four times as often.
	leaseDefault = 40 * time.Second
	// leasesOf is of how many machines a busy API server writes the leases in that time.
	leasesOf = 100
)

// lease is how long nodes are believed to be alive. 500 nodes whose heartbeats come late on a busy machine are taken for dead, and
// their pods are made again, which costs more than they do. Nodes that are to be lost are made so by hand.
func (c *cluster) lease() time.Duration {
	if !c.audit {
		return leaseDefault
	}
	return leaseDefault * time.Duration(max(1, *machines/leasesOf))
}

// apply has the cluster take our objects, rights and classes.
func (c *cluster) apply(admin string) {
	c.give(admin, kubetest.Root("deploy", "crds"), filepath.Join(c.dir, "cluster.yaml"), kubetest.Root("deploy", "rbac", "operator.yaml"), kubetest.Root("deploy", "rbac", "pods.yaml"))
	if c.nominates {
		c.give(admin, kubetest.Root("deploy", "rbac", "nominate.yaml"))
		c.podsMore = append(c.podsMore, "--nominate")
	}
}

// give has the cluster take what is in files, in their order.
func (c *cluster) give(admin string, files ...string) {
	c.t.Helper()
	c.giveTo("tonnage", admin, files...)
}

// giveTo is give, where what names no namespace goes to that one; empty = all that needs one names it.
func (c *cluster) giveTo(namespace, admin string, files ...string) {
	c.t.Helper()
	eventually(c.t, startLimit, "the API server takes objects", func() string {
		for _, file := range files {
			out, err := exec.Command(filepath.Join(c.p.kubernetes, "kubectl"), "--kubeconfig="+admin, "--cache-dir="+c.dir, "-n", namespace, "apply", "--server-side", "--request-timeout=10s", "-f", file).CombinedOutput()
			if err != nil && !strings.Contains(string(out), "does not match the namespace") {
				return file + ": " + string(out)
			}
		}
		return ""
	})
}

// startOperators starts both commands, the operator in several replicas.
func (c *cluster) startOperators(shard string, every time.Duration, replicas ...string) {
	c.arguments = []string{
		"--cluster-id=" + c.name, "--shard-addr=" + shard, "--kubeconfig=" + c.ca.user("tonnage-operator", "", c.address),
		"--metrics-addr=0", "--rollup-interval=" + every.String(), fmt.Sprintf("--early-rollups=%v", *early), "--leader-election-namespace=tonnage",
	}
	if c.template != "" {
		c.arguments = append(c.arguments, "--bootstrap-template-file="+c.template)
	}
	for _, name := range replicas {
		c.another(name)
	}
	startAgain(c.t, true, c.dir, c.name+"-pods", filepath.Join(c.p.ours, "tonnage-operator"), append([]string{"pods",
		"--kubeconfig=" + c.ca.user("tonnage-operator-pods", "", c.address), "--metrics-addr=0"}, c.podsMore...)...)
}

// another starts one more replica of the operator.
func (c *cluster) another(name string) {
	c.operators = append(c.operators, startAgain(c.t, true, c.dir, c.name+"-operator-"+name, filepath.Join(c.p.ours, "tonnage-operator"), c.arguments...))
}

// flat returns a kubeconfig with the contents of the files that it names.
func (c *cluster) flat(file string) []byte {
	c.t.Helper()
	config, err := clientcmd.LoadFromFile(file)
	if err == nil {
		err = clientcmdapi.FlattenConfig(config)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}
