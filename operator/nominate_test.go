package operator_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/pods"
	"github.com/tonnage/tonnage/operator/stuck"
)

// nominates runs what tonnage-operator pods --nominate does.
func nominates(t *testing.T, k *kubetest.Cluster, cfg *rest.Config) (stop func()) {
	t.Helper()
	kept := pods.CacheOptions()
	maps.Copy(kept, stuck.CacheOptions())
	m := newManager(t, k, cfg, "", kept)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	must(t, stuck.SetupNominator(t.Context(), m, stuck.Config{After: 15 * time.Second, Keep: 10 * time.Minute}, stuck.NewNominatorMetrics(prometheus.NewRegistry()), log))
	return start(t, m)
}

// makeAwaiting makes a node that waits for nominations. Where nobody says that it is ready, it has a taint for that, too, which
// the pods of these tests tolerate.
func makeAwaiting(t *testing.T, k *kubetest.Cluster, name, cores string) {
	t.Helper()
	has := corev1.ResourceList{"cpu": resource.MustParse(cores), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	must(t, k.Client.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Capacity: has, Allocatable: has},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: api.TaintNomination, Effect: corev1.TaintEffectNoSchedule}}},
	}))
}

func asks(cores string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cores)
		p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}
	}
}

// takesPods is a condition of eventually: a node waits no longer, and was told of.
func takesPods(t *testing.T, k *kubetest.Cluster, name string) func() string {
	return func() string {
		var n corev1.Node
		must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: name}, &n))
		if stuck.Awaiting(&n) {
			return name + " waits for nominations"
		}
		return ""
	}
}

// places are the nodes that pods are on, or nominated for.
func places(t *testing.T, k *kubetest.Cluster) string {
	t.Helper()
	var list corev1.PodList
	must(t, k.Client.List(t.Context(), &list, client.InNamespace("default")))
	var said []string
	for i := range list.Items { // by name
		p := &list.Items[i]
		switch {
		case p.Spec.NodeName != "":
			said = append(said, p.Name+"="+p.Spec.NodeName)
		case p.Status.NominatedNodeName != "":
			said = append(said, p.Name+">"+p.Status.NominatedNodeName)
		}
	}
	return strings.Join(said, " ")
}

// areAt is a condition of eventually: pods are on nodes, or nominated for them, as is said.
func areAt(t *testing.T, k *kubetest.Cluster, want string) func() string {
	return func() string {
		if got := places(t, k); got != want {
			return fmt.Sprintf("pods are at %q, want %q", got, want)
		}
		return ""
	}
}

// tolerates tells whether a pod tolerates the taint of a node.
func tolerates(t *testing.T, k *kubetest.Cluster, pod, node string) bool {
	t.Helper()
	var p corev1.Pod
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: pod}, &p))
	var n corev1.Node
	must(t, k.Client.Get(t.Context(), client.ObjectKey{Name: node}, &n))
	return slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool {
		return x.Key == api.TaintNomination && slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), &x, true) })
	})
}

// TestNominateWithTheRole: pods are nominated, and tolerate the taint, before a node takes any, as a user who may do what deploy/rbac says and who
// needs all of it. What somebody else has nominated stays.
func TestNominateWithTheRole(t *testing.T) {
	k := fresh(t)
	user, err := k.User("nominator")
	must(t, err)
	role(t, k, "nominator", "pods.yaml")
	text, err := os.ReadFile(kubetest.Root("deploy", "rbac", "nominate.yaml"))
	must(t, err)
	var more rbacv1.ClusterRole
	must(t, yaml.UnmarshalStrict(text, &more))
	must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), &more)))
	must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nominator-more"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "nominator"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: more.Name},
	})))
	did := record(user)
	makePod(t, k, "a-small", "", asks("1"))
	makePod(t, k, "b-large", "", asks("3"))
	others := makePod(t, k, "c-others", "", asks("1"))
	before := others.DeepCopy()
	others.Status.NominatedNodeName = "elsewhere"
	must(t, k.Client.Status().Patch(t.Context(), others, client.MergeFrom(before), client.FieldOwner("preempts")))
	stop := nominates(t, k, user)
	makeAwaiting(t, k, "n1", "3")
	eventually(t, areAt(t, k, "b-large>n1 c-others>elsewhere"))
	makeAwaiting(t, k, "n2", "4")
	eventually(t, areAt(t, k, "a-small>n2 b-large>n1 c-others>elsewhere"))
	for _, c := range []struct{ pod, node, other string }{{"b-large", "n1", "n2"}, {"a-small", "n2", "n1"}} {
		if !tolerates(t, k, c.pod, c.node) || tolerates(t, k, c.pod, c.other) {
			t.Errorf("%s is to tolerate the taint of %s alone", c.pod, c.node)
		}
		if takesPods(t, k, c.node)() == "" {
			t.Errorf("%s takes pods before %s is there", c.node, c.pod)
		}
		var p corev1.Pod
		must(t, k.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: c.pod}, &p))
		must(t, k.Client.SubResource("binding").Create(t.Context(), &p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: c.node}}))
		eventually(t, takesPods(t, k, c.node))
	}
	eventually(t, toldNode(t, k, "n2", "PodsNominated"))
	stop()
	did.check(t, more.Rules)
}

// toldNode is a condition of eventually: there is an event about a node.
func toldNode(t *testing.T, k *kubetest.Cluster, name, reason string) func() string {
	return func() string {
		var events eventsv1.EventList
		must(t, k.Client.List(t.Context(), &events, client.InNamespace("default")))
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == reason && e.Regarding.Name == name {
				return ""
			}
		}
		return fmt.Sprintf("nobody told %s: %s", name, reason)
	}
}

// TestSchedulerFollowsNominations: a real scheduler leaves the room of a new node to the pod that it is planned for, although
// others came first and fit, too.
func TestSchedulerFollowsNominations(t *testing.T) {
	k := fresh(t)
	stopScheduler, err := k.Scheduler(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, stopScheduler()) })
	for i := range 3 {
		makePod(t, k, fmt.Sprintf("a-small-%d", i), "", asks("1"))
	}
	makePod(t, k, "b-large", "", asks("3"))
	eventually(t, func() string { // they were tried
		var list corev1.PodList
		must(t, k.Client.List(t.Context(), &list, client.InNamespace("default")))
		for i := range list.Items {
			if len(list.Items[i].Status.Conditions) == 0 {
				return list.Items[i].Name + " was not tried"
			}
		}
		return ""
	})
	nominates(t, k, k.Config)
	makeAwaiting(t, k, "n1", "3")
	eventually(t, areAt(t, k, "b-large=n1"))
	makeAwaiting(t, k, "n2", "3")
	eventually(t, areAt(t, k, "a-small-0=n2 a-small-1=n2 a-small-2=n2 b-large=n1"))
}

// TestNobodyNominates: where no pod controller nominates, the operator lets a node take pods after a while.
func TestNobodyNominates(t *testing.T) {
	k := fresh(t)
	makeAwaiting(t, k, "n1", "3")
	s := newShard(t, nil)
	operate(t, k, k.Config, "", shards(s.address), func(c *operator.Config) { c.ReleaseAfter = time.Second })
	eventually(t, takesPods(t, k, "n1"))
	eventually(t, toldNode(t, k, "n1", "NobodyNominates"))
}
