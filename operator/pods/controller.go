package pods

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	reconcilesMax    = 16
	cacheSyncTimeout = 10 * time.Minute
	claimRetry       = 10 * time.Second // of a pod with a claim that is not bound to a volume
	// ownerField is the index of requests by the pod that owns them.
	ownerField = ".owner.pod"
	owner      = client.FieldOwner("tonnage-operator-pods")
)

// Outcome is what a reconcile did.
type Outcome string

// The outcomes.
const (
	Created  Outcome = "cr_created"
	Exists   Outcome = "cr_exists"
	Gone     Outcome = "pod_gone"
	Terminal Outcome = "pod_terminal"
	Unwanted Outcome = "pod_not_selected"
	Failed   Outcome = "error"
)

// Controller keeps a request for every pod.
type Controller struct {
	Client   client.Client // reads from a cache with the index of Setup
	Defaults Defaults
	// Selector selects by their labels the pods that get requests; nil = all. One that is selected no more
	// loses its request.
	Selector labels.Selector
	// Count is told what each reconcile did. May be nil.
	Count func(Outcome)
	// SoftSpread is told, of each request that was written, how many ScheduleAnyway terms
	// of the pod's topology spread it leaves out. May be nil.
	SoftSpread func(terms int)
}

// CacheOptions keep of pods what the controller looks at.
func CacheOptions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&corev1.Pod{}:                   {Transform: strip},
		&corev1.PersistentVolumeClaim{}: {Transform: stripClaim},
		&corev1.PersistentVolume{}:      {Transform: stripVolume},
		&api.CapacityRequest{}:          {Transform: cache.TransformStripManagedFields()},
	}
}

// Setup registers the controller with a manager.
func (c *Controller) Setup(ctx context.Context, m manager.Manager) error {
	err := m.GetFieldIndexer().IndexField(ctx, &api.CapacityRequest{}, ownerField, func(o client.Object) []string {
		if of := metav1.GetControllerOf(o); of != nil && of.Kind == "Pod" {
			return []string{of.Name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index of requests by pod: %w", err)
	}
	// Only what a request says, or that it is gone, is the pod's business.
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
	return builder.ControllerManagedBy(m).Named("pods").
		For(&corev1.Pod{}).
		Owns(&api.CapacityRequest{}, builder.WithPredicates(changed)).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax, CacheSyncTimeout: cacheSyncTimeout}).
		Complete(c)
}

// Reconcile makes the requests of one pod what they should be.
func (c *Controller) Reconcile(ctx context.Context, of reconcile.Request) (reconcile.Result, error) {
	outcome, again, err := c.reconcile(ctx, of.NamespacedName)
	if err != nil {
		outcome = Failed
	}
	if c.Count != nil {
		c.Count(outcome)
	}
	if apierrors.IsInvalid(err) {
		err = reconcile.TerminalError(err) // it is not going to be valid by waiting
	}
	return reconcile.Result{RequeueAfter: again}, err
}

// reconcile returns also after which time the pod is looked at again, 0 = when it changes.
func (c *Controller) reconcile(ctx context.Context, name types.NamespacedName) (Outcome, time.Duration, error) {
	var pod corev1.Pod
	err := c.Client.Get(ctx, name, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return Gone, 0, c.removeAllBut(ctx, name, "")
	case err != nil:
		return Failed, 0, err
	case !Asks(&pod):
		return Terminal, 0, c.removeAllBut(ctx, name, "")
	case c.Selector != nil && !c.Selector.Matches(labels.Set(pod.Labels)):
		return Unwanted, 0, c.removeAllBut(ctx, name, "")
	}
	places, bound, err := places(ctx, c.Client, &pod)
	if err != nil {
		return Failed, 0, err
	}
	var again time.Duration
	if !bound && pod.Spec.NodeName == "" {
		again = claimRetry
	}
	want := Request(&pod, c.Defaults, places...)
	if err := c.removeAllBut(ctx, name, want.Name); err != nil {
		return Failed, 0, err
	}
	var had api.CapacityRequest
	err = c.Client.Get(ctx, client.ObjectKeyFromObject(want), &had)
	if err == nil && equality.Semantic.DeepEqual(had.Spec, want.Spec) {
		return Exists, again, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return Failed, 0, err
	}
	if err := c.apply(ctx, want); err != nil {
		return Failed, 0, err
	}
	if c.SoftSpread != nil {
		c.SoftSpread(len(pod.Spec.TopologySpreadConstraints) - len(want.Spec.TopologySpread))
	}
	return Created, again, nil
}

// apply writes a request.
func (c *Controller) apply(ctx context.Context, want *api.CapacityRequest) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return fmt.Errorf("request %s/%s: %w", want.Namespace, want.Name, err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(api.SchemeGroupVersion.WithKind("CapacityRequest"))
	unstructured.RemoveNestedField(u.Object, "status")
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), owner, client.ForceOwnership); err != nil {
		return fmt.Errorf("request %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

// removeAllBut deletes the requests of a pod and of those that had its name
// before, but for one.
func (c *Controller) removeAllBut(ctx context.Context, pod types.NamespacedName, keep string) error {
	var list api.CapacityRequestList
	err := c.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFields{ownerField: pod.Name})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Name == keep {
			continue
		}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, &list.Items[i])); err != nil {
			return fmt.Errorf("request %s/%s: %w", pod.Namespace, list.Items[i].Name, err)
		}
	}
	return nil
}

// strip drops what the controller never looks at: most of a pod.
func strip(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	pod.ManagedFields = nil
	pod.Spec.Volumes = claims(pod.Spec.Volumes)
	slim := func(containers []corev1.Container) {
		for i := range containers {
			c := &containers[i]
			containers[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy, Ports: hostPorts(c.Ports)}
		}
	}
	slim(pod.Spec.Containers)
	slim(pod.Spec.InitContainers)
	pod.Spec.EphemeralContainers = nil
	pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName, Conditions: slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type != corev1.PodScheduled
	})}
	return pod, nil
}

// hostPorts returns the ports that a pod takes up of its node.
func hostPorts(ports []corev1.ContainerPort) []corev1.ContainerPort {
	return slices.Clip(slices.DeleteFunc(ports, func(p corev1.ContainerPort) bool { return p.HostPort == 0 }))
}
