package operator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/pods"
)

// TestPodsWithTheRole: every pod that lives has one request, as a user who may do
// what deploy/rbac says, and who needs all of it.
func TestPodsWithTheRole(t *testing.T) {
	k := fresh(t)
	user, err := k.User("pods")
	must(t, err)
	rules := role(t, k, "pods", "pods.yaml")
	did := record(user)
	must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000})))
	m := newManager(t, k, user, "tonnage-operator-pods", pods.CacheOptions())
	c := &pods.Controller{Client: m.GetClient(), Defaults: pods.Defaults{"high": {ReclamationPenalty: new(resource.MustParse("2.5"))}}}
	must(t, c.Setup(t.Context(), m))
	makePod(t, k, "early", "", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	stop := start(t, m)
	late := makePod(t, k, "late", "n1", func(p *corev1.Pod) {
		p.Annotations = map[string]string{api.AnnotationInterruptionPenalty: "7", api.AnnotationReclamationPenalty: "much"}
	})
	makePod(t, k, "gated", "", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
	eventually(t, requestsAre(t, k, "early prio=1000 interruption=<nil> reclamation=2500m", "late prio=0 interruption=7 reclamation=<nil>"))

	var list api.CapacityRequestList
	must(t, k.Client.List(t.Context(), &list, client.MatchingLabels{api.LabelOwnedByPod: string(late.UID)}))
	if len(list.Items) != 1 || !metav1.IsControlledBy(&list.Items[0], late) || list.Items[0].Status.Phase != api.RequestPending {
		t.Errorf("the pod's requests are %+v", list.Items)
	}
	must(t, k.Client.Delete(t.Context(), &list.Items[0])) // somebody's mistake is made good
	eventually(t, requestsAre(t, k, "early prio=1000 interruption=<nil> reclamation=2500m", "late prio=0 interruption=7 reclamation=<nil>"))

	late.Status.Phase = corev1.PodSucceeded
	must(t, k.Client.Status().Update(t.Context(), late))
	eventually(t, requestsAre(t, k, "early prio=1000 interruption=<nil> reclamation=2500m"))
	early := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "early"}}
	must(t, k.Client.Delete(t.Context(), early, client.GracePeriodSeconds(0)))
	eventually(t, requestsAre(t, k)) // nobody collects garbage here
	stop()
	did.check(t, rules)
}

// requestsAre is a condition of eventually.
func requestsAre(t *testing.T, k *kubetest.Cluster, want ...string) func() string {
	return func() string {
		var list api.CapacityRequestList
		must(t, k.Client.List(t.Context(), &list, client.InNamespace("default")))
		var got []string
		for _, r := range list.Items {
			got = append(got, fmt.Sprintf("%s prio=%d interruption=%v reclamation=%v",
				r.OwnerReferences[0].Name, r.Spec.Priority, r.Spec.InterruptionPenalty, r.Spec.ReclamationPenalty))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return "requests are " + strings.Join(got, "; ")
		}
		return ""
	}
}
