package karpenter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// Karpenter's own names.
const (
	group   = "karpenter.sh"
	version = "v1"

	labelNodePool         = group + "/nodepool"
	annotationNoDisrupt   = group + "/do-not-disrupt"
	annotationTermination = group + "/nodeclaim-termination-timestamp"
)

// nodePoolDefault is the value of karpenter.sh/nodepool: no NodePool may have this name.
const nodePoolDefault = "tonnage"

// template says how the machines of a pool are claimed.
type template struct {
	nodeClass     nodeClass
	nodePool      string
	requirements  []requirement
	startupTaints []driver.Taint
	annotations   map[string]string
}

// nodeClass names an object of the cloud's part of Karpenter.
type nodeClass struct{ group, kind, name string }

// requirement narrows what may be launched, beside type, zone and capacity type.
type requirement struct {
	key, operator string
	values        []string
}

var templateSchema = document.NewSchema(
	document.Field[template]{Key: "nodeClassRef", Required: true, Read: func(r *reader, n *node, t *template) { nodeClassSchema.Read(r, n, &t.nodeClass) }},
	document.Field[template]{Key: "nodePool", Read: func(r *reader, n *node, t *template) {
		r.Text(n, &t.nodePool)
		if faults := validation.IsDNS1123Subdomain(t.nodePool); len(faults) > 0 {
			r.Fault("%s", faults[0])
		}
	}},
	document.Field[template]{Key: "requirements", Read: func(r *reader, n *node, t *template) {
		r.List(n, func(_ int, n *node) {
			var x requirement
			requirementSchema.Read(r, n, &x)
			t.requirements = append(t.requirements, x)
		})
	}},
	document.Field[template]{Key: "startupTaints", Read: func(r *reader, n *node, t *template) {
		r.List(n, func(_ int, n *node) {
			var x driver.Taint
			taintSchema.Read(r, n, &x)
			t.startupTaints = append(t.startupTaints, x)
		})
	}},
	document.Field[template]{Key: "annotations", Read: func(r *reader, n *node, t *template) {
		t.annotations = map[string]string{}
		r.Map(n, func(key string, n *node) {
			var value string
			r.Plain(n, &value)
			faults := validation.IsQualifiedName(key)
			if domain, _, _ := strings.Cut(key, "/"); domain == group || domain+"/" == kube.KeyPrefix {
				faults = append(faults, "keys of the domain "+domain+" are set by the driver")
			}
			if len(faults) > 0 {
				r.Fault("%s", faults[0])
				return
			}
			t.annotations[key] = value
		})
	}},
)

var nodeClassSchema = document.NewSchema(
	document.Field[nodeClass]{Key: "group", Required: true, Read: func(r *reader, n *node, c *nodeClass) { r.Name(n, &c.group) }},
	document.Field[nodeClass]{Key: "kind", Required: true, Read: func(r *reader, n *node, c *nodeClass) { r.Name(n, &c.kind) }},
	document.Field[nodeClass]{Key: "name", Required: true, Read: func(r *reader, n *node, c *nodeClass) { r.Name(n, &c.name) }},
)

var requirementSchema = document.NewSchema(
	document.Field[requirement]{Key: "key", Required: true, Read: func(r *reader, n *node, x *requirement) {
		r.Name(n, &x.key)
		switch x.key {
		case model.KeyInstanceType, model.KeyZone, model.KeyCapacityType:
			r.Fault("%s is set from the pool's offer", x.key)
		case corev1.LabelHostname:
			r.Fault("Karpenter takes no requirement on %s", x.key)
		}
	}},
	document.Field[requirement]{Key: "operator", Required: true, Read: func(r *reader, n *node, x *requirement) {
		readWord(r, n, &x.operator, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
	}},
	document.Field[requirement]{Key: "values", Read: func(r *reader, n *node, x *requirement) { r.Names(n, &x.values) }},
)

var taintSchema = document.NewSchema(
	document.Field[driver.Taint]{Key: "key", Required: true, Read: func(r *reader, n *node, t *driver.Taint) { r.Name(n, &t.Key) }},
	document.Field[driver.Taint]{Key: "value", Read: func(r *reader, n *node, t *driver.Taint) { r.Text(n, &t.Value) }},
	document.Field[driver.Taint]{Key: "effect", Required: true, Read: func(r *reader, n *node, t *driver.Taint) {
		readWord(r, n, &t.Effect, "NoSchedule", "PreferNoSchedule", "NoExecute")
	}},
)

// readWord reads one of some words.
func readWord(r *reader, n *node, into *string, words ...string) {
	if r.Text(n, into); n.Kind == document.Text && !slices.Contains(words, *into) {
		r.Fault("must be one of %s, got %s", strings.Join(words, ", "), document.Quote(*into))
	}
}

// parseTemplate reads the template of an offer.
func parseTemplate(text []byte) (*template, error) {
	if len(text) == 0 {
		return nil, errors.New("template is missing; it says under nodeClassRef of which class nodes are")
	}
	t := &template{nodePool: nodePoolDefault}
	return t, document.Unmarshal(text, templateSchema, t)
}

// fits says why Karpenter cannot be asked for an offer.
func fits(o *driver.Offer) error {
	switch o.CapacityType {
	case model.OnDemand, model.Spot, model.Reserved:
	default:
		return fmt.Errorf("capacity type %s: Karpenter knows OnDemand, Spot and Reserved", o.CapacityType)
	}
	for key := range o.Labels {
		domain, _, found := strings.Cut(key, "/")
		if found && (domain == group || strings.HasSuffix(domain, "."+group)) || key == corev1.LabelHostname {
			return fmt.Errorf("label %s: Karpenter sets it itself", key)
		}
	}
	return nil
}

// spec returns the spec of a NodeClaim for an offer.
func (t *template) spec(o *driver.Offer) map[string]any {
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	requirements := []any{in(model.KeyInstanceType, o.InstanceType), in(model.KeyCapacityType, o.CapacityType.Label())}
	if o.Zone != "" {
		requirements = append(requirements, in(model.KeyZone, o.Zone))
	}
	for _, x := range t.requirements {
		r := map[string]any{"key": x.key, "operator": x.operator}
		if len(x.values) > 0 {
			values := make([]any, len(x.values))
			for i, v := range x.values {
				values[i] = v
			}
			r["values"] = values
		}
		requirements = append(requirements, r)
	}
	out := map[string]any{
		"nodeClassRef": map[string]any{"group": t.nodeClass.group, "kind": t.nodeClass.kind, "name": t.nodeClass.name},
		"requirements": requirements,
		"expireAfter":  "Never", // the default would delete the machine after thirty days
	}
	if len(o.Taints) > 0 {
		out["taints"] = taints(o.Taints)
	}
	if len(t.startupTaints) > 0 {
		out["startupTaints"] = taints(t.startupTaints)
	}
	return out
}

func taints(list []driver.Taint) []any {
	out := make([]any, len(list))
	for i, t := range list {
		x := map[string]any{"key": t.Key, "effect": t.Effect}
		if t.Value != "" {
			x["value"] = t.Value
		}
		out[i] = x
	}
	return out
}
