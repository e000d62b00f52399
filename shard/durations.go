package shard

import "github.com/tonnage/tonnage/engine"

// Durations of a cycle's stages in nanoseconds, 0 without a clock.
type Durations struct {
	Total, Reconcile, Snapshot, Phase1, Phase2, Phase3, Emit, Execute int64
}

func (d *Durations) decided(st *engine.Stats) {
	d.Snapshot = st.SnapshotNanos + st.NormaliseNanos + st.RankNanos
	d.Phase1, d.Phase2, d.Phase3 = st.Phase1Nanos, st.Phase2Nanos, st.Phase3Nanos
}

func (d *Durations) sum() {
	d.Total = d.Reconcile + d.Snapshot + d.Phase1 + d.Phase2 + d.Phase3 + d.Emit + d.Execute
}
