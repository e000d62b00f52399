package engine

// Cycle decides one cycle. The plan is valid until the next one; the tables
// must not change while it runs. The error is a limit that the demand passes
// (too many attribute keys); nothing is decided then.
//
// The stages hand over, in this order:
//
//	snapshot   supply in the orders of the walk            → snapshot.Snapshot
//	normalise  foldable gangs become plain demand          → folded
//	rank       one total order over what is left           → pass.needs
//	phase 1    credit what is bound, acquire what is free  → pass.claims
//	phase 2    preempt for what phase 1 left               → pass.victims
//	phase 3    release what nobody claims                  → Plan
func (e *Engine) Cycle(in Input) (*Plan, error) {
	lap := stopwatch(in.Clock)
	e.arena.Reset()
	snap, err := e.snaps.Build(in.Supply, in.Demand, in.Now)
	if err != nil {
		return nil, err
	}
	e.plan = Plan{Actions: e.plan.Actions[:0], Needs: e.plan.Needs[:0], Ended: e.plan.Ended[:0]}
	stats := &e.plan.Stats
	stats.SnapshotNanos = lap()

	folded := e.normalise(snap)
	stats.NormaliseNanos = lap()

	p := e.newPass(snap, folded, &in)
	stats.RankNanos = lap()

	p.assign()
	stats.Phase1Nanos = lap()

	p.preempt()
	stats.Phase2Nanos = lap()

	p.reclaim()
	p.release()
	p.report(&e.plan)
	stats.Phase3Nanos = lap()
	e.last = p
	return &e.plan, nil
}

// stopwatch returns a function that gives the nanoseconds since its last call.
func stopwatch(clock func() int64) func() int64 {
	if clock == nil {
		return func() int64 { return 0 }
	}
	last := clock()
	return func() int64 {
		now := clock()
		lap := now - last
		last = now
		return lap
	}
}
