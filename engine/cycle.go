package engine

import (
	"cmp"
	"fmt"
	"math"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/preempt"
	"github.com/tonnage/tonnage/engine/internal/search"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Cycle decides one cycle. The plan is valid until the next call; the tables must not change during the
// call. The error is a limit that the demand exceeds (too many attribute keys), or a *alloc.LimitError
// if deciding would take more memory than an engine may have. With an error nothing is decided, and the
// next cycle starts from nothing.
//
// A cycle is incremental: it builds on the one before, and what has not changed is not computed again.
// Every Options.CheckCycles cycles it decides a second time, from nothing. If the two answers differ,
// Stats.Differs says so, and the answer from nothing is returned. With auditMin machines and rows or more, each cycle checks a
// part of what it builds on instead; after a difference there, the next cycle starts from nothing.
func (e *Engine) Cycle(in Input) (plan *Plan, err error) {
	defer func() {
		e.store.Crew.Mark = nil // the caller's; see Engine.unreachable
		if fault := recover(); fault != nil {
			limit, ok := fault.(*alloc.LimitError)
			if !ok {
				panic(fault)
			}
			e.abandon()
			plan, err = nil, fmt.Errorf("deciding for %d machines and %d Needs takes too much memory: %w; have fewer kinds of machines, or of Needs, in one shard", in.Supply.Len(), in.Demand.Len(), limit)
		}
	}()
	if e.opts.Full {
		e.forget()
	}
	check, parts := e.checks(&in)
	e.unchecked++
	plan, err = e.decide(in, parts)
	if err != nil || plan.Stats.Full {
		return plan, err
	}
	if plan.Stats.Differs { // an audit found a fault in the state
		e.forget()
		return plan, nil
	}
	if e.unchecked < check {
		return plan, nil
	}
	e.unchecked = 0
	digest := plan.Digest()
	e.forget()
	plan, err = e.decide(in, 0)
	if err != nil {
		return nil, err
	}
	plan.Stats.Checked, plan.Stats.Differs = true, plan.Digest() != digest
	return plan, nil
}

// auditMin is the number of machines and rows together from which on checks are spread over cycles. With fewer, to decide a second
// time takes a few milliseconds.
const auditMin = 1 << 16

// auditRounds is how many times a fleet is audited until a cycle is decided a second time.
const auditRounds = 100

// checks returns after how many cycles one is decided a second time, and the number of parts in which the fleet is audited
// meanwhile, one in each cycle; 0 = it is not.
func (e *Engine) checks(in *Input) (cycles, parts int) {
	cycles = min(cmp.Or(e.opts.CheckCycles, CheckCyclesDefault), math.MaxInt32) // products with it do not overflow
	if in.Supply.Len()+in.Demand.Len() < e.auditMin {
		return cycles, 0
	}
	return cycles * auditRounds, cycles
}

// forget invalidates all that is kept: the next cycle starts from nothing.
func (e *Engine) forget() {
	e.store.Seen.Valid = false
	e.snaps.Forget()
}

// abandon releases the memory of a cycle that did not complete. Explain no longer works, for this cycle
// or for earlier ones.
func (e *Engine) abandon() {
	e.forget()
	e.last = nil
	arenas := []*alloc.Arena{e.store.CycleArena, e.store.Arena}
	for _, l := range e.store.Workers {
		arenas = append(arenas, l.Arenas()...)
	}
	for _, a := range arenas {
		a.Reset()
		a.Trim()
	}
}

// crewMin is the number of machines and rows together from which on all workers take part. With fewer,
// waking them in each stage costs more than they save. Tests lower it.
var crewMin = 1 << 16

// decide runs the stages of one cycle. Each hands its result to the next:
//
//	snapshot   supply, frozen in the orders of the walks    → snapshot.Snapshot
//	normalise  gangs that fit one machine are folded        → Lines
//	rank       one total order of Needs                     → Order
//	phase 1    credit bound machines, acquire free ones     → Claims
//	phase 2    preempt for what phase 1 left                → Preempted.Victims
//	phase 3    release what no Need claims                  → Plan
//
// It audits one of so many parts of what is kept from the cycle before; parts = 0: none.
func (e *Engine) decide(in Input, parts int) (*Plan, error) {
	watch := newStopwatch(in.Clock)
	e.in = in
	crew := e.store.Crew
	crew.Mark = in.Mark
	crew.Alone = in.Supply.Len()+in.Demand.Len() < crewMin && e.store.Racing == nil
	crew.Begin(model.StageSnapshot)
	e.store.CycleArena.Reset()
	snap, err := e.snaps.Build(in.Supply, in.Demand, in.Now)
	if err != nil {
		e.forget()
		return nil, err
	}
	e.plan = Plan{Actions: e.plan.Actions[:0], Ended: e.plan.Ended[:0], Reservations: e.plan.Reservations[:0], Adopted: e.plan.Adopted[:0]}
	stats := &e.plan.Stats
	stats.SnapshotNanos = watch.lap()

	crew.Begin(model.StageNormalise)
	p := e.newPass(snap, &e.in)
	if p.CarryOver() {
		p.StartOver()
	} else {
		beginAudit(p, e.unchecked, parts)
	}
	stats.Full = p.Changed.Fresh
	moved := p.Normalise()
	stats.NormaliseNanos = watch.lap()

	crew.Begin(model.StageRank)
	if p.Changed.Reordered = moved; moved && !p.Merge() {
		p.Rank()
		p.MarkLacking()
	}
	p.AuditOrder()
	p.Lay(&e.walker)
	stats.RankNanos = watch.lap()

	crew.Begin(model.StagePhase1)
	p.Assign()
	stats.Phase1Nanos = watch.lap()

	crew.Begin(model.StagePhase2)
	p.Preempt()
	stats.Phase2Nanos = watch.lap()

	crew.Begin(model.StagePhase3)
	p.reclaim()
	p.deleteIdle()
	p.report(&e.plan)
	stats.Phase3Nanos = watch.lap()
	p.LeaveBehind()
	e.store.reclaims = p.released.reclaims
	e.trim(p.Changed.Fresh)
	e.last = p
	return &e.plan, nil
}

// beginAudit says which part is audited in this cycle, and compares that part of the snapshot with the tables.
func beginAudit(p *pass, part, parts int) {
	p.Audit.Part, p.Audit.Parts = part, parts
	if from, to := p.Audit.Range(p.Snap.Supply.RowMax()); from < to && !p.Snap.Fresh {
		p.Audit.Note(p.e.snaps.Audit(from, to))
	}
}

// pass is the state of one cycle: what the stages share and decide, and what phase 3 adds.
type pass struct {
	preempt.Pass
	e        *Engine
	st       *store
	released released
}

// released is what phase 3 gives back; the report reads it.
type released struct {
	reclaims []columnar.Row
	deletes  []columnar.Row
}

// store is what one cycle leaves to the next, or to memory.
type store struct {
	search.Store
	limits    limits                    // of this cycle
	reclaims  []columnar.Row            // only its memory is reused
	fates     map[model.Owner]plan.Fate // of plans of earlier cycles
	awaiting  map[awaitingGangs]uint32
	unfolding map[part]struct{}
}

// newPass begins the pass of a cycle.
func (e *Engine) newPass(s *snapshot.Snapshot, in *Input) *pass {
	p, st := &e.at, &e.store
	*p = pass{e: e, st: st}
	p.Begin(&st.Store, s, in)
	p.Counted.Rows = in.Demand.Len()
	if st.fates == nil {
		st.fates = map[model.Owner]plan.Fate{}
	}
	st.limits.stale = true
	p.released.reclaims = st.reclaims[:0]
	return p
}

// trimAfter is the number of incremental cycles in a row after which an engine returns memory that they
// did not need.
const trimAfter = 4

// trim returns memory that only a cycle from nothing needs, mostly for sorting, once trimAfter cycles
// in a row were incremental.
func (e *Engine) trim(fresh bool) {
	if e.builtOn++; fresh {
		e.builtOn = 0
	}
	if e.builtOn != trimAfter {
		return
	}
	e.store.CycleArena.Trim()
	for _, l := range e.store.Workers {
		l.Arena.Trim()
	}
}

// stopwatch measures the stages. Without a clock it returns 0.
type stopwatch struct {
	clock func() int64
	last  int64
}

func newStopwatch(clock func() int64) stopwatch {
	if clock == nil {
		return stopwatch{}
	}
	return stopwatch{clock, clock()}
}

// lap returns the nanoseconds since the last call.
func (w *stopwatch) lap() int64 {
	if w.clock == nil {
		return 0
	}
	now := w.clock()
	lap := now - w.last
	w.last = now
	return lap
}
