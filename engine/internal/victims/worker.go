package victims

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/assign"
	"github.com/tonnage/tonnage/engine/internal/reuse"
)

// Worker is what one worker needs to find victims.
type Worker struct {
	assign.Worker
	p       *Pass
	finder  gangFinder
	Finding Finding
}

// enter prepares the worker for a pass.
func (l *Worker) enter(p *Pass) {
	l.p = p
	l.Finding.Lost, l.Finding.MoreUnits = l.Finding.Lost[:0], 0
}

// Finding is the memory of one worker in phase 2.
type Finding struct {
	Vecs         reuse.VectorBlock // vectors of the plan at work
	Wanted       []int64           // what the Need at work lacked before phase 2 chose victims
	DomainTotals domainTotalsTable
	// Lost is an append-only log of preemptable machines that plans have taken, and of all machines of a gang of which less may be
	// taken since; readers keep a cursor into it. MoreUnits counts events that may have given some Need a new unit.
	Lost      []columnar.Row
	MoreUnits int
	// ExhaustedSince is, by kind, the value of EventsVersion when phase 2 could do nothing for it; see
	// exhausted.go.
	ExhaustedSince []uint64
	GoneSince      []uint64         // by kind: the same for free machines
	asks           []bool           // by kind; see findAskers
	acquired       []leavingMachine // see listAcquired
	short          []int32          // gangs that phase 2 looks at
	outlines       []int64          // of gangs; see Turns
	passed         []uint64         // scratch
	spares         spareSums
	wholes         []wholeDraft        // scratch
	values         [2][]uint64         // scratch
	excess         []uint64            // the answer of ExcessClasses
	rows           roaring.IntIterator // scratch: iterates over a set of machines
}
