package world

import (
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world/document"
)

func defaultOptions() Options { return Options{Engine: engine.DefaultOptions()} }

var optionsSchema = document.NewSchema(
	document.Field[Options]{Key: "workers",
		Is: document.IntegerOf(0, WorkersMax), Default: "0 = all cores", About: "The answer does not depend on it.",
		Read: func(r *reader, n *node, o *Options) {
			readInt(r, n, 0, WorkersMax, &o.Engine.Workers)
		}},
	document.Field[Options]{Key: "reclaimCapFraction",
		Is: document.NumberOf(0, 1), Default: "0 = off in `decide`, 0.05 in `simulate`", About: "Part of a cluster's Configured machines that may be reclaimed in one cycle.",
		Read: func(r *reader, n *node, o *Options) {
			o.ReclaimCapSet = true
			r.Float(n, 0, 1, &o.ReclaimCapFraction)
		}},
	document.Field[Options]{Key: "acquire",
		Is: document.WordOf("cheapest", "fit"), Default: "cheapest", About: "Which free machines a need takes: the cheapest, or those that fit it best ([acquisition by fit](docs/explanation/contract.md#acquisition-by-fit)).",
		Read: func(r *reader, n *node, o *Options) {
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
	document.Field[Options]{Key: "maxMachineShare",
		Is: document.NumberOf(0, 1), Default: "0 = any", About: "With `fit`: a machine is at most this part of a need, where such machines cover it.",
		Read: func(r *reader, n *node, o *Options) { r.Float(n, 0, 1, &o.Engine.MaxMachineShare) }},
	document.Field[Options]{Key: "fit",
		Is: document.ObjectOf("fit", func() []document.Description { return fitSchema.Describe() }), About: "Constants of the choice by fit.",
		Read: func(r *reader, n *node, o *Options) { fitSchema.Read(r, n, &o.Engine.Fit) }},
	document.Field[Options]{Key: "gang",
		Is: document.ObjectOf("gang", func() []document.Description { return gangSchema.Describe() }), About: "How victims are chosen ([gangs](docs/explanation/gangs.md)).",
		Read: func(r *reader, n *node, o *Options) { gangSchema.Read(r, n, o) }},
	document.Field[Options]{Key: "weights",
		Is: document.ObjectOf("weights", func() []document.Description { return weightsSchema.Describe() }), About: "Of the terms of the [victim score](docs/explanation/contract.md#71-victim-score).",
		Read: func(r *reader, n *node, o *Options) { weightsSchema.Read(r, n, &o.Engine.Weights) }},
	document.Field[Options]{Key: "release",
		Is: document.ObjectOf("release", func() []document.Description { return releaseSchema.Describe() }), About: "How long machines stay Idle before they are given back; 0 = for ever.",
		Read: func(r *reader, n *node, o *Options) { releaseSchema.Read(r, n, &o.Engine.Release) }},
	document.Field[Options]{Key: "drainSeconds",
		Is: document.Shape{Type: document.TypeNumbers, Max: HoldMax.Seconds()}, Default: "none", About: "Drain times by instance type; `decide` only.",
		Read: func(r *reader, n *node, o *Options) {
			o.DrainSeconds = map[string]float64{}
			r.OptionalMap(n, func(instanceType string, n *node) { // machines may have no type
				seconds := 0.0
				r.Float(n, 0, HoldMax.Seconds(), &seconds)
				o.DrainSeconds[instanceType] = seconds
			})
		}},
	document.Field[Options]{Key: "tenancy",
		Is: document.ObjectOf("tenancy", func() []document.Description { return tenancySchema.Describe() }), Default: "none", About: "Who has a right to what ([between tenants](docs/explanation/gangs.md#between-tenants)).",
		Read: func(r *reader, n *node, o *Options) { tenancySchema.Read(r, n, o) }},
)

var fitSchema = document.NewSchema(
	document.Field[engine.Fit]{Key: "lambda",
		Is: document.NumberOf(0, 1), Default: "0.2", About: "λ: the part of what a machine has beyond the shape of a need that does not count in the choice, at least; of a large surplus less counts.",
		Read: func(r *reader, n *node, f *engine.Fit) { r.Float(n, 0, 1, &f.Lambda) }},
	document.Field[engine.Fit]{Key: "epsilon",
		Is: document.NumberOf(0, 1), Default: "0.03", About: "ε: the part of a minimum unit that each machine counts less in the choice.",
		Read: func(r *reader, n *node, f *engine.Fit) { r.Float(n, 0, 1, &f.Epsilon) }},
)

var gangSchema = document.NewSchema(
	document.Field[Options]{Key: "victims",
		Is: document.WordOf("gang", "machine"), Default: "gang", About: "machine takes victims one by one, by score alone.",
		Read: func(r *reader, n *node, o *Options) {
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
	document.Field[Options]{Key: "band",
		Is: document.NumberOf(0, inf, "inf"), Default: "1", About: "[δ](docs/explanation/gangs.md#the-order-of-units) in priority points; `\"inf\"` takes the gentlest unit first.",
		Read: func(r *reader, n *node, o *Options) {
			switch {
			case n.Kind == document.Text && n.Text == "inf", n.Kind == document.Number && n.Text == "Infinity":
				o.Engine.Band = inf
			case n.Kind == document.Number:
				r.Float(n, 0, inf, &o.Engine.Band)
			default:
				r.Fault(`must be a number of priority points or "inf", got %s`, document.Describe(n))
			}
		}},
	document.Field[Options]{Key: "topDomains",
		Is: document.IntegerOf(1, TopDomainsMax), Default: "8", About: "Domains in which a plan is tried.",
		Read: func(r *reader, n *node, o *Options) {
			readInt(r, n, 1, TopDomainsMax, &o.Engine.TopDomains)
		}},
	document.Field[Options]{Key: "searchPairs",
		Is: document.IntegerOf(1, SearchMax), Default: "4194304", About: "[The budget of a search](docs/explanation/gangs.md#the-budget-of-a-search).",
		Read: func(r *reader, n *node, o *Options) {
			readInt(r, n, 1, SearchMax, &o.Engine.SearchPairs)
		}},
	document.Field[Options]{Key: "searchUnits",
		Is: document.IntegerOf(1, SearchMax), Default: "33554432", About: "Likewise, of units.",
		Read: func(r *reader, n *node, o *Options) {
			readInt(r, n, 1, SearchMax, &o.Engine.SearchUnits)
		}},
	document.Field[Options]{Key: "nested",
		Is: document.ListOf(document.Is(document.TypeName)), Default: "none", About: "[Nested topology keys](docs/explanation/gangs.md#nested-topology-keys), the widest first.",
		Read: func(r *reader, n *node, o *Options) { readNested(r, n, &o.Engine.Nested) }},
)

// readNested reads topology keys, the widest first.
func readNested(r *reader, n *node, into *[]string) {
	r.Names(n, into)
	if len(*into) > engine.NestedMax {
		r.Fault("more than %d keys", engine.NestedMax)
	}
}

var weightsSchema = document.NewSchema(
	document.Field[engine.Weights]{Key: "priority",
		Is: document.NumberOf(0, inf), Default: "1", About: "The gap of priority.",
		Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Priority) }},
	document.Field[engine.Weights]{Key: "drainSpeed",
		Is: document.NumberOf(0, inf), Default: "0.1", About: "How fast it drains.",
		Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.DrainSpeed) }},
	document.Field[engine.Weights]{Key: "interruption",
		Is: document.NumberOf(0, inf), Default: "0.1", About: "The interruption penalty.",
		Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Interruption) }},
	document.Field[engine.Weights]{Key: "reclamation",
		Is: document.NumberOf(0, inf), Default: "0.1", About: "The reclamation penalty.",
		Read: func(r *reader, n *node, w *engine.Weights) { r.Float(n, 0, inf, &w.Reclamation) }},
)

const neverReleased = "machines of this capacity type are never released; only OnDemand and Spot have a hold"

var releaseSchema = document.NewSchema(
	document.Field[engine.Release]{Key: "OnDemand",
		Is: document.Is(document.TypeDuration), Default: "10m", About: "On-demand machines.",
		Read: func(r *reader, n *node, o *engine.Release) { readHold(r, n, &o.OnDemand) }},
	document.Field[engine.Release]{Key: "Spot",
		Is: document.Is(document.TypeDuration), Default: "1m", About: "Spot machines.",
		Read: func(r *reader, n *node, o *engine.Release) { readHold(r, n, &o.Spot) }},
).Refuse("BareMetal", neverReleased).Refuse("Reserved", neverReleased).Refuse("Unspecified", neverReleased)

func readHold(r *reader, n *node, into *time.Duration) { r.Duration(n, HoldMax, into) }

var tenancySchema = document.NewSchema(
	document.Field[Options]{Key: "tenants",
		Is: document.ListOf(document.ObjectOf("tenant", func() []document.Description { return tenantSchema.Describe() })), Default: "none", About: "Each cluster stands with at most one.",
		Read: func(r *reader, n *node, o *Options) { readTenants(r, n, &o.Engine.Tenancy) }},
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
	document.Field[engine.Tenant]{Key: "name", Required: true,
		Is: document.Is(document.TypeName), About: "Each once.",
		Read: func(r *reader, n *node, t *engine.Tenant) { r.Name(n, &t.Name) }},
	document.Field[engine.Tenant]{Key: "clusters",
		Is: document.ListOf(document.Is(document.TypeName)), Default: "none", About: "Whose clusters are the tenant's.",
		Read: func(r *reader, n *node, t *engine.Tenant) { r.Names(n, &t.Clusters) }},
	document.Field[engine.Tenant]{Key: "share",
		Is: document.Is(document.TypeQuantities), Default: "none", About: "What is due to the tenant. Only dimensions that a share names count.",
		Read: func(r *reader, n *node, t *engine.Tenant) { r.Resources(n, &t.Share) }},
)

// readInt reads a whole number into an int.
func readInt(r *reader, n *node, low, high int, into *int) {
	v := int64(*into)
	r.Int(n, int64(low), int64(high), &v)
	*into = int(v)
}
