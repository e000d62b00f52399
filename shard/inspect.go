package shard

import "github.com/tonnage/tonnage/engine"

// Inspect shows what the next cycle would look at: the tables as they are, at
// the time of the last cycle, and the options. The shard is locked meanwhile, so
// that no cycle runs: copy what you need, and do the work afterwards.
func (s *Shard) Inspect(visit func(in engine.Input, opts engine.Options) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return visit(engine.Input{Supply: s.inventory.table, Demand: s.intake.demand, Now: s.pace.now, DrainSeconds: s.ledgers.drainSeconds()}, s.cfg.Engine)
}
