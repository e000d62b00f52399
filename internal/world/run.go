package world

import (
	"io"
	"math"
	"slices"
	"time"

	"github.com/tonnage/tonnage/internal/sim"
	"github.com/tonnage/tonnage/internal/world/document"
	"github.com/tonnage/tonnage/shard"
)

// What a run does when its file does not say.
const (
	seedDefault          = 1
	cycleIntervalDefault = 10 * time.Second
	reclaimCapDefault    = 0.05 // the shard's own
)

// runFile is a run while it is read.
type runFile struct {
	sim.Scenario
	world       *World
	book        book
	rails       sim.Rails
	railsCapSet bool
}

var runSchema = document.NewSchema(
	document.Field[runFile]{Key: "world", Required: true,
		Is: document.ObjectOf("world", func() []document.Description { return worldSchema.Describe() }), About: "The world at the beginning.",
		Read: func(r *reader, n *node, f *runFile) {
			f.world, f.book = readWorld(r, n)
		}},
	document.Field[runFile]{Key: "seed",
		Is: document.IntegerOf(0, math.MaxInt64), Default: "1", About: "Of every random draw.",
		Read: func(r *reader, n *node, f *runFile) {
			v := int64(seedDefault)
			r.Int(n, 0, math.MaxInt64, &v)
			f.Seed = uint64(v)
		}},
	document.Field[runFile]{Key: "cycles", Required: true,
		Is: document.IntegerOf(1, CyclesMax), About: "How many cycles.",
		Read: func(r *reader, n *node, f *runFile) { readInt(r, n, 1, CyclesMax, &f.Cycles) }},
	document.Field[runFile]{Key: "cycleInterval",
		Is: document.Is(document.TypeDuration), Default: "10s", About: "Virtual time between two cycles.",
		Read: func(r *reader, n *node, f *runFile) {
			if r.Duration(n, CycleIntervalMax, &f.Interval); f.Interval < CycleIntervalMin {
				r.Fault("must be at least %v, got %s", CycleIntervalMin, document.Describe(n))
			}
		}},
	document.Field[runFile]{Key: "provider",
		Is: document.ObjectOf("provider", func() []document.Description { return providerSchema.Describe() }), Default: "all 0", About: "How long changes of machines take, and which fail.",
		Read: func(r *reader, n *node, f *runFile) { providerSchema.Read(r, n, f) }},
	document.Field[runFile]{Key: "timeline",
		Is: document.ListOf(document.ObjectOf("event", func() []document.Description { return eventSchema.Describe() })), Default: "none", About: "What happens, and when.",
		Read: func(r *reader, n *node, f *runFile) {
			r.List(n, func(_ int, n *node) { f.readEvent(r, n) })
		}},
	document.Field[runFile]{Key: "rails",
		Is: document.ObjectOf("rails", func() []document.Description { return railsSchema.Describe() }), About: "What is carried out of what is decided.",
		Read: func(r *reader, n *node, f *runFile) { railsSchema.Read(r, n, f) }},
)

var providerSchema = document.NewSchema(
	document.Field[runFile]{Key: "create",
		Is: latencyShape, Default: "0", About: "Cycles from Create to Idle; of a late-bound machine, a part of the next.",
		Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Create) }},
	document.Field[runFile]{Key: "configure",
		Is: latencyShape, Default: "0", About: "Cycles from Configure to Configured.",
		Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Configure) }},
	document.Field[runFile]{Key: "drain",
		Is: latencyShape, Default: "0", About: "Cycles from Drain to Idle.",
		Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Drain) }},
	document.Field[runFile]{Key: "delete",
		Is: latencyShape, Default: "0", About: "Cycles from Delete until it is gone.",
		Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Delete) }},
	document.Field[runFile]{Key: "faults",
		Is: document.ListOf(document.ObjectOf("fault", func() []document.Description { return faultSchema.Describe() })), Default: "none", About: "Calls that fail.",
		Read: func(r *reader, n *node, f *runFile) {
			r.List(n, func(_ int, n *node) { f.readFault(r, n) })
		}},
)

var latencyShape = document.Shape{Type: document.TypeChoice, Choices: []document.Shape{
	document.IntegerOf(0, LatencyCyclesMax),
	document.ObjectOf("latency", func() []document.Description { return latencySchema.Describe() }),
}}

var latencySchema = document.NewSchema(
	document.Field[sim.Latency]{Key: "min", Required: true,
		Is: document.IntegerOf(0, LatencyCyclesMax), About: "The least.",
		Read: func(r *reader, n *node, l *sim.Latency) { readInt(r, n, 0, LatencyCyclesMax, &l.Min) }},
	document.Field[sim.Latency]{Key: "max", Required: true,
		Is: document.IntegerOf(0, LatencyCyclesMax), About: "The most.",
		Read: func(r *reader, n *node, l *sim.Latency) { readInt(r, n, 0, LatencyCyclesMax, &l.Max) }},
)

// readLatency reads a number of cycles, or the bounds it is drawn from.
func readLatency(r *reader, n *node, into *sim.Latency) {
	switch n.Kind {
	case document.Number:
		readInt(r, n, 0, LatencyCyclesMax, &into.Min)
		into.Max = into.Min
	case document.Object:
		if latencySchema.Read(r, n, into); into.Max < into.Min && !r.Failed() {
			r.Fault("min must be at most max, got %d and %d", into.Min, into.Max)
		}
	default:
		r.Fault("must be a number of cycles or {min, max}, got %s", document.Describe(n))
	}
}

// faultFile is a fault of the provider while it is read.
type faultFile struct {
	sim.Fault
	book                *book
	timesSet, chanceSet bool
}

var opNames = func() (names []string) {
	for o := range shard.NumOps {
		names = append(names, shard.Op(o).String())
	}
	return names
}()

var faultSchema = document.NewSchema(
	document.Field[faultFile]{Key: "op", Required: true,
		Is: document.WordOf(opNames...), About: "Which call.",
		Read: func(r *reader, n *node, f *faultFile) {
			readChoice(r, n, "operation", opNames, func(text string) (ok bool) {
				f.Op, ok = shard.ParseOp(text)
				return ok
			})
		}},
	document.Field[faultFile]{Key: "machine",
		Is: document.Is(document.TypeName), Default: "all", About: "Of which machine.",
		Read: func(r *reader, n *node, f *faultFile) { f.book.readMachine(r, n, &f.Machine) }},
	document.Field[faultFile]{Key: "times",
		Is: document.IntegerOf(1, FaultTimesMax), About: "The first so many calls fail. Give this or `probability`.",
		Read: func(r *reader, n *node, f *faultFile) {
			f.timesSet = true
			readInt(r, n, 1, FaultTimesMax, &f.Times)
		}},
	document.Field[faultFile]{Key: "probability",
		Is: document.NumberOf(0, 1), About: "Each call fails with it.",
		Read: func(r *reader, n *node, f *faultFile) {
			f.chanceSet = true
			r.Float(n, 0, 1, &f.Probability)
		}},
)

func (f *runFile) readFault(r *reader, n *node) {
	fault := faultFile{book: &f.book}
	faultSchema.Read(r, n, &fault)
	if n.Kind == document.Object && fault.timesSet == fault.chanceSet {
		r.Fault("give either times or probability")
	}
	f.Faults = append(f.Faults, fault.Fault)
}

var railsSchema = document.NewSchema(
	document.Field[runFile]{Key: "reclaimCapFraction",
		Is: document.NumberOf(0, 1), Default: "the world's", About: "Wins over the world's.",
		Read: func(r *reader, n *node, f *runFile) {
			f.railsCapSet = true
			r.Float(n, 0, 1, &f.rails.ReclaimCapFraction)
		}},
	document.Field[runFile]{Key: "rollupQuarantine",
		Is: document.Is(document.TypeBool), Default: "true", About: "Hold back a roll-up that drops nearly everything.",
		Read: func(r *reader, n *node, f *runFile) { r.Bool(n, &f.rails.Quarantine) }},
	document.Field[runFile]{Key: "dryRun",
		Is: document.Is(document.TypeBool), Default: "false", About: "Decide and carry out nothing.",
		Read: func(r *reader, n *node, f *runFile) { r.Bool(n, &f.rails.DryRun) }},
	document.Field[runFile]{Key: "queue",
		Is: document.IntegerOf(0, QueueMax), Default: "0 = no limit", About: "Most actions of a cycle.",
		Read: func(r *reader, n *node, f *runFile) { readInt(r, n, 0, QueueMax, &f.rails.Queue) }},
)

// ReadRun reads a run in JSON or YAML. Errors are those of Read.
func ReadRun(r io.Reader) (*sim.Scenario, error) {
	doc, err := load(r)
	if err != nil {
		return nil, err
	}
	reader := document.Reader{Of: doc}
	f := runFile{
		world: &World{}, book: newBook(), rails: sim.Rails{Quarantine: true},
		Scenario: sim.Scenario{Seed: seedDefault, Interval: cycleIntervalDefault},
	}
	runSchema.Read(&reader, &doc.Root, &f)
	if err := faultsOf(&reader); err != nil {
		return nil, err
	}
	f.finish()
	return &f.Scenario, nil
}

// finish takes the world into the scenario and settles the reclaim cap: the
// rails' own, else the world's, else the shard's default.
func (f *runFile) finish() {
	w := f.world
	f.Now, f.Machines, f.Reported, f.Options = w.Now, w.Machines, w.Reported, w.Options.Engine
	f.Demand = w.rollups()
	if !f.railsCapSet {
		f.rails.ReclaimCapFraction = reclaimCapDefault
		if w.Options.ReclaimCapSet {
			f.rails.ReclaimCapFraction = w.Options.ReclaimCapFraction
		}
	}
	f.Rails = f.rails
}

// rollups returns the demand cluster by cluster, clusters by id.
func (w *World) rollups() []sim.Rollup {
	clusters := make([]string, 0, len(w.rows))
	for cluster := range w.rows {
		clusters = append(clusters, cluster)
	}
	slices.Sort(clusters)
	out := make([]sim.Rollup, 0, len(clusters))
	for _, cluster := range clusters {
		needs := make([]Need, 0, len(w.rows[cluster]))
		for _, i := range w.rows[cluster] {
			needs = append(needs, w.Needs[i])
		}
		out = append(out, sim.Rollup{Cluster: cluster, Needs: needs})
	}
	return out
}
