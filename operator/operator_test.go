package operator_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bigfleet "github.com/tonnage/tonnage/api/bigfleet/v1alpha1"
	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator"
	"github.com/tonnage/tonnage/operator/kubetest"
)

const (
	idle        = bigfleet.MachineState_MACHINE_STATE_IDLE
	configuring = bigfleet.MachineState_MACHINE_STATE_CONFIGURING
	configured  = bigfleet.MachineState_MACHINE_STATE_CONFIGURED
	draining    = bigfleet.MachineState_MACHINE_STATE_DRAINING
)

// An operator without a bootstrap template says that it sends stubs.
func TestStubsAreTold(t *testing.T) {
	k := fresh(t)
	for template, told := range map[string]bool{"": true, "join {{.ClusterID}}": false} {
		var log bytes.Buffer
		c := operator.Config{ClusterID: "blue", Shards: []string{"127.0.0.1:1"}, RollupInterval: time.Second, AckConcurrency: 4, SettleAfter: time.Hour, BootstrapTemplate: template}
		m := newManager(t, k, k.Config, "", operator.CacheOptions())
		if _, err := operator.New(t.Context(), m, k.Client, c, nil, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "no bootstrap template") != told {
			t.Errorf("with template %q the log is %q", template, log.String())
		}
	}
}

// TestEverythingWithTheRole runs one cluster's course as a user who may do what
// deploy/rbac says, and then looks whether the user needed all of it.
func TestEverythingWithTheRole(t *testing.T) {
	k := fresh(t)
	kubelet(t, k)
	user, err := k.User("operator")
	if err != nil {
		t.Fatal(err)
	}
	rules := role(t, k, "operator", "operator.yaml")
	did := record(user)
	makeRequest(t, k, "a")
	makeRequest(t, k, "b", func(r *api.CapacityRequest) { r.Spec.Priority = 5 })
	makeRequest(t, k, "odd", func(r *api.CapacityRequest) {
		r.Spec.Requirements = []api.Requirement{{Key: "cores", Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}}}
	})
	s := newShard(t, nil)
	stop := operate(t, k, user, "tonnage-operator", shards(s.address), func(c *operator.Config) { c.BootstrapTemplate = "join {{.ClusterID}}" })
	c := s.next(t)
	if hello := c.greet(); hello.ClusterId != "blue" || hello.ProtocolVersion != "v1alpha1" {
		t.Errorf("hello is %v", hello)
	}
	demandIsReported(t, k, c)
	defer c.serve()()
	userDataAreRendered(t, c)
	machineComesAndGoes(t, k, c)
	hintComesAndGoes(t, k, c)
	tellTwice(t, k, newManager(t, k, user, "", nil), "tonnage-operator")
	stop()
	did.check(t, rules)
}

// demandIsReported: requests are marked when the roll-up that contained them was
// acknowledged, and not before; one that is not reported is told why.
func demandIsReported(t *testing.T, k *kubetest.Cluster, c *conversation) {
	t.Helper()
	rollup := hear(c, (*bigfleet.OperatorMessage).GetRollup)
	if rollup.ClusterId != "blue" || len(rollup.Needs) != 2 || rollup.Needs[0].Priority != 5 || rollup.Needs[1].AggregateResources["cpu"] != "1" {
		t.Fatalf("roll-up is %v", rollup)
	}
	phases := func() string {
		var list api.CapacityRequestList
		if err := k.Client.List(t.Context(), &list, client.InNamespace("default")); err != nil {
			return err.Error()
		}
		var out []string
		for _, r := range list.Items {
			out = append(out, r.Name+":"+string(r.Status.Phase))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	eventually(t, func() string {
		var events eventsv1.EventList
		if err := k.Client.List(t.Context(), &events); err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "odd" && e.Reason == "NotReported" && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, "Gt") {
				return ""
			}
		}
		return "nobody told the request with Gt"
	})
	if got := phases(); got != "a:Pending b:Pending odd:Pending" {
		t.Errorf("before the acknowledgement: %s", got)
	}
	c.ack("rollup")
	eventually(t, func() string {
		if got := phases(); got != "a:Acknowledged b:Acknowledged odd:Pending" {
			return got
		}
		return ""
	})
	selected := api.CapacityRequestList{}
	if err := k.Client.List(t.Context(), &selected, client.MatchingFields{"status.phase": "Pending"}); err != nil || len(selected.Items) != 1 {
		t.Errorf("selected by phase: %d, %v", len(selected.Items), err)
	}
}

func userDataAreRendered(t *testing.T, c *conversation) {
	t.Helper()
	c.say(&bigfleet.ShardMessage{Payload: &bigfleet.ShardMessage_BootstrapRequest{BootstrapRequest: &bigfleet.BootstrapRequest{RequestId: "q", ClusterId: "blue"}}})
	if got := hear(c, (*bigfleet.OperatorMessage).GetBootstrapResponse); got.RequestId != "q" || string(got.UserData) != "join blue" || got.Error != "" {
		t.Errorf("user data are %v", got)
	}
}

// machineComesAndGoes: an object follows the machine; its node is emptied before
// it leaves, but not of what leaves with it, and never against a budget.
func machineComesAndGoes(t *testing.T, k *kubetest.Cluster, c *conversation) {
	t.Helper()
	node := makeNode(t, k, "n1", "")
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: configuring, ClusterId: "blue"})
	eventually(t, phaseIs(t, k, "un-m1", api.NodeRegistered))
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: configured, NodeName: "n1", ProviderId: "host-1", ClusterId: "blue",
		Labels: map[string]string{"zone": "a"}, Resources: &bigfleet.Resources{Resources: map[string]string{"cpu": "4"}}})
	eventually(t, phaseIs(t, k, "un-m1", api.NodeReady))
	var n api.UpcomingNode
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-m1"}, &n))
	if n.Status.NodeRef == nil || n.Status.NodeRef.Name != "n1" || n.Status.ProviderID != "host-1" || n.Spec.Labels["zone"] != "a" ||
		n.Spec.Resources.Cpu().String() != "4" || n.Status.ProvisioningStartTime == nil {
		t.Errorf("object is %+v, %+v", n.Spec, n.Status)
	}

	makePod(t, k, "plain", "n1")
	makePod(t, k, "guarded", "n1", labelled("guarded"))
	makePod(t, k, "daemon", "n1", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	makePod(t, k, "static", "n1", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	makePod(t, k, "done", "n1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	makePod(t, k, "elsewhere", "n2")
	budget := makeBudget(t, k, "guarded")

	c.reclaim("i1", "m1", time.Minute)
	if ack := hear(c, (*bigfleet.OperatorMessage).GetReclaimAck); ack.InstructionId != "i1" || ack.NodesStarted != 1 {
		t.Errorf("acknowledgement is %v", ack)
	}
	must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	if !node.Spec.Unschedulable {
		t.Error("acknowledged before the node was cordoned")
	}
	eventually(t, phaseIs(t, k, "un-m1", api.NodeDraining))
	eventually(t, podsAre(t, k, "daemon done elsewhere guarded static"))
	// News without resources are taken all the same.
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: draining, NodeName: "n1", ProviderId: "host-2", ClusterId: "blue"})
	eventually(t, func() string {
		must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-m1"}, &n))
		if n.Status.ProviderID != "host-2" || n.Spec.Resources.Cpu().String() != "4" {
			return fmt.Sprintf("provider id is %q, resources %v", n.Status.ProviderID, n.Spec.Resources)
		}
		return ""
	})
	allow(t, k, budget, 1)
	eventually(t, podsAre(t, k, "daemon done elsewhere static"))
	eventually(t, phaseIs(t, k, "un-m1", api.NodeDrained))
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: idle})
	eventually(t, goneIs(t, k, &api.UpcomingNode{}, "un-m1"))
}

// hintComesAndGoes: a hint is there as long as somebody asks for its shape.
func hintComesAndGoes(t *testing.T, k *kubetest.Cluster, c *conversation) {
	t.Helper()
	u := &bigfleet.AvailableCapacityUpdate{SupersedesKey: "available:p0", AvailableCount: 3, CostPerHour: 0.42, Confidence: bigfleet.AvailableCapacityUpdate_CONFIDENCE_HIGH}
	c.hint(u)
	var list api.AvailableCapacityList
	eventually(t, func() string {
		must(t, k.Client.List(t.Context(), &list))
		if len(list.Items) != 1 {
			return fmt.Sprintf("%d hints", len(list.Items))
		}
		return ""
	})
	if s := list.Items[0].Spec; s.Availability != api.AvailabilityHigh || s.AvailableCount != 3 || s.Cost.String() != "420m" {
		t.Errorf("hint is %+v", s)
	}
	must(t, k.Client.DeleteAllOf(t.Context(), &api.CapacityRequest{}, client.InNamespace("default")))
	eventually(t, goneIs(t, k, &api.AvailableCapacity{}, list.Items[0].Name))
}

// TestNewRequestsAreReportedEarly: between two roll-ups of the period; changes of
// the status, which the operator makes itself, are not.
func TestNewRequestsAreReportedEarly(t *testing.T) {
	k := fresh(t)
	s := newShard(t, nil)
	const period = 500 * time.Millisecond
	operate(t, k, k.Config, "", shards(s.address), func(c *operator.Config) { c.RollupInterval, c.EarlyRollups = period, true })
	c := s.next(t)
	c.greet()
	var last time.Time
	rows := 0
	next := func() (early, more bool) {
		r := hear(c, (*bigfleet.OperatorMessage).GetRollup)
		c.ack("rollup")
		at := time.Unix(0, r.TimestampUnixNanos)
		early, more = at.Sub(last) < period*9/10, len(r.Needs) > rows
		last, rows = at, len(r.Needs)
		return early, more
	}
	for range 3 {
		next()
	}
	made := int32(0)
	eventually(t, func() string { // a machine may be so busy that the period's is first
		made++
		makeRequest(t, k, fmt.Sprint("r", made), func(r *api.CapacityRequest) { r.Spec.Priority = made })
		for {
			if early, more := next(); early && more {
				return ""
			} else if more {
				return "it was not reported before its time"
			}
		}
	})
	early := 0
	for range 4 { // nothing is added; what there is gets marked
		if is, _ := next(); is {
			early++
		}
	}
	if early > 1 { // the one of the period may come soon after
		t.Errorf("%d roll-ups before their time without anything new", early)
	}
}

// TestDrainOutlivesTheOperator: another process goes on with what one began, to the
// same deadline, and says what was left.
func TestDrainOutlivesTheOperator(t *testing.T) {
	k := fresh(t)
	kubelet(t, k)
	makeNode(t, k, "n1", "cloud:///zone/host-1")
	makePod(t, k, "guarded", "n1", labelled("guarded"))
	makeBudget(t, k, "guarded")
	s := newShard(t, nil)
	stop := operate(t, k, k.Config, "", shards(s.address))
	c := s.next(t)
	c.greet()
	end := c.serve()
	// The node is found by the last part of its provider id.
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: configured, ProviderId: "host-1"})
	c.reclaim("i1", "m1", 5*time.Second)
	if ack := hear(c, (*bigfleet.OperatorMessage).GetReclaimAck); ack.NodesStarted != 1 {
		t.Fatalf("acknowledgement is %v", ack)
	}
	stop()
	end()
	var n api.UpcomingNode
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-m1"}, &n))
	deadline := n.Annotations[api.AnnotationDrainDeadline]
	if n.Status.Phase != api.NodeDraining || deadline == "" || n.Annotations[api.AnnotationDrainNode] != "n1" {
		t.Fatalf("what is written down is %v, %v", n.Status.Phase, n.Annotations)
	}

	operate(t, k, k.Config, "", shards(s.address))
	c = s.next(t)
	c.greet()
	defer c.serve()()
	eventually(t, phaseIs(t, k, "un-m1", api.NodeFailed))
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-m1"}, &n))
	if !strings.Contains(n.Status.LastError, "default/guarded") || n.Annotations[api.AnnotationDrainDeadline] != deadline {
		t.Errorf("ended with %q, deadline %s, was %s", n.Status.LastError, n.Annotations[api.AnnotationDrainDeadline], deadline)
	}
	if at, err := time.Parse(time.RFC3339Nano, deadline); err != nil || time.Now().Before(at) {
		t.Errorf("ended before its deadline %s (%v)", deadline, err)
	}
	var pod corev1.Pod
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "guarded"}, &pod))
}

// TestMachineStays: the cordon is taken back, but not another's.
func TestMachineStays(t *testing.T) {
	k := fresh(t)
	for _, name := range []string{"m1", "m2"} {
		makeNode(t, k, name, "") // found by the machine's id
		makePod(t, k, "guarded-"+name, name, labelled("guarded"))
	}
	makeBudget(t, k, "guarded")
	patch := client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))
	must(t, k.Client.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m2"}}, patch, client.FieldOwner("somebody")))
	s := newShard(t, nil)
	operate(t, k, k.Config, "", shards(s.address))
	c := s.next(t)
	c.greet()
	defer c.serve()()
	for _, name := range []string{"m1", "m2"} {
		c.reclaim("i-"+name, name, time.Minute)
		hear(c, (*bigfleet.OperatorMessage).GetReclaimAck)
		c.node(&bigfleet.NodeStateUpdate{MachineId: name, State: configured})
		eventually(t, phaseIs(t, k, "un-"+name, api.NodeReady))
	}
	for name, want := range map[string]bool{"m1": false, "m2": true} {
		var node corev1.Node
		must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: name}, &node))
		if node.Spec.Unschedulable != want {
			t.Errorf("%s: cordoned is %v, want %v", name, node.Spec.Unschedulable, want)
		}
		var n api.UpcomingNode
		must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "un-" + name}, &n))
		if n.Annotations[api.AnnotationDrainDeadline] != "" {
			t.Errorf("%s: still written down as draining", name)
		}
	}
}

// TestMachineStaysAfterAll: a drain that an earlier process began is canceled by the
// one that follows it, with its cordon.
func TestMachineStaysAfterAll(t *testing.T) {
	k := fresh(t)
	makeNode(t, k, "m1", "")
	makePod(t, k, "guarded", "m1", labelled("guarded"))
	makeBudget(t, k, "guarded")
	s := newShard(t, nil)
	stop := operate(t, k, k.Config, "", shards(s.address))
	c := s.next(t)
	c.greet()
	end := c.serve()
	c.reclaim("i", "m1", time.Minute)
	hear(c, (*bigfleet.OperatorMessage).GetReclaimAck)
	stop()
	end()
	cordoned := func(want bool) func() string {
		return func() string {
			var node corev1.Node
			must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "m1"}, &node))
			if node.Spec.Unschedulable != want {
				return fmt.Sprintf("cordoned is %v, want %v", node.Spec.Unschedulable, want)
			}
			return ""
		}
	}
	eventually(t, cordoned(true))

	operate(t, k, k.Config, "", shards(s.address))
	c = s.next(t)
	c.greet()
	defer c.serve()()
	c.node(&bigfleet.NodeStateUpdate{MachineId: "m1", State: configured})
	eventually(t, phaseIs(t, k, "un-m1", api.NodeReady))
	eventually(t, cordoned(false))
	eventually(t, podsAre(t, k, "guarded"))
}

// TestResync: what a session has not mentioned is removed once it has settled;
// a machine that is being drained and was never announced so is drained.
func TestResync(t *testing.T) {
	k := fresh(t)
	s := newShard(t, nil)
	settle := func(c *operator.Config) { c.SettleAfter = time.Second }
	stop := operate(t, k, k.Config, "", shards(s.address), settle)
	c := s.next(t)
	c.greet()
	end := c.serve()
	for _, m := range []string{"stays", "Vanishes/1", "drains"} {
		c.node(&bigfleet.NodeStateUpdate{MachineId: m, State: configured})
	}
	c.hint(&bigfleet.AvailableCapacityUpdate{SupersedesKey: "available:x"})
	count := func(want int) func() string {
		return func() string {
			var list api.UpcomingNodeList
			must(t, k.Client.List(t.Context(), &list))
			if len(list.Items) != want {
				return fmt.Sprintf("%d objects, want %d", len(list.Items), want)
			}
			return ""
		}
	}
	eventually(t, count(3))
	stop()
	end()
	makeNode(t, k, "drains", "")
	operate(t, k, k.Config, "", shards("127.0.0.1:1", s.address), settle) // nobody is at the first
	c = s.next(t)
	c.greet()
	defer c.serve()()
	c.node(&bigfleet.NodeStateUpdate{MachineId: "stays", State: configured})
	c.node(&bigfleet.NodeStateUpdate{MachineId: "drains", State: draining})
	eventually(t, phaseIs(t, k, "un-drains", api.NodeDrained))
	eventually(t, count(2))
	eventually(t, phaseIs(t, k, "un-stays", api.NodeReady))
	var node corev1.Node
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: "drains"}, &node))
	if !node.Spec.Unschedulable {
		t.Error("a node that is drained is not cordoned")
	}
}

// TestOneOfTwoLeads: the second replica takes over, and only then.
func TestOneOfTwoLeads(t *testing.T) {
	k := fresh(t)
	s := newShard(t, nil)
	first := operate(t, k, k.Config, "two", shards(s.address))
	c := s.next(t)
	c.greet()
	operate(t, k, k.Config, "two", shards(s.address))
	hear(c, (*bigfleet.OperatorMessage).GetRollup)
	c.ack("rollup")
	hear(c, (*bigfleet.OperatorMessage).GetRollup)
	if len(s.sessions) > 0 {
		t.Error("both replicas have a session")
	}
	first()
	s.next(t).greet()
}

// TestManifests: the API server knows defaults, and refuses what makes no sense.
func TestManifests(t *testing.T) {
	k := fresh(t)
	if r := makeRequest(t, k, "fine"); r.Status.Phase != api.RequestPending {
		t.Errorf("the phase begins as %q", r.Status.Phase)
	}
	for want, change := range map[string]func(*api.CapacityRequest){
		"In and NotIn need values": func(r *api.CapacityRequest) {
			r.Spec.Requirements = []api.Requirement{{Key: "k", Operator: corev1.NodeSelectorOpIn}}
		},
		"Exists and DoesNotExist have no values": func(r *api.CapacityRequest) {
			r.Spec.Requirements = []api.Requirement{{Key: "k", Operator: corev1.NodeSelectorOpExists, Values: []string{"v"}}}
		},
		"Gt and Lt need exactly one value": func(r *api.CapacityRequest) {
			r.Spec.Requirements = []api.Requirement{{Key: "k", Operator: corev1.NodeSelectorOpLt}}
		},
		"Unsupported value": func(r *api.CapacityRequest) {
			r.Spec.Requirements = []api.Requirement{{Key: "k", Operator: "Same"}}
		},
		"no quantity may be negative": func(r *api.CapacityRequest) {
			q := r.Spec.Resources["cpu"]
			q.Neg()
			r.Spec.Resources["cpu"] = q
		},
		"a penalty is not negative": func(r *api.CapacityRequest) {
			q := r.Spec.Resources["cpu"]
			q.Neg()
			r.Spec.InterruptionPenalty = &q
		},
		"greater than or equal to 1": func(r *api.CapacityRequest) {
			r.Spec.TopologySpread = []api.TopologySpread{{TopologyKey: "k", WhenUnsatisfiable: corev1.DoNotSchedule}}
		},
	} {
		r := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}}
		r.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("1")}
		change(r)
		if err := k.Client.Create(t.Context(), r); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// labelled makes a pod one that a budget counts: it runs and is ready.
func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": app}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
}

// podsAre is a condition of eventually.
func podsAre(t *testing.T, k *kubetest.Cluster, want string) func() string {
	return func() string {
		var list corev1.PodList
		must(t, k.Client.List(t.Context(), &list, client.InNamespace("default")))
		var names []string
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			return fmt.Sprintf("pods are %q, want %q", got, want)
		}
		return ""
	}
}

// makeBudget makes a disruption budget that allows nothing.
func makeBudget(t *testing.T, k *kubetest.Cluster, app string) *policyv1.PodDisruptionBudget {
	t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), b)))
	must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	allow(t, k, b, 0)
	return b
}

// allow says, in the place of the controller manager, how many may be evicted.
func allow(t *testing.T, k *kubetest.Cluster, b *policyv1.PodDisruptionBudget, n int32) {
	t.Helper()
	must(t, k.Client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: n, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	must(t, k.Client.Status().Update(t.Context(), b))
}
