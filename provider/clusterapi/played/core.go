package played

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// coreFinalizer is Cluster API's own.
const coreFinalizer = "machine.cluster.x-k8s.io"

// coreAgain is how often Core looks at what it waits for if nobody tells it of that.
const coreAgain = time.Second

// Core plays Cluster API's controller of Machines as far as the driver sees it: providerID, nodeRef, conditions, the end. The real
// one takes its place in make e2e-capi. It drains nothing, and takes what its client has cached.
type Core struct {
	// Fleet is the cluster of all Clusters.
	Fleet client.Client

	client client.Client
}

// Add adds the controller to a manager.
func (c *Core) Add(m ctrl.Manager) error {
	c.client = m.GetClient()
	return ctrl.NewControllerManagedBy(m).Named("machine").For(Object(core)).Owns(Object(Machines)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).Complete(reconcile.Func(c.reconcile))
}

func (c *Core) reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	m := Object(core)
	if err := c.client.Get(ctx, q.NamespacedName, m); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	infra := Object(Machines)
	name, _, _ := unstructured.NestedString(m.Object, "spec", "infrastructureRef", "name")
	err := c.client.Get(ctx, client.ObjectKey{Namespace: m.GetNamespace(), Name: name}, infra)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	there := err == nil
	before := m.DeepCopy()
	if m.GetDeletionTimestamp() != nil {
		if there {
			if infra.GetDeletionTimestamp() == nil {
				return reconcile.Result{RequeueAfter: coreAgain}, client.IgnoreNotFound(c.client.Delete(ctx, infra))
			}
			return reconcile.Result{RequeueAfter: coreAgain}, nil
		}
		controllerutil.RemoveFinalizer(m, coreFinalizer)
		return reconcile.Result{}, client.IgnoreNotFound(c.client.Patch(ctx, m, client.MergeFrom(before)))
	}
	if controllerutil.AddFinalizer(m, coreFinalizer) {
		if err := c.client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !there {
		return reconcile.Result{RequeueAfter: coreAgain}, nil
	}
	if err := c.mirror(ctx, m, infra); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node, _, _ := unstructured.NestedString(m.Object, "status", "nodeRef", "name")
	if node != "" {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: coreAgain}, nil
}

// mirror takes over what the infrastructure says.
func (c *Core) mirror(ctx context.Context, m, infra *unstructured.Unstructured) error {
	before := m.DeepCopy()
	provisioned, _, _ := unstructured.NestedBool(infra.Object, "status", "initialization", "provisioned")
	provider, _, _ := unstructured.NestedString(infra.Object, "spec", "providerID")
	if had, _, _ := unstructured.NestedString(m.Object, "spec", "providerID"); provisioned && had == "" {
		_ = unstructured.SetNestedField(m.Object, provider, "spec", "providerID")
		if err := c.client.Patch(ctx, m, client.MergeFrom(before)); err != nil {
			return err
		}
		before = m.DeepCopy()
	}
	_ = unstructured.SetNestedField(m.Object, provisioned, "status", "initialization", "infrastructureProvisioned")
	condition := map[string]any{"type": "InfrastructureReady", "status": "Unknown", "reason": "NotReady", "message": "", "lastTransitionTime": m.GetCreationTimestamp().UTC().Format(time.RFC3339)}
	if all, _, _ := unstructured.NestedSlice(infra.Object, "status", "conditions"); len(all) > 0 {
		of, _ := all[0].(map[string]any)
		condition["status"], condition["reason"], condition["message"] = of["status"], of["reason"], of["message"]
	}
	_ = unstructured.SetNestedSlice(m.Object, []any{condition}, "status", "conditions")
	if provisioned {
		var n corev1.Node // it has the name of the infrastructure
		err := c.Fleet.Get(ctx, client.ObjectKey{Name: infra.GetName()}, &n)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && n.Spec.ProviderID == provider {
			_ = unstructured.SetNestedField(m.Object, n.Name, "status", "nodeRef", "name")
			if err := c.initialize(ctx, &n); err != nil {
				return err
			}
		}
	}
	if equality.Semantic.DeepEqual(before.Object, m.Object) {
		return nil
	}
	return c.client.Status().Patch(ctx, m, client.MergeFrom(before))
}

// initialize removes the startup taint, as Cluster API does when it has labelled a Node.
func (c *Core) initialize(ctx context.Context, n *corev1.Node) error {
	before := n.DeepCopy()
	n.Spec.Taints = nil
	for _, t := range before.Spec.Taints {
		if t.Key != StartupTaint {
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	}
	n.Annotations = with(n.Annotations, "cluster.x-k8s.io/machine", n.Name)
	return c.Fleet.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Reference is how v1beta2 refers to an object.
func Reference(o *unstructured.Unstructured) map[string]any {
	return map[string]any{"apiGroup": o.GroupVersionKind().Group, "kind": o.GetKind(), "name": o.GetName()}
}

// NewCluster returns a Cluster that is provisioned, with a control plane that somebody else has, which both
// are to be created, and the control plane's status to be written.
func NewCluster(namespace, name, host string, port int64) (cluster, controlPlane *unstructured.Unstructured) {
	controlPlane = Object(ControlPlanes)
	controlPlane.SetNamespace(namespace)
	controlPlane.SetName(name)
	controlPlane.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": name})
	controlPlane.Object["status"] = map[string]any{
		"externalManagedControlPlane": true, "initialization": map[string]any{"controlPlaneInitialized": true},
		"conditions": []any{map[string]any{"type": "Available", "status": "True", "reason": "Played", "message": "", "lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339)}},
	}
	cluster = Object(core.GroupVersion().WithKind("Cluster"))
	cluster.SetNamespace(namespace)
	cluster.SetName(name)
	cluster.Object["spec"] = map[string]any{
		"controlPlaneEndpoint": map[string]any{"host": host, "port": port},
		"controlPlaneRef":      Reference(controlPlane),
	}
	return cluster, controlPlane
}
