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
	document.Field[runFile]{Key: "world", Required: true, Read: func(r *reader, n *node, f *runFile) {
		f.world, f.book = readWorld(r, n)
	}},
	document.Field[runFile]{Key: "seed", Read: func(r *reader, n *node, f *runFile) {
		v := int64(seedDefault)
		r.Int(n, 0, math.MaxInt64, &v)
		f.Seed = uint64(v)
	}},
	document.Field[runFile]{Key: "cycles", Required: true, Read: func(r *reader, n *node, f *runFile) { readInt(r, n, 1, CyclesMax, &f.Cycles) }},
	document.Field[runFile]{Key: "cycleInterval", Read: func(r *reader, n *node, f *runFile) {
		if r.Duration(n, CycleIntervalMax, &f.Interval); f.Interval < CycleIntervalMin {
			r.Fault("must be at least %v, got %s", CycleIntervalMin, document.Describe(n))
		}
	}},
	document.Field[runFile]{Key: "provider", Read: func(r *reader, n *node, f *runFile) { providerSchema.Read(r, n, f) }},
	document.Field[runFile]{Key: "timeline", Read: func(r *reader, n *node, f *runFile) {
		r.List(n, func(_ int, n *node) { f.readEvent(r, n) })
	}},
	document.Field[runFile]{Key: "rails", Read: func(r *reader, n *node, f *runFile) { railsSchema.Read(r, n, f) }},
)

var providerSchema = document.NewSchema(
	document.Field[runFile]{Key: "create", Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Create) }},
	document.Field[runFile]{Key: "configure", Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Configure) }},
	document.Field[runFile]{Key: "drain", Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Drain) }},
	document.Field[runFile]{Key: "delete", Read: func(r *reader, n *node, f *runFile) { readLatency(r, n, &f.Latencies.Delete) }},
	document.Field[runFile]{Key: "faults", Read: func(r *reader, n *node, f *runFile) {
		r.List(n, func(_ int, n *node) { f.readFault(r, n) })
	}},
)

var latencySchema = document.NewSchema(
	document.Field[sim.Latency]{Key: "min", Required: true, Read: func(r *reader, n *node, l *sim.Latency) { readInt(r, n, 0, LatencyCyclesMax, &l.Min) }},
	document.Field[sim.Latency]{Key: "max", Required: true, Read: func(r *reader, n *node, l *sim.Latency) { readInt(r, n, 0, LatencyCyclesMax, &l.Max) }},
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
	document.Field[faultFile]{Key: "op", Required: true, Read: func(r *reader, n *node, f *faultFile) {
		readChoice(r, n, "operation", opNames, func(text string) (ok bool) {
			f.Op, ok = shard.ParseOp(text)
			return ok
		})
	}},
	document.Field[faultFile]{Key: "machine", Read: func(r *reader, n *node, f *faultFile) { f.book.readMachine(r, n, &f.Machine) }},
	document.Field[faultFile]{Key: "times", Read: func(r *reader, n *node, f *faultFile) {
		f.timesSet = true
		readInt(r, n, 1, FaultTimesMax, &f.Times)
	}},
	document.Field[faultFile]{Key: "probability", Read: func(r *reader, n *node, f *faultFile) {
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
	document.Field[runFile]{Key: "reclaimCapFraction", Read: func(r *reader, n *node, f *runFile) {
		f.railsCapSet = true
		r.Float(n, 0, 1, &f.rails.ReclaimCapFraction)
	}},
	document.Field[runFile]{Key: "rollupQuarantine", Read: func(r *reader, n *node, f *runFile) { r.Bool(n, &f.rails.Quarantine) }},
	document.Field[runFile]{Key: "dryRun", Read: func(r *reader, n *node, f *runFile) { r.Bool(n, &f.rails.DryRun) }},
	document.Field[runFile]{Key: "queue", Read: func(r *reader, n *node, f *runFile) { readInt(r, n, 0, QueueMax, &f.rails.Queue) }},
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
