package karpenter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tonnage/tonnage/operator/kubetest"
)

// Zones in which the played Karpenter does something else than launch.
const (
	zoneNone   = "z-none"  // there is no capacity
	zoneClass  = "z-class" // the node class is not ready: the claim is deleted without an Event
	zoneSmall  = "z-small" // nodes have one processor
	zoneNever  = "z-never" // a launch that fails is tried again
	zoneLate   = "z-late"  // a launch that fails is given up after Karpenter's five minutes, which are over soon
	zoneBlind  = "z-blind" // nobody looks after nodes that are gone
	silentID   = "silent"  // of machines of whose want of capacity no Event tells
	finalizer  = "karpenter.sh/termination"
	taintStart = "karpenter.sh/unregistered"
)

// played plays the lifecycle of claims as karpenter.sh/v1 has it: finalizer, launch, registration,
// initialisation, termination. The resource is the real one, and with it what the API server refuses.
type played struct {
	client.Client
	soldOut atomic.Bool // there is no capacity in zoneChecked
}

// run looks at all claims again and again.
func (k *played) run(ctx context.Context) {
	for ctx.Err() == nil {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("karpenter.sh/v1")
		list.SetKind("NodeClaimList")
		if err := k.List(ctx, list); err == nil {
			for i := range list.Items {
				if err := k.reconcile(ctx, &list.Items[i]); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					fmt.Println("played Karpenter:", err)
				}
			}
		}
		_ = kubetest.Pause(ctx)
	}
}

func (k *played) reconcile(ctx context.Context, c *unstructured.Unstructured) error {
	if c.GetDeletionTimestamp() != nil {
		return k.terminate(ctx, c)
	}
	if !slices.Contains(c.GetFinalizers(), finalizer) {
		c.SetFinalizers(append(c.GetFinalizers(), finalizer))
		return k.Update(ctx, c)
	}
	if id, _, _ := unstructured.NestedString(c.Object, "status", "providerID"); id == "" {
		return k.launch(ctx, c)
	}
	return k.register(ctx, c)
}

// wants returns the one value that a claim has for a key.
func wants(c *unstructured.Unstructured, key string) string {
	list, _, _ := unstructured.NestedSlice(c.Object, "spec", "requirements")
	for _, x := range list {
		if r := x.(map[string]any); r["key"] == key {
			if values := r["values"].([]any); len(values) == 1 {
				return values[0].(string)
			}
		}
	}
	return ""
}

func (k *played) launch(ctx context.Context, c *unstructured.Unstructured) error {
	zone := wants(c, corev1.LabelTopologyZone)
	if zone == zoneChecked && k.soldOut.Load() {
		zone = zoneNone
	}
	switch zone {
	case zoneNone:
		if strings.Contains(c.GetName(), silentID) {
			return k.Delete(ctx, c)
		}
		now := metav1.Now()
		if err := k.Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: c.GetName() + ".ice"}, Type: corev1.EventTypeWarning,
			Reason: "InsufficientCapacityError", Message: fmt.Sprintf("NodeClaim %s event: insufficient capacity, creating instance, all\nrequested offerings were unavailable", c.GetName()),
			InvolvedObject: corev1.ObjectReference{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: c.GetName(), UID: c.GetUID()},
			FirstTimestamp: now, LastTimestamp: now,
		}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return k.Delete(ctx, c)
	case zoneClass:
		return k.Delete(ctx, c)
	case zoneNever:
		return k.status(ctx, c, "", "", condition("Launched", "Unknown", "LaunchFailed", "the cloud is on fire"))
	case zoneLate:
		const gaveUpAfter = 5 * time.Minute
		if since := failsSince(c); since.IsZero() {
			failed := condition("Launched", "Unknown", "LaunchFailed", "the cloud is on fire")
			failed["lastTransitionTime"] = time.Now().Add(3*time.Second - gaveUpAfter).UTC().Format(time.RFC3339)
			return k.status(ctx, c, "", "", failed)
		} else if time.Since(since) < gaveUpAfter {
			return nil
		}
		return k.Delete(ctx, c)
	}
	return k.status(ctx, c, "played:///"+c.GetName(), "", condition("Launched", "True", "Launched", ""), condition("Registered", "Unknown", "NodeNotFound", "Node not registered with cluster"))
}

// failsSince returns since when a claim has a condition, the first that it was given; zero = it has none.
func failsSince(c *unstructured.Unstructured) time.Time {
	list, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
	if len(list) == 0 {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, list[0].(map[string]any)["lastTransitionTime"].(string))
	if err != nil {
		panic(err) // it was written here
	}
	return at
}

func condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339)}
}

// status writes conditions; others are left as they are.
func (k *played) status(ctx context.Context, c *unstructured.Unstructured, provider, node string, conditions ...map[string]any) error {
	old, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
	for _, x := range conditions {
		old = slices.DeleteFunc(old, func(o any) bool { return o.(map[string]any)["type"] == x["type"] })
		old = append(old, x)
	}
	status := map[string]any{"conditions": old}
	if provider != "" {
		status["providerID"] = provider
	}
	if node != "" {
		status["nodeName"] = node
	}
	c.Object["status"] = status
	return k.Status().Update(ctx, c)
}

// register makes the Node, gives it what the claim says, and says that it is initialised.
func (k *played) register(ctx context.Context, c *unstructured.Unstructured) error {
	id, _, _ := unstructured.NestedString(c.Object, "status", "providerID")
	n := &corev1.Node{}
	err := k.Get(ctx, client.ObjectKey{Name: c.GetName()}, n)
	if apierrors.IsNotFound(err) {
		if on, _, _ := unstructured.NestedString(c.Object, "status", "nodeName"); on != "" {
			if wants(c, corev1.LabelTopologyZone) == zoneBlind {
				return nil
			}
			return k.Delete(ctx, c) // the machine was taken back
		}
		return k.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: c.GetName(), Labels: map[string]string{
				corev1.LabelHostname: c.GetName(), corev1.LabelInstanceTypeStable: wants(c, corev1.LabelInstanceTypeStable),
				corev1.LabelTopologyZone: wants(c, corev1.LabelTopologyZone), "karpenter.sh/capacity-type": wants(c, "karpenter.sh/capacity-type"),
			}},
			Spec: corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{{Key: taintStart, Effect: corev1.TaintEffectNoExecute}}},
		})
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintStart }) {
		var claim struct {
			Spec struct {
				Taints []corev1.Taint `json:"taints"`
			} `json:"spec"`
		}
		if err := into(c, &claim); err != nil {
			return err
		}
		n.Spec.Taints = claim.Spec.Taints
		for key, value := range c.GetLabels() {
			n.Labels[key] = value
		}
		return k.Update(ctx, n)
	}
	if len(n.Status.Conditions) == 0 {
		cores := "4"
		if wants(c, corev1.LabelTopologyZone) == zoneSmall {
			cores = "1"
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")}
		n.Status.Capacity = n.Status.Allocatable
		return k.Status().Update(ctx, n)
	}
	if on, _, _ := unstructured.NestedString(c.Object, "status", "nodeName"); on != "" {
		return nil
	}
	return k.status(ctx, c, id, n.Name, condition("Registered", "True", "Registered", ""), condition("Initialized", "True", "Initialized", ""))
}

// terminate ends a machine: at once when nothing is to be drained, or when the time for it is over.
func (k *played) terminate(ctx context.Context, c *unstructured.Unstructured) error {
	n := &corev1.Node{}
	err := k.Get(ctx, client.ObjectKey{Name: c.GetName()}, n)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		end, _ := time.Parse(time.RFC3339, c.GetAnnotations()["karpenter.sh/nodeclaim-termination-timestamp"])
		if held := strings.Contains(n.Annotations["played/pods"], "stay"); held && (end.IsZero() || time.Now().Before(end)) {
			return nil
		}
		if err := k.Delete(ctx, n); err != nil {
			return err
		}
	}
	c.SetFinalizers(slices.DeleteFunc(c.GetFinalizers(), func(f string) bool { return f == finalizer }))
	return k.Update(ctx, c)
}
