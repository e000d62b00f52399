package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordination "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	pb "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider"
)

// replicas are two providers with a Lease, each with a folder of its own, over one simulated cloud.
type replicas struct {
	t       *testing.T
	kube    *kubetest.Cluster
	dir     string
	metrics [2]string
	cancel  context.CancelFunc
	ctx     context.Context //nolint:containedctx // of the test's waiting
}

const leaseLasts = 3 * time.Second

func startKubernetes(t *testing.T) *kubetest.Cluster {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	k, missing, err := kubetest.Start()
	if missing != "" {
		t.Skip(missing)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// grant gives a user what deploy/rbac says, and nothing else, and writes the kubeconfig with its credentials.
func (r *replicas) grant(user string) {
	r.t.Helper()
	text, err := os.ReadFile(kubetest.Root("deploy", "rbac", "provider.yaml"))
	if err != nil {
		r.t.Fatal(err)
	}
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		r.t.Fatal(err)
	}
	role.Namespace = "default"
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "provider", Namespace: "default"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if err := client.IgnoreAlreadyExists(r.kube.Client.Create(r.t.Context(), &role)); err != nil {
		r.t.Fatal(err)
	}
	r.revoke()
	if err := r.kube.Client.Create(r.t.Context(), binding); err != nil {
		r.t.Fatal(err)
	}
	config, err := r.kube.User(user)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(kubeconfigOf(config), r.path("kubeconfig.new")); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(r.path("kubeconfig.new"), r.path("kubeconfig")); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replicas) revoke() {
	r.t.Helper()
	err := r.kube.Client.Delete(r.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "provider", Namespace: "default"}})
	if client.IgnoreNotFound(err) != nil {
		r.t.Fatal(err)
	}
}

func kubeconfigOf(c *rest.Config) clientcmdapi.Config {
	return clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}}, CurrentContext: "x",
	}
}

func (r *replicas) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// start starts a replica, and returns a channel that has it when it works.
func (r *replicas) start(i int) <-chan *child {
	started := make(chan *child, 1)
	go func() {
		started <- spawn(r.t, r.path(fmt.Sprint(i)), "127.0.0.1:0", "--lease", "default/tonnage-provider", "--lease-pod", fmt.Sprintf("tonnage-provider-%d", i),
			"--lease-duration", leaseLasts.String(), "--kubeconfig", r.path("kubeconfig"), "--metrics-addr", r.metrics[i])
	}()
	return started
}

// until waits until something holds.
func (r *replicas) until(what string, holds func() bool) {
	r.t.Helper()
	for !holds() {
		if r.ctx.Err() != nil {
			r.t.Fatalf("it is not so that %s\n%s\n%s", what, r.log(0), r.log(1))
		}
		pause(r.ctx, 20*time.Millisecond)
	}
}

func (r *replicas) log(i int) string {
	text, _ := os.ReadFile(r.path(fmt.Sprint(i), "log"))
	return string(text)
}

func (r *replicas) ready(i int) bool {
	resp, err := http.Get("http://" + r.metrics[i] + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// leads returns the label of a replica's pod.
func (r *replicas) leads(i int) string {
	r.t.Helper()
	var pod corev1.Pod
	if err := r.kube.Client.Get(r.t.Context(), client.ObjectKey{Namespace: "default", Name: fmt.Sprintf("tonnage-provider-%d", i)}, &pod); err != nil {
		r.t.Fatal(err)
	}
	return pod.Labels[labelLeads]
}

func (r *replicas) renewed() time.Time {
	r.t.Helper()
	var lease coordination.Lease
	if err := r.kube.Client.Get(r.t.Context(), client.ObjectKey{Namespace: "default", Name: "tonnage-provider"}, &lease); err != nil {
		r.t.Fatal(err)
	}
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// bound has one machine of the pool "early" be bound to a cluster, and returns it.
func (r *replicas) bound(w *walker, id, cluster string) *pb.Machine {
	r.t.Helper()
	for {
		m := w.settled(r.ctx, id)
		w.tokens++
		var err error
		switch {
		case m == nil || m.GetState() == pb.MachineState_MACHINE_STATE_FAILED:
			r.t.Fatalf("machine %q is %v", id, m)
		case m.GetState() == pb.MachineState_MACHINE_STATE_CONFIGURED && m.GetCluster() == cluster:
			return m
		case m.GetState() == pb.MachineState_MACHINE_STATE_CONFIGURED:
			_, err = w.client.Drain(r.ctx, &pb.DrainRequest{MachineId: id, ShardId: "s", ShardEpoch: 1, SequenceNumber: w.tokens})
		case m.GetState() == pb.MachineState_MACHINE_STATE_IDLE:
			_, err = w.client.Configure(r.ctx, &pb.ConfigureRequest{MachineId: id, ClusterId: cluster, ShardId: "s", ShardEpoch: 1, SequenceNumber: w.tokens, ShardMetadata: map[string]string{"to": cluster}})
		default:
			_, err = w.client.Create(r.ctx, &pb.CreateRequest{MachineId: id, ShardId: "s", ShardEpoch: 1, SequenceNumber: w.tokens})
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{t: t, kube: startKubernetes(t), dir: t.TempDir(), metrics: [2]string{freeAddress(t), freeAddress(t)}}
	r.ctx, r.cancel = context.WithTimeout(t.Context(), 90*time.Second) //nolint:gosec // Cleanup calls it
	t.Cleanup(r.cancel)
	for i := range 2 {
		if err := os.Mkdir(r.path(fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, r.path(fmt.Sprint(i)), "pools.yaml", strings.Replace(crashPools, "config: {", "config: {file: "+r.path("cloud.db")+", ", 1))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tonnage-provider-%d", i), Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if err := r.kube.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	r.grant("provider")
	return r
}

// TestReplicasWithALease: one works and the other is ready to; what the killed one's records say is not believed after another one has
// worked; credentials are replaced while it works; and who cannot keep the Lease ends.
func TestReplicasWithALease(t *testing.T) {
	r := newReplicas(t)
	first := <-r.start(0)
	second := r.start(1)
	r.until("the second one stands by", func() bool { return r.ready(1) && strings.Contains(r.log(1), "stands by") })
	if a, b := r.leads(0), r.leads(1); a != "true" || b != "false" {
		t.Errorf("the labels are %q and %q", a, b)
	}
	w := &walker{t: t, client: dialed(t, first.address)}
	id := earlyOf(slotsOf(t, w.client, 24)) // its generation stays, so that old records could be taken for new ones
	r.bound(w, id, "c1")

	first.kill()
	now := <-second
	defer now.kill()
	w.client = dialed(t, now.address)
	r.until("the second one works", func() bool { return r.leads(1) == "true" })
	r.until("the machine is found again", func() bool {
		m, err := w.client.Get(r.ctx, &pb.MachineRef{Id: id})
		return err == nil && m.GetCluster() == "c1" && m.GetShardMetadata()["to"] == "c1"
	})
	r.bound(w, id, "c2") // which the records of the first one do not know

	// New credentials, and the old ones are worth nothing.
	r.grant("provider-2")
	changed := time.Now()
	r.until("the Lease is renewed with the new credentials", func() bool { return r.renewed().After(changed.Add(leaseLasts)) })

	again := r.start(0)
	r.until("the first one stands by", func() bool { return r.leads(0) == "false" && r.ready(0) })
	if err := now.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := now.cmd.Wait(); err != nil {
		t.Errorf("the second one ends with %v\n%s", err, r.log(1))
	}
	released := time.Now()
	now = <-again
	defer now.kill()
	if took := time.Since(released); took > leaseLasts && !testing.Short() {
		t.Logf("the Lease was given back, and it took %v", took) // a busy machine
	}
	if !strings.Contains(r.log(0), "they are set aside") {
		t.Errorf("records of before are not set aside:\n%s", r.log(0))
	}
	if _, err := os.Stat(r.path("0", provider.FileName+".older")); err != nil {
		t.Error(err)
	}
	w.client = dialed(t, now.address)
	r.until("the machine is found as the second one left it", func() bool {
		m, err := w.client.Get(r.ctx, &pb.MachineRef{Id: id})
		return err == nil && m.GetCluster() == "c2" && m.GetShardMetadata()["to"] == "c2" && m.GetState() == pb.MachineState_MACHINE_STATE_CONFIGURED
	})

	r.revoke()
	if err := now.cmd.Wait(); err == nil || !strings.Contains(r.log(0), errLeaseLost.Error()) {
		t.Errorf("without rights it ends with %v\n%s", err, r.log(0))
	}
}
