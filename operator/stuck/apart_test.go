package stuck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/operator/rollup"
)

// unsatisfied has the shard answer that there is nothing for the pods that are pending; it says so of all requests.
func (c *cluster) unsatisfied(reason string) {
	for _, r := range c.Requests {
		if r.Labels[api.LabelOwnedByPod] != "" {
			r.Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
}

// full is a cluster with a node of 8 cores, which a pod takes up.
func full() *cluster {
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
	return c
}

// TestAskedApart: where a shard has no machine for a row, the largest pods are asked for apart, one size more each minute, since all machines of a row hold
// the largest of its pods. While machines come, and once all pods run, it is one row again.
func TestAskedApart(t *testing.T) {
	c := full()
	for _, size := range []string{"cpu=6 memory=8Gi", "cpu=6 memory=8Gi", "cpu=4 memory=1Gi", "cpu=2 memory=1Gi", "cpu=2 memory=1Gi"} {
		c.pod(fmt.Sprint("p", len(c.Pods)), "", size)
	}
	c.unsatisfied("NoMatchingSupply")
	at := time.Duration(0)
	look := func(d time.Duration) string {
		at += d
		c.after(at)
		return c.rows(t)
	}
	for _, p := range c.Pods[1:] {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-30 * time.Second))
	}
	for _, x := range []struct {
		after time.Duration
		want  string
	}{
		{0, "row 28/6"},
		{30 * time.Second, "row 20/6, row 8/4"},
		{30 * time.Second, "row 20/6, row 8/4"},
		{30 * time.Second, "row 20/6, row 4/2, row 4/4"},
		{time.Hour, "row 20/6, row 4/2, row 4/4"}, // one size is left
	} {
		if got := look(x.after); got != x.want {
			t.Fatalf("after %v: %q, want %q", at, got, x.want)
		}
	}
	for _, p := range c.Pods {
		p.Spec.NodeName, p.Status.Conditions = "n", nil
	}
	if got, want := look(time.Minute), "* 8/8"; got != want {
		t.Errorf("when all run: %q, want %q", got, want)
	}
	c.pod("new1", "", "cpu=6 memory=8Gi")
	c.pod("new2", "", "cpu=2 memory=1Gi")
	c.unsatisfied(api.ReasonWaitingForMachines)
	first := look(time.Minute)
	if got := look(10 * time.Minute); got != first || strings.Count(got, "row") != 1 {
		t.Errorf("while machines come: %q, then %q", first, got)
	}
}

// TestAskedApartWithoutMachines: so it is in a cluster that has no machine, and nothing is planned there before the shard says that it has none.
func TestAskedApartWithoutMachines(t *testing.T) {
	c := &cluster{}
	c.pod("large", "", "cpu=6 memory=8Gi")
	c.pod("small", "", "cpu=2 memory=1Gi")
	if said := c.after(time.Hour); said != "" && c.rows(t) != "" {
		t.Errorf("before the shard answers: %q", c.rows(t))
	}
	c.unsatisfied("NoMatchingSupply")
	c.after(time.Hour)
	if got, want := c.rows(t), "row 2/2, row 6/6"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.node("n", "cpu=2 memory=16Gi pods=110")
	c.runs("small", "n")
	c.after(time.Hour + time.Minute)
	if got, want := c.rows(t), "* 2/2, row 6/6"; got != want {
		t.Errorf("with a machine: %q, want %q", got, want)
	}
}

// runs has a pod run on a node.
func (c *cluster) runs(name, on string) {
	for _, p := range c.Pods {
		if p.Name == name {
			p.Spec.NodeName, p.Status.Conditions = on, nil
		}
	}
}

// TestManySizesApart: of many sizes that find no machine the last six have a row each, all larger ones one together, and each pod is asked for once.
func TestManySizesApart(t *testing.T) {
	c := &cluster{}
	c.node("n", "cpu=32 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=32 memory=1Gi")
	for i := range 16 {
		c.pod(fmt.Sprint("p", i), "", fmt.Sprintf("cpu=%d memory=1Gi", 16-i))
	}
	c.unsatisfied("NoMatchingSupply")
	last := ""
	for i := range 60 {
		c.after(time.Duration(i) * time.Minute)
		last = c.rows(t)
	}
	// 32 cores are there; 16 to 8 share a row.
	if want := "row 1/1, row 140/16, row 2/2, row 3/3, row 4/4, row 5/5, row 6/6, row 7/7"; last != want {
		t.Errorf("%q, want %q", last, want)
	}
	if said := c.after(2 * time.Hour); said != "" {
		t.Errorf("it does not rest: %q", said)
	}
}

// comes adds a machine that is being made.
func (c *cluster) comes(name, res string) {
	c.Upcoming = append(c.Upcoming, &api.UpcomingNode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.UpcomingNodeSpec{Resources: resources(res)},
		Status: api.UpcomingNodeStatus{Phase: api.NodeProvisioning}})
}

// TestApartWhileMachinesCome: what is apart stays so while the machine for it comes to a cluster that has none, and what comes is not asked for twice.
func TestApartWhileMachinesCome(t *testing.T) {
	c := &cluster{}
	c.pod("large", "", "cpu=6 memory=8Gi")
	c.pod("small", "", "cpu=2 memory=1Gi")
	c.unsatisfied("NoMatchingSupply")
	c.after(time.Hour)
	c.unsatisfied(api.ReasonWaitingForMachines)
	c.comes("un-x", "cpu=2 memory=16Gi")
	if got := c.after(time.Hour + 5*time.Second); strings.Contains(got, "delete") || c.rows(t) == "" {
		t.Errorf("while its machine comes: %q, %q", got, c.rows(t))
	}

	c = full()
	for i := range 10 {
		c.pod(fmt.Sprint("six", i), "", "cpu=6 memory=1Gi")
	}
	c.pod("two", "", "cpu=2 memory=1Gi")
	c.unsatisfied("NoMatchingSupply")
	c.after(0)
	for i := range 9 {
		c.comes(fmt.Sprint("un-x", i), "cpu=6 memory=16Gi pods=110")
	}
	c.after(5 * time.Second)
	if got, want := c.rows(t), "row 2/2, row 68/6"; got != want { // 8 are held, 54 come, 6 are missing
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLargerThanEveryNode: a pod that is larger than every node there is keeps no others waiting either.
func TestLargerThanEveryNode(t *testing.T) {
	c := &cluster{}
	c.node("n", "cpu=2 memory=16Gi pods=110")
	c.pod("s", "n", "cpu=2 memory=1Gi")
	c.pod("large", "", "cpu=6 memory=8Gi")
	c.pod("s1", "", "cpu=2 memory=1Gi")
	c.pod("s2", "", "cpu=2 memory=1Gi")
	c.unsatisfied("NoMatchingSupply")
	c.after(0)
	if got, want := c.rows(t), "row 6/2, row 6/6"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDevicesWithoutNodes: what no node has is asked for with its unit, also where the only node is no machine.
func TestDevicesWithoutNodes(t *testing.T) {
	for _, machine := range []bool{false, true} {
		c := &cluster{}
		c.node("first", "cpu=4 memory=16Gi pods=110")
		if !machine {
			c.Upcoming = nil
		}
		c.pod("large", "", "cpu=6 memory=8Gi")
		c.pod("small", "", "cpu=2 memory=1Gi")
		c.pod("gpu", "", "cpu=8 memory=8Gi gpu.io/gpu=8")
		c.unsatisfied("NoMatchingSupply")
		c.after(time.Hour)
		var g rollup.Aggregator
		for _, n := range g.Aggregate(c.Requests).Needs {
			if n.AggregateResources["gpu.io/gpu"] == "8" && n.MinUnit["gpu.io/gpu"] != "8" {
				t.Errorf("with a machine: %v: a row asks for %v in units of %v", machine, n.AggregateResources, n.MinUnit)
			}
		}
	}
}

// TestGroupWithoutMachines: a group in a cluster without machines asks for what it needs, once.
func TestGroupWithoutMachines(t *testing.T) {
	c := &cluster{}
	for i := range 4 {
		c.pod(fmt.Sprint("g", i), "", "cpu=2 memory=1Gi")
		c.Requests[i].Spec.CoLocation = &api.CoLocation{TopologyKey: "rack"}
	}
	c.unsatisfied("NoMatchingSupply")
	if got := c.after(time.Hour); strings.Contains(got, "write") {
		t.Error(got)
	}
}

// TestOneKindApart: where one kind of rows has no machine, another is not asked for in parts.
func TestOneKindApart(t *testing.T) {
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110 gpu.io/gpu=1")
	c.pod("a", "n", "cpu=8 memory=1Gi gpu.io/gpu=1")
	c.pod("six", "", "cpu=6 memory=1Gi")
	c.pod("two", "", "cpu=2 memory=1Gi")
	c.unsatisfied(api.ReasonWaitingForMachines)
	c.pod("gpu", "", "cpu=1 memory=1Gi gpu.io/gpu=1")
	c.Requests[3].Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionFalse, Reason: "NoMatchingSupply"}}
	c.after(0)
	before := c.rows(t)
	c.after(2 * time.Minute)
	if got := c.rows(t); got != before {
		t.Errorf("%q, then %q", before, got)
	}
}

// TestAnotherFamilyComes: a machine with a group's pods that is counted for a row stays the family's when a pod of another family comes.
func TestAnotherFamilyComes(t *testing.T) {
	c := &cluster{}
	c.node("plain", "cpu=4 memory=16Gi pods=110")
	c.pod("a", "plain", "cpu=3 memory=1Gi")
	c.node("other", "cpu=8 memory=16Gi pods=110")
	c.Upcoming[1].Spec.Labels = map[string]string{model.LabelCountedFor: model.CountedForRow}
	c.member("m", "other")
	c.after(0)
	before := c.rows(t)
	c.pod("high", "", "cpu=100m memory=1Gi")
	c.Requests[len(c.Requests)-1].Spec.Priority = 5
	c.after(20 * time.Second)
	if got := c.rows(t); got != before || before != "* 12/3" {
		t.Errorf("%q, then %q", before, got)
	}
}

// TestPodWithoutRequests: a pod that asks for nothing is planned for in no cluster without nodes.
func TestPodWithoutRequests(t *testing.T) {
	c := &cluster{}
	c.pod("be", "", "")
	c.unsatisfied("NoMatchingSupply")
	if got := c.after(time.Hour); strings.Contains(got, "write") {
		t.Error(got)
	}
}

// rolledUp is the roll-up of the requests where machines have 32 cores, and what is refused of plans.
func (c *cluster) rolledUp() (needs []*bigfleet.CapacityNeed, refused error) {
	var g rollup.Aggregator
	g.Limit(rollup.Limits{Offered: map[string]int64{"cpu": 32000, "memory": 64 << 30, "pods": 110}})
	out := g.Aggregate(c.Requests)
	for _, r := range out.Refused {
		if r.Request.Namespace == api.NamespaceOfPlans {
			refused = r.Err
		}
	}
	return out.Needs, refused
}

// TestStrangeResources: what pods ask for that no node has, and be it of a thousand names or without measure, is not in a plan: it would be refused as a
// whole, and machines be given back.
func TestStrangeResources(t *testing.T) {
	for name, asks := range map[string]func(int) string{
		"much": func(int) string { return "cpu=1 evil.io/x=1000T" },
		"many": func(i int) string { return fmt.Sprintf("cpu=1 evil.io/x%d=1", i) },
	} {
		c := &cluster{}
		for _, n := range []string{"n1", "n2", "n3"} {
			c.node(n, "cpu=8 memory=16Gi pods=110")
			c.pod("on-"+n, n, "cpu=5 memory=1Gi")
		}
		for i := range 17 {
			c.pod(fmt.Sprint("evil", i), "", asks(i))
		}
		for range 3 {
			c.after(0)
			needs, refused := c.rolledUp()
			if refused != nil {
				t.Errorf("%s: the plan is refused: %v", name, refused)
			}
			if !slices.ContainsFunc(needs, func(n *bigfleet.CapacityNeed) bool { return n.AggregateResources["cpu"] == "24" }) {
				t.Errorf("%s: the machines are not asked for: %v", name, needs)
			}
		}
	}
}

// TestOrderOfSizes: how large a size is does not depend on the order of resources.
func TestOrderOfSizes(t *testing.T) {
	c := full()
	c.pod("large", "", "cpu=1 memory=60Gi")
	for i := range 4 {
		c.pod(fmt.Sprint("p", i), "", fmt.Sprintf("cpu=%d memory=1Gi", 8-i))
	}
	c.unsatisfied("NoMatchingSupply")
	c.after(0)
	c.after(time.Minute) // two sizes are apart
	if got, want := c.rows(t), "row 1/1, row 16/8, row 18/7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNewOnesApart: pods that come while their size is apart are asked for apart too.
func TestNewOnesApart(t *testing.T) {
	c := full()
	c.pod("six", "", "cpu=6 memory=1Gi")
	c.pod("two", "", "cpu=2 memory=1Gi")
	c.unsatisfied("NoMatchingSupply")
	c.after(0)
	for i := range 3 {
		c.pod(fmt.Sprint("new", i), "", "cpu=6 memory=1Gi", func(p *corev1.Pod) { p.Status.Conditions = nil })
	}
	c.after(5 * time.Second)
	if got, want := c.rows(t), "row 2/2, row 32/6"; got != want { // 8 are held
		t.Errorf("%q, want %q", got, want)
	}
}

// TestWhatIsApartPartsNothing: that a pod which is apart finds no machine is no reason to set others apart.
func TestWhatIsApartPartsNothing(t *testing.T) {
	c := full()
	c.pod("giant", "", "cpu=16 memory=1Gi")
	for i := range 5 {
		c.pod(fmt.Sprint("p", i), "", fmt.Sprintf("cpu=%d memory=1Gi", i+2))
	}
	c.Requests[1].Status.SizeClass = new(int32(2))
	c.unsatisfied("NoMatchingSupply")
	c.after(0)
	was := c.rows(t)
	c.unsatisfied(api.ReasonWaitingForDrain)
	c.Requests[1].Status.Conditions[0].Reason = "NoMatchingSupply"
	for i := range 12 {
		c.after(time.Duration(i) * 30 * time.Second)
	}
	if got := c.rows(t); got != was {
		t.Errorf("%q, then %q", was, got)
	}
}

// TestOnlyUnknown: a plan goes with the last pod that asks for what some node has.
func TestOnlyUnknown(t *testing.T) {
	c := full()
	c.pod("gpu", "", "cpu=1 memory=1Gi gpu.io/gpu=1")
	c.after(0)
	if got, want := c.rows(t), "* 8/8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.Pods, c.Requests = c.Pods[1:], c.Requests[1:]
	if said := c.after(time.Minute); said != "delete; gpu: NoMachineWouldHelp" {
		t.Error(said)
	}
	c.Requests[0].Status = api.CapacityRequestStatus{} // nobody has heard it
	c.pod("b", "n", "cpu=8 memory=1Gi")
	c.after(2 * time.Minute)
	if got, want := c.rows(t), "* 8/8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
