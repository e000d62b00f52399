package stuck

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
)

// drawCluster draws a cluster: nodes with and without devices, that are counted for anything, some of them no machines; pods of several sizes,
// priorities and groups, on nodes or not; and what the shard says of their requests.
func drawCluster(r *rand.Rand) *cluster {
	c, one := &cluster{}, func(of ...string) string { return of[r.IntN(len(of))] }
	for i := range r.IntN(6) {
		c.node(fmt.Sprint("n", i), fmt.Sprintf("cpu=%d memory=%dGi pods=110", 2<<r.IntN(4), 4<<r.IntN(4))+one("", "", " gpu.io/gpu=4"))
		u := c.Upcoming[len(c.Upcoming)-1]
		u.Spec.Labels = map[string]string{corev1.LabelTopologyZone: "a"}
		if counted := one("", model.CountedForRow, model.CountedForRow, model.CountedForGroup); counted != "" {
			u.Spec.Labels[model.LabelCountedFor] = counted
		}
		if r.IntN(6) == 0 {
			c.Upcoming = c.Upcoming[:len(c.Upcoming)-1]
		}
	}
	for i := range r.IntN(3) {
		c.comes(fmt.Sprint("un-x", i), fmt.Sprintf("cpu=%d memory=8Gi", 2<<r.IntN(4)))
	}
	for i := range r.IntN(20) {
		on := ""
		if len(c.Nodes) > 0 && r.IntN(2) == 0 {
			on = c.Nodes[r.IntN(len(c.Nodes))].Name
		}
		asks := fmt.Sprintf("cpu=%d memory=%dGi", 1+r.IntN(12), 1+r.IntN(12)) + one("", "", "", " gpu.io/gpu=1", " strange.io/x=1")
		if r.IntN(8) == 0 {
			asks = ""
		}
		c.pod(fmt.Sprint("p", i), on, asks, func(p *corev1.Pod) {
			if on == "" && r.IntN(4) == 0 {
				p.Status.Conditions = nil
			}
		})
		request := c.Requests[len(c.Requests)-1]
		if r.IntN(5) == 0 {
			request.Spec.CoLocation = &api.CoLocation{TopologyKey: corev1.LabelTopologyZone}
		}
		request.Spec.Priority = int32(r.IntN(2) * r.IntN(2))
		if r.IntN(6) == 0 {
			request.Status = api.CapacityRequestStatus{}
		}
		if is := one("", "True", "False", "False"); is != "" {
			request.Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionStatus(is), Reason: one("NoMatchingSupply", api.ReasonWaitingForMachines)}}
		}
	}
	return c
}

// TestPlansRest: in a cluster in which nothing changes the planner comes to rest within an hour and a half, whatever the cluster is like.
func TestPlansRest(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for i := range uint64(100) {
		c := drawCluster(rand.New(rand.NewPCG(seed, i)))
		for minute := range 100 {
			said := c.after(time.Duration(minute) * time.Minute)
			if minute >= 90 && (strings.Contains(said, "write") || strings.Contains(said, "delete")) {
				t.Fatalf("seed %d, cluster %d: after %d minutes %q", seed, i, minute, said)
			}
		}
	}
}
