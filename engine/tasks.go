package engine

// tasks are the functions that workers run in nearly every cycle. They are made once: a closure that is
// handed to another goroutine escapes to the heap each time it is made.
type tasks struct {
	undo, renew, prepare, credit, asking, merge func(worker, from, to int)
	worths, askers, gangs, marks, outlines      func(worker, from, to int)
	acquire, adopted                            func(worker int)
}

func (e *Engine) makeTasks() {
	e.tasks = tasks{
		undo: func(_, from, to int) {
			for _, v := range e.store.visited[from:to] {
				e.at.undoTurn(v)
			}
		},
		renew: func(worker, from, to int) {
			for c := from; c < to; c++ {
				e.workers[worker].folder.renew(int32(c))
			}
		},
		prepare: func(_, from, to int) {
			for i := from; i < to; i++ {
				e.at.prepareKind(i)
			}
		},
		credit: func(worker, from, to int) {
			for c := from; c < to; c++ {
				e.workers[worker].creditCluster(c)
			}
		},
		asking:  func(worker, from, to int) { e.workers[worker].markAsking(from, to) },
		acquire: func(worker int) { e.workers[worker].acquireShare() },
		adopted: func(worker int) { e.workers[worker].keepAdopted() },
		merge: func(_, from, to int) {
			for stage := from; stage < to; stage++ {
				e.at.mergeStage(stage)
			}
		},
		worths: func(worker, from, to int) {
			for c := from; c < to; c++ {
				e.workers[worker].noteLate(c)
			}
		},
		askers: func(worker, from, to int) { e.workers[worker].noteAskers(from, to) },
		gangs: func(worker, from, to int) {
			for c := from; c < to; c++ {
				e.workers[worker].findGangsOfVictims(c, e.store.gangs.victims.most)
			}
		},
		marks:    func(worker, from, to int) { e.workers[worker].markTurns(from, to) },
		outlines: func(worker, from, to int) { e.workers[worker].outlineSome(from, to) },
	}
}
