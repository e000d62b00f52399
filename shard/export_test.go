package shard

import (
	"errors"

	"github.com/tonnage/tonnage/engine"
	"github.com/tonnage/tonnage/engine/demand"
)

// Demand shows the shard's table of demand.
func (s *Shard) Demand(show func(*demand.Table)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	show(s.intake.Table())
}

// Doctor changes every plan of the shard before the shard looks at it.
func (s *Shard) Doctor(change func(*engine.Plan)) {
	decide := s.decider.decide
	s.decider.decide = func(in engine.Input) (*engine.Plan, error) {
		plan, err := decide(in)
		if err == nil {
			change(plan)
		}
		return plan, err
	}
}

// FailDecisions has no cycle decide anything.
func (s *Shard) FailDecisions() {
	s.decider.decide = func(engine.Input) (*engine.Plan, error) { return nil, errors.New("nothing is decided") }
}
