package operator_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
	"github.com/tonnage/tonnage/operator/kubetest"
	"github.com/tonnage/tonnage/operator/pods"
	"github.com/tonnage/tonnage/operator/stuck"
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
	kept := pods.CacheOptions()
	maps.Copy(kept, stuck.CacheOptions())
	m := newManager(t, k, user, "tonnage-operator-pods", kept)
	must(t, stuck.Setup(m, stuck.Config{After: time.Second, Keep: time.Second}, stuck.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)))
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
	getStuck(t, k)
	tellTwice(t, k, m, "tonnage-operator-pods")
	stop()
	did.check(t, rules)
}

// getStuck has a pod wait whose volume is in a zone where the room is in pieces, until more is asked
// for, and takes it away again.
func getStuck(t *testing.T, k *kubetest.Cluster) {
	t.Helper()
	const zone = "z1"
	// Nothing here takes away the finalizers of volumes and claims: they are there when the test runs again.
	once := func(o client.Object) { must(t, client.IgnoreAlreadyExists(k.Client.Create(t.Context(), o))) }
	once(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/none"}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}},
	}})
	once(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, VolumeName: "disk",
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}})
	for _, name := range []string{"n1", "n2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
		must(t, k.Client.Create(t.Context(), n))
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("800m"), "pods": resource.MustParse("110")}
		n.Status.Capacity = n.Status.Allocatable
		must(t, k.Client.Status().Update(t.Context(), n))
	}
	withVolume := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	makePod(t, k, "on-n1", "n1", withVolume)
	makePod(t, k, "on-n2", "n2", withVolume)
	waits := makePod(t, k, "waits", "", withVolume)
	waits.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
	}}
	must(t, k.Client.Status().Update(t.Context(), waits))
	overhead := func(want string) func() string {
		return func() string {
			var list api.CapacityRequestList
			must(t, k.Client.List(t.Context(), &list, client.InNamespace("default")))
			var got []string
			for i := range list.Items {
				r := &list.Items[i]
				switch {
				case r.Labels[api.LabelPackingOverhead] != "":
					if r.Spec.Resources.Cpu().MilliValue() < 600 {
						return fmt.Sprintf("overhead is %s cores, the nodes have 600m left", r.Spec.Resources.Cpu())
					}
					got = append(got, strings.Join(r.Spec.Requirements[0].Values, ","))
				case r.Status.Phase != api.RequestAcknowledged: // the operator does this
					// A patch of the status alone, since the controller may write the spec meanwhile.
					before := r.DeepCopy()
					r.Status = api.CapacityRequestStatus{Phase: api.RequestAcknowledged, AcknowledgedAt: new(metav1.Now()), SizeClass: new(int32(1))}
					must(t, client.IgnoreNotFound(k.Client.Status().Patch(t.Context(), r, client.MergeFrom(before))))
				}
			}
			if s := strings.Join(got, "; "); s != want {
				return "overhead is " + s
			}
			return ""
		}
	}
	eventually(t, overhead(zone))
	eventually(t, func() string {
		var events eventsv1.EventList
		must(t, k.Client.List(t.Context(), &events, client.InNamespace("default")))
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == string(stuck.Added) && e.Regarding.Name == "waits" }) {
			return "nobody told the pod"
		}
		return ""
	})
	for _, name := range []string{"on-n1", "on-n2", "waits"} {
		must(t, k.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, client.GracePeriodSeconds(0)))
	}
	eventually(t, overhead(""))
	for _, name := range []string{"n1", "n2"} {
		must(t, k.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
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
