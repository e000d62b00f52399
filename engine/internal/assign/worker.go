package assign

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what phase 1 adds to the state of a cycle.
type Pass struct {
	acquire.Pass
	st *Store
	Shortage
}

// Store is what phase 1 keeps for the next cycle.
type Store struct {
	acquire.Store
	workers      []*Worker // by number
	tasks        Tasks
	acquisitions [2][2][]acquire.Acquisition // two buffers for merging the workers' lists, by stage
	spares       []spares
	// Racing, nil except in tests, is another way for Needs to acquire machines, as an oracle: it must
	// come to the same answer.
	Racing func(*Pass, []*Worker)
}

// Worker is what one worker needs for phase 1.
type Worker struct {
	acquire.Worker
	p         *Pass
	Crediting crediting
	sharing   sharing
	choosing  domains.Scratch // the totals of domains, for the Need at work
	walk      walk
}

// walk is the memory of a walk in rank order over the Needs that lack something.
type walk struct {
	gatherer Gatherer
	pending  workers.Batch // the batch that the worker gathers for itself
	byKind   []int32       // weight of the Needs that may acquire something; see markAsking
	reads    uint64        // keeps the compiler from dropping reads
}

// enter prepares the worker for a pass.
func (l *Worker) enter(p *Pass) {
	if len(l.Missing) != p.Dims {
		l.choosing = domains.Scratch{}
	}
	l.Worker.Enter(&p.Pass)
	l.p = p
	l.sharing.together.begin()
	l.sharing.twins.known = false
	l.Crediting.ForeignStamps = l.Crediting.ForeignStamps[:0]
}

// Tasks are the functions that workers run in nearly every cycle; see Tasks.
type Tasks struct {
	prepare, credit, asking, merge, together func(worker, from, to int)
	acquire, adopted                         func(worker int)
}

// Add adds the next worker.
func (st *Store) Add(l *Worker) {
	st.workers = append(st.workers, l)
	st.Store.Add(&l.Worker)
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input, opts *plan.Options, arena *alloc.Arena, crew *workers.Crew) {
	p.Pass.Begin(&st.Store, s, in, opts, arena, crew)
	p.st = st
}

// MakeTasks makes the functions that workers run, once for all cycles.
func (st *Store) MakeTasks() {
	st.Store.MakeTasks()
	each := func(do func(l *Worker, i int)) func(worker, from, to int) {
		return func(worker, from, to int) {
			for i := from; i < to; i++ {
				do(st.workers[worker], i)
			}
		}
	}
	st.tasks = Tasks{
		prepare:  each(func(l *Worker, i int) { l.p.prepareKind(i) }),
		credit:   each((*Worker).creditCluster),
		asking:   func(worker, from, to int) { st.workers[worker].markAsking(from, to) },
		acquire:  func(worker int) { st.workers[worker].acquireShare() },
		adopted:  func(worker int) { st.workers[worker].keepAdopted() },
		together: each((*Worker).giveBackIn),
		merge:    each(func(l *Worker, stage int) { l.p.mergeStage(stage) }),
	}
}

// crediting is the memory of credit: the cluster at work, and the machines bound to it.
type crediting struct {
	bound  []snapshot.Bound
	needs  []int32 // in rank order
	work   worklist
	stamps stampLists
	lists  classLists
	seized []uint32 // places that the Need at work has been credited
	// heads are, by class, 1 + the place of the cluster's first machine that may be unclaimed. Only the
	// classes of the set live are valid.
	heads         []uint32
	live          []uint64
	creatingFrom  uint32 // the first place of machines that are being created
	ForeignStamps []foreignStamp
	// foreignStampsBefore is the length of ForeignStamps when the Need at work began.
	foreignStampsBefore int
	cheapest            []cycle.ClassPriority // scratch
	Words               []uint64              // scratch
}

// sharing is the memory of phase 1 for rows of one stamp and for parked Needs, which are looked at together.
type sharing struct {
	shared       shared
	sharedPlaces []uint32 // scratch of creditLeftOwn
	twins        twinRows
	together     together
	left         []spare        // scratch
	uncovered    []int64        // scratch: what a parked Need would lack with what lower ranks have
	picked       []columnar.Row // held for the Need at work, and picked before machines of lower ranks
}
