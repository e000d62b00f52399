package played

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// CRDs are the manifests of the kinds.
//
//go:embed crds.yaml
var CRDs []byte

// The kinds.
var (
	Group         = "infrastructure.cluster.x-k8s.io"
	Machines      = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "PlayedMachine"}
	Templates     = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "PlayedMachineTemplate"}
	ControlPlanes = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1", Kind: "PlayedControlPlane"}
	core          = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}
)

const (
	finalizer = "played.infrastructure.cluster.x-k8s.io"
	// StartupTaint is on new Nodes until Cluster API has labelled them.
	StartupTaint = "node.cluster.x-k8s.io/uninitialized"
	// scheme of providerIDs.
	providerScheme = "played://"
)

// Cached is how the controllers' managers read: from their caches, also what they have no types for. Hundreds of machines
// would otherwise keep an API server busy with reads.
var Cached = client.Options{Cache: &client.CacheOptions{Unstructured: true}}

// Infrastructure makes the machines of PlayedMachines.
type Infrastructure struct {
	// Kubelet reports Nodes as Ready, and takes the taint back that new ones have; otherwise kwok and the controller of nodes do.
	Kubelet bool
	// Labels are put on every Node.
	Labels map[string]string
	// SoldOut names a file of zones without capacity, one a line; empty = there is capacity in all. It is read for each machine.
	SoldOut string

	client  client.Client
	written client.Reader // past the cache
	mu      sync.Mutex
	fleets  map[string]client.Client // by bootstrap data
}

// Add adds the controller to a manager.
func (i *Infrastructure) Add(m ctrl.Manager) error {
	i.client, i.written, i.fleets = m.GetClient(), m.GetAPIReader(), map[string]client.Client{}
	return ctrl.NewControllerManagedBy(m).Named("playedmachine").For(Object(Machines)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).Complete(reconcile.Func(i.reconcile))
}

// Object returns an empty object of a kind.
func Object(kind schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u
}

// errWaits has a reconciliation be tried again.
var errWaits = errors.New("waits")

func (i *Infrastructure) reconcile(ctx context.Context, q reconcile.Request) (reconcile.Result, error) {
	p := Object(Machines)
	if err := i.client.Get(ctx, q.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(p)
	if owner == nil {
		return reconcile.Result{}, nil // Cluster API does not know it
	}
	blob, err := i.bootstrap(ctx, p, owner.Name)
	if p.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, i.remove(ctx, p)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if fault := i.fault(p); fault != "" {
		return reconcile.Result{}, i.report(ctx, p, false, fault)
	}
	before := p.DeepCopy()
	if controllerutil.AddFinalizer(p, finalizer) {
		provider := providerScheme + p.GetNamespace() + "/" + p.GetName()
		p.SetAnnotations(with(p.GetAnnotations(), "played/blob", base64.StdEncoding.EncodeToString(blob)))
		if err := unstructured.SetNestedField(p.Object, provider, "spec", "providerID"); err != nil {
			return reconcile.Result{}, err
		}
		if err := i.client.Patch(ctx, p, client.MergeFrom(before)); err != nil {
			return reconcile.Result{}, err
		}
	}
	if err := i.join(ctx, p, blob); err != nil {
		return reconcile.Result{}, fmt.Errorf("%s cannot join: %w", p.GetName(), err)
	}
	return reconcile.Result{}, i.report(ctx, p, true, "")
}

// fault says why no machine is made. One that is made already stays.
func (i *Infrastructure) fault(p *unstructured.Unstructured) string {
	fault, _, _ := unstructured.NestedString(p.Object, "spec", "fault")
	if fault != "" || i.SoldOut == "" || controllerutil.ContainsFinalizer(p, finalizer) {
		return fault
	}
	zone, _, _ := unstructured.NestedString(p.Object, "spec", "zone")
	text, _ := os.ReadFile(i.SoldOut) // none = nothing is sold out
	if zone != "" && slices.Contains(strings.Fields(string(text)), zone) {
		return "InsufficientInstanceCapacity: there are no machines in zone " + zone
	}
	return ""
}

// bootstrap returns the bootstrap data of a machine.
func (i *Infrastructure) bootstrap(ctx context.Context, p *unstructured.Unstructured, owner string) ([]byte, error) {
	m := Object(core)
	if err := i.client.Get(ctx, client.ObjectKey{Namespace: p.GetNamespace(), Name: owner}, m); err != nil {
		return nil, err
	}
	name, _, _ := unstructured.NestedString(m.Object, "spec", "bootstrap", "dataSecretName")
	if name == "" {
		return nil, fmt.Errorf("%w for the bootstrap data of %s", errWaits, owner)
	}
	var s corev1.Secret
	if err := i.client.Get(ctx, client.ObjectKey{Namespace: p.GetNamespace(), Name: name}, &s); err != nil {
		return nil, err
	}
	return s.Data["value"], nil
}

// fleet returns the cluster that bootstrap data name: they are a kubeconfig.
func (i *Infrastructure) fleet(blob []byte) (client.Client, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.fleets[string(blob)]; c != nil {
		return c, nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(blob)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // machines join as fast as the API server lets them
	c, err := client.New(config, client.Options{Scheme: i.client.Scheme()})
	if err == nil {
		i.fleets[string(blob)] = c
	}
	return c, err
}

// join makes the Node, once: a Node that is gone stays so.
func (i *Infrastructure) join(ctx context.Context, p *unstructured.Unstructured, blob []byte) error {
	if isProvisioned(p) {
		return nil
	}
	// The cache may lack what the reconciliation before this one wrote, and the Node be deleted since.
	if err := i.written.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || isProvisioned(p) {
		return client.IgnoreNotFound(err)
	}
	c, err := i.fleet(blob)
	if err != nil {
		return err
	}
	provider, _, _ := unstructured.NestedString(p.Object, "spec", "providerID")
	labels, _, _ := unstructured.NestedStringMap(p.Object, "spec", "labels")
	capacity, _, _ := unstructured.NestedMap(p.Object, "spec", "capacity")
	has := corev1.ResourceList{}
	for name, q := range capacity {
		if has[corev1.ResourceName(name)], err = resource.ParseQuantity(fmt.Sprint(q)); err != nil {
			return err
		}
	}
	labels = with(labels, corev1.LabelHostname, p.GetName())
	for k, v := range i.Labels {
		labels[k] = v
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: p.GetName(), Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: provider, Taints: []corev1.Taint{{Key: StartupTaint, Effect: corev1.TaintEffectNoSchedule}}},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}
	if err := c.Create(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if !i.Kubelet {
		return nil
	}
	now := metav1.Now()
	n = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.GetName()}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
		return err
	}
	before := n.DeepCopy()
	n.Status.Capacity, n.Status.Allocatable = has, has
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Played", LastHeartbeatTime: now, LastTransitionTime: now}}
	if err := c.Status().Patch(ctx, n, client.MergeFrom(before)); err != nil {
		return err
	}
	// The API server taints a new Node, and the controller of nodes takes that back when it is Ready.
	before = n.DeepCopy()
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	return c.Patch(ctx, n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func isProvisioned(p *unstructured.Unstructured) bool {
	provisioned, _, _ := unstructured.NestedBool(p.Object, "status", "initialization", "provisioned")
	return provisioned
}

// remove removes the machine.
func (i *Infrastructure) remove(ctx context.Context, p *unstructured.Unstructured) error {
	if blob, err := base64.StdEncoding.DecodeString(p.GetAnnotations()["played/blob"]); err == nil && len(blob) > 0 {
		c, err := i.fleet(blob)
		if err == nil {
			err = client.IgnoreNotFound(c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.GetName()}}))
		}
		if err != nil {
			return err
		}
	}
	before := p.DeepCopy()
	if !controllerutil.RemoveFinalizer(p, finalizer) {
		return nil
	}
	return client.IgnoreNotFound(i.client.Patch(ctx, p, client.MergeFrom(before)))
}

// report writes the status.
func (i *Infrastructure) report(ctx context.Context, p *unstructured.Unstructured, provisioned bool, message string) error {
	before := p.DeepCopy()
	status, reason := metav1.ConditionFalse, "ProvisioningFailed"
	if provisioned {
		status, reason = metav1.ConditionTrue, "Provisioned"
	}
	conditions := []any{map[string]any{
		"type": "Ready", "status": string(status), "reason": reason, "message": message, "lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z"),
	}}
	had, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
	if len(had) == 1 && strings.Contains(fmt.Sprint(had[0]), "reason:"+reason) {
		return nil
	}
	err := errors.Join(
		unstructured.SetNestedField(p.Object, provisioned, "status", "initialization", "provisioned"),
		unstructured.SetNestedSlice(p.Object, conditions, "status", "conditions"),
	)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(i.client.Status().Patch(ctx, p, client.MergeFrom(before)))
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}
