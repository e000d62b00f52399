package benches

import (
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/internal/workload"
)

// benchTenants is how many tenants share a fleet's clusters, in turn.
const benchTenants = 4

// tenantFleet is a rung in a regime, and tenants to whom equal parts of all its
// machines are due.
func tenantFleet(b *testing.B, rung string, regime workload.Regime) (engine.Input, engine.Tenancy) {
	b.Helper()
	f := workload.Build(mustRung(b, rung), seed)
	in := engine.Input{Supply: supply.New(), Demand: demand.New(), Now: workload.Epoch.UnixNano()}
	sums := map[string]int64{}
	for m := range f.Machines(regime, in.Now) {
		if err := in.Supply.Put(m); err != nil {
			b.Fatal(err)
		}
		for _, a := range m.EffectiveAllocatable() {
			sums[a.Name] += a.Value
		}
	}
	var share []model.Amount
	for name, sum := range sums {
		share = append(share, model.Amount{Name: name, Value: sum / benchTenants})
	}
	t := engine.Tenancy{Tenants: make([]engine.Tenant, benchTenants)}
	for i := range t.Tenants {
		t.Tenants[i] = engine.Tenant{Name: fmt.Sprint("t", i), Share: model.NewResources(share...)}
	}
	for i, c := range f.Clusters() {
		if err := in.Demand.Replace(c, f.Needs(regime, i)); err != nil {
			b.Fatal(err)
		}
		x := &t.Tenants[i%benchTenants]
		x.Clusters = append(x.Clusters, c)
	}
	return in, t
}

// BenchmarkTenancy decides on one input without tenants and with them, in turn and
// each time from nothing, so that both see the same machine under the same load.
// Time per operation is that of both cycles together.
func BenchmarkTenancy(b *testing.B) {
	for _, rung := range benchRungs {
		for _, regime := range []workload.Regime{workload.Steady, workload.Contended} {
			b.Run(fmt.Sprintf("rung=%s/regime=%s/tenants=%d", rung, regime, benchTenants), func(b *testing.B) { benchmarkTenancy(b, rung, regime) })
		}
	}
}

func benchmarkTenancy(b *testing.B, rung string, regime workload.Regime) {
	in, tenancy := tenantFleet(b, rung, regime)
	var engines [2]*engine.Engine
	for i, t := range []engine.Tenancy{{}, tenancy} {
		opts := engine.DefaultOptions()
		opts.Full, opts.Workers, opts.Tenancy = true, 1, t
		e, err := engine.New(opts)
		if err != nil {
			b.Fatal(err)
		}
		defer e.Close()
		engines[i] = e
	}
	var least [2]time.Duration
	var preempts [2]int
	for b.Loop() {
		for i, e := range engines {
			used := processorTime(b)
			plan, err := e.Cycle(in)
			if err != nil {
				b.Fatal(err)
			}
			if used = processorTime(b) - used; least[i] == 0 || used < least[i] {
				least[i] = used
			}
			preempts[i] = plan.Stats.Actions[engine.Preempt]
		}
	}
	for i, of := range []string{"without", "with"} {
		b.ReportMetric(float64(least[i])/1e6, of+"-cpu-ms-min")
		b.ReportMetric(float64(preempts[i]), of+"-preempts")
	}
}
