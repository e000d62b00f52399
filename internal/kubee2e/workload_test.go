package kubee2e

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// The kinds of pods, each with a type of machine of its own; the wave wants the
// machines of the plain ones.
const (
	plain  = "plain"
	spread = "spread"
	gang   = "gang"
	gpus   = "gpu"
	high   = "high"
	wave   = "wave"
)

var kinds = []string{plain, spread, gang, gpus, high}

// kindLabel says of which kind a pod is.
const kindLabel = "kind"

// deployment is so many pods of a kind; each wants one core, and one GPU if it is
// of that kind.
func deployment(kind string, pods int32) *appsv1.Deployment {
	labels := map[string]string{kindLabel: kind}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	wants := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	spec := corev1.PodSpec{
		Containers:   []corev1.Container{{Name: "main", Image: "none", Resources: corev1.ResourceRequirements{Requests: wants, Limits: wants}}},
		NodeSelector: map[string]string{corev1.LabelInstanceTypeStable: kind},
	}
	penalty := "0.5"
	switch kind {
	case spread:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	case gang:
		spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: rackKey}},
		}}
	case gpus:
		wants[gpu] = resource.MustParse("1")
	case high:
		spec.PriorityClassName, penalty = "urgent", "1000"
	case wave:
		spec.PriorityClassName, penalty = "urgent", "1000"
		spec.NodeSelector[corev1.LabelInstanceTypeStable] = plain
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: kind},
		Spec: appsv1.DeploymentSpec{Replicas: &pods, Selector: selector, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{
				api.AnnotationInterruptionPenalty: penalty, api.AnnotationReclamationPenalty: penalty,
			}},
			Spec: spec,
		}},
	}
}

// budget has so many pods of a kind stay.
func budget(kind string, stay int32) *policyv1.PodDisruptionBudget {
	available := intstr.FromInt32(stay)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: kind},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &available, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{kindLabel: kind}},
		},
	}
}

// offer are the machines for so many pods of each kind in so many clusters: those
// of plain pods are used up by them, those of spread pods are spot machines that
// must be bought first. Spread is promised among machines; pods can be spread as
// strictly where they fill as many machines in each zone.
func offer(pods, clusters int) []batch {
	exact := func(per int) int { return clusters * ((pods + per - 1) / per) }
	small := map[string]string{"cpu": "8", "memory": "32Gi"}
	return []batch{
		{plain, exact(8), small, "Idle", "BareMetal", 0.4},
		{high, exact(8) + 1, small, "Idle", "BareMetal", 0.4},
		{spread, 3 * (exact(15) + 1), map[string]string{"cpu": "5", "memory": "32Gi"}, "Speculative", "Spot", 0.1},
		{gang, 2 * (clusters + 1), map[string]string{"cpu": "16", "memory": "64Gi"}, "Idle", "BareMetal", 0.9},
		{gpus, exact(8) + 1, map[string]string{"cpu": "32", "memory": "256Gi", gpu: "8"}, "Idle", "BareMetal", 9},
	}
}
