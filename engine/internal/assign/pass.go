package assign

import (
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
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
	tasks        tasks
	acquisitions [2][2][]acquire.Acquisition // two buffers for merging the workers' lists, by stage
	spares       []spares
	// Racing, nil except in tests, is another way for Needs to acquire machines, as an oracle: it must
	// come to the same answer.
	Racing func(*Pass, []*Worker)
}

// Shortage says which Needs have a turn after credit, and what could still help them. Phase 1 writes it.
type Shortage struct {
	Gained  []bool       // by place in order: the Need was satisfied in its turn after credit
	Special bitmap.Dense // by place in order: something is held for the Need, or was when the cycle began, or it is in Reconsidered
	// Reconsidered are Needs that may have a machine which was out of their reach at their turns; see Pass.reconsider.
	Reconsidered []int32
	waits        bitmap.Dense // by place in order: the Need's credit waits for its turn
	asking       bitmap.Dense // by place in order: a turn in phase 1 may come to something
	hashes       []uint16     // by kind: soughtHash of its fingerprint
	spares       []spares     // by cluster: unclaimed machines for Needs whose credit waits
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(&st.Store, s, in)
	p.st = st
}

// Lay prepares the workers for phase 1, lists the free machines and indexes the reservations, once the order is known.
func (p *Pass) Lay(shares *tenancy.Shares) {
	for _, l := range p.st.workers {
		l.enter(p)
	}
	p.Pass.Lay(shares)
}

// AddWorker adds the next worker.
func (st *Store) AddWorker(l *Worker) {
	st.workers = append(st.workers, l)
	st.Store.AddWorker(&l.Worker)
}

// tasks are the functions that workers run in nearly every cycle; see the tasks of package order.
type tasks struct {
	prepare, credit, asking, merge, together func(worker, from, to int)
	acquire, adopted                         func(worker int)
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
	st.tasks = tasks{
		prepare:  each(func(l *Worker, i int) { l.p.prepareKind(i) }),
		credit:   each((*Worker).creditCluster),
		asking:   func(worker, from, to int) { st.workers[worker].markAsking(from, to) },
		acquire:  func(worker int) { st.workers[worker].acquireShare() },
		adopted:  func(worker int) { st.workers[worker].keepAdopted() },
		together: each((*Worker).giveBackIn),
		merge:    each(func(l *Worker, stage int) { l.p.mergeStage(stage) }),
	}
}
