package workload

import (
	"iter"

	"github.com/tonnage/tonnage/engine/model"
)

// Rollup is everything that one cluster needs at a time.
type Rollup struct {
	Cluster string
	At      int64 // when it was due, Unix nanoseconds
	Needs   []model.Need
}

// Source is a fleet at the start and its demand over time. It has one owner
// and is not safe for concurrent use.
type Source interface {
	// Describe says in one line what the source is.
	Describe() string
	// Clusters returns the ids of all clusters that may ever report, sorted.
	Clusters() []string
	// Machines yields the fleet as it is at the start, now in Unix nanoseconds.
	// The record is used again for the next machine; what it points to is
	// shared and must not be modified.
	Machines(now int64) iter.Seq[*model.Machine]
	// Due returns the roll-ups that fell due since the last call, in the order
	// in which they did: at most one per cluster, its latest, and at most
	// RollupsPerCallMax; what is left over is due at the next call. The first
	// call starts the source's clock; now must not go back.
	Due(now int64) []Rollup
	// Done reports whether no roll-up will come any more.
	Done() bool
}

// RollupsPerCallMax bounds what Due returns, and so the memory of a call.
const RollupsPerCallMax = 256
