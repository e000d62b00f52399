package kubee2e

import (
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/karpenter"
)

// claimer is a driver whose machines a real Karpenter makes, called as the provider calls it.
type claimer struct {
	*karpenter.Driver
	t *testing.T
	c *cluster
	w *watch
}

// machine is a machine of a class of nodes. change is done to what is asked for; nil = nothing.
func (d *claimer) machine(id, class string, change func(o *driver.Offer, template map[string]any)) *driver.Machine {
	d.t.Helper()
	has := model.NewResources(model.Amount{Name: "cpu", Value: 4000}, model.Amount{Name: "memory", Value: 16 << 30}, model.Amount{Name: "pods", Value: 110})
	o := driver.Offer{
		Key: driver.Key{Pool: "p", InstanceType: hostType, Zone: zoneCheap, CapacityType: model.Spot}, Resources: has, Allocatable: has,
		Labels: map[string]string{"type": "kwok", "accelerator": "none"}, Taints: []driver.Taint{{Key: "dedicated", Value: "x", Effect: "NoSchedule"}},
	}
	template := map[string]any{"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class}}
	if change != nil {
		change(&o, template)
	}
	text, err := json.Marshal(template)
	if err != nil {
		d.t.Fatal(err)
	}
	o.Template = text
	return &driver.Machine{ID: "faults/" + id, Generation: 1, LateBound: true, Offer: o}
}

// configure has a machine be made.
func (d *claimer) configure(m *driver.Machine) {
	d.t.Helper()
	if err := d.Configure(d.t.Context(), m, bind(d.c.name, nil)); err != nil {
		d.t.Fatal(err)
	}
}

// await waits until a machine is in a phase for a reason that contains a text; phase 0 when it is to be no more.
func (d *claimer) await(m *driver.Machine, phase driver.Phase, reason string) (out driver.Observation) {
	d.t.Helper()
	eventually(d.t, *limit, m.ID+" is "+phase.String()+": "+reason, func() string {
		out = driver.Observation{}
		if err := d.Observe(d.t.Context(), func(o *driver.Observation) {
			if o.ID == m.ID {
				out = *o
			}
		}); err != nil {
			return err.Error()
		}
		if out.Phase != phase || !strings.Contains(out.Reason, reason) {
			return "it is " + out.Phase.String() + ": " + out.Reason
		}
		return ""
	})
	return out
}

// TestKarpenterFaults holds what the driver says of each fault against what a real Karpenter does, and its drain against
// a budget.
func TestKarpenterFaults(t *testing.T) {
	want(t, "karpenter-faults")
	f := noKarpenterFleet(t)
	c := f.cluster("blue")
	f.clusters = []*cluster{c}
	w := watchCluster(t, c)
	open, err := karpenter.Open(&karpenter.Settings{Clusters: map[string]karpenter.Cluster{"blue": {Kubeconfig: c.ca.file("tonnage-provider.kubeconfig")}}}, "faults", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	d := &claimer{Driver: open, t: t, c: c, w: w}
	f.class(c, "slow", map[string]any{"nodeRegistrationDelay": "1h"})
	d.unready(f.class(c, "unready", nil))
	if err := os.WriteFile(f.stock, []byte("fail * "+zoneDear+" *\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	var all []*driver.Machine
	var waits []func()
	try := func(id, class string, change func(o *driver.Offer, template map[string]any), phase driver.Phase, reason string, noStock bool) {
		m := d.machine(id, class, change)
		d.configure(m)
		all = append(all, m)
		waits = append(waits, func() {
			if o := d.await(m, phase, reason); o.OutOfStock != noStock {
				t.Errorf("%s: out of stock: %v", id, o.OutOfStock)
			}
		})
	}
	try("plain", "default", nil, driver.Configured, "", false)
	try("missing", "missing", nil, driver.Failed, "insufficient capacity: resolving node class from nodeclaim", true)
	// A pool of its own: what Karpenter says of one claim of an offer is said of the others that it says nothing of.
	try("unready", "unready", func(o *driver.Offer, _ map[string]any) { o.Pool = "unready" }, driver.Failed, "Karpenter has deleted the NodeClaim before it was launched, and no Event says why; its log does", false)
	try("unknown", "default", func(o *driver.Offer, _ map[string]any) { o.InstanceType = "none" }, driver.Failed, "insufficient capacity: no offering of the cloud fits the claim", true)
	try("fails", "default", func(o *driver.Offer, _ map[string]any) { o.Zone = zoneDear }, driver.Configuring, "Launched: CloudFailed: the cloud is on fire", false)
	try("slow", "slow", nil, driver.Configuring, "Registered: NodeNotFound: Node not registered with cluster", false)
	try("small", "default", func(o *driver.Offer, _ map[string]any) {
		o.Allocatable = model.NewResources(model.Amount{Name: "cpu", Value: 8000})
	}, driver.Configuring, "allocatable cpu is 4 of 8", false)
	try("startup", "default", func(_ *driver.Offer, template map[string]any) {
		template["startupTaints"] = []any{map[string]any{"key": "agent", "effect": "NoSchedule"}}
	}, driver.Configuring, `Initialized: StartupTaintsExist: StartupTaint "agent:NoSchedule" still exists`, false)
	for _, wait := range waits {
		wait()
	}
	for _, m := range all[1:] {
		if err := d.Delete(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	for _, m := range all[1:] {
		d.await(m, 0, "")
	}
	d.drain(f, all[0])
	eventually(t, *limit, "no claims and no nodes are left", func() string {
		claims, err := f.claims(c)
		if err != nil {
			return err.Error()
		}
		if _, nodes := w.counts(); nodes > 0 || len(claims) > 0 {
			return "there are some"
		}
		return ""
	})
}

// unready has a class of nodes not be ready.
func (d *claimer) unready(class *unstructured.Unstructured) {
	d.t.Helper()
	text := `{"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Broken", "message": "no subnets", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`
	ctx, cancel := brief()
	defer cancel()
	if err := d.c.client.Status().Patch(ctx, class, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		d.t.Fatal(err)
	}
}

// drain drains a machine whose pod no budget lets go: Karpenter deletes the pod its own grace before the deadline.
func (d *claimer) drain(f *karpenterFleet, m *driver.Machine) {
	d.t.Helper()
	pods := filling(hostType, 1)
	pods.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
	own := int64(2)
	pods.Spec.Template.Spec.TerminationGracePeriodSeconds = &own
	f.apply(d.c, budget(hostType, 1), pods)
	eventually(d.t, *limit, "the pod runs", func() string {
		if d.w.runningOnNodes(hostType) != 1 {
			return "it does not"
		}
		return ""
	})
	const grace = 12 * time.Second
	begun := time.Now()
	if err := d.Drain(d.t.Context(), m, begun.Add(grace)); err != nil {
		d.t.Fatal(err)
	}
	d.await(m, driver.Draining, "")
	d.await(m, 0, "")
	took := time.Since(begun)
	d.t.Logf("a drain for %v of a pod that may not be evicted took %.1f s", grace, took.Seconds())
	// The deadline has whole seconds.
	if took < grace-time.Duration(own)*time.Second-time.Second {
		d.t.Errorf("the pod was not left alone until %d s before the deadline", own)
	}
}
