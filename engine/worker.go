package engine

import (
	"github.com/RoaringBitmap/roaring/v2"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// worker is what one worker needs to walk needs one after the other. Workers that
// work at the same time share no cluster while they credit, and no class while
// they acquire: each writes only to machines and needs of its own.
type worker struct {
	*pass
	arena        *alloc.Arena
	missing      []int64        // what the need at work still lacks
	wanted       []int64        // what it lacked before any victim
	lacks        uint64         // the dimensions in which that is positive, a bit each
	domains      []*domainIndex // by key column, built when first needed
	even         evenness
	spread       spreadScratch
	dealt        spreadDeals
	domain       domainScratch
	weights      []float64 // of dimensions in a score
	domainTotals domainTotalsTable
	sel          selection   // of victims
	vecs         vectorBlock // of the plan at work
	// lost is a log of the machines that plans have taken of what could be
	// preempted; moreUnits counts what may have given somebody a unit.
	lost      []columnar.Row
	moreUnits int
	bound     []snapshot.Bound // of the cluster at work
	picked    []columnar.Row   // held for the need at work, and taken before what lower needs have
	// creditedLate says that the need at work was credited something after it had picked
	// what is held for it.
	creditedLate bool
	stamps       stampLists
	stampOf      []uint32 // by place in needs: 1 + the entry of the need's stamp; 0 = no machine has it
	seized       []uint32 // places that the need at work has been credited
	// foreignStampsBefore is how many machines with a foreign stamp there were before the need at work.
	foreignStampsBefore int
	// heads are, by class, 1 + the place of the cluster's first machine that is not
	// claimed, of the classes that live has.
	heads        []uint32
	live         []uint64
	creatingFrom uint32              // from which place on they are being created
	rows         roaring.IntIterator // over a set of machines
	probes       int64
	touched      uint64 // keeps the compiler from dropping reads
	gatherer     gatherer
	pending      batch // that the worker gathers for itself
	revived      bool  // who was passed over in gathering may acquire something now
	// exhaustedSince is, by kind, what had happened when phase 2 could do nothing for
	// it; see phase2_exhausted.go.
	exhaustedSince []uint64
	goneSince      []uint64 // by kind: the same for what is free, which is all gone

	number           uint8  // of the worker
	shares           shares // what it may acquire, while there are others
	folder           folder
	finder           gangFinder
	byKind           []int32          // how many needs may acquire something
	asks             []bool           // by kind; see findAskers
	places           []uint64         // scratch: see setOf
	short            []int32          // gangs that phase 2 looks at
	outlines         []int64          // of gangs; see turns
	visited          []int32          // needs that had a turn after credit
	undone           []columnar.Row   // machines taken that were not acquired
	nextBlock        int              // of reserved.blocks
	acquisitions     [2][]acquisition // Idle, Speculative; in rank order
	satisfied        int              // rows
	credited         int              // needs
	clustersCredited int
	counts           AcquireCounts
	foreignStamps    []foreignStamp
	notes            []tried // scratch
	replay           replay
	cheapest         []classPriority // scratch
	lowest           []int32         // scratch, by class
	needs            []int32         // of the cluster at work, in rank order
	byText           columnar.StringSorter
	passed           []uint64       // scratch
	used             []columnar.Row // scratch
	left             []spare        // scratch
	surplus          surplus        // scratch
	gaveBack         int            // machines that were superfluous
	words            []uint64       // scratch
	inOrder          []keyedRow     // scratch
}

// enter makes the worker ready for a pass.
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
	l.dealt.ofKind = l.dealt.ofKind[:0]
	l.probes, l.nextBlock, l.satisfied, l.credited, l.clustersCredited = 0, 0, 0, 0, 0
	l.lost, l.moreUnits = l.lost[:0], 0
	l.counts = AcquireCounts{}
	l.visited, l.undone, l.foreignStamps = l.visited[:0], l.undone[:0], l.foreignStamps[:0]
}

// start makes a need the one at work, lacking what it wants in all.
func (l *worker) start(need int32) {
	clear(l.missing[copy(l.missing, l.aggregate(need)):])
	l.lacks = l.kindOf(need).mask
}

// resume makes a need the one at work, lacking what phase 1 has left so far.
func (l *worker) resume(need int32) {
	if l.lines[need].head == columnar.None {
		l.start(need)
		return
	}
	l.readDeficit(l.missing, need)
	l.lacks = positive(l.missing)
}

// subtract takes off what a machine of a class covers.
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

// helps reports whether a machine has something of what is missing.
func (l *worker) helps(r columnar.Row) bool { return l.classMask[l.s.View.Class[r]]&l.lacks != 0 }

// claim attributes a machine of a class to a need and takes off what it covers.
func (l *worker) claim(r columnar.Row, class uint32, need int32) {
	l.link(r, need)
	l.subtract(class)
}

// link puts a machine at the end of what a need claims.
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

// take removes a machine from what others may still acquire.
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

// takeFromShelves takes a free machine out of the indexes by domain.
func (l *worker) takeFromShelves(r columnar.Row) {
	for _, d := range l.domains {
		if d != nil && !d.stale {
			d.take(r)
		}
	}
}

// putBack makes a free machine available again that nobody claims any more.
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

// offer has a free machine found by those who look for one.
func (l *worker) offer(r columnar.Row) {
	l.epoch++ // ladders may have let go of its class
	switch c := l.s.View.Class[r]; {
	case l.reserved.lower.has(r):
		l.reserved.lower.ofClass(c).at = 0
	case l.s.View.State[r] == model.Idle:
		l.free[0].gave(r, c)
	default:
		l.free[1].gave(r, c)
	}
}

// visit notes that a need has a turn after credit.
func (l *worker) visit(need int32) {
	if n := &l.lines[need]; !n.is(isVisited) {
		n.status |= isVisited
		l.visited = append(l.visited, need)
	}
}

// finish notes whether the need at work has all that it wants.
func (l *worker) finish(need int32) {
	if l.lacks == 0 {
		n := &l.lines[need]
		n.status = n.status&^isUncoverable | isSatisfied
		l.satisfied += l.weight(n)
	}
}

// finishTurn is finish for a need's turn after credit, in its place in the order.
func (l *worker) finishTurn(need, rank int32) {
	if l.finish(need); l.lacks == 0 {
		l.gained[rank] = true
	}
}

// weight returns how many rows a need stands for.
func (p *pass) weight(n *line) int {
	if n.is(isFold) {
		return int(p.e.store.folds[n.group>>foldBits].at(int32(n.group)).rows)
	}
	return 1
}
