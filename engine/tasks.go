package engine

// tasks are what all workers do in nearly every cycle. They are made once: a
// function that is handed to other goroutines is on the heap each time it is made.
type tasks struct {
	undo, asking, askers, gangs, marks, outlines func(worker, from, to int)
}

func (e *Engine) makeTasks() {
	e.tasks = tasks{
		undo: func(_, from, to int) {
			for _, need := range e.store.visited[from:to] {
				e.at.undoTurn(need)
			}
		},
		asking: func(worker, from, to int) { e.lanes[worker].markAsking(from, to) },
		askers: func(worker, from, to int) { e.lanes[worker].noteAskers(from, to) },
		gangs: func(worker, from, to int) {
			for c := from; c < to; c++ {
				e.lanes[worker].findGangsOfPrey(c, e.store.gangs.victims.most)
			}
		},
		marks:    func(worker, from, to int) { e.lanes[worker].markTurns(from, to) },
		outlines: func(worker, from, to int) { e.lanes[worker].outlineSome(from, to) },
	}
}
