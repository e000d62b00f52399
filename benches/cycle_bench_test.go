package benches

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

// benchRungs are what a benchmark runs on in passing; the larger rungs are for
// `tonnage bench`.
var benchRungs = []string{"tiny", "5k", "50k"}

func mustRung(tb testing.TB, name string) workload.Rung {
	tb.Helper()
	r, err := workload.ByName(name)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// BenchmarkCycle runs whole cycles in every regime. Time per operation is that
// of cycles alone; the phases' shares of it stand beside it, and the processor
// time, which is what a shared machine leaves comparable.
func BenchmarkCycle(b *testing.B) {
	for _, rung := range benchRungs {
		for _, regime := range measure.Regimes() {
			b.Run(fmt.Sprintf("rung=%s/regime=%s", rung, regime), func(b *testing.B) { benchmarkCycle(b, mustRung(b, rung), regime) })
		}
	}
}

func benchmarkCycle(b *testing.B, rung workload.Rung, regime workload.Regime) {
	d, err := measure.NewDriver(b.Context(), measure.Config{Rung: rung, Regime: regime, Cycles: 1, Seed: seed})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var sum engine.Stats
	var cpu time.Duration
	for b.Loop() {
		b.StopTimer()
		in, err := d.Next()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		in.Clock = func() int64 { return int64(time.Since(began)) }
		b.StartTimer()
		used := processorTime(b)
		plan, err := d.Engine().Cycle(in)
		cpu += processorTime(b) - used
		b.StopTimer()
		if err == nil {
			add(&sum, &plan.Stats)
			err = d.Done(plan)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	report(b, &sum, cpu)
}

// add sums up what report takes the mean of.
func add(sum, st *engine.Stats) {
	sum.SnapshotNanos += st.SnapshotNanos
	sum.NormaliseNanos += st.NormaliseNanos
	sum.RankNanos += st.RankNanos
	sum.Phase1Nanos += st.Phase1Nanos
	sum.Phase2Nanos += st.Phase2Nanos
	sum.Phase3Nanos += st.Phase3Nanos
	sum.Probes += st.Probes
	sum.Unsatisfied += st.Unsatisfied
}

func report(b *testing.B, sum *engine.Stats, cpu time.Duration) {
	mean := func(total int64) float64 { return float64(total) / float64(b.N) }
	b.ReportMetric(mean(int64(cpu))/1e6, "cpu-ms/op")
	b.ReportMetric(mean(sum.SnapshotNanos)/1e6, "snapshot-ms/op")
	b.ReportMetric(mean(sum.NormaliseNanos)/1e6, "normalise-ms/op")
	b.ReportMetric(mean(sum.RankNanos)/1e6, "rank-ms/op")
	b.ReportMetric(mean(sum.Phase1Nanos)/1e6, "phase1-ms/op")
	b.ReportMetric(mean(sum.Phase2Nanos)/1e6, "phase2-ms/op")
	b.ReportMetric(mean(sum.Phase3Nanos)/1e6, "phase3-ms/op")
	b.ReportMetric(mean(sum.Probes), "probes/op")
	b.ReportMetric(mean(int64(sum.Unsatisfied)), "unsatisfied")
}

// processorTime is what the process has used so far.
func processorTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
