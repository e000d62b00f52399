package shard

import "github.com/tonnage/tonnage/engine"

// Doctor changes every plan of the shard before the shard looks at it.
func (s *Shard) Doctor(change func(*engine.Plan)) {
	decide := s.decide
	s.decide = func(in engine.Input) (*engine.Plan, error) {
		plan, err := decide(in)
		if err == nil {
			change(plan)
		}
		return plan, err
	}
}
