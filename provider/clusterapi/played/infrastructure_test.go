package played

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A Node that is gone stays so, also if the cache does not say yet that its machine was made.
func TestANodeIsMadeOnce(t *testing.T) {
	ctx := t.Context()
	m, p := Object(core), Object(Machines)
	for _, u := range []*unstructured.Unstructured{m, p} {
		u.SetNamespace("fleet")
		u.SetName("m1")
	}
	if err := unstructured.SetNestedField(m.Object, "data", "spec", "bootstrap", "dataSecretName"); err != nil {
		t.Fatal(err)
	}
	p.Object["status"] = map[string]any{} // the fake client has nil otherwise
	p.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(m, core)})
	key := client.ObjectKeyFromObject(p)
	data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "data"}, Data: map[string][]byte{"value": []byte("blob")}}
	management := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(p).WithObjects(m, p, data).Build()
	fleet := fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	i := &Infrastructure{client: management, written: management, fleets: map[string]client.Client{"blob": fleet}}
	reconciles := func() {
		t.Helper()
		if _, err := i.reconcile(ctx, reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	reconciles()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
	if err := fleet.Delete(ctx, node); err != nil {
		t.Fatalf("no Node was made: %v", err)
	}
	stale := Object(Machines)
	if err := management.Get(ctx, key, stale); err != nil {
		t.Fatal(err)
	}
	stale.Object["status"] = map[string]any{}
	i.client = interceptor.NewClient(management, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == Machines.Kind {
				stale.DeepCopyInto(u)
				return nil
			}
			return c.Get(ctx, k, o, options...)
		},
	})
	reconciles()
	if err := fleet.Get(ctx, client.ObjectKeyFromObject(node), node); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Node was made again: %v", err)
	}
}
