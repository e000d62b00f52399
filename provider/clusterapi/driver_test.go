package clusterapi_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/provider/clusterapi"
	"github.com/tonnage/tonnage/provider/clusterapi/played"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/driver/drivertest"
	"github.com/tonnage/tonnage/provider/kube"
)

var machineKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}

// The driver keeps what package driver says of drivers.
func TestDriver(t *testing.T) {
	r := newRig(t, "")
	r.addTemplate("contract", map[string]any{"capacity": capacity})
	drivertest.Run(t, drivertest.Options{
		Driver: r.Driver, Reopen: r.reopen, Offer: r.offer("contract"), LateBound: true, Blob: r.blob, Within: within, Prefix: "contract/", Cluster: r.cluster,
	})
}

// A machine's objects: the Machine owns the others, and with it everything ends.
func TestObjects(t *testing.T) {
	r := newRig(t, "")
	r.addTemplate("objects", map[string]any{"capacity": capacity, "count": int64(3)})
	m := r.machine("1", "objects")
	r.must(r.Configure(t.Context(), m, r.binding()))
	machine, infra, secret := played.Object(machineKind), played.Object(played.Machines), &corev1.Secret{}
	for _, o := range []client.Object{machine, infra, secret} {
		r.must(r.get(o, m))
	}
	for _, o := range []client.Object{infra, secret} {
		if ref := metav1.GetControllerOf(o); ref == nil || ref.UID != machine.GetUID() || ref.Kind != "Machine" || ref.APIVersion != "cluster.x-k8s.io/v1beta2" {
			t.Errorf("%T is controlled by %+v, not by the Machine", o, ref)
		}
		if got := o.GetLabels()["cluster.x-k8s.io/cluster-name"]; got != r.cluster {
			t.Errorf("%T is of cluster %q", o, got)
		}
	}
	if string(secret.Data["value"]) != string(r.blob) || string(secret.Data["format"]) != "cloud-config" || secret.Type != "cluster.x-k8s.io/secret" {
		t.Errorf("the Secret is %s with %d bytes", secret.Type, len(secret.Data["value"]))
	}
	if got, _, _ := unstructured.NestedString(infra.Object, "spec", "instanceType"); got != "big" {
		t.Errorf("the override made the type %q", got)
	}
	if got, _, _ := unstructured.NestedInt64(infra.Object, "spec", "count"); got != 3 || infra.GetLabels()["team"] != "a" || infra.GetAnnotations()["cluster.x-k8s.io/cloned-from-name"] != "objects" {
		t.Errorf("the clone is %+v", infra.Object)
	}
	o := r.await(m.ID, is(driver.Configured))
	node := &corev1.Node{}
	r.must(kubernetes.Client.Get(t.Context(), client.ObjectKey{Name: o.Node}, node))
	want := map[string]string{"accelerator": "none", "node-role.kubernetes.io/worker": "", corev1.LabelInstanceTypeStable: "big", corev1.LabelTopologyZone: "z1", "karpenter.sh/capacity-type": "on-demand"}
	for key, value := range want {
		if got, ok := node.Labels[key]; !ok || got != value {
			t.Errorf("the node has %s=%q, %t", key, got, ok)
		}
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("the node has the taints %+v", node.Spec.Taints)
	}
	if o.Ref != node.Spec.ProviderID || o.Allocatable.Get("cpu") != 4000 || o.Labels["accelerator"] != "none" {
		t.Errorf("observed %+v", o)
	}
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
	for _, x := range []client.Object{infra, secret} {
		r.gone(x, m)
	}
}

// A call that was cut off after any of its writes is made again, and completes what is there.
func TestHalfMade(t *testing.T) {
	r := newRig(t, "")
	r.addTemplate("half", map[string]any{"capacity": capacity})
	m := r.machine("1", "half")
	r.must(r.Configure(t.Context(), m, r.binding()))
	infra := played.Object(played.Machines)
	r.must(r.get(infra, m))
	// As if it had died before the last write. The played infrastructure may have begun.
	r.must(kubernetes.Client.Delete(t.Context(), infra))
	o := r.await(m.ID, func(o *driver.Observation) string {
		if o == nil || !o.Incomplete && o.Phase != driver.Failed {
			return "it is not incomplete"
		}
		return ""
	})
	if o.Phase == driver.Failed { // it was provisioned before it was deleted
		t.Skip("the infrastructure was faster than its deletion")
	}
	r.must(r.Configure(t.Context(), m, r.binding()))
	r.await(m.ID, is(driver.Configured))

	lost := r.machine("lost", "half")
	b := r.binding()
	b.Blob = nil
	if err := r.Configure(t.Context(), lost, b); !errors.Is(err, driver.ErrPermanent) || !strings.Contains(err.Error(), "there are no bootstrap data for cluster") {
		t.Errorf("without bootstrap data: %v", err)
	}
	if o := r.look(lost.ID); o == nil || !o.Incomplete {
		t.Errorf("without bootstrap data it is %+v", o)
	}
	r.must(r.Delete(t.Context(), lost))
	r.await(lost.ID, is(0))
}

// What is wrong is said in a sentence that names it.
func TestFaults(t *testing.T) {
	r := newRig(t, "outOfStock: ['(?i)sold out']")
	r.addTemplate("fine", map[string]any{"capacity": capacity})
	r.addTemplate("invalid", map[string]any{"capacity": "much"})
	r.addTemplate("quota", map[string]any{"capacity": capacity, "fault": "QuotaExceeded: 20 of 20 cores are used"})
	r.addTemplate("ice", map[string]any{"capacity": capacity, "fault": "we are sold out"})
	r.addTemplate("small", map[string]any{"capacity": map[string]any{"cpu": "2", "memory": "8Gi", "pods": "110"}})
	r.addTemplate("elsewhere", map[string]any{"capacity": capacity, "labels": map[string]any{"topology.kubernetes.io/zone": "z9"}})
	alone := "alone"
	bare, _ := played.NewCluster(namespace, alone, "localhost", 6443)
	delete(bare.Object["spec"].(map[string]any), "controlPlaneRef")
	r.must(kubernetes.Client.Create(t.Context(), bare))
	for _, c := range []struct {
		template, cluster string
		kind              error
		says              string
	}{
		{"none", r.cluster, driver.ErrPermanent, `template.infrastructure: there is no PlayedMachineTemplate fleet/none in https://`},
		{"invalid", r.cluster, driver.ErrPermanent, `is refused: PlayedMachine.infrastructure.cluster.x-k8s.io "`},
		{"fine", "nowhere", driver.ErrPermanent, "there is no Cluster fleet/nowhere in https://"},
		{"fine", "A B", driver.ErrPermanent, `say in the driver's config which one it is, as in clusters: {"A B":`},
		{"fine", alone, driver.ErrPermanent, "would delete its machines without a drain"},
	} {
		m := r.machine(c.template+c.cluster, c.template)
		b := r.binding()
		b.Cluster = c.cluster
		err := r.Configure(t.Context(), m, b)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s in %s: %v, want %q", c.template, c.cluster, err, c.says)
		}
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
	}
	unknown := r.machine("kind", "fine")
	unknown.Offer.Template = []byte(strings.ReplaceAll(string(unknown.Offer.Template), "PlayedMachineTemplate", "OtherMachineTemplate"))
	if err := r.Configure(t.Context(), unknown, r.binding()); !errors.Is(err, driver.ErrPermanent) || !strings.Contains(err.Error(), "serves no kind OtherMachineTemplate in the group infrastructure.cluster.x-k8s.io") {
		t.Errorf("of an unknown kind: %v", err)
	}
	for _, c := range []struct {
		template string
		phase    driver.Phase
		says     string
		stock    bool
	}{
		{"quota", driver.Failed, "QuotaExceeded: 20 of 20 cores are used", true},
		{"ice", driver.Failed, "we are sold out", true},
		{"small", driver.Configuring, "allocatable cpu is 2 of 4", false},
		{"elsewhere", driver.Configuring, `label topology.kubernetes.io/zone is "z9", and the pool says "z1"`, false},
	} {
		m := r.machine(c.template, c.template)
		r.must(r.Configure(t.Context(), m, r.binding()))
		r.await(m.ID, func(o *driver.Observation) string {
			if o == nil || o.Phase != c.phase || !strings.Contains(o.Reason, c.says) || o.OutOfStock != c.stock {
				return "does not say " + c.says
			}
			return ""
		})
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
	}
}

// A drain has the grace that is left, and another deadline replaces it.
func TestDrain(t *testing.T) {
	r := newRig(t, "")
	r.addTemplate("drain", map[string]any{"capacity": capacity})
	m := r.machine("1", "drain")
	r.must(r.Configure(t.Context(), m, r.binding()))
	o := r.await(m.ID, is(driver.Configured))
	// The Machine stays as long as somebody has a finalizer on it.
	machine := played.Object(machineKind)
	r.must(r.get(machine, m))
	hold := func(finalizers string) {
		r.must(kubernetes.Client.Patch(t.Context(), machine, client.RawPatch(types.JSONPatchType, []byte(finalizers))))
	}
	hold(`[{"op":"add","path":"/metadata/finalizers/-","value":"tonnage.dev/test"}]`)
	for _, grace := range []time.Duration{10 * time.Minute, 90 * time.Second, -time.Minute} {
		r.must(r.Drain(t.Context(), m, time.Now().Add(grace)))
		r.must(r.get(machine, m))
		got, _, _ := unstructured.NestedInt64(machine.Object, "spec", "deletion", "nodeDrainTimeoutSeconds")
		want := max(int64(grace.Seconds()), 1)
		if got < want-1 || got > want+int64(within.Seconds()) || machine.GetDeletionTimestamp() == nil {
			t.Errorf("a grace of %v is a timeout of %d s, deleted at %v", grace, got, machine.GetDeletionTimestamp())
		}
		if x := r.look(m.ID); x == nil || x.Phase != driver.Draining || x.Ref != o.Ref {
			t.Errorf("it is %+v", x)
		}
	}
	hold(`[{"op":"replace","path":"/metadata/finalizers","value":[]}]`)
	r.await(m.ID, is(0))
}

// What vanishes is not observed any more, or is Failed where something of it is left.
func TestVanishes(t *testing.T) {
	r := newRig(t, "")
	r.addTemplate("vanish", map[string]any{"capacity": capacity})
	for what, vanish := range map[string]func(m *driver.Machine, o *driver.Observation){
		"the Machine": func(m *driver.Machine, _ *driver.Observation) {
			u := played.Object(machineKind)
			r.must(r.get(u, m))
			r.must(kubernetes.Client.Delete(t.Context(), u))
			r.await(m.ID, is(0))
		},
		"the node": func(m *driver.Machine, o *driver.Observation) {
			r.must(kubernetes.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Node}}))
			if o := r.await(m.ID, is(driver.Failed)); !strings.Contains(o.Reason, "its node "+o.Node+" is gone from cluster") {
				t.Errorf("it says %q", o.Reason)
			}
		},
		"the infrastructure": func(m *driver.Machine, _ *driver.Observation) {
			u := played.Object(played.Machines)
			r.must(r.get(u, m))
			r.must(kubernetes.Client.Delete(t.Context(), u))
			if o := r.await(m.ID, is(driver.Failed)); !strings.Contains(o.Reason, "PlayedMachine fleet/"+u.GetName()+" is gone") && !strings.Contains(o.Reason, "its node") {
				t.Errorf("it says %q", o.Reason)
			}
		},
	} {
		m := r.machine(what, "vanish")
		r.must(r.Configure(t.Context(), m, r.binding()))
		o := r.await(m.ID, is(driver.Configured))
		since := time.Now()
		vanish(m, o)
		if took := time.Since(since); took > 10*time.Second {
			t.Errorf("without %s it was observed for %v", what, took)
		}
		r.must(r.Delete(t.Context(), m))
		r.await(m.ID, is(0))
	}
}

// An object whose record cannot be read is reported with what is wrong with it.
func TestUnreadableRecord(t *testing.T) {
	r := newRig(t, "")
	u := played.Object(machineKind)
	u.SetNamespace(namespace)
	u.SetName("stray")
	u.SetLabels(map[string]string{kube.LabelScope: r.cluster})
	u.Object["spec"] = map[string]any{
		"clusterName": r.cluster, "bootstrap": map[string]any{"dataSecretName": "x"},
		"infrastructureRef": map[string]any{"apiGroup": played.Group, "kind": "PlayedMachine", "name": "stray"},
	}
	r.must(kubernetes.Client.Create(t.Context(), u))
	o := r.await("fleet/stray", is(driver.Creating))
	if o.Generation != 0 || !strings.Contains(o.Reason, "annotation tonnage.dev/record is missing") {
		t.Errorf("it is %+v", o)
	}
	r.must(r.Delete(t.Context(), &driver.Machine{ID: o.ID, LateBound: true}))
	r.await("fleet/stray", is(0))
}

// Credentials that are refused are said so, and new ones in the same file are taken over.
func TestCredentialsRotate(t *testing.T) {
	r := newRig(t, "")
	good, err := os.ReadFile(r.file)
	r.must(err)
	stale := kubeconfig(t, withToken(t))
	r.must(os.WriteFile(r.file, stale, 0o600))
	r.eventuallySays("refuses the credentials of kubeconfig " + r.file + "; have they expired?")
	r.must(os.WriteFile(r.file, good, 0o600))
	r.eventuallySays("")

	// The same of a fleet cluster's Secret: the machine is told why its node is not known.
	r.addTemplate("rotate", map[string]any{"capacity": capacity})
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: r.cluster + "-kubeconfig"}
	r.must(kubernetes.Client.Get(t.Context(), key, secret))
	fine := maps.Clone(secret.Data)
	secret.Data["value"] = stale
	r.must(kubernetes.Client.Update(t.Context(), secret))
	m := r.machine("1", "rotate")
	r.must(r.Configure(t.Context(), m, r.binding()))
	r.await(m.ID, func(o *driver.Observation) string {
		if o == nil || !strings.Contains(o.Reason, "refuses the credentials of Secret fleet/"+key.Name) {
			return "does not say whose credentials are refused"
		}
		return ""
	})
	secret.Data = fine
	r.must(kubernetes.Client.Update(t.Context(), secret))
	r.await(m.ID, is(driver.Configured))
	r.must(r.Delete(t.Context(), m))
	r.await(m.ID, is(0))
}

// eventuallySays waits until Observe fails with a text, or with none.
func (r *rig) eventuallySays(text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	for {
		err := r.Observe(ctx, func(*driver.Observation) {})
		if text == "" && err == nil || text != "" && err != nil && strings.Contains(err.Error(), text) {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("Observe says %v, not %q", err, text)
		}
		_ = kubetest.Pause(ctx)
	}
}

// Settings and files that cannot be right are refused with what to do.
func TestOpenRefuses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	s, err := clusterapi.ParseSettings([]byte("kubeconfig: /nowhere/kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clusterapi.Open(t.Context(), s, "d", log); err == nil || !strings.Contains(err.Error(), "management cluster: kubeconfig /nowhere/kubeconfig: open") {
		t.Errorf("a file that is missing: %v", err)
	}
	if _, err := clusterapi.Open(t.Context(), &clusterapi.Settings{Kubeconfig: "x"}, "a b", log); err == nil || !strings.Contains(err.Error(), "set scope in its config") {
		t.Errorf("a name that is no label: %v", err)
	}
}

// A management cluster without Cluster API, or with one that is too old, is refused in a sentence.
func TestVersions(t *testing.T) {
	if missing != "" {
		t.Skip(missing)
	}
	for says, err := range map[string]error{
		"has no Cluster API, there are no resources of cluster.x-k8s.io: needed is Cluster API 1.11 or later (cluster.x-k8s.io/v1beta2); install it with clusterctl init": errWithout,
		"has Cluster API with cluster.x-k8s.io/v1beta1 only: needed is Cluster API 1.11 or later (cluster.x-k8s.io/v1beta2); upgrade it":                                  errOld,
	} {
		if !errors.Is(err, clusterapi.ErrVersion) || !strings.HasPrefix(err.Error(), "management cluster: https://") || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v, not %q", err, says)
		}
	}
}
