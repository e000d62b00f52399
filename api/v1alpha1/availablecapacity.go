package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AvailableCapacity is a hint of what the fleet could give to one kind of demand.
// It is no promise: others may be given it first.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=availablecapacities,shortName=avc,categories=fleet
// +kubebuilder:printcolumn:name="Availability",type=string,JSONPath=`.spec.availability`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.spec.availableCount`
// +kubebuilder:printcolumn:name="Cost",type=string,JSONPath=`.spec.cost`
type AvailableCapacity struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec AvailableCapacitySpec `json:"spec"`
	// +optional
	Status AvailableCapacityStatus `json:"status,omitempty"`
}

// Availability is how surely and soon capacity could be had.
//
// +kubebuilder:validation:Enum=None;Low;Medium;High
type Availability string

// The levels of availability.
const (
	AvailabilityNone   Availability = "None"   // nothing matches
	AvailabilityLow    Availability = "Low"    //
	AvailabilityMedium Availability = "Medium" // it would have to be created
	AvailabilityHigh   Availability = "High"   // a machine stands idle
)

// AvailableCapacitySpec is the hint.
type AvailableCapacitySpec struct {
	// +required
	Availability Availability `json:"availability"`
	// How many machines match.
	// +kubebuilder:validation:Minimum=0
	// +required
	AvailableCount int32 `json:"availableCount"`
	// The least price of a matching machine in dollars per hour, 0 if unknown.
	// +required
	Cost resource.Quantity `json:"cost"`
	// What one machine offers. It is written even when it is empty: the public CRD
	// requires it.
	// +optional
	Resources corev1.ResourceList `json:"resources"`
	// Which demand this is for.
	// +listType=atomic
	// +optional
	Requirements []Requirement `json:"requirements,omitempty"`
}

// AvailableCapacityStatus is empty.
type AvailableCapacityStatus struct{}

// AvailableCapacityList is a list of them.
//
// +kubebuilder:object:root=true
type AvailableCapacityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AvailableCapacity `json:"items"`
}
