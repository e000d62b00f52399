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

// Input is everything that a cycle looks at.
type Input struct {
	Supply *supply.Table
	Demand *demand.Table
	// Now is the time of the decision in Unix nanoseconds.
	Now int64
	// DrainSeconds is the observed drain time by instance type; types that are
	// missing take DrainSecondsDefault.
	DrainSeconds map[string]float64
	// BackingOff holds owners whose plan of preemption has failed: they keep what
	// they have, acquire and reserve, and preempt nobody in this cycle.
	BackingOff map[model.Owner]bool
	// Clock gives nanoseconds for the durations in Stats; nil leaves them 0.
	Clock func() int64
	// Mark, if there is one, is called by every worker that begins with a stage:
	// it may label the goroutine for profiles.
	Mark func(stage model.Stage, worker int)
}

// Engine decides cycle after cycle, reusing its memory. It has one owner; it
// is not safe for concurrent use.
type Engine struct {
	opts     Options
	accounts alloc.Accounts
	snaps    *snapshot.Builder
	arena    *alloc.Arena
	crew     *crew
	workers  []*worker // by worker
	// Lists whose elements hold pointers are kept from cycle to cycle.
	store store
	plan  Plan
	at    pass  // the cycle at work, or the last one
	in    Input // of that cycle
	last  *pass // the last cycle, for Explain
	tasks tasks
	// racing, nil but in tests, is another way for Needs to acquire, which must come to the
	// same answer.
	racing func(*worker)
	// unchecked counts the cycles since the last that was checked.
	unchecked int
	// builtOn counts the cycles since the last that built on nothing.
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

// newWorker returns a worker of that number. Its arenas are told their node before they
// hold anything: what has been touched stays where it is.
func (e *Engine) newWorker(number int) *worker {
	l := &worker{number: uint8(number), arena: e.accounts.NewArena(alloc.Pass), folder: folder{sums: e.accounts.NewArena(alloc.Pass)}}
	if number < len(e.opts.Nodes) {
		l.arena.SetNode(e.opts.Nodes[number])
		l.folder.sums.SetNode(e.opts.Nodes[number])
	}
	return l
}

// Close ends the engine's workers and gives its memory back. What it has
// returned is no longer valid. An engine that nobody refers to any more is
// closed in time.
func (e *Engine) Close() {
	e.crew.close()
	e.accounts.Close()
}

// Options returns the engine's options.
func (e *Engine) Options() Options { return e.opts }

// Memory returns what the engine's working memory holds, by purpose. Its plan tells
// its own; see Plan.Memory.
func (e *Engine) Memory() [alloc.NumPurposes]alloc.Usage { return e.accounts.Usage() }
