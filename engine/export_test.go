package engine

import (
	"fmt"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/search"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/model"
)

// Fleets of tests are small, and meant to be decided by all workers.
func init() { crewMin, workers.ChunkMax, units.ReadMin = 0, 2, 1 }

// SetCrewMin changes from how many machines and rows on several workers are at
// work, and returns what it was.
func SetCrewMin(n int) (was int) {
	was, crewMin = crewMin, n
	return was
}

// SetAuditMin changes from how many machines and rows on the engine's checks are spread over cycles.
func (e *Engine) SetAuditMin(n int) { e.auditMin = n }

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

// Spoil is a way in which what an engine keeps can be wrong.
type Spoil struct {
	Name     string
	Sparse   bool // it is of what is looked up one by one
	Snapshot bool // it is of the snapshot
	do       func(e *Engine) bool
}

// Spoil makes something wrong; false if there is nothing of the kind.
func (e *Engine) Spoil(s Spoil) bool { return s.do(e) }

// bound returns a Need that has a Configured machine, and one of its machines, after some that are passed over.
func (e *Engine) bound(pass int, test func(n *state.Line) bool) (need int32, r columnar.Row) {
	p := &e.at
	for _, need := range p.Order {
		n := &p.Lines[need]
		if r := p.Claims.First(n); r != columnar.None && p.Snap.View.State[r] == model.Configured && test(n) {
			if pass--; pass < 0 {
				return need, r
			}
		}
	}
	return -1, columnar.None
}

func anyLine(*state.Line) bool { return true }

// Spoils are the ways.
var Spoils = []Spoil{
	{"a machine is claimed by nobody", false, false, func(e *Engine) bool {
		need, r := e.bound(300, anyLine)
		if need >= 0 {
			e.at.Claims.Unlink(r, &e.at.Lines[need])
		}
		return need >= 0
	}},
	{"a machine is claimed by another", false, false, func(e *Engine) bool {
		need, r := e.bound(300, anyLine)
		for _, other := range e.at.Order {
			if n := &e.at.Lines[other]; other != need && e.at.ClusterOf(other) == e.at.ClusterOf(need) && n.Tail != columnar.None {
				e.at.Claims.Unlink(r, &e.at.Lines[need])
				e.at.Claims.Claim(r, other, n)
				return true
			}
		}
		return false
	}},
	{"a Need is taken for one that lacks something", false, false, func(e *Engine) bool {
		need, _ := e.bound(300, func(n *state.Line) bool { return n.Is(state.IsSatisfied) })
		if need >= 0 {
			e.at.Lines[need].Status &^= state.IsSatisfied
		}
		return need >= 0
	}},
	{"a gang is in another domain", false, false, func(e *Engine) bool {
		need, _ := e.bound(0, func(n *state.Line) bool { return e.at.Kinds[n.Kind].Same && !n.Is(state.IsUncredited) })
		if need >= 0 {
			e.at.Lines[need].Domain++
		}
		return need >= 0
	}},
	{"a stamp has another owner", false, false, func(e *Engine) bool {
		_, r := e.bound(300, anyLine)
		e.store.Owner[r] = state.Unclaimed
		return r != columnar.None
	}},
	{"a row is of another kind", false, false, func(e *Engine) bool {
		need, _ := e.bound(30, func(n *state.Line) bool { return !n.Is(state.IsFold) })
		if need >= 0 {
			e.at.Lines[need].Kind ^= 1
		}
		return need >= 0
	}},
	{"two Needs have each other's ranks", true, false, func(e *Engine) bool {
		o := e.at.Order
		at := len(o) / 2
		o[at], o[at+1] = o[at+1], o[at]
		e.at.RankOf[o[at]], e.at.RankOf[o[at+1]] = int32(at), int32(at+1)
		return true
	}},
	{"a Need has another place in a column", true, false, func(e *Engine) bool {
		e.at.KindAt[len(e.at.KindAt)/3] ^= 1
		return true
	}},
	{"two machines of a cluster are in the wrong order", true, true, func(e *Engine) bool {
		for c := range e.at.Snap.Clusters {
			if b := e.at.Snap.BoundOf(c); len(b) > 1 {
				b[0], b[1] = b[1], b[0]
				return true
			}
		}
		return false
	}},
	{"a machine of a cluster has another stamp", true, true, func(e *Engine) bool {
		need, r := e.bound(300, anyLine)
		for i, b := range e.at.Snap.BoundOf(int(e.at.ClusterOf(need))) {
			if b.Row == r {
				e.at.Snap.BoundOf(int(e.at.ClusterOf(need)))[i].Group++
				return true
			}
		}
		return false
	}},
	{"an idle machine is lost", true, true, func(e *Engine) bool {
		for c := range e.at.Snap.Classes {
			if idle := e.at.Snap.Idle.At(c); len(idle) > 1 {
				idle[0] = idle[1]
				return true
			}
		}
		return false
	}},
	{"a machine has another place in keep order", true, true, func(e *Engine) bool {
		_, r := e.bound(300, anyLine)
		e.at.Snap.Keep[r] += 1 << 21
		return true
	}},
}
