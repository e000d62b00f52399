package shard

import (
	"github.com/tonnage/tonnage/shard/internal/inventory"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
)

// Resync tells an operator of every machine that is bound to its cluster, as
// after it has connected, and lets it hear the hints anew; what it refused before is
// forgiven. What changes meanwhile follows. It returns the number of machines. O(machines of the
// shard), some nanoseconds each.
func (s *Shard) Resync(cluster string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executor.hints.forget(cluster)
	s.ledgers.Refusals.Forgive(func(k ledgers.DemandKey) bool { return k.Cluster == cluster })
	return s.inventory.TellAll(cluster)
}

// listenerOf returns the listener for changes of machines, nil if there is
// none.
func listenerOf(o Operators) inventory.Listener {
	if o == nil {
		return nil
	}
	return o
}
