package stuck

import (
	"encoding/json"
	"fmt"
	"maps"
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

// rows writes what the rows of the plan ask for, in cores, and their smallest units; "*" is the row of machines that are held.
func (c *cluster) rows(t *testing.T) string {
	t.Helper()
	var said []string
	for _, r := range c.Requests {
		text, is := r.Annotations[api.AnnotationRows]
		if !is {
			continue
		}
		if r.Namespace != api.NamespaceOfPlans {
			t.Errorf("a plan is in the namespace %q", r.Namespace)
		}
		var rows []rollup.PlannedRow
		if err := json.Unmarshal([]byte(text), &rows); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if len(row.Resources) == 0 {
				continue
			}
			name := "row"
			if row.Tag == "" {
				name = "*"
			}
			said = append(said, fmt.Sprintf("%s %s/%s", name, row.Resources.Cpu(), row.Unit.Cpu()))
		}
	}
	slices.Sort(said)
	return strings.Join(said, ", ")
}

// TestRowsOfAPlan: each machine is in the first row that could take it, in the order of ranks.
func TestRowsOfAPlan(t *testing.T) {
	node := func(c *cluster, cores int) {
		name := fmt.Sprintf("n%d-%d", len(c.Nodes), cores)
		c.node(name, fmt.Sprintf("cpu=%d memory=%dGi pods=110", cores, 4*cores))
		c.pod("on-"+name, name, fmt.Sprintf("cpu=%dm memory=%dGi", 900*cores, 3*cores))
	}
	for name, c := range map[string]struct {
		pending string
		want    string
	}{
		"nothing is missing":                   {"", "* 70/2"},
		"a small pod takes what covers it":     {"1", "row 71/1"},
		"a larger one leaves the small apart":  {"3", "* 2/2, row 71/3"},
		"one that only the largest covers":     {"9", "* 6/2, row 73/9"},
		"one that none covers":                 {"80", "* 70/2, row 80/80"}, // the sums do not have it either
		"several of one size class":            {"3 2", "* 2/2, row 73/3"},
		"a giant beside a small one":           {"20 1", "row 7/1, row 84/20"},
		"a giant beside one that few machines": {"20 3", "* 2/2, row 7/3, row 84/20"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &cluster{}
			for _, cores := range []int{2, 4, 64} {
				node(k, cores)
			}
			for i, cores := range strings.Fields(c.pending) {
				k.pod(fmt.Sprint("p", i), "", "cpu="+cores)
			}
			k.after(0)
			if got := k.rows(t); got != c.want {
				t.Errorf("rows are %s, want %s", got, c.want)
			}
		})
	}
}

// TestJoined: what pods of several size classes miss is asked for together, since each row is rounded up to whole machines.
func TestJoined(t *testing.T) {
	c := &cluster{}
	for i, cores := range []int{2, 4, 64} {
		name := fmt.Sprintf("n%d", i)
		c.node(name, fmt.Sprintf("cpu=%d memory=%dGi pods=110", cores, 4*cores))
		c.pod("on-"+name, name, fmt.Sprintf("cpu=%dm memory=%dGi", 900*cores, 3*cores))
	}
	c.pod("small", "", "cpu=3")
	c.pod("large", "", "cpu=9")
	c.Requests[len(c.Requests)-1].Status.SizeClass = new(int32(2))
	c.after(0)
	if got, want := c.rows(t), "* 6/2, row 76/9"; got != want {
		t.Errorf("rows are %s, want %s", got, want)
	}
}

// TestBusyScheduler: while the scheduler places pods on new nodes, nothing is asked for those that have no room, but not for
// ever: what came would be taken by those that have.
func TestBusyScheduler(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster)
		want   string
	}{
		"it is busy":         {func(*cluster) {}, "write cpu=12 memory=48Gi pods=330"},
		"it has placed none": {func(c *cluster) { c.Pods[0].Status.Conditions = nil }, "write cpu=14 memory=52Gi pods=331; c: MachineAsked"},
		"none has room":      {func(c *cluster) { c.Pods = c.Pods[:4] }, "write cpu=14 memory=52Gi pods=331; c: MachineAsked"},
		"the nodes are old":  {func(c *cluster) { c.Nodes[2].CreationTimestamp = metav1.NewTime(noon.Add(-2 * time.Minute)) }, "write cpu=14 memory=52Gi pods=331; c: MachineAsked"},
		"the pod has waited too long": {func(c *cluster) {
			c.Pods[2].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-2 * time.Minute))
		}, "write cpu=14 memory=52Gi pods=331; c: MachineAsked"},
	} {
		t.Run(name, func(t *testing.T) {
			k := inPieces()
			k.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-5 * time.Second))}}
			k.Pods[2].Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-20 * time.Second))
			k.node("n3", "cpu=4 memory=16Gi pods=110", func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(noon.Add(-30 * time.Second)) })
			k.pod("d", "n3", "cpu=2500m memory=4Gi")
			k.pod("e", "", "cpu=500m memory=1Gi", func(p *corev1.Pod) { p.Status.Conditions = nil })
			c.change(k)
			if got := k.after(0); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestAMachineForOthersAbsorbsNothing: a machine with a device that no pod of the rows asks for is no part of their plan, but a
// shard may count it for them. Once a request was in vain, its capacity is asked for as well.
func TestAMachineForOthersAbsorbsNothing(t *testing.T) {
	for device, want := range map[string][2]string{
		"pods=110":              {"row 16/4", "row 16/4"},
		"pods=110 gpu.io/gpu=1": {"row 8/4", "row 16/4"},
	} {
		c := &cluster{}
		c.node("plain", "cpu=4 memory=16Gi pods=110")
		c.pod("a", "plain", "cpu=3 memory=1Gi")
		c.node("other", "cpu=8 memory=16Gi "+device)
		c.pod("b", "other", "cpu=7 memory=1Gi")
		c.pod("waits", "", "cpu=4 memory=1Gi")
		c.after(0)
		first := c.rows(t)
		c.after(10 * time.Minute)
		if second := c.rows(t); first != want[0] || second != want[1] {
			t.Errorf("with %q the rows are %q, then %q; want %q", device, first, second, want)
		}
	}
}

// TestAwaited: a machine without a node is held while it is to become one.
func TestAwaited(t *testing.T) {
	for _, c := range []struct {
		phase api.NodePhase
		since time.Duration
		want  string
	}{
		{api.NodeProvisioning, 0, "* 12/2500m"}, {api.NodeRegistered, time.Hour, "* 12/2500m"},
		{api.NodeReady, time.Minute, "* 12/2500m"}, {api.NodeReady, time.Hour, "* 8/2500m"},
		{api.NodeDraining, 0, "* 8/2500m"}, {api.NodeFailed, 0, "* 8/2500m"},
	} {
		k := withUpcoming(inPieces(), c.phase, "cpu=4 memory=16Gi pods=110")
		k.Pods = k.Pods[:2]
		since := metav1.NewTime(noon.Add(-c.since))
		k.Upcoming[2].Name, k.Upcoming[2].Status.ProvisioningStartTime = "un-x", &since
		k.after(0)
		if got := k.rows(t); got != c.want {
			t.Errorf("%s for %v: rows are %s, want %s", c.phase, c.since, got, c.want)
		}
	}
}

// TestToldOnce: where no node is a machine of the shard there is no plan, and a pod that is stuck is told one thing.
func TestToldOnce(t *testing.T) {
	c := inPieces()
	c.Upcoming = nil
	if got, want := c.after(0), "write cpu=10 memory=36Gi pods=221; c: MachineAsked"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCountedFor: what the shard counts a machine for decides whether it is a row's: the shard compares the sums of what it counts.
func TestCountedFor(t *testing.T) {
	const device, none = "cpu=8 memory=16Gi pods=110 gpu.io/gpu=1", "cpu=8 memory=16Gi pods=110"
	row, group := model.CountedForRow, model.CountedForGroup
	plain := func(c *cluster) { c.pod("b", "other", "cpu=1 memory=1Gi") }
	member := func(c *cluster) { c.member("m", "other") }
	for _, x := range []struct {
		name, has, countedFor string
		change                func(*cluster)
		want                  string
	}{
		{"with a device, for a row", device, row, plain, "* 12/3"},
		{"with a device, for a group", device, group, plain, "* 4/3"},
		{"with a device, nobody says for what", device, "", plain, "* 4/3"},
		{"without one, for a group", none, group, plain, "* 4/3"},
		{"without one, for a row", none, row, plain, "* 12/3"},
		{"with a group's pod, for a row", none, row, member, "* 12/3"},
		{"with a group's pod, nobody says for what", none, "", member, "* 4/3"},
		{"with a group's pod, for a row that need not be the family's", none, row, func(c *cluster) {
			member(c)
			c.pod("high", "plain", "cpu=100m memory=1Gi")
			c.Requests[len(c.Requests)-1].Spec.Priority = 5
		}, "* 4/3"},
		{"with another row's pods, for a row", none, row, func(c *cluster) {
			c.pod("high", "other", "cpu=1 memory=1Gi")
			c.Requests[len(c.Requests)-1].Spec.Priority = 5
		}, "* 4/3"},
		{"without pods and with a device, for a row", device, row, func(*cluster) {}, "* 4/3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := &cluster{}
			c.node("plain", "cpu=4 memory=16Gi pods=110")
			c.pod("a", "plain", "cpu=3 memory=1Gi")
			c.node("other", x.has)
			if x.countedFor != "" {
				labels := maps.Clone(c.Upcoming[1].Spec.Labels)
				labels[model.LabelCountedFor] = x.countedFor
				c.Upcoming[1].Spec.Labels = labels
			}
			x.change(c)
			c.after(0)
			if got := c.rows(t); got != x.want {
				t.Errorf("%q, want %q", got, x.want)
			}
		})
	}
}

// TestWantedStays: a row does not give back what its pods ask for together, though their pods would fit on the other machines: some
// are on machines of a group, and its requests say so.
func TestWantedStays(t *testing.T) {
	for _, on := range []string{"", "group"} {
		c := &cluster{}
		for _, name := range []string{"a", "b", "c"} {
			c.node(name, "cpu=4 memory=16Gi pods=110")
			c.pod("on-"+name, name, "cpu=1 memory=1Gi")
		}
		if on != "" {
			c.node(on, "cpu=16 memory=64Gi pods=110")
			c.Upcoming[3].Spec.Labels = map[string]string{model.LabelCountedFor: model.CountedForGroup}
			c.pod("elsewhere", on, "cpu=8 memory=1Gi")
		}
		c.after(0)
		before := c.rows(t)
		c.after(11 * time.Minute)
		after := c.rows(t)
		if gives := before != after; gives != (on == "") {
			t.Errorf("with a pod on %q the rows are %q, then %q", on, before, after)
		}
	}
}

// unsatisfied has the shard answer that there is nothing for the pods that are pending; it says so of all requests.
func (c *cluster) unsatisfied(reason string) {
	for _, r := range c.Requests {
		if r.Labels[api.LabelOwnedByPod] != "" {
			r.Status.Conditions = []metav1.Condition{{Type: api.ConditionSatisfied, Status: metav1.ConditionFalse, Reason: reason}}
		}
	}
}

// TestAskedApart: where a shard has no machine for a row, the largest pods are asked for apart, one size more each minute, since all machines of a row hold
// the largest of its pods. While machines come, and once all pods run, it is one row again.
func TestAskedApart(t *testing.T) {
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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

	c = &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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
	c := &cluster{}
	c.node("n", "cpu=8 memory=16Gi pods=110")
	c.pod("a", "n", "cpu=8 memory=1Gi")
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
