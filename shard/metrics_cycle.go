package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/rails"
	"github.com/tonnage/tonnage/shard/internal/tally"
)

// cycle takes over what one cycle did and how things stand after it.
func (m *metrics) cycle(s *Shard, c *Cycle) {
	if c.Number > uint64(s.cfg.WarmupCycles) {
		m.durations(&c.Durations)
	}
	m.refused(&c.Reconciled.Refused)
	m.doubted.Set(float64(c.Reconciled.Doubted))
	m.inventoryAndDemand(s)
	m.shortfallGauges(&s.ledgers.Shortfalls)
	m.takeMemory(s, c.Plan)
	for k := range engine.NumKinds {
		kind := engine.Kind(k).String()
		m.actions.WithLabelValues(kind).Add(float64(c.Counts[k]))
		if n := float64(c.Suppressed[k]); c.Disposition >= rails.Paused {
			m.suppressed.WithLabelValues(kind).Add(n)
		} else {
			m.dryRun.WithLabelValues(kind).Add(n)
		}
	}
	m.deferred.Add(float64(c.Cut))
	m.dropped.Add(float64(c.Dropped))
	m.deduped.Add(float64(c.Deduped))
	m.waiting.Add(float64(c.Waiting))
	m.capped.Add(float64(c.Capped))
	for kind, n := range c.Limited {
		if n > 0 {
			m.held.WithLabelValues(engine.Kind(kind).String()).Add(float64(n))
		}
	}
	m.parked.Set(float64(c.Parked))
	m.unoffered.Set(float64(c.Plan.Stats.Unoffered))
	m.ignored.Set(float64(len(s.inventory.Table.Ignored())))
	m.queueDepth.Set(float64(len(s.executor.queue)))
	m.inFlight.Set(float64(s.executor.inFlight.Count()))
	m.paused.Set(0)
	if s.rails.Halted() >= rails.Paused {
		m.paused.Set(1)
	}
	m.tripped.Set(0)
	if s.rails.Tripped() {
		m.tripped.Set(1)
	}
	m.acquired(&c.Plan.Stats.AcquireCounts)
	m.wasted.cycle(c)
}

// acquired counts how Needs came to free machines.
func (m *metrics) acquired(c *engine.AcquireCounts) {
	m.proposals.WithLabelValues("committed").Add(float64(c.Proposals - c.Retries))
	m.retries.Add(float64(c.Retries))
	m.proposals.WithLabelValues("conflict").Add(float64(c.Conflicts))
	m.displacements.Add(float64(c.Displacements))
	m.retriesExhausted.Add(float64(c.RetriesExhausted))
	for mode := range engine.NumProposeModes {
		name := engine.ProposeMode(mode).String()
		m.proposalsTimed.WithLabelValues(name).Add(float64(c.Timed[mode]))
		m.proposalSeconds.WithLabelValues(name).Add(float64(c.TimedNanos[mode]) / 1e9)
	}
}

func (m *metrics) durations(d *Durations) {
	if d.Total == 0 {
		return // no clock
	}
	m.cycleSeconds.Observe(float64(d.Total) / 1e9)
	m.cycleSecondsFine.Observe(float64(d.Total) / 1e9)
	for i, n := range [len(phases)]int64{d.Reconcile, d.Snapshot, d.Phase1, d.Phase2, d.Phase3, d.Emit, d.Execute} {
		m.phaseSeconds.WithLabelValues(phases[i]).Observe(float64(n) / 1e9)
		m.phaseSecondsFine.WithLabelValues(phases[i]).Observe(float64(n) / 1e9)
	}
}

// inventoryAndDemand shows the tallies. Only what changed is touched; a label
// set that has no machines any more stays, at zero.
func (m *metrics) inventoryAndDemand(s *Shard) {
	for st := range model.NumStates {
		for ct := range model.NumCapacityTypes {
			for b := range model.NumBuckets {
				n := s.inventory.Tally.Machines[st][ct][b]
				if n == m.inventoryN[st][ct][b] {
					continue
				}
				m.inventoryN[st][ct][b] = n
				labels := []string{model.State(st).String(), model.CapacityType(ct).String(), model.Bucket(b).Label()}
				m.inventory.WithLabelValues(labels...).Set(float64(n))
			}
		}
	}
	for b, n := range s.intake.Totals().Rows {
		m.demand.WithLabelValues(model.Bucket(b).Label()).Set(float64(n))
	}
	for ct, micros := range s.inventory.Tally.Spend {
		m.spend.WithLabelValues(model.CapacityType(ct).String()).Set(float64(micros) / tally.MicroDollars)
	}
}

// The classes of the shortfall gauges.
var (
	ageBuckets = [...]struct {
		name string
		from int
	}{{"1-9", 1}, {"10-59", 10}, {"60-299", 60}, {"300+", 300}}
	priorityClasses = [...]struct {
		name string
		from int32
	}{{"batch", 100}, {"service", 1000}, {"critical", 1_000_000}}
)

func (m *metrics) shortfallGauges(l *ledgers.Shortfalls) {
	var ages [len(ageBuckets)]int
	var classes [len(priorityClasses)]int
	other := 0
	l.Visit(func(p *model.Profile, age int) {
		i := len(ageBuckets) - 1
		for i > 0 && age < ageBuckets[i].from {
			i--
		}
		ages[i]++
		k := len(priorityClasses) - 1
		for k >= 0 && p.Priority() < priorityClasses[k].from {
			k--
		}
		if k < 0 {
			other++
		} else {
			classes[k]++
		}
	})
	m.shortfalls.WithLabelValues().Set(float64(l.Count()))
	for i, n := range ages {
		m.aged.WithLabelValues(ageBuckets[i].name).Set(float64(n))
	}
	for k, n := range classes {
		m.byPriority.WithLabelValues(priorityClasses[k].name).Set(float64(n))
	}
	m.byPriority.WithLabelValues("other").Set(float64(other))
}
