package demand_test

import (
	"runtime"
	"testing"

	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

// rollups returns the demand of a rung by cluster.
func rollups(tb testing.TB, name string) (clusters []string, rows [][]model.Need, total int) {
	tb.Helper()
	r, err := workload.ByName(name)
	if err != nil {
		tb.Fatal(err)
	}
	f := workload.Build(r, 1)
	for i := range f.Clusters() {
		rows = append(rows, f.Needs(workload.Steady, i))
		total += len(rows[i])
	}
	return f.Clusters(), rows, total
}

// BenchmarkReplace reports the demand of all clusters, again and again.
func BenchmarkReplace(b *testing.B) {
	clusters, rows, total := rollups(b, "50k")
	d := demand.New()
	b.ReportAllocs()
	for b.Loop() {
		for i, c := range clusters {
			if err := d.Replace(c, rows[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*total), "ns/row")
}

// BenchmarkBytesPerRow measures the memory of a full table, by the heap.
func BenchmarkBytesPerRow(b *testing.B) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	for _, rung := range []string{"50k", "500k", "500k-rows"} {
		b.Run(rung, func(b *testing.B) {
			clusters, rows, total := rollups(b, rung)
			for b.Loop() {
				before := heap()
				d := demand.New()
				for i, c := range clusters {
					if err := d.Replace(c, rows[i]); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/float64(total), "bytes/row")
				b.ReportMetric(float64(d.Bytes())/float64(total), "accounted-bytes/row")
				b.ReportMetric(float64(len(d.Dims())), "dimensions")
				runtime.KeepAlive(d)
			}
			runtime.KeepAlive(rows)
		})
	}
}
