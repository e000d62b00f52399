package preempt

import (
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/search"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is the state of a cycle up to phase 2.
type Pass struct {
	search.Pass
	st     *search.Store
	Walker *Worker // the worker that does phases 2 and 3
}

// Worker is the worker that does phase 2: its first part is one of those that share phase 1.
type Worker struct {
	search.Worker
	p      *Pass
	excess excess
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *search.Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(st, s, in)
	p.st = st
}

// Lay allocates what phases 1 and 2 need, once the order is known. The walker is the first worker.
func (p *Pass) Lay(walker *Worker) {
	p.Pass.Lay(&walker.Worker)
	walker.p, p.Walker = p, walker
}
