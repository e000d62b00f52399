package engine_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/workload"
)

// load builds the tables of a rung.
func load(tb testing.TB, name string, regime workload.Regime, seed uint64) engine.Input {
	tb.Helper()
	rung, err := workload.ByName(name)
	if err != nil {
		tb.Fatal(err)
	}
	f := workload.Build(rung, seed)
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: int64(time.Hour), Clock: func() int64 { return time.Now().UnixNano() }}
	for m := range f.Machines(regime, in.Now) {
		if err := in.Supply.Put(m); err != nil {
			tb.Fatal(err)
		}
	}
	for i, c := range f.Clusters() {
		if err := in.Demand.Replace(c, f.Needs(regime, i)); err != nil {
			tb.Fatal(err)
		}
	}
	return in
}

// cpuTime is the processor time that the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCycle runs whole cycles over a rung, every order formed anew.
func BenchmarkCycle(b *testing.B) {
	for _, rung := range []string{"tiny", "5k", "50k"} {
		for _, regime := range []workload.Regime{workload.Cold, workload.Steady} {
			b.Run(fmt.Sprintf("rung=%s/regime=%s", rung, regime), func(b *testing.B) {
				in := load(b, rung, regime, 1)
				e, err := engine.New(engine.DefaultOptions())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := e.Cycle(in); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				before := cpuTime()
				var st engine.Stats
				for b.Loop() {
					plan, err := e.Cycle(in)
					if err != nil {
						b.Fatal(err)
					}
					st = plan.Stats
				}
				// Processor time is what a shared machine leaves comparable.
				b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/op")
				b.ReportMetric(float64(st.SnapshotNanos)/1e6, "snapshot-ms")
				b.ReportMetric(float64(st.NormaliseNanos)/1e6, "normalise-ms")
				b.ReportMetric(float64(st.RankNanos)/1e6, "rank-ms")
				b.ReportMetric(float64(st.Phase1Nanos)/1e6, "phase1-ms")
				b.ReportMetric(float64(st.Phase2Nanos)/1e6, "phase2-ms")
				b.ReportMetric(float64(st.Phase3Nanos)/1e6, "phase3-ms")
				b.ReportMetric(float64(st.Unsatisfied), "unsatisfied")
			})
		}
	}
}
