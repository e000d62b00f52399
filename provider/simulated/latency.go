package simulated

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/shard"
)

// Latency is how long a transition takes: drawn evenly from Min, Min+Step …
// up to Max. 0 completes it within the call.
type Latency struct {
	Min  time.Duration
	Max  time.Duration
	Step time.Duration // 0 = one nanosecond
}

func (l Latency) draw(rng *rand.Rand) time.Duration {
	step := max(l.Step, 1)
	if n := int64((l.Max - l.Min) / step); n > 0 {
		return l.Min + time.Duration(rng.Int64N(n+1))*step
	}
	return l.Min
}

// Latencies of the four transitions.
type Latencies struct {
	Create    Latency
	Configure Latency
	Drain     Latency
	Delete    Latency
}

func (l *Latencies) of(op shard.Op) Latency {
	switch op {
	case shard.OpCreate:
		return l.Create
	case shard.OpConfigure:
		return l.Configure
	case shard.OpDrain:
		return l.Drain
	}
	return l.Delete
}

// Validate returns every fault of the latencies.
func (l *Latencies) Validate() error {
	var faults []error
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		if x := l.of(op); x.Min < 0 || x.Max < x.Min || x.Step < 0 {
			faults = append(faults, fmt.Errorf("latency of %s: 0 ≤ min ≤ max must hold, got min %v, max %v, step %v", op, x.Min, x.Max, x.Step))
		}
	}
	return errors.Join(faults...)
}

// transition is what an operation does to a machine's state.
type transition struct {
	from, during, to model.State
}

var transitions = [shard.NumOps]transition{
	shard.OpCreate:    {model.Speculative, model.Creating, model.Idle},
	shard.OpConfigure: {model.Idle, model.Configuring, model.Configured},
	shard.OpDrain:     {model.Configured, model.Draining, model.Idle},
	shard.OpDelete:    {model.Idle, model.Deleting, model.Speculative},
}

// underWay returns the operation that a machine in a transitional state is in.
func underWay(s model.State) (shard.Op, bool) {
	for op := shard.OpCreate; int(op) < shard.NumOps; op++ {
		if transitions[op].during == s {
			return op, true
		}
	}
	return shard.OpAny, false
}
