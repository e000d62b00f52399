package engine_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/internal/workload"
)

var priorities = flag.Int("priorities", 100, "how many priorities the rows of BenchmarkCarriedOut/…/priorities have")

// contendedSeed is a seed for which newRungScript begins with the contended fleet of a rung.
const contendedSeed = 1

// BenchmarkCarriedOut is the time of the cycles of a contended fleet, given by -rung, while what they decide is carried out: three of four actions
// of each cycle, before the next. Many machines then drain or are held, and demand exceeds supply by far.
func BenchmarkCarriedOut(b *testing.B) {
	const cycles, tenants = 4, 20
	rung, err := workload.ByName(*rungName)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		set  func(*engine.Options, *script)
	}{
		{"cheapest", func(*engine.Options, *script) {}},
		{"fit", func(o *engine.Options, _ *script) { o.Acquire = engine.AcquireFit }},
		{"victims=machine", func(o *engine.Options, _ *script) { o.Victims = engine.VictimsMachine }},
		{fmt.Sprintf("priorities=%d", *priorities), func(_ *engine.Options, x *script) { manyPriorities(b, x, *priorities) }},
		{"tenants", func(o *engine.Options, x *script) { o.Tenancy.Tenants = equalShares(x, tenants) }},
	} {
		b.Run(fmt.Sprintf("rung=%s/%s", rung.Name, c.name), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				x := newRungScript(b, rung, contendedSeed)
				opts := engine.DefaultOptions()
				opts.CheckCycles = 1 << 20
				c.set(&opts, x)
				e, err := engine.New(opts)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for i := range cycles {
					start := time.Now()
					plan, err := e.Cycle(engine.Input{Supply: x.supply, Demand: x.demand, Now: x.now, DrainSeconds: x.drains, BackingOff: x.backing, Clock: func() int64 { return int64(time.Since(start)) }})
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(time.Since(start).Milliseconds()), fmt.Sprintf("ms-%d", i))
					b.ReportMetric(float64(plan.Stats.Phase1Nanos/1e6), fmt.Sprintf("phase1-ms-%d", i))
					b.ReportMetric(float64(plan.Stats.Phase2Nanos/1e6), fmt.Sprintf("phase2-ms-%d", i))
					b.StopTimer()
					x.carryOut(plan)
					x.tick()
					b.StartTimer()
				}
				e.Close()
				x.stop()
			}
		})
	}
}

// manyPriorities gives each row one of so many priorities, a thousand apart, in place of its own.
func manyPriorities(b *testing.B, x *script, priorities int) {
	type priced struct {
		of       *model.Profile
		priority int32
	}
	made := map[priced]*model.Profile{}
	for _, c := range x.demand.Clusters() {
		rows := x.demand.Rows(c)
		for i := range rows {
			at := priced{rows[i].Profile, 1000 * int32(x.rng.IntN(priorities))}
			if made[at] == nil {
				p := at.of
				profile, err := model.NewProfile(model.ProfileSpec{
					Requirements: p.Requirements(), Spread: p.Spread(), Priority: at.priority, Interruption: p.Interruption(), Reclamation: p.Reclamation(),
				})
				if err != nil {
					b.Fatal(err)
				}
				made[at] = profile
			}
			rows[i].Profile = made[at]
		}
		if err := x.demand.Replace(c, rows); err != nil {
			b.Fatal(err)
		}
	}
}

// equalShares gives so many tenants equal shares of all machines, and the clusters in turn.
func equalShares(x *script, tenants int) []engine.Tenant {
	sums := map[string]int64{}
	for r := range x.supply.RowMax() {
		if m := x.supply.Get(columnar.Row(r + 1)); m.ID != "" {
			for _, a := range m.EffectiveAllocatable() {
				sums[a.Name] += a.Value
			}
		}
	}
	var share []model.Amount
	for name, sum := range sums {
		share = append(share, model.Amount{Name: name, Value: sum / int64(tenants)})
	}
	out := make([]engine.Tenant, tenants)
	for i := range out {
		out[i] = engine.Tenant{Name: fmt.Sprint("t", i), Share: model.NewResources(share...)}
	}
	for i, c := range x.demand.Clusters() {
		out[i%tenants].Clusters = append(out[i%tenants].Clusters, c)
	}
	return out
}
