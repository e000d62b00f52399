// Package ledgers counts from cycle to cycle: who waits and since when, what rests, what has failed,
// what drains take.
package ledgers

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
	"github.com/tonnage/tonnage/shard/internal/memory"
	"github.com/tonnage/tonnage/shard/internal/pace"
)

// DrainTypesMax is how many instance types the ledger of drain times knows at most.
const DrainTypesMax = 4096

// recentSlots is how many entries a ledger finds without looking into its map,
// by the low bits of their fingerprints: hundreds of thousands of rows may share
// some dozens of profiles.
const recentSlots = 256

// drainWeight is the weight of a new observation in the moving average.
const drainWeight = 0.2

// meter takes the figures of the ledgers as metrics.
type meter interface {
	// Provisioned says how long demand waited for its first machine, in nanoseconds.
	Provisioned(nanos int64)
	// PlanFailed says that a plan of preemption failed.
	PlanFailed()
}

// Ledgers is what is counted from cycle to cycle: who waits and since when, what rests,
// what has failed, what drains take. Decisions read some of it; reports and metrics the
// rest.
type Ledgers struct {
	pace     *pace.Pace
	machines *supply.Table
	demand   *demand.Table
	meter    meter
	observes bool // drains: decisions use what they took

	parking    parking
	Shortfalls Shortfalls
	Latency    Latencies
	drainTimes drainTimes
	BackOffs   backOffs
	Failed     *Setbacks[string]    // calls, by machine
	Refusals   *Setbacks[DemandKey] // of bootstrap data, by what it was for
	deeds      []deeds              // of the last plan, by number of the row
}

// New returns empty ledgers.
func New(p *pace.Pace, machines *supply.Table, wanted *demand.Table, m meter, kept memory.Memory, observesDrains bool) *Ledgers {
	return &Ledgers{
		pace: p, machines: machines, demand: wanted, meter: m, observes: observesDrains,
		parking: newParking(), Shortfalls: newShortfalls(), Latency: newLatencies(kept), Failed: newSetbacks[string](0), Refusals: newSetbacks[DemandKey](refusalWait),
	}
}

// Record enters a plan in the ledgers, before anything is done about it: what
// it says of rows is read from the tables that it was made for.
func (l *Ledgers) Record(plan *engine.Plan) {
	l.deeds = deedsOf(plan.Actions, plan.Len(), l.deeds)
	l.recordParking(plan)
	l.Shortfalls.record(plan)
}

// RecordWaiting enters which demand waits, after what the plan does has begun.
func (l *Ledgers) RecordWaiting(plan *engine.Plan) {
	l.Latency.record(l.pace.Now, plan, l.deeds)
}

// DrainSeconds returns the observed drain times, nil when they are not used.
func (l *Ledgers) DrainSeconds() map[string]float64 {
	if !l.observes {
		return nil
	}
	return l.drainTimes.seconds
}

// Available is that of inventory.Witness, and so are the others.
func (l *Ledgers) Available(machine string) { l.parking.add(machine) }

// Drained is told of a drain that took so long.
func (l *Ledgers) Drained(instanceType string, nanos int64) {
	l.drainTimes.observe(instanceType, nanos)
}

// Bound is told of a machine that was bound for demand of a cluster.
func (l *Ledgers) Bound(machine, cluster string, fingerprint uint64) {
	l.parking.add(machine)
	if since, waited := l.Latency.bound(DemandKey{cluster, fingerprint}); waited {
		l.meter.Provisioned(l.pace.Now - since)
	}
}

// PlanFailed has the owner back off from the first cycle on that sees the failure.
func (l *Ledgers) PlanFailed(owner model.Owner) {
	sees := l.pace.Cycle
	if l.pace.Decided == l.pace.Cycle {
		sees++ // this one has decided already
	}
	l.BackOffs.failed(owner, sees)
	l.meter.PlanFailed()
}

// drainTimes is the observed drain time in seconds by instance type, an
// exponentially weighted moving average.
type drainTimes struct{ seconds map[string]float64 }

// observe adds one drain; nanos is how long it took.
func (d *drainTimes) observe(instanceType string, nanos int64) {
	seconds := float64(max(nanos, 0)) / 1e9
	old, known := d.seconds[instanceType]
	switch {
	case known:
		d.seconds[instanceType] = old + drainWeight*(seconds-old)
	case len(d.seconds) < DrainTypesMax:
		if d.seconds == nil {
			d.seconds = map[string]float64{}
		}
		d.seconds[instanceType] = seconds
	}
}
