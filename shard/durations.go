package shard

import "github.com/tonnage/tonnage/engine"

// Durations of a cycle's stages in nanoseconds, 0 without a clock.
type Durations struct {
	Total, Reconcile, Snapshot, Phase1, Phase2, Phase3, Emit, Execute int64
}

// stopwatch returns a function that gives the nanoseconds since its last call,
// 0 without a clock.
func (s *Shard) stopwatch() func() int64 {
	nanos := s.nanos()
	if nanos == nil {
		return func() int64 { return 0 }
	}
	last := nanos()
	return func() int64 {
		now := nanos()
		lap := now - last
		last = now
		return lap
	}
}

// nanos returns the clock for durations, nil without one.
func (s *Shard) nanos() func() int64 {
	if s.clock == nil {
		return nil
	}
	start := s.clock()
	return func() int64 { return int64(s.clock().Sub(start)) }
}

func (d *Durations) decided(st *engine.Stats) {
	d.Snapshot = st.SnapshotNanos + st.NormaliseNanos + st.RankNanos
	d.Phase1, d.Phase2, d.Phase3 = st.Phase1Nanos, st.Phase2Nanos, st.Phase3Nanos
}

func (d *Durations) sum() {
	d.Total = d.Reconcile + d.Snapshot + d.Phase1 + d.Phase2 + d.Phase3 + d.Emit + d.Execute
}
