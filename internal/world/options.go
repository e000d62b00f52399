package world

import (
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world/document"
)

func defaultOptions() Options { return Options{Engine: engine.DefaultOptions()} }

var optionsSchema = document.NewSchema(
	document.Field[Options]{Key: "workers", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 0, WorkersMax, &o.Engine.Workers)
	}},
	document.Field[Options]{Key: "reclaimCapFraction", Read: func(r *reader, n *node, o *Options) {
		o.ReclaimCapSet = true
		r.Float(n, 0, 1, &o.ReclaimCapFraction)
	}},
	document.Field[Options]{Key: "acquire", Read: func(r *reader, n *node, o *Options) {
		var text string
		if r.Text(n, &text); n.Kind != document.Text {
			return
		}
		rule, err := engine.ParseAcquireRule(text)
		if err != nil {
			r.Fault("unknown rule of acquisition %s; use cheapest or fit", document.Quote(text))
		}
		o.Engine.Acquire = rule
	}},
	document.Field[Options]{Key: "maxMachineShare", Read: func(r *reader, n *node, o *Options) { r.Float(n, 0, 1, &o.Engine.MaxMachineShare) }},
	document.Field[Options]{Key: "fit", Read: func(r *reader, n *node, o *Options) { fitSchema.Read(r, n, &o.Engine.Fit) }},
	document.Field[Options]{Key: "gang", Read: func(r *reader, n *node, o *Options) { gangSchema.Read(r, n, o) }},
	document.Field[Options]{Key: "weights", Read: func(r *reader, n *node, o *Options) { weightsSchema.Read(r, n, &o.Engine.Weights) }},
	document.Field[Options]{Key: "release", Read: func(r *reader, n *node, o *Options) { releaseSchema.Read(r, n, &o.Engine.Release) }},
	document.Field[Options]{Key: "drainSeconds", Read: func(r *reader, n *node, o *Options) {
		o.DrainSeconds = map[string]float64{}
		r.OptionalMap(n, func(instanceType string, n *node) { // machines may have no type
			seconds := 0.0
			r.Float(n, 0, HoldMax.Seconds(), &seconds)
			o.DrainSeconds[instanceType] = seconds
		})
	}},
	document.Field[Options]{Key: "tenancy", Read: func(r *reader, n *node, o *Options) { tenancySchema.Read(r, n, o) }},
)

var fitSchema = document.NewSchema(
	document.Field[engine.Fit]{Key: "lambda", Read: func(r *reader, n *node, f *engine.Fit) { r.Float(n, 0, 1, &f.Lambda) }},
	document.Field[engine.Fit]{Key: "epsilon", Read: func(r *reader, n *node, f *engine.Fit) { r.Float(n, 0, 1, &f.Epsilon) }},
)

var gangSchema = document.NewSchema(
	document.Field[Options]{Key: "victims", Read: func(r *reader, n *node, o *Options) {
		var text string
		switch r.Text(n, &text); {
		case n.Kind != document.Text:
		case text == "machine":
			o.Engine.Victims = engine.VictimsMachine
		case text == "gang":
			o.Engine.Victims = engine.VictimsGang
		default:
			r.Fault("unknown way to choose victims %s; use gang or machine", document.Quote(text))
		}
	}},
	document.Field[Options]{Key: "band", Read: func(r *reader, n *node, o *Options) {
		switch {
		case n.Kind == document.Text && n.Text == "inf", n.Kind == document.Number && n.Text == "Infinity":
			o.Engine.Band = inf
		case n.Kind == document.Number:
			r.Float(n, 0, inf, &o.Engine.Band)
		default:
			r.Fault(`must be a number of priority points or "inf", got %s`, document.Describe(n))
		}
	}},
	document.Field[Options]{Key: "topDomains", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 1, TopDomainsMax, &o.Engine.TopDomains)
	}},
	document.Field[Options]{Key: "searchPairs", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 1, SearchMax, &o.Engine.SearchPairs)
	}},
	document.Field[Options]{Key: "searchUnits", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 1, SearchMax, &o.Engine.SearchUnits)
	}},
	document.Field[Options]{Key: "nested", Read: func(r *reader, n *node, o *Options) { readNested(r, n, &o.Engine.Nested) }},
)

// readNested reads topology keys, the widest first.
func readNested(r *reader, n *node, into *[]string) {
	r.Names(n, into)
	if len(*into) > engine.NestedMax {
		r.Fault("more than %d keys", engine.NestedMax)
	}
}

var weightsSchema = document.NewSchema(
	document.Field[engine.Weights]{Key: "priority", Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Priority) }},
	document.Field[engine.Weights]{Key: "drainSpeed", Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.DrainSpeed) }},
	document.Field[engine.Weights]{Key: "interruption", Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Interruption) }},
	document.Field[engine.Weights]{Key: "reclamation", Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Reclamation) }},
)

const neverReleased = "machines of this capacity type are never released; only OnDemand and Spot have a hold"

var releaseSchema = document.NewSchema(
	document.Field[engine.Release]{Key: "OnDemand", Read: func(r *reader, n *node, o *engine.Release) { readHold(r, n, &o.OnDemand) }},
	document.Field[engine.Release]{Key: "Spot", Read: func(r *reader, n *node, o *engine.Release) { readHold(r, n, &o.Spot) }},
).Refuse("BareMetal", neverReleased).Refuse("Reserved", neverReleased).Refuse("Unspecified", neverReleased)

func readHold(r *reader, n *node, into *time.Duration) { r.Duration(n, HoldMax, into) }

var tenancySchema = document.NewSchema(
	document.Field[Options]{Key: "tenants", Read: func(r *reader, n *node, o *Options) { readTenants(r, n, &o.Engine.Tenancy) }},
)

// readTenants reads the tenants; a name or a cluster stands with one of them.
func readTenants(r *reader, n *node, into *engine.Tenancy) {
	names, owner := map[string]int{}, map[string]string{}
	r.List(n, func(i int, n *node) {
		if i == engine.TenantsMax {
			r.Fault("more than %d tenants", engine.TenantsMax)
		}
		if i >= engine.TenantsMax {
			return
		}
		var t engine.Tenant
		tenantSchema.Read(r, n, &t)
		if first, ok := names[t.Name]; ok && t.Name != "" {
			r.FaultKey("name", "%s is used twice; first by item [%d] of the list", document.Quote(t.Name), first)
		}
		names[t.Name] = i
		for _, c := range t.Clusters {
			if other, ok := owner[c]; ok {
				r.FaultKey("clusters", "%s is a cluster of tenant %s already", document.Quote(c), document.Quote(other))
			}
			owner[c] = t.Name
		}
		into.Tenants = append(into.Tenants, t)
	})
}

var tenantSchema = document.NewSchema(
	document.Field[engine.Tenant]{Key: "name", Required: true, Read: func(r *reader, n *node, t *engine.Tenant) { r.Name(n, &t.Name) }},
	document.Field[engine.Tenant]{Key: "clusters", Read: func(r *reader, n *node, t *engine.Tenant) { r.Names(n, &t.Clusters) }},
	document.Field[engine.Tenant]{Key: "share", Read: func(r *reader, n *node, t *engine.Tenant) { r.Resources(n, &t.Share) }},
)

// readInt reads a whole number into an int.
func readInt(r *reader, n *node, low, high int, into *int) {
	v := int64(*into)
	r.Int(n, int64(low), int64(high), &v)
	*into = int(v)
}
