package karpenter

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// claimObject is what is read of a NodeClaim; the rest of it is nobody's concern here.
type claimObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		NodeName   string             `json:"nodeName"`
		ProviderID string             `json:"providerID"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// Conditions of a claim, in the order in which they come true.
const (
	launched    = "Launched"
	registered  = "Registered"
	initialized = "Initialized"
)

// claim is a NodeClaim as the driver keeps it.
type claim struct {
	name       string
	uid        types.UID
	providerID string
	node       string // its name, empty = not known
	launched   bool   // it has become a machine
	ready      bool   // Karpenter holds that pods can run
	// waits says of the first condition that is not true why it is not.
	waits string
	// waiting is since when it is to be launched.
	waiting  time.Time
	deleting bool
	// drainDeadline is kube.AnnotationDrain, termination until when Karpenter drains, both empty = not set.
	drainDeadline, termination string
	// said is what the record says; fault why it cannot be read.
	said  driver.Observation
	want  *kube.NodeWant
	fault error
}

// readClaim reads a NodeClaim for a table.
func readClaim(o runtime.Object) (*claim, error) {
	c, err := kube.Into[claimObject](o)
	if err != nil {
		return nil, err
	}
	out := &claim{
		name: c.Name, uid: c.UID, providerID: c.Status.ProviderID, node: c.Status.NodeName, deleting: c.DeletionTimestamp != nil,
		drainDeadline: c.Annotations[kube.AnnotationDrain], termination: c.Annotations[annotationTermination],
		waiting: c.CreationTimestamp.Time,
	}
	has := map[string]*metav1.Condition{}
	for i := range c.Status.Conditions {
		has[c.Status.Conditions[i].Type] = &c.Status.Conditions[i]
	}
	is := func(kind string) bool { return has[kind] != nil && has[kind].Status == metav1.ConditionTrue }
	out.launched, out.ready = is(launched) || out.providerID != "", is(initialized)
	for _, kind := range []string{launched, registered, initialized} {
		if is(kind) {
			continue
		}
		out.waits = kind + ": Karpenter has not said anything yet"
		if x := has[kind]; x != nil {
			out.waits = kube.OneLine(strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", kind, x.Reason, x.Message), ": "))
		}
		break
	}
	if x := has[launched]; x != nil {
		out.waiting = x.LastTransitionTime.Time
	}
	out.said, out.want, out.fault = kube.ReadRecord(c.Annotations[kube.AnnotationRecord])
	return out, nil
}

// draining tells whether the end was asked for as a drain.
func (c *claim) draining() bool { return c.deleting && c.drainDeadline != "" }
