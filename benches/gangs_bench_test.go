package benches

import (
	"fmt"
	"testing"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

const benchRack = "topology.kubernetes.io/rack"

// benchRackMachines is how many machines stand in a rack, so that a gang of 100
// fits in one.
const benchRackMachines = 200

// gangNeed is a row that wants so many whole machines.
func gangNeed(b *testing.B, cluster, group string, priority int32, machines int64, same bool) model.Need {
	b.Helper()
	spec := model.ProfileSpec{Priority: priority}
	if same {
		spec.Requirements = []model.Requirement{{Key: benchRack, Operator: model.Same}}
	}
	p, err := model.NewProfile(spec)
	if err != nil {
		b.Fatal(err)
	}
	cpu := func(n int64) model.Resources { return model.NewResources(model.Amount{Name: "cpu", Value: n}) }
	return model.Need{Cluster: cluster, Profile: p, Aggregate: cpu(4 * machines), MinUnit: cpu(4), Group: group}
}

// fullFleet is a fleet that a plain row of low priority fills: each machine is a
// unit by itself.
func fullFleet(b *testing.B, machines int) engine.Input {
	b.Helper()
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: 1}
	n := gangNeed(b, "low", "", 1, int64(machines), false)
	for i := range machines {
		m := model.Machine{
			ID: fmt.Sprintf("m%06d", i), State: model.Configured, Cluster: "low", CapacityType: model.BareMetal, PricePerHour: 1, Resources: n.MinUnit,
			Labels:   map[string]string{benchRack: fmt.Sprintf("r%04d", i/benchRackMachines)},
			Assigned: model.Assignment{Priority: 1, Fingerprint: n.Profile.Fingerprint(), Group: n.Group},
		}
		if err := in.Supply.Put(&m); err != nil {
			b.Fatal(err)
		}
	}
	if err := in.Demand.Replace("low", []model.Need{n}); err != nil {
		b.Fatal(err)
	}
	return in
}

// BenchmarkPreempt is phase 2 where it has most to do: many rows that are short
// in a large fleet, and a gang of whole machines, in one rack or not, that can
// and cannot be had.
func BenchmarkPreempt(b *testing.B) {
	for _, x := range []struct {
		name           string
		machines, rows int
		each           int64
		same           bool
	}{
		{"rows=100/machines=100000", 100_000, 100, 1, false},
		{"gang=100/machines=1000/scope=fleet", 1_000, 1, 100, false},
		{"gang=100/machines=1000/scope=rack", 1_000, 1, 100, true},
		{"gang=201/machines=1000/scope=rack/unsatisfiable", 1_000, 1, 201, true},
	} {
		b.Run(x.name, func(b *testing.B) {
			in := fullFleet(b, x.machines)
			var rows []model.Need
			for i := range x.rows {
				rows = append(rows, gangNeed(b, "high", fmt.Sprintf("n%d", i), 1_000, x.each, x.same))
			}
			if err := in.Demand.Replace("high", rows); err != nil {
				b.Fatal(err)
			}
			benchmarkPreempt(b, in)
		})
	}
}

// benchmarkPreempt decides on the same input again and again, each time from
// nothing.
func benchmarkPreempt(b *testing.B, in engine.Input) {
	opts := engine.DefaultOptions()
	opts.Full, opts.Workers = true, 1
	e, err := engine.New(opts)
	if err != nil {
		b.Fatal(err)
	}
	var sum engine.Stats
	began := processorTime(b)
	in.Clock = func() int64 { return int64(processorTime(b) - began) }
	for b.Loop() {
		plan, err := e.Cycle(in)
		if err != nil {
			b.Fatal(err)
		}
		add(&sum, &plan.Stats)
		b.ReportMetric(float64(plan.Stats.Actions[engine.Preempt]), "preempts")
	}
	b.ReportMetric(float64(sum.Phase2Nanos)/float64(b.N)/1e6, "phase2-cpu-ms/op")
}
