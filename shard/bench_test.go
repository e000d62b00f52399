package shard_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/provider/simulated"
	"github.com/tonnage/tonnage/shard"
)

// fullFleet is a shard whose machines are all bound, a hundred to a cluster.
func fullFleet(b *testing.B, n int) (*shard.Shard, *simulated.Fleet) {
	ms := make([]model.Machine, n)
	for i := range ms {
		ms[i] = machine(fmt.Sprintf("m-%06d", i), model.Configured, fmt.Sprintf("c-%04d", i/100))
		ms[i].Labels = map[string]string{"rack": fmt.Sprint("r", i/16)}
	}
	fleet, err := simulated.New(simulated.Config{Machines: ms})
	if err != nil {
		b.Fatal(err)
	}
	cfg := shard.DefaultConfig()
	cfg.Concurrency, cfg.FullListCycles = 0, 0
	s, err := shard.New(cfg, shard.Deps{Provider: fleet, Clock: time.Now, Observer: func(*shard.CycleReport) {}})
	if err != nil {
		b.Fatal(err)
	}
	for c := range n / 100 {
		if _, err := s.ApplyRollup(fmt.Sprintf("c-%04d", c), []model.Need{need(b, 100, 400)}, 1); err != nil {
			b.Fatal(err)
		}
	}
	return s, fleet
}

func stepOnce(b *testing.B, s *shard.Shard, now int64) *shard.Cycle {
	c, err := s.Step(context.Background(), now)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkColdCycle: the first cycle of a process, which adopts the fleet.
func BenchmarkColdCycle(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		s, _ := fullFleet(b, 225_000)
		b.StartTimer()
		stepOnce(b, s, second)
	}
}

// BenchmarkSteadyCycle: 225,000 machines, a hundredth of which changes its
// price between two cycles. What the engine does itself is reported apart.
func BenchmarkSteadyCycle(b *testing.B) {
	s, fleet := fullFleet(b, 225_000)
	now := second
	stepOnce(b, s, now)
	var engine int64
	for k := 0; b.Loop(); k++ {
		b.StopTimer()
		for i := range 2250 {
			price := float64(1 + k%7)
			if err := fleet.Change(fmt.Sprintf("m-%06d", i*100), simulated.Change{PricePerHour: &price}); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		now += 10 * second
		c := stepOnce(b, s, now)
		engine += c.Durations.Snapshot + c.Durations.Phase1 + c.Durations.Phase2 + c.Durations.Phase3
	}
	b.ReportMetric(float64(engine)/float64(b.N)/1e6, "engine-ms/op")
}
