package engine

import (
	"cmp"
	"runtime"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Engine decides cycle after cycle and reuses its memory. It is not safe for concurrent use.
type Engine struct {
	opts     Options
	accounts alloc.Accounts
	snaps    *snapshot.Builder
	arena    *alloc.Arena
	crew     *workers.Crew
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
	e := &Engine{opts: opts}
	e.snaps = snapshot.NewBuilder(&e.accounts)
	e.arena = e.accounts.NewArena(alloc.Pass)
	e.store.arena = e.accounts.NewArena(alloc.Pass)
	size := opts.Workers
	if size == 0 {
		size = runtime.GOMAXPROCS(0)
	}
	e.crew = workers.New(size, opts.Pin)
	e.snaps.Share(size, e.crew.Each)
	for i := range size {
		e.workers = append(e.workers, e.newWorker(i))
	}
	e.makeTasks()
	e.unreachable = runtime.AddCleanup(e, (*workers.Crew).Close, e.crew)
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
	e.unreachable.Stop()
	e.crew.Close()
	e.accounts.Close()
}

// Options returns the engine's options.
func (e *Engine) Options() Options { return e.opts }

// Memory returns the engine's working memory, by purpose. Plan.Memory returns that of the plan's lists.
func (e *Engine) Memory() [alloc.NumPurposes]alloc.Usage { return e.accounts.Usage() }

// tasks are the functions that workers run in nearly every cycle. They are made once: a closure that is
// handed to another goroutine escapes to the heap each time it is made.
type tasks struct {
	undo, renew, prepare, credit, asking, merge, together func(worker, from, to int)
	worths, askers, gangs, marks, outlines                func(worker, from, to int)
	acquire, adopted                                      func(worker int)
}

func (e *Engine) makeTasks() {
	each := func(do func(l *worker, i int)) func(worker, from, to int) {
		return func(worker, from, to int) {
			for i := from; i < to; i++ {
				do(e.workers[worker], i)
			}
		}
	}
	e.tasks = tasks{
		undo: func(_, from, to int) {
			for _, v := range e.store.undo.visited[from:to] {
				e.at.undoTurn(v)
			}
		},
		renew:    each(func(l *worker, c int) { l.folder.renew(int32(c)) }),
		prepare:  each(func(l *worker, i int) { l.p.prepareKind(i) }),
		credit:   each((*worker).creditCluster),
		asking:   func(worker, from, to int) { e.workers[worker].markAsking(from, to) },
		acquire:  func(worker int) { e.workers[worker].acquireShare() },
		adopted:  func(worker int) { e.workers[worker].keepAdopted() },
		together: each((*worker).giveBackIn),
		merge:    each(func(l *worker, stage int) { l.p.mergeStage(stage) }),
		worths:   each((*worker).noteLate),
		askers:   func(worker, from, to int) { e.workers[worker].noteAskers(from, to) },
		gangs:    each(func(l *worker, c int) { l.findGangsOfVictims(c, e.store.gangs.victims.Most) }),
		marks:    func(worker, from, to int) { e.workers[worker].markTurns(from, to) },
		outlines: func(worker, from, to int) { e.workers[worker].outlineSome(from, to) },
	}
}
