package sim

import (
	"time"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Scenario is one run: a world, what happens to it, and how fast the provider
// is. It is the parsed form of the input of `tonnage simulate`.
type Scenario struct {
	// Now is the time of the first cycle, Unix nanoseconds.
	Now int64
	// Machines is the supply at the start; stamps and reservations included.
	Machines []model.Machine
	// Demand is what the clusters have reported before the first cycle.
	Demand []Rollup
	// Reported are clusters that have reported, whether or not Demand has rows
	// of theirs. Clusters of Demand that are not listed have not reported:
	// their rows count, but nothing of theirs is reclaimed.
	Reported []string
	Options  engine.Options
	// Seed of every random draw: same scenario, same trace.
	Seed uint64
	// Cycles is the number of cycles, the first is 1.
	Cycles int
	// Interval is the time between two cycles; 0 = 10 s.
	Interval  time.Duration
	Latencies Latencies
	Faults    []Fault
	// Timeline in any order; events of one cycle happen in the order given.
	Timeline []Event
	Rails    Rails
}

// Need is a row of demand with the name that outputs carry.
type Need struct {
	Name string
	model.Need
}

// Rollup is the complete demand of one cluster.
type Rollup struct {
	Cluster string
	Needs   []Need
}

// Latencies say how long each transition takes, in cycles.
type Latencies struct {
	Create    Latency
	Configure Latency
	Drain     Latency
	Delete    Latency
}

// Latency is a number of cycles, drawn evenly from Min to Max, both included.
// 0 completes a transition within the cycle that starts it, after the decision.
type Latency struct {
	Min int
	Max int
}

// Fault makes calls of the provider fail, which leaves the machine Failed.
// Either Times or Probability is set.
type Fault struct {
	Op          shard.Op // OpAny = every operation
	Machine     string   // empty = every machine
	Times       int      // the first so many matching calls fail
	Probability float64  // each matching call fails with this probability
}

// Event is what happens before the cycle At decides; every field that is set
// happens, in the order of the fields.
type Event struct {
	At      int
	Replace *Rollup  // a roll-up, sent once
	Lose    []string // the provider no longer lists these machines
	// Restart makes the shard lose its memory; with Resend each cluster's last
	// roll-up is sent again once, in the cycle after.
	Restart bool
	Resend  bool
	Pause   *bool
	Change  *Change
}

// Change is what the provider says of a machine from now on; nil fields stay.
type Change struct {
	Machine                 string
	PricePerHour            *float64
	InterruptionProbability *float64
	Labels                  map[string]string // replaces all labels when not nil
	Allocatable             *model.Resources
}

// Rails are the shard's limits on what is carried out.
type Rails struct {
	ReclaimCapFraction float64 // 0 = off
	Quarantine         bool
	DryRun             bool
	Queue              int // most actions accepted in a cycle, 0 = no limit
}
