package acquire

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/spread"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// Pass is what acquisition adds to the state of a cycle.
type Pass struct {
	order.Pass
	st *Store
	Stock
	Promised promised
}

// Store is what acquisition keeps for the next cycle.
type Store struct {
	order.Store
	ways     free.Ways
	layoutOf []*tupleLayout // by kind; see stock.layouts
	layouts  map[free.Key][]spreadLayout
}

// Worker is what one worker needs to acquire machines.
type Worker struct {
	order.Worker
	p         *Pass
	NextBlock int            // index of reserved.Blocks
	used      []columnar.Row // scratch
	Acquiring acquiring
}

// acquiring is the memory of acquisition.
type acquiring struct {
	Domains      domains.Indexes
	even         evenness
	Spread       spread.Scratch
	dealt        spreadDeals
	fit          *fitter          // nil until AcquireFit chooses
	Revived      bool             // Needs that gathering skipped may acquire something now
	Shares       Shares           // the kinds and classes of each worker, while they acquire concurrently
	Acquisitions [2][]Acquisition // Idle, Speculative; in rank order
	Clusters     []uint64         // whose Needs have acquired something, as a set
	byText       columnar.StringSorter
	inOrder      []keyedRow // scratch
	Surplus      surplus    // scratch
	// CreditedLate says that the Need at work was credited something after it picked machines.
	CreditedLate bool
}

// Enter prepares the worker for a pass.
func (l *Worker) Enter(p *Pass) {
	l.Worker.Enter(&p.Pass)
	l.p, l.NextBlock = p, 0
	x := &l.Acquiring
	x.Domains.Forget()
	x.Acquisitions[0], x.Acquisitions[1] = x.Acquisitions[0][:0], x.Acquisitions[1][:0]
	x.Clusters = reuse.Resize(x.Clusters, (len(p.Sources)+63)/64)
	x.Shares, x.Revived = Shares{}, false
	if x.fit != nil {
		x.fit.memo.clear()
	}
	x.dealt.ofKind = x.dealt.ofKind[:0]
}

// Begin begins the pass of a cycle.
func (p *Pass) Begin(st *Store, s *snapshot.Snapshot, in *plan.Input, opts *plan.Options, arena *alloc.Arena, crew *workers.Crew) {
	p.Pass.Begin(&st.Store, s, in, opts, arena, crew)
	p.st = st
}

// Add adds the next worker.
func (st *Store) Add(l *Worker) { st.Store.Add(&l.Worker) }

// StartOver forgets what follows from the classes and kinds of earlier cycles.
func (p *Pass) StartOver() {
	st := p.st
	st.ways.Reset()
	clear(st.layoutOf)
	st.layoutOf, st.layouts = st.layoutOf[:0], map[free.Key][]spreadLayout{}
}

// Lay finds what is free, and what is held for whom, once the order is known.
func (p *Pass) Lay(shares *tenancy.Shares) {
	p.st.ways.Snapshot = p.Snap
	p.Stock.Free[0] = free.NewPool(p.Arena, &p.Snap.Idle, p.Snap.Keep, &p.Reserved.Lower.Rows)
	p.Stock.Free[1] = free.NewPool(p.Arena, &p.Snap.Speculative, p.Snap.IDRank, &p.Reserved.Lower.Rows)
	p.Promised.Flying = bitmap.DenseIn(p.Arena, p.Snap.Supply.RowMax())
	p.IndexHolds(shares)
	for i := range p.Stock.Free {
		p.Stock.Free[i].Rewind(p.Taken)
		if p.Opts.Acquire == plan.AcquireFit {
			p.Stock.Free[i].CountLeft(p.Arena, p.Taken)
		}
	}
}
