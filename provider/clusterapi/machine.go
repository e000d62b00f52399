package clusterapi

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// Cluster API's own names.
const (
	coreGroup    = "cluster.x-k8s.io"
	coreVersion  = "v1beta2"
	labelCluster = coreGroup + "/cluster-name"
	// labelControlPlane is on machines of a control plane.
	labelControlPlane = coreGroup + "/control-plane"
	clonedFromName    = coreGroup + "/cloned-from-name"
	clonedFromKind    = coreGroup + "/cloned-from-groupkind"
	// secretType is that of Secrets with bootstrap data.
	secretType = coreGroup + "/secret"
)

var (
	machines = schema.GroupVersionResource{Group: coreGroup, Version: coreVersion, Resource: "machines"}
	clusters = schema.GroupVersionResource{Group: coreGroup, Version: coreVersion, Resource: "clusters"}
	secrets  = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// machineObject is what is read of a Machine; the rest of it is nobody's concern here.
type machineObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ClusterName       string    `json:"clusterName"`
		ProviderID        string    `json:"providerID"`
		InfrastructureRef objectRef `json:"infrastructureRef"`
		Deletion          struct {
			NodeDrainTimeoutSeconds int64 `json:"nodeDrainTimeoutSeconds"`
		} `json:"deletion"`
	} `json:"spec"`
	Status struct {
		NodeRef struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
		Initialization struct {
			InfrastructureProvisioned bool `json:"infrastructureProvisioned"`
		} `json:"initialization"`
		Conditions []metav1.Condition `json:"conditions"`
		Deprecated struct {
			V1Beta1 struct {
				FailureReason  string `json:"failureReason"`
				FailureMessage string `json:"failureMessage"`
			} `json:"v1beta1"`
		} `json:"deprecated"`
	} `json:"status"`
}

// objectRef is a reference as v1beta2 has them.
type objectRef struct {
	APIGroup string `json:"apiGroup"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
}

// machine is a Machine as the driver keeps it.
type machine struct {
	namespace, name string
	uid             types.UID
	cluster         string // the Cluster's name
	infrastructure  objectRef
	providerID      string
	node            string // its name, empty = not known
	provisioned     bool   // the infrastructure was there once
	failure         string // what Cluster API says has failed for good
	// waits are the conditions that are not true, in the order in which they come true.
	waits    []string
	deleting bool
	deleted  time.Time
	// said is what the record says; fault why it cannot be read.
	said  driver.Observation
	want  *kube.NodeWant
	fault error
	// drainDeadline is AnnotationDrain, drainSeconds what Cluster API has for how long it drains, 0 = no limit.
	drainDeadline string
	drainSeconds  int64
}

// conditions are those that Cluster API sets while a machine comes up, in their order.
var conditions = []string{"BootstrapConfigReady", "InfrastructureReady", "NodeHealthy"}

// readMachine reads a Machine for a table.
func readMachine(o runtime.Object) (*machine, error) {
	m, err := kube.Into[machineObject](o)
	if err != nil {
		return nil, err
	}
	out := &machine{
		namespace: m.Namespace, name: m.Name, uid: m.UID, cluster: m.Spec.ClusterName, infrastructure: m.Spec.InfrastructureRef,
		providerID: m.Spec.ProviderID, node: m.Status.NodeRef.Name, provisioned: m.Status.Initialization.InfrastructureProvisioned,
		deleting: m.DeletionTimestamp != nil, drainDeadline: m.Annotations[kube.AnnotationDrain], drainSeconds: m.Spec.Deletion.NodeDrainTimeoutSeconds,
	}
	if out.deleting {
		out.deleted = m.DeletionTimestamp.Time
	}
	if x := m.Status.Deprecated.V1Beta1; x.FailureReason != "" || x.FailureMessage != "" {
		out.failure = kube.OneLine(strings.TrimPrefix(x.FailureReason+": "+x.FailureMessage, ": "))
	}
	for _, kind := range conditions {
		i := slices.IndexFunc(m.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
		if i >= 0 && m.Status.Conditions[i].Status != metav1.ConditionTrue {
			c := &m.Status.Conditions[i]
			out.waits = append(out.waits, kube.OneLine(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", kind, c.Reason, c.Message), ": ")))
		}
	}
	out.said, out.want, out.fault = kube.ReadRecord(m.Annotations[kube.AnnotationRecord])
	return out, nil
}

// draining tells whether the end was asked for as a drain.
func (m *machine) draining() bool { return m.deleting && m.drainDeadline != "" }

// infraRow is what is kept of an infrastructure object.
type infraRow struct{ deleting bool }

func readInfra(o runtime.Object) (infraRow, error) {
	m, ok := o.(metav1.Object)
	if !ok {
		return infraRow{}, fmt.Errorf("got %T", o)
	}
	return infraRow{deleting: m.GetDeletionTimestamp() != nil}, nil
}
