package engine

import (
	"cmp"
	"runtime"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
	"github.com/tonnage/tonnage/engine/supply"
)

// Input is everything that a cycle depends on, apart from the engine's options.
type Input struct {
	Supply *supply.Table
	Demand *demand.Table
	// Now is the time of the decision in Unix nanoseconds.
	Now int64
	// DrainSeconds is the observed drain time by instance type, in seconds; DrainSecondsDefault for
	// types that are missing.
	DrainSeconds map[string]float64
	// BackingOff holds owners whose plan of preemption has failed. In this cycle they keep what they
	// have, acquire and reserve, but preempt nothing.
	BackingOff map[model.Owner]bool
	// Clock returns nanoseconds, for the durations in Stats; nil leaves these 0.
	Clock func() int64
	// Mark, if not nil, is called by every worker that begins a stage. It may label the goroutine for
	// profiles.
	Mark func(stage model.Stage, worker int)
}

// Engine decides cycle after cycle and reuses its memory. It is not safe for concurrent use.
type Engine struct {
	opts     Options
	accounts alloc.Accounts
	snaps    *snapshot.Builder
	arena    *alloc.Arena
	crew     *crew
	workers  []*worker // by number
	// Lists whose elements contain pointers are kept outside of arenas, from cycle to cycle.
	store store
	plan  Plan
	at    pass  // the current cycle, or the last one
	in    Input // of that cycle
	last  *pass // the last completed cycle, for Explain; nil = none
	tasks tasks
	// racing, nil except in tests, is another way for Needs to acquire machines, as an oracle: it must
	// come to the same answer.
	racing func(*worker)
	// unchecked counts the cycles since the last check.
	unchecked int
	// builtOn counts the incremental cycles since the last one from nothing.
	builtOn int
}

// New returns an engine. The error lists every fault of the options.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.SearchPairs = cmp.Or(opts.SearchPairs, SearchPairsDefault)
	opts.SearchUnits = cmp.Or(opts.SearchUnits, SearchUnitsDefault)
	e := &Engine{opts: opts}
	e.snaps = snapshot.NewBuilder(&e.accounts)
	e.arena = e.accounts.NewArena(alloc.Pass)
	e.store.arena = e.accounts.NewArena(alloc.Pass)
	workers := opts.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	e.crew = newCrew(workers, opts.Pin)
	e.snaps.Share(workers, e.crew.each)
	for i := range workers {
		e.workers = append(e.workers, e.newWorker(i))
	}
	e.makeTasks()
	runtime.AddCleanup(e, (*crew).close, e.crew)
	return e, nil
}

// newWorker returns the worker with a number. Its arenas learn their NUMA node before they hold
// anything, since memory that has been touched does not move.
func (e *Engine) newWorker(number int) *worker {
	l := &worker{number: uint8(number), arena: e.accounts.NewArena(alloc.Pass), folder: folder{sums: e.accounts.NewArena(alloc.Pass)}}
	if number < len(e.opts.Nodes) {
		l.arena.SetNode(e.opts.Nodes[number])
		l.folder.sums.SetNode(e.opts.Nodes[number])
	}
	return l
}

// Close ends the engine's workers and releases its memory. Plans that it returned are no longer valid.
// The goroutines of an engine that becomes unreachable are ended without it.
func (e *Engine) Close() {
	e.crew.close()
	e.accounts.Close()
}

// Options returns the engine's options.
func (e *Engine) Options() Options { return e.opts }

// Memory returns the engine's working memory, by purpose. Plan.Memory returns that of the plan's lists.
func (e *Engine) Memory() [alloc.NumPurposes]alloc.Usage { return e.accounts.Usage() }
