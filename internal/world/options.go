package world

import (
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/world/document"
)

// gangBandDefault is one priority point.
const gangBandDefault = 1

func defaultOptions() Options {
	return Options{Engine: engine.DefaultOptions(), GangBand: gangBandDefault}
}

var optionsSchema = document.NewSchema(
	document.Field[Options]{Key: "workers", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 0, WorkersMax, &o.Engine.Workers)
	}},
	document.Field[Options]{Key: "reclaimCapFraction", Read: func(r *reader, n *node, o *Options) {
		o.ReclaimCapSet = true
		r.Float(n, 0, 1, &o.ReclaimCapFraction)
	}},
	document.Field[Options]{Key: "gang", Read: func(r *reader, n *node, o *Options) { gangSchema.Read(r, n, o) }},
	document.Field[Options]{Key: "weights", Read: func(r *reader, n *node, o *Options) { weightsSchema.Read(r, n, &o.Engine.Weights) }},
	document.Field[Options]{Key: "release", Read: func(r *reader, n *node, o *Options) { releaseSchema.Read(r, n, &o.Engine.Release) }},
	document.Field[Options]{Key: "tenancy", Read: func(r *reader, n *node, o *Options) { tenancySchema.Read(r, n, o) }},
)

var gangSchema = document.NewSchema(
	document.Field[Options]{Key: "victims", Read: func(r *reader, n *node, o *Options) {
		var text string
		switch r.Text(n, &text); {
		case n.Kind != document.Text:
		case text == "machine":
			o.Engine.Victims = engine.VictimsMachine
		case text == "gang":
			r.Fault("gang bundles are not available yet; use machine or leave it out")
		default:
			r.Fault("unknown way to choose victims %s; use machine", document.Quote(text))
		}
	}},
	document.Field[Options]{Key: "band", Read: func(r *reader, n *node, o *Options) {
		switch {
		case n.Kind == document.Text && n.Text == "inf", n.Kind == document.Number && n.Text == "Infinity":
			o.GangBand = inf
		case n.Kind == document.Number:
			r.Float(n, 0, inf, &o.GangBand)
		default:
			r.Fault(`must be a number of priority points or "inf", got %s`, document.Describe(n))
		}
	}},
	document.Field[Options]{Key: "topDomains", Read: func(r *reader, n *node, o *Options) {
		readInt(r, n, 1, TopDomainsMax, &o.Engine.TopDomains)
	}},
)

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
	document.Field[Options]{Key: "tenants", Read: func(r *reader, n *node, _ *Options) {
		if n.Kind != document.List {
			r.Fault("must be a list of tenants, got %s", document.Describe(n))
		} else if len(n.Items) > 0 {
			r.Fault("reclaim between tenants is not available yet; leave tenancy out")
		}
	}},
)

// readInt reads a whole number into an int.
func readInt(r *reader, n *node, low, high int, into *int) {
	v := int64(*into)
	r.Int(n, int64(low), int64(high), &v)
	*into = int(v)
}
