// Package v1alpha1 holds the objects by which a cluster says what it needs and
// hears what it gets, group bigfleet.lucy.sh. The manifests in deploy/crds are
// generated from it.
//
//   - A CapacityRequest is a wish: of a pod, or of whatever else wants capacity.
//   - An UpcomingNode is a machine on its way into the cluster, in it, or out of it.
//   - An AvailableCapacity is a hint: what could be had, at what price.
//
// Names, fields and values are those of the public project BigFleet, so that its
// objects, dashboards and tools go on working.
//
// +kubebuilder:object:generate=true
// +groupName=bigfleet.lucy.sh
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group.
const Group = "bigfleet.lucy.sh"

// Labels and annotations of the group.
const (
	// LabelOwnedByPod is on a CapacityRequest that stands for a pod: the pod's UID.
	LabelOwnedByPod = Group + "/owned-by-pod"
	// LabelPackingOverhead is on a CapacityRequest that stands for no pod but for the
	// machines that the pods of one row of the roll-up use, with room that they cannot: which sizes that row has. Its
	// resources are what the row asks for at the least; they do not count in the row's smallest unit.
	LabelPackingOverhead = "tonnage.dev/packing-overhead"
	// AnnotationRows is on such a request that speaks for all rows that are alike but for their sizes: what each of them asks for in
	// place of the sum of its requests, as JSON.
	AnnotationRows = "tonnage.dev/rows"
	// AnnotationDomain is on such a request of a group: the domain in which pods of the group run already, so that all others
	// must run there, too.
	AnnotationDomain = "tonnage.dev/domain"
	// TaintNomination is the key of a taint of nodes that wait for the pods that are nominated for them. Whoever makes a node sets it;
	// the pod controller gives it a value, which these pods tolerate, and takes it away, or the operator does once the node is a minute old.
	TaintNomination = "tonnage.dev/awaiting-nomination"
	// NamespaceOfPlans is the only namespace in which AnnotationRows counts.
	NamespaceOfPlans = "kube-system"
	// AnnotationInterruptionPenalty of a pod is what one interruption of it
	// costs, in dollars.
	AnnotationInterruptionPenalty = Group + "/interruption-penalty"
	// AnnotationReclamationPenalty of a pod is what taking its machine away
	// costs, in dollars.
	AnnotationReclamationPenalty = Group + "/reclamation-penalty"
	// AnnotationMachine is on an UpcomingNode: the machine's id.
	AnnotationMachine = Group + "/machine-id"
	// AnnotationDrainDeadline is on an UpcomingNode whose node is being emptied:
	// when its grace ends, RFC 3339. So a drain outlives the process that began it.
	AnnotationDrainDeadline = Group + "/drain-deadline"
	// AnnotationDrainGrace is how long that drain was to take in all, such as 30s.
	AnnotationDrainGrace = Group + "/drain-grace"
	// AnnotationDrainNode is the name of the node that is being emptied; empty
	// when the machine has none.
	AnnotationDrainNode = Group + "/drain-node"
)

// SchemeGroupVersion is the group and version of everything here.
var SchemeGroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha1"}

// AddToScheme registers the objects.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion,
		&CapacityRequest{}, &CapacityRequestList{},
		&UpcomingNode{}, &UpcomingNodeList{},
		&AvailableCapacity{}, &AvailableCapacityList{},
	)
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
