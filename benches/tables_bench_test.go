package benches

import (
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// The tables that feed a cycle, one operation at a time: ns/op is per machine,
// per roll-up, or per move.

// onEveryRung runs a benchmark with the fleet of each rung.
func onEveryRung(b *testing.B, f func(b *testing.B, fleet *workload.Fleet)) {
	for _, rung := range benchRungs {
		b.Run("rung="+rung, func(b *testing.B) { f(b, workload.Build(mustRung(b, rung), seed)) })
	}
}

// steadyTables returns full tables whose supply tracks what demand looks at.
func steadyTables(b testing.TB, fleet *workload.Fleet) engine.Input {
	in, err := measure.Load(fleet, workload.Steady)
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(engine.DefaultOptions())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := e.Cycle(in); err != nil {
		b.Fatal(err)
	}
	return in
}

// BenchmarkPut replaces machines' records by equal ones, in a table that is
// full and tracks what demand looks at.
func BenchmarkPut(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in := steadyTables(b, fleet)
		records := make([]model.Machine, 0, in.Supply.Len())
		for r := range in.Supply.All() {
			records = append(records, in.Supply.Get(r))
		}
		b.ReportAllocs()
		at := 0
		for b.Loop() {
			if err := in.Supply.Put(&records[at]); err != nil {
				b.Fatal(err)
			}
			if at++; at == len(records) {
				at = 0
			}
		}
	})
}

// BenchmarkFill builds the machine table of a rung from nothing, before any
// demand is known.
func BenchmarkFill(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		records := make([]model.Machine, 0, fleet.Rung().Machines())
		for m := range fleet.Machines(workload.Steady, workload.Epoch.UnixNano()) {
			records = append(records, *m)
		}
		b.ReportAllocs()
		for b.Loop() {
			t := supply.New()
			for i := range records {
				if err := t.Put(&records[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perItem(b, len(records), "ns/machine")
	})
}

// BenchmarkReplace reports the demand of one cluster after another.
func BenchmarkReplace(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in := steadyTables(b, fleet)
		clusters := fleet.Clusters()
		rollups := make([][]model.Need, len(clusters))
		for i := range clusters {
			rollups[i] = fleet.Needs(workload.Steady, i)
		}
		b.ReportAllocs()
		at := 0
		for b.Loop() {
			if err := in.Demand.Replace(clusters[at], rollups[at]); err != nil {
				b.Fatal(err)
			}
			if at++; at == len(clusters) {
				at = 0
			}
		}
		perItem(b, fleet.Rows()/len(clusters), "ns/row")
	})
}

// BenchmarkTransition takes Idle machines to a cluster and back, through four
// moves, each of which keeps the sets of rows by state, matcher and domain.
func BenchmarkTransition(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in := steadyTables(b, fleet)
		var idle []columnar.Row
		for r := range in.Supply.All() {
			if in.Supply.State(r) == model.Idle {
				idle = append(idle, r)
			}
		}
		round := [...]model.State{model.Configuring, model.Configured, model.Draining, model.Idle}
		b.ReportAllocs()
		at := 0
		for b.Loop() {
			r, to := idle[at/len(round)%len(idle)], round[at%len(round)]
			if err := in.Supply.Transition(r, to, fleet.Clusters()[0], int64(at)); err != nil {
				b.Fatal(err)
			}
			at++
		}
	})
}

// BenchmarkIndex makes a full table track the profiles of its demand: it splits
// machines into classes, admits matchers, and builds the sets of rows.
func BenchmarkIndex(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in, err := measure.Load(fleet, workload.Steady)
		if err != nil {
			b.Fatal(err)
		}
		profiles := profilesOf(in.Demand)
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			t := supply.New()
			for r := range in.Supply.All() {
				m := in.Supply.Get(r)
				if err := t.Put(&m); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			if err := t.Use(profiles); err != nil {
				b.Fatal(err)
			}
		}
		perItem(b, in.Supply.Len(), "ns/machine")
	})
}

// BenchmarkUse is what a cycle asks of the machine table when demand looks at
// nothing new.
func BenchmarkUse(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in := steadyTables(b, fleet)
		profiles := profilesOf(in.Demand)
		b.ReportAllocs()
		for b.Loop() {
			if err := in.Supply.Use(profiles); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// profilesOf lists the profiles in use.
func profilesOf(d *demand.Table) []*model.Profile {
	var out []*model.Profile
	for id := range d.ProfileIDMax() {
		if p := d.Profile(id); p != nil {
			out = append(out, p)
		}
	}
	return out
}

// BenchmarkLookup finds machines by id, in an order that no cache foresees.
func BenchmarkLookup(b *testing.B) {
	onEveryRung(b, func(b *testing.B, fleet *workload.Fleet) {
		in := steadyTables(b, fleet)
		ids := make([]string, 0, in.Supply.Len())
		for r := range in.Supply.All() {
			ids = append(ids, in.Supply.ID(r))
		}
		const stride = 7919 // prime: every id comes up before one comes again
		at := 0
		for b.Loop() {
			if _, ok := in.Supply.Lookup(ids[at]); !ok {
				b.Fatal("a machine is gone")
			}
			at = (at + stride) % len(ids)
		}
	})
}

// perItem reports the time for one of n things that an operation handles.
func perItem(b *testing.B, n int, unit string) {
	b.ReportMetric(float64(b.Elapsed())/float64(time.Nanosecond)/float64(b.N)/float64(n), unit)
}
