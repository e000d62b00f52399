package acquire

import (
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what acquisition adds to the state of a cycle.
type Pass struct {
	order.Pass
	st *Store
	Stock
	Promised Promised
}

// Store is what acquisition keeps for the next cycle.
type Store struct {
	order.Store
	ways     free.Ways
	layoutOf []*tupleLayout // by kind; see Stock.Layouts
	layouts  map[free.Key][]spreadLayout
	takers   map[columnar.Row]int32 // see Promised; its memory is kept
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input) {
	p.Pass.Begin(&st.Store, s, in)
	p.st = st
}

// AddWorker adds the next worker.
func (st *Store) AddWorker(l *Worker) { st.Store.AddWorker(&l.Worker) }

// StartOver begins from nothing: it forgets what follows from the classes and kinds of earlier cycles, too.
func (p *Pass) StartOver() {
	p.Pass.StartOver()
	st := p.st
	st.ways.Reset()
	clear(st.layoutOf)
	st.layoutOf, st.layouts = st.layoutOf[:0], map[free.Key][]spreadLayout{}
}

// Lay lists the free machines and indexes the reservations, once the order is known.
func (p *Pass) Lay(shares *tenancy.Shares) {
	p.st.ways.Snapshot = p.Snap
	p.Stock.Free[0] = free.NewPool(p.Arena, &p.Snap.Idle, p.Snap.KeepPlaces(), &p.Reserved.Lower.Rows)
	p.Stock.Free[1] = free.NewPool(p.Arena, &p.Snap.Speculative, p.Snap.IDPlaces(), &p.Reserved.Lower.Rows)
	rows := p.Snap.Supply.RowMax()
	p.Promised.taken, p.Promised.Flying = bitmap.DenseIn(p.Arena, rows), bitmap.DenseIn(p.Arena, rows)
	if p.st.takers == nil {
		p.st.takers = map[columnar.Row]int32{}
	}
	clear(p.st.takers)
	p.Promised.takers = p.st.takers
	p.IndexHolds(shares)
	for i := range p.Stock.Free {
		p.Stock.Free[i].Rewind(p.Taken)
		if p.Opts.Acquire == plan.AcquireFit {
			p.Stock.Free[i].CountLeft(p.Arena, p.Taken)
		}
	}
}

// Stock is the free machines, who acquired which, and for which kinds none is left. Phases 1 and 2 write it.
type Stock struct {
	Free         [2]free.Pool      // Idle, Speculative
	Epoch        uint64            // of ladders: a ladder of an older epoch must be reopened; see PutBack
	Ladders      [][2]*free.Ladder // by kind: for Idle and for Speculative machines
	Layouts      []*tupleLayout    // by kind, for hard spread; nil: machines are dealt one by one
	Acquisitions [2][]Acquisition  // Idle, Speculative; in rank order
	Spent        []bool            // by kind: no free machine is left for it
	Skewed       []uint32          // by kind: 1 = hard spread has forbidden free machines; atomic access
}

// Promised is what plans of preemption count on, and what they set free. Phase 2 writes it; in
// phase 1 reservations that end set Freed, and the rest is empty.
type Promised struct {
	taken  bitmap.Dense           // machines that plans of this cycle count on
	takers map[columnar.Row]int32 // the Needs of those plans
	Flying bitmap.Dense           // machines that drain for the Need that counts on them
	Freed  []uint64               // classes of revoked machines and of voided reservations, as a set; nil = none
}
