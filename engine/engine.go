package engine

import (
	"cmp"
	"runtime"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/preempt"
	"github.com/tonnage/tonnage/engine/internal/victims"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Engine decides cycle after cycle and reuses its memory. It is not safe for concurrent use.
type Engine struct {
	opts     Options
	accounts alloc.Accounts
	snaps    *snapshot.Builder
	// Lists whose elements contain pointers are kept outside of arenas, from cycle to cycle.
	store  store
	walker preempt.Worker // the first worker, which does phase 2
	plan   Plan
	at     pass  // the current cycle, or the last one
	in     Input // of that cycle
	last   *pass // the last completed cycle, for Explain; nil = none
	// unchecked counts the cycles since the last check.
	unchecked int
	auditMin  int // the constant; tests set it
	// builtOn counts the incremental cycles since the last one from nothing.
	builtOn int
	// unreachable ends the goroutines of crew when the engine is garbage. What crew refers to is kept until then: it must
	// not refer to the engine, nor to what a caller hands in.
	unreachable runtime.Cleanup
}

// New returns an engine. The error lists every fault of the options.
func New(opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.SearchPairs = cmp.Or(opts.SearchPairs, SearchPairsDefault)
	opts.SearchUnits = cmp.Or(opts.SearchUnits, SearchUnitsDefault)
	e := &Engine{opts: opts, auditMin: auditMin}
	e.snaps = snapshot.NewBuilder(&e.accounts)
	e.store.Opts, e.store.CycleArena = &e.opts, e.accounts.NewArena(alloc.Pass)
	e.store.Arena = e.accounts.NewArena(alloc.Pass)
	size := opts.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	e.store.Crew = workers.New(size, opts.Pin)
	e.snaps.Share(size, e.store.Crew.Each)
	for i := range size {
		e.addWorker(i)
	}
	e.store.MakeTasks()
	e.unreachable = runtime.AddCleanup(e, (*workers.Crew).Close, e.store.Crew)
	return e, nil
}

// addWorker adds the worker with a number. Its arenas learn their NUMA node before they hold
// anything, since memory that has been touched does not move.
func (e *Engine) addWorker(number int) {
	own, sums := e.accounts.NewArena(alloc.Pass), e.accounts.NewArena(alloc.Pass)
	if number < len(e.opts.Nodes) {
		own.SetNode(e.opts.Nodes[number])
		sums.SetNode(e.opts.Nodes[number])
	}
	if number == 0 {
		e.walker.AddWorker(&e.store.Store, own, sums)
	} else {
		e.store.AddWorker(&victims.Worker{}, own, sums)
	}
}

// Close ends the engine's workers and releases its memory. Plans that it returned are no longer valid.
// The goroutines of an engine that becomes unreachable are ended without it.
func (e *Engine) Close() {
	e.unreachable.Stop()
	e.store.Crew.Close()
	e.accounts.Close()
}

// Options returns the engine's options.
func (e *Engine) Options() Options { return e.opts }

// Memory returns the engine's working memory, by purpose. Plan.Memory returns that of the plan's lists.
func (e *Engine) Memory() [alloc.NumPurposes]alloc.Usage { return e.accounts.Usage() }
