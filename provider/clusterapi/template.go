package clusterapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/provider/driver"
	"github.com/tonnage/tonnage/provider/kube"
)

// template is how the machines of a pool are made. Texts may hold ${instanceType}, ${zone}, ${capacityType} and
// ${pool}.
type template struct {
	infrastructure *reference
	overrides      []override
	bootstrap      *reference // nil = the blob
	format         string     // of the blob, for whoever reads the Secret
	version        string     // of Kubernetes, for bootstrap providers
	failureDomain  string
	labels         map[string]string // on the Machine
	annotations    map[string]string
}

// reference names a template of Cluster API.
type reference struct{ group, kind, name string }

// override is put over the spec of the infrastructure where all that it names fits.
type override struct {
	instanceTypes, zones, capacityTypes []string
	spec                                json.RawMessage
}

// bootstrapFile is a bootstrap section while it is read.
type bootstrapFile struct {
	blob   bool
	format string
	ref    *reference
}

var templateSchema = document.NewSchema(
	document.Field[template]{Key: "infrastructure", Required: true, Read: func(r *reader, n *node, t *template) { infrastructureSchema.Read(r, n, t) }},
	document.Field[template]{Key: "bootstrap", Required: true, Read: func(r *reader, n *node, t *template) {
		var b bootstrapFile
		before := r.Count()
		bootstrapSchema.Read(r, n, &b)
		if b.blob == (b.ref != nil) && r.Count() == before {
			r.Fault("has either blob, for the bootstrap data that the shard sends, or templateRef")
		}
		t.format, t.bootstrap = b.format, b.ref
	}},
	document.Field[template]{Key: "version", Read: func(r *reader, n *node, t *template) { r.Text(n, &t.version) }},
	document.Field[template]{Key: "failureDomain", Read: func(r *reader, n *node, t *template) { r.Text(n, &t.failureDomain) }},
	document.Field[template]{Key: "labels", Read: func(r *reader, n *node, t *template) { readTexts(r, n, &t.labels, true) }},
	document.Field[template]{Key: "annotations", Read: func(r *reader, n *node, t *template) { readTexts(r, n, &t.annotations, false) }},
)

var infrastructureSchema = document.NewSchema(
	document.Field[template]{Key: "templateRef", Required: true, Read: func(r *reader, n *node, t *template) { t.infrastructure = readReference(r, n) }},
	document.Field[template]{Key: "overrides", Read: func(r *reader, n *node, t *template) {
		r.List(n, func(_ int, n *node) {
			var o override
			overrideSchema.Read(r, n, &o)
			t.overrides = append(t.overrides, o)
		})
	}},
)

var overrideSchema = document.NewSchema(
	document.Field[override]{Key: "instanceTypes", Read: func(r *reader, n *node, o *override) { r.Names(n, &o.instanceTypes) }},
	document.Field[override]{Key: "zones", Read: func(r *reader, n *node, o *override) { r.Names(n, &o.zones) }},
	document.Field[override]{Key: "capacityTypes", Read: func(r *reader, n *node, o *override) {
		r.Names(n, &o.capacityTypes)
		for _, name := range o.capacityTypes {
			if c, ok := model.ParseCapacityType(name); !ok || c == model.CapacityUnspecified {
				r.Fault("must be of BareMetal, Reserved, OnDemand, Spot, got %s", document.Quote(name))
			}
		}
	}},
	document.Field[override]{Key: "spec", Required: true, Read: func(r *reader, n *node, o *override) {
		if n.Kind != document.Object {
			r.Fault("must be an object that is put over the spec of the machine, got %s", document.Describe(n))
			return
		}
		r.Any(n)
		o.spec = document.AppendJSON(nil, n)
	}},
)

var bootstrapSchema = document.NewSchema(
	document.Field[bootstrapFile]{Key: "blob", Read: func(r *reader, n *node, b *bootstrapFile) {
		b.blob = true
		blobSchema.Read(r, n, b)
	}},
	document.Field[bootstrapFile]{Key: "templateRef", Read: func(r *reader, n *node, b *bootstrapFile) { b.ref = readReference(r, n) }},
)

var blobSchema = document.NewSchema(
	document.Field[bootstrapFile]{Key: "format", Read: func(r *reader, n *node, b *bootstrapFile) { r.Text(n, &b.format) }},
)

var referenceSchema = document.NewSchema(
	document.Field[reference]{Key: "apiGroup", Required: true, Read: func(r *reader, n *node, f *reference) {
		if r.Text(n, &f.group); strings.Contains(f.group, "/") {
			r.Fault("is a group without version, as in infrastructure.cluster.x-k8s.io, got %s", document.Quote(f.group))
		}
	}},
	document.Field[reference]{Key: "kind", Required: true, Read: func(r *reader, n *node, f *reference) {
		if r.Text(n, &f.kind); f.kind == kindSuffix || !strings.HasSuffix(f.kind, kindSuffix) {
			r.Fault("is the kind of a template and ends in %s, as in AWSMachineTemplate, got %s", kindSuffix, document.Quote(f.kind))
		}
	}},
	document.Field[reference]{Key: "name", Required: true, Read: func(r *reader, n *node, f *reference) { r.Name(n, &f.name) }},
).Refuse("namespace", "a template is in the namespace of the Cluster").Refuse("apiVersion", "write apiGroup; the version is the one that the server prefers")

// kindSuffix ends the kinds of templates; what is before it is the kind of what is made of them.
const kindSuffix = "Template"

func readReference(r *reader, n *node) *reference {
	f := &reference{}
	referenceSchema.Read(r, n, f)
	return f
}

// readTexts reads labels or annotations.
func readTexts(r *reader, n *node, into *map[string]string, label bool) {
	*into = map[string]string{}
	r.Map(n, func(key string, n *node) {
		var value string
		r.Plain(n, &value)
		faults := validation.IsQualifiedName(key)
		if label && !strings.Contains(value, "${") {
			faults = append(faults, validation.IsValidLabelValue(value)...)
		}
		if strings.HasPrefix(key, kube.KeyPrefix) {
			faults = append(faults, "keys that begin with "+kube.KeyPrefix+" are the driver's own")
		}
		if len(faults) > 0 {
			r.Fault("%s", faults[0])
			return
		}
		(*into)[key] = value
	})
}

// parseTemplate reads the template of an offer.
func parseTemplate(text []byte) (*template, error) {
	if len(text) == 0 {
		return nil, errors.New("template is missing; it says of which template of Cluster API machines are made")
	}
	t := &template{}
	return t, document.Unmarshal(text, templateSchema, t)
}

// placeholders returns what stands for the placeholders of a template.
func placeholders(o *driver.Offer) map[string]string {
	return map[string]string{"instanceType": o.InstanceType, "zone": o.Zone, "capacityType": o.CapacityType.String(), "pool": o.Pool}
}

// fill puts values in the place of ${name}.
func fill(text string, values map[string]string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		value, ok := values[name]
		if !closed || !ok {
			return "", fmt.Errorf("there is no placeholder ${%s}; there are ${%s}", name, strings.Join(slices.Sorted(maps.Keys(values)), "}, ${"))
		}
		b.WriteString(value)
		text = after
	}
}

// rendered is a template for one offer.
type rendered struct {
	infrastructure, bootstrap *reference // bootstrap may be nil
	overrides                 []map[string]any
	format                    string
	version, failureDomain    string
	labels, annotations       map[string]string
}

// render fills a template in for an offer.
func (t *template) render(o *driver.Offer) (*rendered, error) {
	values := placeholders(o)
	var faults []error
	text := func(at, s string) string {
		out, err := fill(s, values)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", at, err))
		}
		return out
	}
	texts := func(at string, m map[string]string, label bool) map[string]string {
		out := map[string]string{}
		for key, value := range m {
			out[key] = text(at+"."+key, value)
			if wrong := validation.IsValidLabelValue(out[key]); label && len(wrong) > 0 {
				faults = append(faults, fmt.Errorf("%s.%s: %s", at, key, wrong[0]))
			}
		}
		return out
	}
	ref := func(at string, f *reference) *reference {
		if f == nil {
			return nil
		}
		out := &reference{f.group, f.kind, text(at+".templateRef.name", f.name)}
		if wrong := validation.IsDNS1123Subdomain(out.name); out.name != "" && len(wrong) > 0 {
			faults = append(faults, fmt.Errorf("%s.templateRef.name: %q: %s", at, out.name, wrong[0]))
		}
		return out
	}
	r := &rendered{
		infrastructure: ref("infrastructure", t.infrastructure), bootstrap: ref("bootstrap", t.bootstrap), format: t.format,
		version: text("version", t.version), failureDomain: text("failureDomain", t.failureDomain),
		labels: texts("labels", t.labels, true), annotations: texts("annotations", t.annotations, false),
	}
	for i := range t.overrides {
		x := &t.overrides[i]
		if !x.fits(o) {
			continue
		}
		var spec any
		if err := json.Unmarshal(x.spec, &spec); err != nil {
			return nil, err
		}
		at := fmt.Sprintf("infrastructure.overrides[%d].spec", i)
		filled := fillAll(spec, func(s string) string { return text(at, s) })
		r.overrides = append(r.overrides, filled.(map[string]any)) // the schema takes nothing else
	}
	return r, errors.Join(faults...)
}

func (x *override) fits(o *driver.Offer) bool {
	for _, c := range []struct {
		names []string
		name  string
	}{{x.instanceTypes, o.InstanceType}, {x.zones, o.Zone}, {x.capacityTypes, o.CapacityType.String()}} {
		if len(c.names) > 0 && !slices.Contains(c.names, c.name) {
			return false
		}
	}
	return true
}

// fillAll fills in all texts of a value.
func fillAll(v any, text func(string) string) any {
	switch x := v.(type) {
	case string:
		return text(x)
	case []any:
		for i := range x {
			x[i] = fillAll(x[i], text)
		}
	case map[string]any:
		for k := range x {
			x[k] = fillAll(x[k], text)
		}
	case float64: // as the dynamic client has whole numbers
		if x == float64(int64(x)) {
			return int64(x)
		}
	}
	return v
}

// merge puts a patch over a value, as RFC 7396 has it.
func merge(into, patch map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for key, v := range patch {
		switch x := v.(type) {
		case nil:
			delete(into, key)
		case map[string]any:
			below, _ := into[key].(map[string]any)
			into[key] = merge(below, x)
		default:
			into[key] = v
		}
	}
	return into
}
