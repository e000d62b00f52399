package cycle

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/state"
)

// Worker is the memory of one goroutine that walks Needs. Workers that run at the same time share no cluster
// during credit and no class during acquisition: each writes only to machines and Needs of its own.
type Worker struct {
	p       *Pass
	Number  uint8 // of the worker, from 0
	Arena   *alloc.Arena
	Missing []int64        // what the Need at work still lacks
	Lacks   uint64         // the dimensions in which Missing is positive, as a set
	Visited []Visit        // Needs that had a turn after credit
	Undone  []columnar.Row // machines taken that were not acquired; the next cycle frees them
	places  []uint64       // scratch of SetOf
	Figures Figures
}

// Figures is what a worker counts. Phase 1 adds up Satisfied, and phase 2 the others.
type Figures struct {
	Probes           int64
	Satisfied        int // satisfied rows
	Credited         int // credited Needs
	ClustersCredited int
	plan.CreditCounts
	Counts   plan.AcquireCounts
	GaveBack int // counts superfluous machines
}

// Enter prepares the worker for a pass.
func (l *Worker) Enter(p *Pass) {
	l.p = p
	l.Arena.Reset()
	if len(l.Missing) != p.Dims {
		l.Missing = make([]int64, p.Dims)
	}
	l.Figures = Figures{}
	l.Visited, l.Undone = l.Visited[:0], l.Undone[:0]
}

// Start makes a Need the one at work; it lacks all that it wants.
func (l *Worker) Start(need int32) {
	clear(l.Missing[copy(l.Missing, l.p.Aggregate(need)):])
	l.Lacks = l.p.KindOf(need).Mask
}

// Resume makes a Need the one at work; it lacks what its claims do not cover.
func (l *Worker) Resume(need int32) {
	if l.p.Lines[need].Tail == columnar.None {
		l.Start(need)
		return
	}
	l.p.ReadDeficit(l.Missing, need)
	l.Lacks = PositiveDims(l.Missing)
}

// Subtract subtracts what a machine of a class covers from what is missing.
func (l *Worker) Subtract(class uint32) {
	missing, lacks := l.Missing, uint64(0)
	v := l.p.Vector(class)[:len(missing)]
	for d, m := range missing {
		if m > 0 {
			if m = max(m-v[d], 0); m > 0 {
				lacks |= 1 << d
			}
			missing[d] = m
		}
	}
	l.Lacks = lacks
}

// Helps reports whether a machine offers something that is missing.
func (l *Worker) Helps(r columnar.Row) bool {
	return l.p.ClassMask[l.p.Snap.View.Class[r]]&l.Lacks != 0
}

// Claim claims a machine of a class for a Need and subtracts what it covers.
func (l *Worker) Claim(r columnar.Row, class uint32, need int32) {
	l.p.Claims.Claim(r, need, &l.p.Lines[need])
	l.Subtract(class)
}

// Visit notes that a Need has a turn after credit, which the next cycle undoes.
func (l *Worker) Visit(need int32) {
	if n := &l.p.Lines[need]; !n.Is(state.IsVisited) {
		n.Status |= state.IsVisited
		l.Visited = append(l.Visited, Visit{need, n.Tail})
	}
}

// Finish marks the Need at work as satisfied if it lacks nothing.
func (l *Worker) Finish(need int32) {
	if l.Lacks == 0 {
		n := &l.p.Lines[need]
		n.Status = n.Status&^state.IsUncoverable | state.IsSatisfied
		l.Figures.Satisfied += l.p.Weight(need)
	}
}

// ClustersPerChunk is how many clusters a worker takes at a time.
const ClustersPerChunk = 16
