package pods

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

const (
	namePrefix   = "cr-pod-"
	nameBytesMax = 253
	hashBytes    = 5
)

// Asks tells whether a pod asks for capacity.
func Asks(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	return len(pod.Spec.SchedulingGates) == 0
}

// Request returns the request of a pod whose volumes are in the places given.
func Request(pod *corev1.Pod, defaults Defaults, places ...api.Requirement) *api.CapacityRequest {
	controller := true
	out := &api.CapacityRequest{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace,
		Name:      Name(pod),
		Labels:    map[string]string{api.LabelOwnedByPod: string(pod.UID)},
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller},
		},
	}}
	spec := &out.Spec
	spec.Requirements = requirements(pod, places)
	spec.Resources = resources(pod)
	if pod.Spec.Priority != nil {
		spec.Priority = *pod.Spec.Priority
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			spec.TopologySpread = append(spec.TopologySpread, api.TopologySpread{
				TopologyKey: c.TopologyKey, MaxSkew: c.MaxSkew, WhenUnsatisfiable: c.WhenUnsatisfiable,
			})
		}
	}
	spec.CoLocation = coLocation(pod)
	of := defaults[pod.Spec.PriorityClassName]
	spec.InterruptionPenalty = penalty(pod, api.AnnotationInterruptionPenalty, of.InterruptionPenalty)
	spec.ReclamationPenalty = penalty(pod, api.AnnotationReclamationPenalty, of.ReclamationPenalty)
	return out
}

// Name is the name of a pod's request. A pod that comes after it under the same
// name has another.
func Name(pod *corev1.Pod) string {
	sum := sha256.Sum256([]byte(pod.UID))
	hash := "-" + hex.EncodeToString(sum[:hashBytes])
	name := pod.Name[:min(len(pod.Name), nameBytesMax-len(namePrefix)-len(hash))]
	return namePrefix + strings.TrimRight(name, "-.") + hash
}

// resources is what the scheduler counts.
func resources(pod *corev1.Pod) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range podresource.PodRequests(pod, podresource.PodResourcesOptions{}) {
		if !q.IsZero() {
			out[name] = q
		}
	}
	if len(out) == 0 {
		out[corev1.ResourceCPU] = resource.MustParse("1m")
	}
	return out
}

func coLocation(pod *corev1.Pod) *api.CoLocation {
	a := pod.Spec.Affinity
	if a == nil || a.PodAffinity == nil || len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	term := &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	return &api.CoLocation{TopologyKey: term.TopologyKey, LabelSelector: term.LabelSelector}
}

// penalty is what the annotation says, else the default; nil if neither does.
func penalty(pod *corev1.Pod, annotation string, byClass *resource.Quantity) *resource.Quantity {
	if text, ok := pod.Annotations[annotation]; ok {
		if q, err := api.ParseQuantity(text); err == nil && q.Sign() >= 0 {
			return &q
		}
	}
	return byClass
}

// requirements are the node selector's, those of the node affinity and the places of volumes, sorted.
// A pod that would go anywhere asks for any machine that has a type.
func requirements(pod *corev1.Pod, places []api.Requirement) []api.Requirement {
	var out []api.Requirement
	if terms := alternatives(pod); len(terms) > 0 {
		out = slices.Clone(terms[0])
	}
	for key, value := range pod.Spec.NodeSelector {
		out = append(out, api.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}})
	}
	out = append(out, places...)
	if len(out) == 0 {
		return []api.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpExists}}
	}
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, func(a, b api.Requirement) bool { return compare(a, b) == 0 })
}

func compare(a, b api.Requirement) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.Operator), string(b.Operator)); c != 0 {
		return c
	}
	return slices.Compare(a.Values, b.Values)
}
