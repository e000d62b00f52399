package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/driver"
)

// Nodes is the resource of nodes.
var Nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}

// Node is what a driver wants to know of a node.
type Node struct {
	Name, ProviderID string
	Version          string // resourceVersion
	Labels           map[string]string
	Taints           []driver.Taint
	Allocatable      model.Resources
	Ready            bool
	NotReady         string // why it is not Ready
	Deleting         bool

	raw []corev1.Taint // the same as Taints, and when they were added
}

// ReadNode reads a node for a Table.
func ReadNode(o runtime.Object) (*Node, error) {
	n, err := Into[corev1.Node](o)
	if err != nil {
		return nil, err
	}
	out := &Node{
		Name: n.Name, ProviderID: n.Spec.ProviderID, Version: n.ResourceVersion, Labels: n.Labels, Deleting: n.DeletionTimestamp != nil, raw: n.Spec.Taints,
		Taints: []driver.Taint{}, Allocatable: model.Resources{}, NotReady: "the kubelet has not said that it is Ready",
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, driver.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	var amounts []model.Amount
	for name, q := range n.Status.Allocatable {
		v, err := model.ParseQuantity(string(name), q.String())
		if err != nil {
			return nil, fmt.Errorf("allocatable %s: %w", name, err)
		}
		amounts = append(amounts, model.Amount{Name: string(name), Value: v})
	}
	if r := model.NewResources(amounts...); r != nil {
		out.Allocatable = r
	}
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if out.Ready = c.Status == corev1.ConditionTrue; out.Ready {
			out.NotReady = ""
		} else {
			out.NotReady = strings.TrimSuffix(fmt.Sprintf("%s: %s", c.Reason, c.Message), ": ")
		}
	}
	return out, nil
}

// NodeWant is what pods that a pool's offer attracts need of a node.
type NodeWant struct {
	// Labels are set on the node where they are missing or different.
	Labels map[string]string
	// Known are set where they are missing, and held against the node where they are different: whoever made
	// the machine knows them better.
	Known  map[string]string
	Taints []driver.Taint
	Least  model.Resources // allocatable
}

// WantOf is what an offer declares.
func WantOf(o *driver.Offer) *NodeWant {
	w := &NodeWant{Labels: o.Labels, Taints: o.Taints, Least: o.Allocatable, Known: map[string]string{}}
	for key, value := range map[string]string{
		corev1.LabelInstanceTypeStable: o.InstanceType, corev1.LabelTopologyZone: o.Zone, model.KeyCapacityType: o.CapacityType.Label(),
	} {
		if value != "" {
			w.Known[key] = value
		}
	}
	return w
}

// Lacks says why pods cannot run on the node yet, empty = they can.
func (w *NodeWant) Lacks(n *Node) []string {
	var lacks []string
	if !n.Ready {
		lacks = append(lacks, "node "+n.Name+" is not Ready ("+n.NotReady+")")
	}
	for _, labels := range []map[string]string{w.Labels, w.Known} {
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			switch has, ok := n.Labels[key]; {
			case !ok:
				lacks = append(lacks, fmt.Sprintf("label %s is missing", key))
			case has != labels[key]:
				lacks = append(lacks, fmt.Sprintf("label %s is %q, and the pool says %q", key, has, labels[key]))
			}
		}
	}
	for _, t := range w.Taints {
		if !slices.Contains(n.Taints, t) {
			lacks = append(lacks, fmt.Sprintf("taint %s is missing", taintText(t)))
		}
	}
	for _, t := range n.Taints {
		if keepsOff(t) && !slices.ContainsFunc(w.Taints, func(x driver.Taint) bool { return x.Key == t.Key && x.Effect == t.Effect }) {
			lacks = append(lacks, fmt.Sprintf("taint %s keeps pods off, and the pool does not declare it", taintText(t)))
		}
	}
	for _, a := range w.Least {
		if has := n.Allocatable.Get(a.Name); has < a.Value {
			lacks = append(lacks, fmt.Sprintf("allocatable %s is %s of %s", a.Name, model.FormatQuantity(a.Name, has), model.FormatQuantity(a.Name, a.Value)))
		}
	}
	return lacks
}

// keepsOff tells whether pods that tolerate nothing stay off. A cordon does not count: whoever cordons
// a node has a reason.
func keepsOff(t driver.Taint) bool {
	return t.Effect != string(corev1.TaintEffectPreferNoSchedule) && t.Key != corev1.TaintNodeUnschedulable
}

func taintText(t driver.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + t.Effect
	}
	return t.Key + "=" + t.Value + ":" + t.Effect
}

// Patch returns the merge patch that brings labels and taints to the node, nil = nothing is missing. Taints are
// one list for a patch, so one that changes them holds for this version of the node only.
func (w *NodeWant) Patch(n *Node) []byte {
	labels := map[string]string{}
	for key, value := range w.Known {
		if _, ok := n.Labels[key]; !ok {
			labels[key] = value
		}
	}
	for key, value := range w.Labels {
		if has, ok := n.Labels[key]; !ok || has != value {
			labels[key] = value
		}
	}
	taints, other := slices.Clone(n.raw), false
	for _, t := range w.Taints {
		full := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		switch i := slices.IndexFunc(taints, func(x corev1.Taint) bool { return x.MatchTaint(&full) }); {
		case i < 0:
			taints, other = append(taints, full), true
		case taints[i].Value != t.Value:
			taints[i].Value, other = t.Value, true
		}
	}
	meta, patch := map[string]any{}, map[string]any{}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if other {
		meta["resourceVersion"] = n.Version
		patch["spec"] = map[string]any{"taints": taints}
	}
	if len(meta) == 0 {
		return nil
	}
	patch["metadata"] = meta
	text, err := json.Marshal(patch)
	if err != nil {
		panic(err) // strings only
	}
	return text
}

// OneLine makes a message of somebody else one line.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
}
