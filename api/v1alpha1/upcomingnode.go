package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UpcomingNode is a machine that is bound to this cluster, as the shard tells it.
// The operator writes it; nobody else needs to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=upn,categories=fleet
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type UpcomingNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec UpcomingNodeSpec `json:"spec"`
	// +kubebuilder:default={phase: Provisioning}
	// +optional
	Status UpcomingNodeStatus `json:"status,omitempty"`
}

// UpcomingNodeSpec is what the node will look like.
type UpcomingNodeSpec struct {
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// What it offers to workloads.
	// +required
	Resources corev1.ResourceList `json:"resources"`
	// +listType=atomic
	// +optional
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// NodePhase is how far a machine has come on its way in or out.
//
// +kubebuilder:validation:Enum=Provisioning;Launched;Registered;Ready;Draining;Drained;Failed
type NodePhase string

// The phases of an UpcomingNode.
const (
	NodeProvisioning NodePhase = "Provisioning" // there is no host yet
	NodeLaunched     NodePhase = "Launched"     // a host, not yet of this cluster
	NodeRegistered   NodePhase = "Registered"   // it is being made part of the cluster
	NodeReady        NodePhase = "Ready"        // it is part of the cluster
	NodeDraining     NodePhase = "Draining"     // it is being emptied
	NodeDrained      NodePhase = "Drained"      // it is empty
	NodeFailed       NodePhase = "Failed"       // see lastError
)

// UpcomingNodeStatus is where it stands.
type UpcomingNodeStatus struct {
	// +required
	Phase NodePhase `json:"phase"`
	// The node, once its name is known.
	// +optional
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// The provider's name of the host.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// When the operator first heard of it.
	// +optional
	ProvisioningStartTime *metav1.Time `json:"provisioningStartTime,omitempty"`
	// +optional
	LastError string `json:"lastError,omitempty"`
}

// UpcomingNodeList is a list of them.
//
// +kubebuilder:object:root=true
type UpcomingNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UpcomingNode `json:"items"`
}
