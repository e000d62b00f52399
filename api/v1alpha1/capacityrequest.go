package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityRequest asks for capacity that fits one workload, usually one pod. The
// operator adds equal ones up and reports the sums.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=cr;crs,categories=fleet
// +kubebuilder:selectablefield:JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CapacityRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CapacityRequestSpec `json:"spec"`
	// +kubebuilder:default={phase: Pending}
	// +optional
	Status CapacityRequestStatus `json:"status,omitempty"`
}

// CapacityRequestSpec says what is wanted.
type CapacityRequestSpec struct {
	// What a machine's labels must satisfy; all of them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Requirements []Requirement `json:"requirements,omitempty"`

	// What the workload asks for, all of it on one machine.
	// +kubebuilder:validation:MaxProperties=24
	// +kubebuilder:validation:XValidation:rule="self.all(name, type(self[name]) == int ? int(self[name]) >= 0 : !string(self[name]).startsWith('-'))",message="no quantity may be negative"
	// +required
	Resources corev1.ResourceList `json:"resources"`

	// The higher goes first, and may take machines from the lower.
	// +required
	Priority int32 `json:"priority"`

	// How evenly it is to be spread over domains.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	TopologySpread []TopologySpread `json:"topologySpread,omitempty"`

	// With whom it must share a domain. Requests of one namespace that name the
	// same key and selector are one group.
	// +optional
	CoLocation *CoLocation `json:"coLocation,omitempty"`

	// What one interruption costs, in dollars. Counted in steps: 0, 0.5, then
	// powers of two up to 8388608, above which the workload is never interrupted.
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 0 : !string(self).startsWith('-')",message="a penalty is not negative"
	// +optional
	InterruptionPenalty *resource.Quantity `json:"interruptionPenalty,omitempty"`

	// What taking its machine away costs, in dollars; same steps.
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? int(self) >= 0 : !string(self).startsWith('-')",message="a penalty is not negative"
	// +optional
	ReclamationPenalty *resource.Quantity `json:"reclamationPenalty,omitempty"`

	// Unreadable says why the spec could not be read; the rest is empty then. It is
	// never written.
	Unreadable string `json:"-"`
}

// Requirement is one condition on a machine's labels.
//
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="In and NotIn need values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",message="Exists and DoesNotExist have no values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1)",message="Gt and Lt need exactly one value"
type Requirement struct {
	// The label's key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	Key string `json:"key"`
	// Gt and Lt are accepted and not served: an event on the request says so.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// TopologySpread is a limit on how unevenly a workload lies over domains.
type TopologySpread struct {
	// The label whose values are the domains.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +required
	TopologyKey string `json:"topologyKey"`
	// By how much two domains may differ.
	// +kubebuilder:validation:Minimum=1
	// +required
	MaxSkew int32 `json:"maxSkew"`
	// Only DoNotSchedule is reported; ScheduleAnyway asks nothing of machines.
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	// +required
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
}

// CoLocation names a group whose members share one domain.
type CoLocation struct {
	// The label whose values are the domains. Empty: no co-location.
	// +kubebuilder:validation:MaxLength=317
	// +required
	TopologyKey string `json:"topologyKey"`
	// Who belongs to the group. It is not evaluated: the group is all requests of
	// the namespace that name the same one.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// RequestPhase says whether a request was heard.
//
// +kubebuilder:validation:Enum=Pending;Acknowledged
type RequestPhase string

// The phases of a CapacityRequest.
const (
	RequestPending      RequestPhase = "Pending"
	RequestAcknowledged RequestPhase = "Acknowledged"
)

// CapacityRequestStatus says how far the request has come.
type CapacityRequestStatus struct {
	// Acknowledged: the shard has acknowledged a roll-up that contained it.
	// +required
	Phase RequestPhase `json:"phase"`
	// +optional
	AcknowledgedAt *metav1.Time `json:"acknowledgedAt,omitempty"`
	// The class of its size among requests that are alike otherwise; see the operator's
	// reference. Written once, with Acknowledged.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8
	// +optional
	SizeClass *int32 `json:"sizeClass,omitempty"`
	// Reported is False, with the reason and the remedy, while the request is left out
	// of what the shard is told.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionReported is the type of the condition of a request that is left out.
const ConditionReported = "Reported"

// ConditionSatisfied is the type of the condition that says whether the machines for a request are
// there, as far as its shard has said.
const ConditionSatisfied = "Satisfied"

// Reasons of ConditionSatisfied by which machines for the request come yet.
const (
	ReasonWaitingForMachines = "WaitingForMachines"
	ReasonWaitingForDrain    = "WaitingForDrain"
)

// CapacityRequestList is a list of them.
//
// +kubebuilder:object:root=true
type CapacityRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CapacityRequest `json:"items"`
}
