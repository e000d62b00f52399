package coordinator_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/tonnage/tonnage/coordinator"
	"github.com/tonnage/tonnage/engine/model"
)

// The fleet that one coordinator is sized for.
const (
	benchShards     = 200
	benchDomains    = 100_000
	benchOffers     = 64
	benchShortfalls = coordinator.ShortfallsMax
	benchProfiles   = 600
)

// sized is a core with as many shards and domains as it is sized for, all heard.
// Zones are 20; each shard offers 64 kinds, and is short of 100 profiles that
// scarce leaves without anything to move.
func sized(tb testing.TB, mode coordinator.Mode, scarce bool) *coordinator.Core {
	tb.Helper()
	c := coordinator.New(mode)
	l := c.Load(0)
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	for i := range benchShards {
		must(l.Add(fmt.Sprintf("shards/s-%03d", i), fmt.Appendf(nil, `{"id":"s-%03d","epoch":1}`, i)))
	}
	for i := range benchDomains {
		must(l.Add(fmt.Sprintf("domains/rack/rack-%06d", i), fmt.Appendf(nil, `"s-%03d"`, i%benchShards)))
	}
	for i := range benchShards {
		e, err := c.Step(1, benchReport(i, 1))
		must(err)
		must(c.Apply(e.Writes))
		e, err = c.Step(1, benchOffering(i, scarce))
		must(err)
		must(c.Apply(e.Writes))
	}
	return c
}

func benchReport(i int, cycle int64) *coordinator.Report {
	r := &coordinator.Report{Shard: fmt.Sprintf("s-%03d", i), Epoch: 1, Cycle: cycle, Stamp: cycle, Summary: &coordinator.Summary{Machines: 1000, ProviderAddress: "p:1"}}
	for k := range benchShortfalls {
		profile := (i*7 + k*13) % benchProfiles
		r.Shortfalls = append(r.Shortfalls, coordinator.Shortfall{
			Requirements: []model.Requirement{
				{Key: model.KeyInstanceType, Operator: model.In, Values: []string{fmt.Sprintf("type-%d", profile%30), fmt.Sprintf("type-%d", profile%29)}},
				{Key: model.KeyZone, Operator: model.In, Values: []string{fmt.Sprintf("zone-%d", profile%20)}},
			},
			Deficit: resources("cpu", 1_000_000), Priority: int32(profile), AgeCycles: 20, Bucket: model.BucketOneDollar,
		})
	}
	return r
}

func benchOffering(i int, scarce bool) *coordinator.Offering {
	o := &coordinator.Offering{Shard: fmt.Sprintf("s-%03d", i), Epoch: 1}
	for k := range benchOffers {
		n := 30
		if scarce {
			n = 1 // no more than the margin
		}
		x := coordinator.Offer{
			State: []model.State{model.Idle, model.Speculative, model.Configured}[k%3], InstanceType: fmt.Sprintf("type-%d", k%30), Zone: fmt.Sprintf("zone-%d", (i+k)%20),
			CapacityType: model.OnDemand, Unit: resources("cpu", 4000), PricePerHour: 0.2, Count: n, Priority: 1 << 20,
		}
		for m := range n {
			x.Machines = append(x.Machines, fmt.Sprintf("m-%d-%d-%d", i, k, m))
		}
		o.Offers = append(o.Offers, x)
	}
	return o
}

// processorTime reports the processor time of each operation: on a machine that
// others use too, the time by the clock says little.
func processorTime(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkRebalancePass is one pass over 200 shards with 20,000 shortfalls and
// 12,800 offers: scarce, where every offer is looked at for nothing, and plenty.
func BenchmarkRebalancePass(b *testing.B) {
	for _, scarce := range []bool{true, false} {
		b.Run(fmt.Sprintf("scarce=%t", scarce), func(b *testing.B) {
			c := sized(b, coordinator.RebalanceDryRun, scarce)
			b.ReportAllocs()
			defer processorTime(b)()
			for b.Loop() {
				if _, err := c.Step(2, coordinator.Rebalance{}); err != nil {
					b.Fatal(err)
				}
			}
			if run := c.LastPass(); len(run.Decisions) != coordinator.DecisionsMax || (run.Machines == 0) != scarce {
				b.Fatalf("%d decisions, %d machines", len(run.Decisions), run.Machines)
			}
		})
	}
}

// BenchmarkReport is one report with 100 shortfalls and the answer to it.
func BenchmarkReport(b *testing.B) {
	c := sized(b, coordinator.RebalanceOff, false)
	cycle := int64(1)
	reports := make([]*coordinator.Report, 0, benchShards)
	for i := range benchShards {
		reports = append(reports, benchReport(i, 0))
	}
	b.ReportAllocs()
	defer processorTime(b)()
	for i := 0; b.Loop(); i++ {
		r := reports[i%benchShards]
		if i%benchShards == 0 {
			cycle++
		}
		r.Cycle = cycle
		if _, err := c.Step(cycle, r); err != nil {
			b.Fatal(err)
		}
		c.Instructions(r.Shard)
	}
}

// BenchmarkOffering is one offering of 64 kinds.
func BenchmarkOffering(b *testing.B) {
	c := sized(b, coordinator.RebalanceOff, false)
	o := benchOffering(3, false)
	b.ReportAllocs()
	defer processorTime(b)()
	for b.Loop() {
		if _, err := c.Step(1, o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoad is what a new leader does with 100,000 domains.
func BenchmarkLoad(b *testing.B) {
	keys, values := make([]string, benchDomains), make([][]byte, benchDomains)
	for i := range keys {
		keys[i], values[i] = fmt.Sprintf("domains/rack/rack-%06d", i), fmt.Appendf(nil, `"s-%03d"`, i%benchShards)
	}
	defer processorTime(b)()
	for b.Loop() {
		l := coordinator.New(coordinator.RebalanceOff).Load(0)
		for i := range keys {
			if err := l.Add(keys[i], values[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
