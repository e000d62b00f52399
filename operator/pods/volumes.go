package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/tonnage/tonnage/api/v1alpha1"
)

// claims keeps of volumes those that are claims.
func claims(volumes []corev1.Volume) (out []corev1.Volume) {
	for i := range volumes {
		if name, ok := claimOf(&volumes[i]); ok {
			out = append(out, corev1.Volume{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	return out
}

// claimOf returns the name of a volume's claim. That of an ephemeral volume is left out: it is made for the pod,
// and bound where the pod goes.
func claimOf(v *corev1.Volume) (name string, is bool) {
	if v.PersistentVolumeClaim == nil {
		return "", false
	}
	return v.PersistentVolumeClaim.ClaimName, true
}

// stripClaim drops what the controller never looks at.
func stripClaim(o any) (any, error) {
	if c, ok := o.(*corev1.PersistentVolumeClaim); ok {
		c.ManagedFields, c.Annotations, c.Labels, c.Status = nil, nil, nil, corev1.PersistentVolumeClaimStatus{}
		c.Spec = corev1.PersistentVolumeClaimSpec{VolumeName: c.Spec.VolumeName}
	}
	return o, nil
}

// stripVolume drops what the controller never looks at.
func stripVolume(o any) (any, error) {
	if v, ok := o.(*corev1.PersistentVolume); ok {
		v.ManagedFields, v.Annotations, v.Labels, v.Status = nil, nil, nil, corev1.PersistentVolumeStatus{}
		v.Spec = corev1.PersistentVolumeSpec{NodeAffinity: v.Spec.NodeAffinity}
	}
	return o, nil
}

// places returns where a pod's volumes are: what the node affinity of each volume that is
// bound already says, and whether all are. A volume that may be in one of several places
// that cannot be said as one is left out.
func places(ctx context.Context, c client.Reader, pod *corev1.Pod) (out []api.Requirement, bound bool, err error) {
	bound = true
	for i := range pod.Spec.Volumes {
		name, ok := claimOf(&pod.Spec.Volumes[i])
		if !ok {
			continue
		}
		place, is, err := placeOf(ctx, c, types.NamespacedName{Namespace: pod.Namespace, Name: name})
		if err != nil {
			return nil, false, err
		}
		out, bound = append(out, place...), bound && is
	}
	return out, bound, nil
}

// placeOf returns where the volume of a claim is, and whether the claim has one.
func placeOf(ctx context.Context, c client.Reader, name types.NamespacedName) (place []api.Requirement, bound bool, err error) {
	var claim corev1.PersistentVolumeClaim
	if err := c.Get(ctx, name, &claim); err != nil {
		return nil, false, ignoreMissing(fmt.Errorf("claim %s: %w", name, err))
	}
	if claim.Spec.VolumeName == "" {
		return nil, false, nil // it may be bound only once the pod has a node
	}
	var volume corev1.PersistentVolume
	if err := c.Get(ctx, types.NamespacedName{Name: claim.Spec.VolumeName}, &volume); err != nil {
		return nil, false, ignoreMissing(fmt.Errorf("volume %s: %w", claim.Spec.VolumeName, err))
	}
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return nil, true, nil
	}
	var terms [][]api.Requirement
	for _, t := range volume.Spec.NodeAffinity.Required.NodeSelectorTerms[:min(len(volume.Spec.NodeAffinity.Required.NodeSelectorTerms), alternativesMax)] {
		terms = append(terms, conditions(t.MatchExpressions))
	}
	if terms = joinAll(terms); len(terms) != 1 {
		return nil, true, nil
	}
	return terms[0], true, nil
}

// ignoreMissing takes it for no error that something is not there yet.
func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
