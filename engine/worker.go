package engine

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/domains"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/spread"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/workers"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// worker is the state of one worker. Workers that run at the same time share no cluster during credit
// and no class during acquisition: each writes only to machines and Needs of its own.
type worker struct {
	p         *pass
	number    uint8 // of the worker, from 0
	arena     *alloc.Arena
	missing   []int64         // what the Need at work still lacks
	lacks     uint64          // the dimensions in which missing is positive, as a set
	nextBlock int             // index of reserved.Blocks
	visited   []visit         // Needs that had a turn after credit
	undone    []columnar.Row  // machines taken that were not acquired; the next cycle frees them
	used      []columnar.Row  // scratch
	notes     []records.Tried // scratch

	folder    folder
	figures   figures
	crediting crediting
	sharing   sharing
	search    search
	finder    gangFinder
	acquiring acquiring
}

// crediting is the memory of credit: the cluster at work, and the machines bound to it.
type crediting struct {
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
	foreignStamps []foreignStamp
	// foreignStampsBefore is the length of foreignStamps when the Need at work began.
	foreignStampsBefore int
	cheapest            []classPriority // scratch
	words               []uint64        // scratch
}

// sharing is the memory of phase 1 for rows of one stamp and for parked Needs, which are looked at together.
type sharing struct {
	shared       shared
	sharedPlaces []uint32 // scratch of creditLeftOwn
	twins        twinRows
	together     together
	surplus      surplus        // scratch
	left         []spare        // scratch
	uncovered    []int64        // scratch: what a parked Need would lack with what lower ranks have
	picked       []columnar.Row // held for the Need at work, and picked before machines of lower ranks
	// creditedLate says that the Need at work was credited something after picked was picked.
	creditedLate bool
}

// acquiring is the memory of acquisition.
type acquiring struct {
	domains      domains.Indexes
	domain       domains.Scratch
	even         evenness
	spread       spread.Scratch
	dealt        spreadDeals
	fit          *fitter // nil until AcquireFit chooses
	gatherer     gatherer
	pending      workers.Batch    // the batch that the worker gathers for itself
	revived      bool             // Needs that gathering skipped may acquire something now
	shares       shares           // the kinds and classes of each worker, while they acquire concurrently
	byKind       []int32          // weight of the Needs that may acquire something; see markAsking
	acquisitions [2][]acquisition // Idle, Speculative; in rank order
	byText       columnar.StringSorter
	inOrder      []keyedRow // scratch
	reads        uint64     // keeps the compiler from dropping reads
}

// search is the memory of phase 2.
type search struct {
	sel          selection         // the victims of the Need at work
	vecs         reuse.VectorBlock // vectors of the plan at work
	wanted       []int64           // what the Need at work lacked before phase 2 chose victims
	domainTotals domainTotalsTable
	// lost is an append-only log of preemptable machines that plans have taken; readers keep a cursor
	// into it. moreUnits counts events that may have given some Need a new unit.
	lost      []columnar.Row
	moreUnits int
	// exhaustedSince is, by kind, the value of happened when phase 2 could do nothing for it; see
	// phase2_exhausted.go.
	exhaustedSince []uint64
	goneSince      []uint64            // by kind: the same for free machines
	asks           []bool              // by kind; see findAskers
	acquired       []leavingMachine    // see listAcquired
	places         []uint64            // scratch of setOf
	short          []int32             // gangs that phase 2 looks at
	outlines       []int64             // of gangs; see turns
	passed         []uint64            // scratch
	rows           roaring.IntIterator // scratch: iterates over a set of machines
}

// figures is what a worker counts; phase 1 adds them up.
type figures struct {
	probes           int64
	satisfied        int // satisfied rows
	credited         int // credited Needs
	clustersCredited int
	CreditCounts
	counts   AcquireCounts
	gaveBack int // counts superfluous machines
}

// enter prepares the worker for a pass.
func (l *worker) enter(p *pass) {
	l.p = p
	l.arena.Reset()
	if len(l.missing) != p.dims {
		l.missing, l.acquiring.domain = make([]int64, p.dims), domains.Scratch{}
	}
	l.acquiring.domains.Forget()
	l.acquiring.acquisitions[0], l.acquiring.acquisitions[1] = l.acquiring.acquisitions[0][:0], l.acquiring.acquisitions[1][:0]
	l.sharing.together.begin(len(p.sources))
	l.acquiring.shares, l.acquiring.revived, l.sharing.twins.known = shares{}, false, false
	if l.acquiring.fit != nil {
		l.acquiring.fit.memo.clear()
	}
	l.acquiring.dealt.ofKind = l.acquiring.dealt.ofKind[:0]
	l.figures.probes, l.nextBlock, l.figures.satisfied, l.figures.credited, l.figures.clustersCredited = 0, 0, 0, 0, 0
	l.figures.CreditCounts = CreditCounts{}
	l.search.lost, l.search.moreUnits = l.search.lost[:0], 0
	l.figures.counts = AcquireCounts{}
	l.visited, l.undone, l.crediting.foreignStamps = l.visited[:0], l.undone[:0], l.crediting.foreignStamps[:0]
}

// start makes a Need the one at work; it lacks all that it wants.
func (l *worker) start(need int32) {
	clear(l.missing[copy(l.missing, l.p.aggregate(need)):])
	l.lacks = l.p.kindOf(need).Mask
}

// resume makes a Need the one at work; it lacks what its claims do not cover.
func (l *worker) resume(need int32) {
	if l.p.lines[need].Head == columnar.None {
		l.start(need)
		return
	}
	l.p.readDeficit(l.missing, need)
	l.lacks = positive(l.missing)
}

// subtract subtracts what a machine of a class covers from what is missing.
func (l *worker) subtract(class uint32) {
	v := l.p.vector(class)
	lacks := uint64(0)
	for d, m := range l.missing {
		if m > 0 {
			m = max(m-v[d], 0)
			l.missing[d] = m
			if m > 0 {
				lacks |= 1 << d
			}
		}
	}
	l.lacks = lacks
}

// helps reports whether a machine offers something that is missing.
func (l *worker) helps(r columnar.Row) bool { return l.p.classMask[l.p.s.View.Class[r]]&l.lacks != 0 }

// claim claims a machine of a class for a Need and subtracts what it covers.
func (l *worker) claim(r columnar.Row, class uint32, need int32) {
	l.p.claims.Claim(r, need, &l.p.lines[need])
	l.subtract(class)
}

// take withdraws a machine from acquisition. It does nothing if the machine is taken already.
func (l *worker) take(r columnar.Row) {
	if l.p.taken[r] {
		return
	}
	l.p.taken[r] = true
	switch l.p.s.View.State[r] {
	case model.Idle, model.Speculative:
		l.p.stock.free[l.p.stageOf(r)].Took(r, l.p.s.View.Class[r], l.p.taken)
		l.acquiring.domains.Take(r)
	}
}

// putBack undoes take for a free machine that no Need claims any more.
func (l *worker) putBack(r columnar.Row) {
	if l.p.taken[r] {
		l.p.stock.epoch++ // reopen the ladders, which may have dropped the class
		l.restore(r)
	}
}

// restore makes the pools, or the list of held machines, and the indexes by domain find a taken machine
// again.
func (l *worker) restore(r columnar.Row) {
	l.p.taken[r] = false
	l.offer(r)
	l.acquiring.domains.PutBack(r)
}

// offer makes the pools, or the list of held machines, find a free machine again.
func (l *worker) offer(r columnar.Row) {
	c, stage := l.p.s.View.Class[r], l.p.stageOf(r)
	if l.p.reserved.Lower.Has(r) {
		l.p.reserved.Lower.OfClass(c, stage).At = 0
		return
	}
	l.noteReopened(r, stage)
	l.p.stock.free[stage].Gave(r, c)
}

// visit notes that a Need has a turn after credit, which the next cycle undoes.
func (l *worker) visit(need int32) {
	if n := &l.p.lines[need]; !n.Is(state.IsVisited) {
		n.Status |= state.IsVisited
		l.visited = append(l.visited, visit{need, n.Tail})
	}
}

// finish marks the Need at work as satisfied if it lacks nothing.
func (l *worker) finish(need int32) {
	if l.lacks == 0 {
		n := &l.p.lines[need]
		n.Status = n.Status&^state.IsUncoverable | state.IsSatisfied
		l.figures.satisfied += l.p.weight(n)
	}
}

// finishTurn is finish at the Need's turn after credit.
func (l *worker) finishTurn(need, rank int32) {
	if l.finish(need); l.lacks == 0 {
		l.p.shortage.gained[rank] = true
	}
}

// weight returns how many rows a Need stands for.
func (p *pass) weight(n *state.Line) int {
	if n.Is(state.IsFold) {
		return int(p.e.store.clusters[n.Cluster].folds.list[n.Group].rows)
	}
	return 1
}
