package order

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what normalise and rank add to the state of a cycle.
type Pass struct {
	cycle.Pass
	st      *Store
	folding folding
}

// Store is what they leave to the next cycle.
type Store struct {
	cycle.Store
	workers []*Worker // by number
	tasks   tasks
	// freeIn is, by matcher with Same, the set of classes of which a free machine that nobody holds lies in a permitted
	// domain. heldIn are classes of which there are only held ones, by matcher and class. Folding depends on both.
	freeIn []uint64
	heldIn []heldClass
}

// Worker is what one worker needs for them.
type Worker struct {
	cycle.Worker
	Folder Folder
}

// tasks are the functions that workers run in nearly every cycle. They are made once: a closure that is
// handed to another goroutine escapes to the heap each time it is made.
type tasks struct {
	undo, renew func(worker, from, to int)
}

// Equip gives the worker its number and its arenas. sums is that of its clusters' folds.
func (l *Worker) Equip(number int, own, sums *alloc.Arena) {
	l.Number, l.Arena, l.Folder.sums = uint8(number), own, sums
}

// Enter prepares the worker for a pass.
func (l *Worker) Enter(p *Pass) { l.Worker.Enter(&p.Pass) }

// AddWorker adds the next worker.
func (st *Store) AddWorker(l *Worker) { st.workers = append(st.workers, l) }

// Arenas returns the arenas that the worker alone uses.
func (l *Worker) Arenas() []*alloc.Arena { return []*alloc.Arena{l.Arena, l.Folder.sums} }

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(&st.Store, s, in)
	p.st = st
}

// MakeTasks makes the functions that workers run, once for all cycles.
func (st *Store) MakeTasks() {
	st.tasks = tasks{
		undo: func(worker, from, to int) {
			for _, v := range st.Undoing.Visited[from:to] {
				st.workers[worker].Folder.p.UndoTurn(v)
			}
		},
		renew: func(worker, from, to int) {
			for c := from; c < to; c++ {
				st.workers[worker].Folder.renew(int32(c))
			}
		},
	}
}

// folding is what normalise finds out of gangs that may fold; rank asks whether there are swaps.
type folding struct {
	anySwaps    bool              // some Need sits on another one's rank slot
	freeMoved   bool              // which domains have free machines has changed; see findFree
	foldsMoved  bool              // the same, and rows may fold otherwise for it
	anySame     bool              // some profile of the demand has Same
	sameStamps  cycle.StampFilter // the fingerprints of these
	decides     []bool            // by class: no free machine covers it; see findDeciding
	foldHeld    []heldForFold     // held machines: those of cluster c at [foldHeldOff[c]:foldHeldOff[c+1]]
	foldHeldOff []uint32          // nil = foldHeld is empty
}

// CarryOver takes over the state of the last cycle. It finds the clusters that changed; if the state is
// unusable, it says so, and StartOver has to follow.
func (p *Pass) CarryOver() (fresh bool) {
	st, s := p.st, p.Snap
	dimsVersion := s.Demand.Numbering().Dims
	fresh = !st.Seen.Valid || p.Changed.Renumbered || st.Seen.Demand != s.Demand || dimsVersion != st.Seen.DimsVersion ||
		len(st.Clusters) != len(s.Clusters) || st.Seen.Dims != p.Dims || st.Kinds.Many()
	st.Seen.Valid = false // until this cycle has completed
	st.Seen.Supply, st.Seen.Demand = s.Supply, s.Demand
	st.Seen.DimsVersion = dimsVersion
	st.Seen.Names = s.Supply.NameSequence()
	p.BeginHolds()
	p.findFree()
	if !fresh {
		fresh = !p.FindDirty(p.folding.freeMoved)
	}
	p.Changed.Fresh = fresh
	return fresh
}

// undo takes back what the last cycle did after credit. Credited claims stay, also in clusters that
// will be credited in full: those are cleared then.
func (p *Pass) undo() {
	st := p.st
	for _, r := range st.Undoing.Undone {
		p.Taken[r] = false
	}
	p.Crew.Each(len(st.Undoing.Visited), cycle.VisitedPerChunk, p.st.tasks.undo)
	for _, need := range st.Divided {
		for n, r := p.Claims.WalkAcquired(&p.Lines[need]); r != columnar.None; r = p.Claims.Next(r, n) {
			p.Claims.Release(r)
			p.Taken[r] = false
		}
	}
	st.Undoing.Visited, st.Undoing.Undone, st.Divided = st.Undoing.Visited[:0], st.Undoing.Undone[:0], st.Divided[:0]
}
