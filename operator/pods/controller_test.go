package pods

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// onePod is a cluster of one pod and the request that was applied for it.
type onePod struct {
	client.Client
	pod     *corev1.Pod
	request *api.CapacityRequest
}

func (c *onePod) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch x := into.(type) {
	case *corev1.Pod:
		c.pod.DeepCopyInto(x)
		return nil
	case *api.CapacityRequest:
		if c.request != nil {
			c.request.DeepCopyInto(x)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *onePod) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, ok := into.(*api.CapacityRequestList); ok && c.request != nil {
		list.Items = []api.CapacityRequest{*c.request}
	}
	return nil
}

func (c *onePod) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	c.request = nil
	return nil
}

func (c *onePod) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	c.request = Request(c.pod, nil)
	return nil
}

// TestSoftSpreadIsCounted: once for each request that is written.
func TestSoftSpreadIsCounted(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	for _, when := range []corev1.UnsatisfiableConstraintAction{corev1.ScheduleAnyway, corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{TopologyKey: "zone", MaxSkew: 1, WhenUnsatisfiable: when})
	}
	terms := 0
	c := &Controller{Client: &onePod{pod: pod}, SoftSpread: func(n int) { terms += n }}
	for range 2 {
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
	}
	if terms != 2 {
		t.Errorf("%d terms are counted, want 2", terms)
	}
}

// Only pods that the selector selects have requests, and only as long as it does.
func TestSelector(t *testing.T) {
	selector, err := labels.Parse("fleet=tonnage,tier notin (system)")
	if err != nil {
		t.Fatal(err)
	}
	cluster := &onePod{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}}
	var outcome Outcome
	c := &Controller{Client: cluster, Selector: selector, Count: func(o Outcome) { outcome = o }}
	for _, step := range []struct {
		labels map[string]string
		want   Outcome
	}{
		{nil, Unwanted}, {map[string]string{"fleet": "tonnage"}, Created}, {map[string]string{"fleet": "tonnage", "tier": "web"}, Exists},
		{map[string]string{"fleet": "tonnage", "tier": "system"}, Unwanted},
	} {
		cluster.pod.Labels = step.labels
		if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cluster.pod)}); err != nil {
			t.Fatal(err)
		}
		if has := cluster.request != nil; outcome != step.want || has != (step.want != Unwanted) {
			t.Errorf("labels %v: outcome %s and a request %v, want %s", step.labels, outcome, has, step.want)
		}
	}
}
