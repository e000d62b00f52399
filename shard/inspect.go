package shard

import (
	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/shard/internal/ledgers"
	"github.com/tonnage/tonnage/shard/internal/rails"
)

// Inspect shows what the next cycle would look at: the tables as they are, at
// the time of the last cycle, and the options; and what the rails hold back. The
// shard is locked meanwhile, so that no cycle runs: copy what you need, and do the
// work afterwards.
func (s *Shard) Inspect(visit func(in engine.Input, opts engine.Options, held *rails.HeldBack) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.rails.HeldBack()
	in := engine.Input{Supply: s.inventory.Table, Demand: s.intake.Table(), Now: s.pace.Now, DrainSeconds: s.ledgers.DrainSeconds()}
	return visit(in, s.cfg.Engine, &held)
}

// AgesOf returns the ages of a row of the plan that Deps.Decided is given; i is
// its number. It is for Deps.Decided alone, which has the shard locked. A gang
// has an age of its own, as long as its size stays the same; other needs of a
// cluster share that of their profile. A restart begins anew. O(1).
func (s *Shard) AgesOf(plan *engine.Plan, i int) ledgers.Ages { return s.ledgers.AgesOf(plan, i) }
