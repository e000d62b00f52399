package engine

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// worker is the state of one worker. Workers that run at the same time share no cluster during credit
// and no class during acquisition: each writes only to machines and Needs of its own.
type worker struct {
	*pass
	arena        *alloc.Arena
	missing      []int64        // what the Need at work still lacks
	wanted       []int64        // what it lacked before phase 2 chose victims
	lacks        uint64         // the dimensions in which missing is positive, as a set
	uncovered    []int64        // scratch: what a parked Need would lack with what lower ranks have
	domains      []*domainIndex // by Same key; built when first needed
	even         evenness
	spread       spreadScratch
	dealt        spreadDeals
	domain       domainScratch
	weights      []float64 // of dimensions in a domain's score
	domainTotals domainTotalsTable
	sel          selection   // the victims of the Need at work
	vecs         vectorBlock // vectors of the plan at work
	// lost is an append-only log of preemptable machines that plans have taken; readers keep a cursor
	// into it. moreUnits counts events that may have given some Need a new unit.
	lost      []columnar.Row
	moreUnits int
	bound     []snapshot.Bound // the machines of the cluster at work
	picked    []columnar.Row   // held for the Need at work, and picked before machines of lower ranks
	// creditedLate says that the Need at work was credited something after picked was picked.
	creditedLate bool
	stamps       stampLists
	lists        classLists
	seized       []uint32 // places that the Need at work has been credited
	// foreignStampsBefore is the length of foreignStamps when the Need at work began.
	foreignStampsBefore int
	// heads are, by class, 1 + the place of the cluster's first machine that may be unclaimed. Only the
	// classes of the set live are valid.
	heads        []uint32
	live         []uint64
	creatingFrom uint32              // the first place of machines that are being created
	rows         roaring.IntIterator // scratch: iterates over a set of machines
	probes       int64
	touched      uint64 // keeps the compiler from dropping reads
	gatherer     gatherer
	pending      batch // the batch that the worker gathers for itself
	revived      bool  // Needs that gathering skipped may acquire something now
	// exhaustedSince is, by kind, the value of happened when phase 2 could do nothing for it; see
	// phase2_exhausted.go.
	exhaustedSince []uint64
	goneSince      []uint64 // by kind: the same for free machines

	number           uint8  // of the worker, from 0
	shares           shares // the kinds and classes of each worker, while they acquire concurrently
	folder           folder
	finder           gangFinder
	byKind           []int32          // weight of the Needs that may acquire something; see markAsking
	asks             []bool           // by kind; see findAskers
	places           []uint64         // scratch of setOf
	short            []int32          // gangs that phase 2 looks at
	outlines         []int64          // of gangs; see turns
	visited          []visit          // Needs that had a turn after credit
	undone           []columnar.Row   // machines taken that were not acquired; the next cycle frees them
	nextBlock        int              // index of reserved.blocks
	acquisitions     [2][]acquisition // Idle, Speculative; in rank order
	satisfied        int              // satisfied rows
	credited         int              // credited Needs
	clustersCredited int
	CreditCounts
	counts        AcquireCounts
	foreignStamps []foreignStamp
	notes         []tried // scratch
	work          worklist
	cheapest      []classPriority // scratch
	needs         []int32         // of the cluster at work, in rank order
	byText        columnar.StringSorter
	passed        []uint64       // scratch
	used          []columnar.Row // scratch
	left          []spare        // scratch
	surplus       surplus        // scratch
	gaveBack      int            // counts superfluous machines
	words         []uint64       // scratch
	inOrder       []keyedRow     // scratch
	fit           *fitter        // nil until AcquireFit chooses
}

// enter prepares the worker for a pass.
func (l *worker) enter(p *pass) {
	l.pass = p
	l.arena.Reset()
	if len(l.missing) != p.dims {
		l.missing, l.domain = make([]int64, p.dims), domainScratch{}
	}
	for _, d := range l.domains {
		if d != nil {
			d.stale = true
		}
	}
	l.acquisitions[0], l.acquisitions[1] = l.acquisitions[0][:0], l.acquisitions[1][:0]
	l.shares, l.revived = shares{}, false
	if l.fit != nil {
		l.fit.memo.clear()
	}
	l.dealt.ofKind = l.dealt.ofKind[:0]
	l.probes, l.nextBlock, l.satisfied, l.credited, l.clustersCredited = 0, 0, 0, 0, 0
	l.CreditCounts = CreditCounts{}
	l.lost, l.moreUnits = l.lost[:0], 0
	l.counts = AcquireCounts{}
	l.visited, l.undone, l.foreignStamps = l.visited[:0], l.undone[:0], l.foreignStamps[:0]
}

// start makes a Need the one at work; it lacks all that it wants.
func (l *worker) start(need int32) {
	clear(l.missing[copy(l.missing, l.aggregate(need)):])
	l.lacks = l.kindOf(need).mask
}

// resume makes a Need the one at work; it lacks what its claims do not cover.
func (l *worker) resume(need int32) {
	if l.lines[need].head == columnar.None {
		l.start(need)
		return
	}
	l.readDeficit(l.missing, need)
	l.lacks = positive(l.missing)
}

// subtract subtracts what a machine of a class covers from what is missing.
func (l *worker) subtract(class uint32) {
	v := l.vector(class)
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
func (l *worker) helps(r columnar.Row) bool { return l.classMask[l.s.View.Class[r]]&l.lacks != 0 }

// claim links a machine of a class to a Need and subtracts what it covers.
func (l *worker) claim(r columnar.Row, class uint32, need int32) {
	l.link(r, need)
	l.subtract(class)
}

// link appends a machine to the chain of a Need's claims.
func (l *worker) link(r columnar.Row, need int32) {
	n := &l.lines[need]
	l.held[r] = hold{need: need}
	if n.head == columnar.None {
		n.head = r
	} else {
		l.held[n.tail].next = r
	}
	n.tail = r
}

// take withdraws a machine from acquisition. It does nothing if the machine is taken already.
func (l *worker) take(r columnar.Row) {
	if l.taken[r] {
		return
	}
	l.taken[r] = true
	switch l.s.View.State[r] {
	case model.Idle:
		l.free[0].took(r, l.s.View.Class[r], l.taken)
	case model.Speculative:
		l.free[1].took(r, l.s.View.Class[r], l.taken)
	default:
		return
	}
	l.takeFromShelves(r)
}

// takeFromShelves tells the indexes by domain that a free machine is taken.
func (l *worker) takeFromShelves(r columnar.Row) {
	for _, d := range l.domains {
		if d != nil && !d.stale {
			d.take(r)
		}
	}
}

// putBack undoes take for a free machine that no Need claims any more.
func (l *worker) putBack(r columnar.Row) {
	if !l.taken[r] {
		return
	}
	l.taken[r] = false
	l.offer(r)
	for _, d := range l.domains {
		if d != nil && !d.stale {
			d.putBack(r)
		}
	}
}

// offer makes the pools, or the list of held machines, find a free machine again.
func (l *worker) offer(r columnar.Row) {
	l.epoch++ // reopen the ladders, which may have dropped the class
	switch c := l.s.View.Class[r]; {
	case l.reserved.lower.has(r):
		l.reserved.lower.ofClass(c).at = 0
	case l.s.View.State[r] == model.Idle:
		l.noteReopened(r, 0)
		l.free[0].gave(r, c)
	default:
		l.noteReopened(r, 1)
		l.free[1].gave(r, c)
	}
}

// visit notes that a Need has a turn after credit, which the next cycle undoes.
func (l *worker) visit(need int32) {
	if n := &l.lines[need]; !n.is(isVisited) {
		n.status |= isVisited
		l.visited = append(l.visited, visit{need, n.tail})
	}
}

// finish marks the Need at work as satisfied if it lacks nothing.
func (l *worker) finish(need int32) {
	if l.lacks == 0 {
		n := &l.lines[need]
		n.status = n.status&^isUncoverable | isSatisfied
		l.satisfied += l.weight(n)
	}
}

// finishTurn is finish at the Need's turn after credit.
func (l *worker) finishTurn(need, rank int32) {
	if l.finish(need); l.lacks == 0 {
		l.gained[rank] = true
	}
}

// weight returns how many rows a Need stands for.
func (p *pass) weight(n *line) int {
	if n.is(isFold) {
		return int(p.e.store.clusters[n.cluster].folds.list[n.group].rows)
	}
	return 1
}
