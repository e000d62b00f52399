package benches

import (
	"flag"
	"strings"
	"testing"

	"github.com/tonnage/tonnage/engine/bill"
	"github.com/tonnage/tonnage/internal/measure"
	"github.com/tonnage/tonnage/internal/workload"
)

var billRungs = flag.String("bill-rungs", "5k,50k", "rungs that BenchmarkBill bills")

// BenchmarkBill measures both halves of a bill: what a cycle pays, once a minute, to copy what it is made from,
// and the bound, for which no cycle waits.
func BenchmarkBill(b *testing.B) {
	for rung := range strings.SplitSeq(*billRungs, ",") {
		d, err := measure.NewDriver(b.Context(), measure.Config{Rung: mustRung(b, rung), Regime: workload.Steady, Cycles: 1, Seed: seed})
		if err != nil {
			b.Fatal(err)
		}
		in, err := d.Next()
		if err != nil {
			b.Fatal(err)
		}
		plan, err := d.Engine().Cycle(in)
		if err != nil {
			b.Fatal(err)
		}
		var read *bill.Problem
		b.Run("rung="+rung+"/part=read", func(b *testing.B) {
			start := processorTime(b)
			for b.Loop() {
				read = bill.Read(plan, in.Supply)
			}
			b.ReportMetric(float64((processorTime(b)-start).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
		})
		b.Run("rung="+rung+"/part=bound", func(b *testing.B) {
			start := processorTime(b)
			var of bill.Bill
			for b.Loop() {
				of = read.Bill()
			}
			b.ReportMetric(float64((processorTime(b)-start).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
			over, _ := of.Over()
			b.ReportMetric(100*over, "%over")
		})
		d.Close()
	}
}
