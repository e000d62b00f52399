package session

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tonnage/tonnage/engine/demand"
)

// The defaults of what one cluster may report.
const (
	ClusterRowsDefault            = 32_768
	ClusterGangsDefault           = 4_096
	ClusterRequirementSetsDefault = 1_024
	ClusterKeysDefault            = 64
	// ClusterIntervalDefault is the least time between two roll-ups of a cluster
	// that are read.
	ClusterIntervalDefault = time.Second
)

// ClusterLimits bound what the roll-up of one cluster may hold. A field that is 0
// stands for its default.
type ClusterLimits struct {
	// Rows is how many rows there may be, 1 to demand.RowsMax.
	Rows int
	// Gangs is how many rows with a Same requirement there may be, 1 to
	// demand.RowsMax: each is placed as a whole.
	Gangs int
	// RequirementSets is how many different sets of requirements the rows may
	// have, 1 to MatchersMax.
	RequirementSets int
	// Keys is how many different attribute keys requirements and hard spread may
	// name, 1 to KeysMax.
	Keys int
}

func (l ClusterLimits) orDefaults() ClusterLimits {
	return ClusterLimits{
		Rows: cmp.Or(l.Rows, ClusterRowsDefault), Gangs: cmp.Or(l.Gangs, ClusterGangsDefault),
		RequirementSets: cmp.Or(l.RequirementSets, ClusterRequirementSetsDefault), Keys: cmp.Or(l.Keys, ClusterKeysDefault),
	}
}

// Validate returns every fault of the limits, each by the name of its flag.
func (l ClusterLimits) Validate() error {
	l = l.orDefaults()
	var faults []error
	for _, x := range [...]struct {
		flag       string
		value, max int
	}{
		{FlagClusterRows, l.Rows, demand.RowsMax}, {FlagClusterGangs, l.Gangs, demand.RowsMax},
		{FlagClusterRequirementSets, l.RequirementSets, MatchersMax}, {FlagClusterKeys, l.Keys, KeysMax},
	} {
		if x.value < 1 || x.value > x.max {
			faults = append(faults, fmt.Errorf("--%s must be between 1 and %d, got %d", x.flag, x.max, x.value))
		}
	}
	return errors.Join(faults...)
}

// The flags that set the limits of a cluster: refusals name them as the remedy.
const (
	FlagClusterRows            = "cluster-rows-max"
	FlagClusterGangs           = "cluster-gangs-max"
	FlagClusterRequirementSets = "cluster-requirement-sets-max"
	FlagClusterKeys            = "cluster-keys-max"
)

// intervals keeps what each cluster has done apart in time. It outlives sessions,
// and holds the clusters of the last interval only.
type intervals struct {
	least time.Duration // 0 = nothing is kept apart

	mu   sync.Mutex
	next map[string]time.Time
}

func newIntervals(least time.Duration) intervals {
	return intervals{least: least, next: map[string]time.Time{}}
}

// begin returns 0 when the cluster may begin, which it has then done; else how
// long it is to wait before it asks again.
func (x *intervals) begin(cluster string) time.Duration {
	if x.least <= 0 {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if wait := time.Until(x.next[cluster]); wait > 0 {
		return wait
	}
	x.next[cluster] = time.Now().Add(x.least)
	time.AfterFunc(x.least, func() { x.forget(cluster) })
	return 0
}

// forget drops a cluster that may begin again.
func (x *intervals) forget(cluster string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Until(x.next[cluster]) <= 0 {
		delete(x.next, cluster)
	}
}
