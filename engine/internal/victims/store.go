package victims

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/units"
)

// Store is what phase 2 keeps for the next cycle. What it adds is memory: no decision depends on it.
type Store struct {
	assign.Store
	Workers []*Worker // by number
	tasks   tasks
	lent    lentUnits
	Gangs   gangTable // of this cycle
	memory  memory
}

// memory is the memory of lists that end with a cycle.
type memory struct {
	victims    []Victim
	withheldBy map[columnar.Row]int32
	withheld   []int32
	tried      []records.Tried
}

// tasks are the functions that workers run in nearly every cycle; see the tasks of package order.
type tasks struct {
	worths, askers, gangs, marks, outlines func(worker, from, to int)
}

// AddWorker adds the next worker. own is its arena, sums that of its clusters' folds.
func (st *Store) AddWorker(l *Worker, own, sums *alloc.Arena) {
	l.Equip(len(st.Workers), own, sums)
	st.Workers = append(st.Workers, l)
	st.Store.AddWorker(&l.Worker)
}

// MakeTasks makes the functions that workers run, once for all cycles.
func (st *Store) MakeTasks() {
	st.Store.MakeTasks()
	each := func(do func(l *Worker, i int)) func(worker, from, to int) {
		return func(worker, from, to int) {
			for i := from; i < to; i++ {
				do(st.Workers[worker], i)
			}
		}
	}
	st.tasks = tasks{
		worths:   each((*Worker).noteLate),
		askers:   func(worker, from, to int) { st.Workers[worker].noteAskers(from, to) },
		gangs:    each(func(l *Worker, c int) { l.findGangsOfVictims(c, st.Gangs.Victims.Most) }),
		marks:    func(worker, from, to int) { st.Workers[worker].markTurns(from, to) },
		outlines: func(worker, from, to int) { st.Workers[worker].outlineSome(from, to) },
	}
}

// lentUnits is the memory of what phase 2 could preempt; see Candidates. It is lent for a cycle.
type lentUnits struct {
	pools       reuse.Stock[victimPool]
	poolOf      []*victimPool
	totalBounds []domainTotalsBound
	noVictims   victimPool
	unitPools   reuse.Stock[UnitPool]
	noUnits     UnitPool
	alikes      reuse.Stock[units.Alike]
	// Of scopes of domains, until TakeBackDomains: their alikes, and the machines of these.
	dealt     reuse.Stock[units.Alike]
	dealtRows reuse.Block[columnar.Row]
}
