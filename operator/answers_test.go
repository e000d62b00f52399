package operator_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator"
)

// TestAnswersAreOnTheObjects: what the shard decided is a condition of the request and an event on its pod; with the rights of
// deploy/rbac.
func TestAnswersAreOnTheObjects(t *testing.T) {
	k := fresh(t)
	user, err := k.User("operator")
	if err != nil {
		t.Fatal(err)
	}
	role(t, k, "operator", "operator.yaml")
	pod := makePod(t, k, "waits", "")
	makeRequest(t, k, "a", func(r *api.CapacityRequest) {
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	})
	s := newShard(t, nil)
	var good atomic.Bool
	s.views = func(cluster string) []*bigfleet.NeedView {
		if cluster != "blue" {
			t.Errorf("asked about %s", cluster)
		}
		v := &bigfleet.NeedView{
			ClusterId: cluster, Need: &bigfleet.CapacityNeed{MinUnit: map[string]string{"cpu": "1"}}, Satisfied: good.Load(),
			ResidualDeficit: &bigfleet.Resources{Resources: map[string]string{"cpu": "1"}}, UnmetReason: bigfleet.UnmetReason_UNMET_REASON_PRIORITY_STARVED,
		}
		return []*bigfleet.NeedView{v}
	}
	operate(t, k, user, "", shards(s.address), func(c *operator.Config) { c.LookInterval = 400 * time.Millisecond })
	c := s.next(t)
	c.greet()
	defer c.serve()()
	condition := func(want string) func() string {
		return func() string {
			var r api.CapacityRequest
			if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "a"}, &r); err != nil {
				return err.Error()
			}
			for _, c := range r.Status.Conditions {
				if c.Type == api.ConditionSatisfied && c.Reason == want && r.Status.Phase == api.RequestAcknowledged {
					return ""
				}
			}
			return "the conditions are not " + want
		}
	}
	eventually(t, condition("WaitingForCapacity"))
	eventually(t, func() string {
		var events eventsv1.EventList
		if err := k.Client.List(t.Context(), &events); err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.Regarding.Kind == "Pod" && e.Regarding.UID == pod.UID && e.Reason == "WaitingForCapacity" && strings.Contains(e.Note, "cpu=1 is missing") {
				return ""
			}
		}
		return "the pod is told nothing"
	})
	good.Store(true)
	eventually(t, condition("Satisfied"))
}
