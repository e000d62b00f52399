package engine

import (
	"fmt"

	"github.com/tonnage/tonnage/alloc"
)

// Fleets of tests are small, and meant to be decided by all workers.
func init() { crewMin, chunkMax, readMin = 0, 2, 1 }

// SetCrewMin changes from how many machines and rows on several workers are at
// work, and returns what it was.
func SetCrewMin(n int) (was int) {
	was, crewMin = crewMin, n
	return was
}

// SetComponentsMin changes from how many needs on components are dealt to
// workers, and returns what it was.
func SetComponentsMin(n int) (was int) {
	was, componentsMin = componentsMin, n
	return was
}

// SetGatherMin changes from how many needs on another worker gathers, and
// returns what it was.
func SetGatherMin(n int) (was int) {
	was, gatherMin = gatherMin, n
	return was
}

// SetWholePercent changes what share of a cluster's needs, credited again, makes
// it be credited anew as a whole from then on, and returns what it was.
func SetWholePercent(n int) (was int) {
	was, wholePercent = wholePercent, n
	return was
}

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
	e.crew.alone = false
	e.crew.run(func(worker int) {
		l := e.workers[worker]
		f(worker, [2]*alloc.Arena{l.arena, l.folder.sums}, e.arena)
	})
}

// CheckFolds returns an error where two lines have the number of one fold or of one that
// is unused, or where numbers are lost: nobody has them, and they are not unused.
func (e *Engine) CheckFolds() (err error) {
	st := &e.store
	made, used := 0, 0
	seen := map[int32]string{}
	note := func(number int32, by string) {
		if was := seen[number]; was != "" && err == nil {
			err = fmt.Errorf("fold %#x is of %s, and of %s", number, was, by)
		}
		seen[number] = by
	}
	for i := range st.folds {
		made += len(st.folds[i].made)
		for _, number := range st.folds[i].unused {
			note(number, "nobody")
		}
	}
	for c := range st.sources {
		src := &st.sources[c]
		for row := range src.rows {
			if n := &st.lines[int(src.base)+row]; n.is(isFold) {
				used++
				note(int32(n.group), fmt.Sprintf("row %d of cluster %d", row, c))
			}
		}
	}
	if unused := len(seen) - used; err == nil && used+unused != made {
		err = fmt.Errorf("%d folds are of lines and %d unused, of %d", used, unused, made)
	}
	return err
}

// SetMemoryLimit bounds each of the engine's arenas, in bytes.
func (e *Engine) SetMemoryLimit(bytes int64) {
	e.arena.SetLimit(bytes)
	e.store.arena.SetLimit(bytes)
	for _, l := range e.workers {
		l.arena.SetLimit(bytes)
		l.folder.sums.SetLimit(bytes)
	}
}
