package assign

import (
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/acquire"
	"github.com/tonnage/tonnage/engine/internal/cycle"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Worker is what one worker needs for phase 1.
type Worker struct {
	acquire.Worker
	p         *Pass
	Crediting Crediting
	sharing   sharing
	choosing  domains.Scratch // the totals of domains, for the Need at work
	walk      Walk
	weights   []int32 // by kind: of the Needs that may acquire something; see markAsking
	audited   audited
	reads     uint64 // keeps the compiler from dropping reads
}

// enter prepares the worker for a pass.
func (l *Worker) enter(p *Pass) {
	if len(l.Missing) != p.Dims {
		l.choosing = domains.Scratch{}
	}
	l.Worker.Enter(&p.Pass)
	l.p = p
	l.sharing.together.begin()
	l.sharing.twins.known = false
	l.Crediting.ForeignStamps = l.Crediting.ForeignStamps[:0]
}

// Crediting is the memory of credit: the cluster at work, and the machines bound to it.
type Crediting struct {
	bound  []snapshot.Bound
	needs  []int32 // in rank order
	work   worklist
	stamps stampLists
	lists  classLists
	seized []uint32 // places that the Need at work has been credited
	// heads are, by class, 1 + the place of the cluster's first machine that may be unclaimed. Only the
	// classes of the set live are valid.
	heads         []uint32
	live          []uint64
	creatingFrom  uint32 // the first place of machines that are being created
	ForeignStamps []foreignStamp
	// foreignStampsBefore is the length of ForeignStamps when the Need at work began.
	foreignStampsBefore int
	cheapest            []cycle.ClassPriority // scratch
	Words               []uint64              // scratch
}

// sharing is the memory of phase 1 for rows of one stamp and for parked Needs, which are looked at together.
type sharing struct {
	shared       shared
	sharedPlaces []uint32 // scratch of creditLeftOwn
	twins        twinRows
	together     together
	left         []spare        // scratch
	uncovered    []int64        // scratch: what a parked Need would lack with what lower ranks have
	picked       []columnar.Row // held for the Need at work, and picked before machines of lower ranks
}
