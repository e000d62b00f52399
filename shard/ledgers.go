package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// DrainTypesMax is how many instance types the ledger of drain times knows at most.
const DrainTypesMax = 4096

// recentSlots is how many entries a ledger finds without looking into its map,
// by the low bits of their fingerprints: hundreds of thousands of rows may share
// some dozens of profiles.
const recentSlots = 256

// drainWeight is the weight of a new observation in the moving average.
const drainWeight = 0.2

// ledgers is what is counted from cycle to cycle: who waits and since when, what rests,
// what has failed, what drains take. Decisions read some of it; reports and metrics the
// rest.
type ledgers struct {
	cfg      *Config
	pace     *pace
	machines *supply.Table
	demand   *demand.Table
	metrics  *metrics

	parking    parking
	shortfalls shortfalls
	latency    latencies
	drainTimes drainTimes
	backOffs   backOffs
	failed     *setbacks[string]    // calls, by machine
	refusals   *setbacks[demandKey] // of bootstrap data, by what it was for
	hints      *hints
	deeds      []deeds // of the last plan, by number of the row
}

// record enters a plan in the ledgers, before anything is done about it: what
// it says of rows is read from the tables that it was made for.
func (l *ledgers) record(plan *engine.Plan) {
	l.deeds = deedsOf(plan.Actions, plan.Len(), l.deeds)
	l.recordParking(plan)
	l.shortfalls.record(plan)
}

// recordWaiting enters which demand waits, after what the plan does has begun.
func (l *ledgers) recordWaiting(plan *engine.Plan) {
	l.latency.record(l.pace.now, plan, l.deeds)
}

// drainSeconds returns the observed drain times, nil when they are not used.
func (l *ledgers) drainSeconds() map[string]float64 {
	if !l.cfg.ObserveDrains {
		return nil
	}
	return l.drainTimes.seconds
}

// available is that of witness, and so are the others.
func (l *ledgers) available(machine string) { l.parking.add(machine) }

func (l *ledgers) drained(instanceType string, nanos int64) {
	l.drainTimes.observe(instanceType, nanos)
}

func (l *ledgers) bound(cluster string, fingerprint uint64) {
	if since, waited := l.latency.bound(demandKey{cluster, fingerprint}); waited {
		l.metrics.provisioned(l.pace.now - since)
	}
}

// planFailed has the owner back off from the first cycle on that sees the failure.
func (l *ledgers) planFailed(owner model.Owner) {
	sees := l.pace.cycle
	if l.pace.decided == l.pace.cycle {
		sees++ // this one has decided already
	}
	l.backOffs.failed(owner, sees)
	l.metrics.plansFailed.Inc()
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
