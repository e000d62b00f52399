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
