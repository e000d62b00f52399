package engine

import (
	"fmt"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/search"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/workers"
)

// Fleets of tests are small, and meant to be decided by all workers.
func init() { crewMin, workers.ChunkMax, units.ReadMin = 0, 2, 1 }

// SetCrewMin changes from how many machines and rows on several workers are at
// work, and returns what it was.
func SetCrewMin(n int) (was int) {
	was, crewMin = crewMin, n
	return was
}

// SetComponentsMin changes from how many needs on components are dealt to
// workers, and returns what it was.
func SetComponentsMin(n int) (was int) {
	was, assign.ComponentsMin = assign.ComponentsMin, n
	return was
}

// SetFewGangs changes up to how many gangs of a domain are all listed, and returns what it was.
func SetFewGangs(n int) (was int) {
	was, search.FewGangs = search.FewGangs, n
	return was
}

// SetGatherMin changes from how many needs on another worker gathers, and
// returns what it was.
func SetGatherMin(n int) (was int) {
	was, assign.GatherMin = assign.GatherMin, n
	return was
}

// SetChunkMax changes the bound of the chunks that workers take, and returns what it was.
func SetChunkMax(n int) (was int) {
	was, workers.ChunkMax = workers.ChunkMax, n
	return was
}

// OnPaper lets r run what the workers do.
func (e *Engine) OnPaper(r workers.Runner) { e.store.Crew.Instead = r }

// SetRace changes how often a need may walk in a race and whether the last go
// first, and returns what undoes that.
func SetRace(tries int, backwards bool) (undo func()) {
	t, b := raceTries, raceBackwards
	raceTries, raceBackwards = tries, backwards
	return func() { raceTries, raceBackwards = t, b }
}

// OnWorkers lets every worker do f with the arenas of its own; shared is one of those
// that all of them use.
func (e *Engine) OnWorkers(f func(worker int, own [2]*alloc.Arena, shared *alloc.Arena)) {
	e.store.Crew.Alone = false
	e.store.Crew.Run(func(worker int) {
		f(worker, [2]*alloc.Arena(e.store.Workers[worker].Arenas()), e.store.CycleArena)
	})
}

// CheckFolds returns an error where a fold is not what its rows say: it is of another line than the
// lowest, or counts other rows, or its number is lost, neither of a line nor unused.
func (e *Engine) CheckFolds() error {
	st := &e.store
	for c := range st.Sources {
		src, x := &st.Sources[c], &st.Clusters[c].Folds
		rows, lowest := make([]int32, len(x.List)), make([]int32, len(x.List))
		for row := range src.Rows {
			line := src.Base + int32(row)
			n := &st.Lines[line]
			if n.Status&(state.IsFold|state.IsMember) == 0 {
				continue
			}
			if rows[n.Group]++; rows[n.Group] == 1 {
				lowest[n.Group] = line
			}
			if d := &x.List[n.Group]; d.Row != lowest[n.Group] || n.Is(state.IsFold) != (d.Row == line) || n.Is(state.IsMember) && int32(n.Domain) != d.Row {
				return fmt.Errorf("line %d of cluster %d is in a fold of line %d, not %d", line, c, d.Row, lowest[n.Group])
			}
		}
		unused := map[int32]bool{}
		for number := x.Unused; number != 0; number = x.List[number-1].Row {
			unused[number-1] = true
		}
		for i := range x.List {
			if d := &x.List[i]; d.Rows != rows[i] || d.Due || d.Recount || (d.Rows == 0) != unused[int32(i)] {
				return fmt.Errorf("fold %d of cluster %d has %d rows, not %d; unused: %v", i, c, d.Rows, rows[i], unused[int32(i)])
			}
		}
	}
	return nil
}

// SetMemoryLimit bounds each of the engine's arenas, in bytes.
func (e *Engine) SetMemoryLimit(bytes int64) {
	e.store.CycleArena.SetLimit(bytes)
	e.store.Arena.SetLimit(bytes)
	for _, l := range e.store.Workers {
		for _, a := range l.Arenas() {
			a.SetLimit(bytes)
		}
	}
}
