package benches

import (
	"runtime"
	"testing"

	"github.com/tonnage/tonnage/internal/workload"
	"github.com/tonnage/tonnage/shard"
)

// BenchmarkShard makes steady cycles of a whole shard that carries nothing out: a full listing, the
// roll-ups of a tenth of the clusters, the decision, ledgers and metrics. It shows the
// least processor time of a cycle, that of it beside the engine, and the heap at rest.
func BenchmarkShard(b *testing.B) {
	for _, rung := range []string{"5k", "500k-rows"} {
		b.Run("rung="+rung, func(b *testing.B) {
			fleet := workload.Build(mustRung(b, rung), seed)
			p := &listed{message: message(fleetRecords(fleet))}
			cfg := shard.DefaultConfig()
			cfg.Paused = true
			s, err := shard.New(cfg, shard.Deps{Provider: p, Clock: cpuClock})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			now := workload.Epoch.UnixNano()
			report := func(i int) {
				if _, err := s.ApplyRollup(fleet.Clusters()[i], fleet.Needs(workload.Steady, i), now); err != nil {
					b.Fatal(err)
				}
			}
			step := func() shard.Durations {
				now += int64(cfg.CycleInterval)
				c, err := s.Step(b.Context(), now)
				if err != nil {
					b.Fatal(err)
				}
				return c.Durations
			}
			for i := range fleet.Clusters() {
				report(i)
			}
			step()
			cycle, beside, turn := int64(1)<<62, int64(1)<<62, 0
			for b.Loop() {
				for range max(1, len(fleet.Clusters())/10) {
					report(turn % len(fleet.Clusters()))
					turn++
				}
				d := step()
				cycle, beside = min(cycle, d.Total), min(beside, d.Reconcile+d.Emit+d.Execute)
			}
			runtime.GC()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(cycle)/1e6, "least-cpu-ms/cycle")
			b.ReportMetric(float64(beside)/1e6, "least-cpu-ms/beside-engine")
			b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "heap-MiB")
		})
	}
}
