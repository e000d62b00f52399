package operator_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// TestBudgetIsKept: with the real controller of disruption budgets, a drain takes
// one of two pods, waits while the other is the last, and goes on when it is not.
func TestBudgetIsKept(t *testing.T) {
	k := fresh(t)
	stop, err := k.Controllers(t.TempDir(), "disruption")
	must(t, err)
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	kubelet(t, k)
	makeNode(t, k, "n1", "")
	makePod(t, k, "kept-1", "n1", labelled("kept"))
	makePod(t, k, "kept-2", "n1", labelled("kept"))
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}},
		},
	}
	must(t, k.Client.Create(t.Context(), budget))
	defer func() { _ = k.Client.Delete(t.Context(), budget) }()
	eventually(t, func() string {
		must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
		if budget.Status.DisruptionsAllowed != 1 {
			return fmt.Sprintf("the budget allows %d", budget.Status.DisruptionsAllowed)
		}
		return ""
	})
	s := newShard(t, nil)
	operate(t, k, k.Config, "", shards(s.address))
	c := s.next(t)
	c.greet()
	defer c.serve()()
	c.node(&bigfleet.NodeStateUpdate{MachineId: "n1", State: configured, NodeName: "n1"})
	c.reclaim("i", "n1", time.Minute)
	hear(c, (*bigfleet.OperatorMessage).GetReclaimAck)
	left := func(want int) func() string {
		return func() string {
			var list corev1.PodList
			must(t, k.Client.List(t.Context(), &list, client.MatchingLabels{"app": "kept"}))
			if len(list.Items) != want {
				return fmt.Sprintf("%d pods are left, want %d", len(list.Items), want)
			}
			return ""
		}
	}
	eventually(t, left(1))
	eventually(t, func() string { // the drain has asked for the last one, and was refused
		must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
		if budget.Status.DisruptionsAllowed != 0 || budget.Status.CurrentHealthy != 1 {
			return fmt.Sprintf("the budget is %+v", budget.Status)
		}
		return left(1)()
	})
	makePod(t, k, "kept-3", "n2", labelled("kept"))
	eventually(t, phaseIs(t, k, "un-n1", api.NodeDrained))
	eventually(t, left(1))
}
