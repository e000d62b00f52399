package search

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/victims"
)

// Worker is what one worker needs to search.
type Worker struct {
	victims.Worker
	p     *Pass
	sel   selection       // the victims of the Need at work
	notes []records.Tried // scratch
	Rows  []columnar.Row  // scratch
}

// AddWorker adds the worker to those that share phase 1.
func (l *Worker) AddWorker(st *Store, own, sums *alloc.Arena) {
	st.AddWorker(&l.Worker, own, sums)
}
