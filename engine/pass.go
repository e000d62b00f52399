package engine

import (
	"sort"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// pass is the state of one cycle. normalise and rank write the columns by line and by place in the
// order; phase 1 writes held, the chains of claims; phase 2 writes victims; phase 3 reads both.
type pass struct {
	e    *Engine
	s    *snapshot.Snapshot
	in   *Input
	dims int // dimensions that the demand names

	sources    []rowSource // by cluster
	atlas      atlas
	lines      []line
	aggregates []uint32 // by line: the number of the vector that the row wants
	kinds      []kind
	hashes     []uint16 // by kind: soughtHash of its fingerprint
	order      []int32  // Needs in rank order
	rankOf     []int32  // by line: the Need's place in order
	kindAt     []uint32 // by place in order: the Need's kind
	// byCluster lists the Needs of each cluster in rank order; see store.
	byCluster, sorted []int32
	lacking           []bool   // by place in order: the Need lacks something after credit
	gained            []bool   // by place in order: the Need was satisfied in its turn after credit
	spent             []uint32 // by kind: 1 = no free machine is left for it; atomic access
	skewed            []uint32 // by kind: 1 = hard spread has forbidden free machines; atomic access
	special           []bool   // by place in order: something is held for the Need, or was when the cycle began
	waits             []bool   // by place in order: the Need's credit waits for its turn
	asking            []uint8  // by place in order: 1 = a turn in phase 1 may come to something
	anyFolds          bool
	anySwaps          bool        // some Need sits on another one's rank slot
	renumbered        bool        // numbers of classes and matchers may have changed their meaning
	fresh             bool        // nothing is taken over from the last cycle
	freeMoved         bool        // which domains have free machines has changed; see findFree
	foldsMoved        bool        // the same, and rows may fold otherwise for it
	anySame           bool        // some profile of the demand has Same
	sameStamps        stampFilter // the fingerprints of these
	decides           []bool      // by class: no free machine covers it; see findDeciding
	moves             []moved     // changed machines: those of cluster c at [moveOff[c]:moveOff[c+1]]
	moveOff           []uint32
	foldHeld          []heldForFold // held machines: those of cluster c at [foldHeldOff[c]:foldHeldOff[c+1]]
	foldHeldOff       []uint32      // nil = foldHeld is empty
	reordered         bool          // places in the order may have changed
	classesOf         [][]uint32    // by matcher: the accepted classes, ascending
	classMask         []uint64      // by class: the dimensions that it offers, as a set
	freeOf            []uint64      // the classes that had a free machine when the cycle began, as a set

	// By row of the supply. Elements are bytes and words, not bits: each worker writes those of its own
	// machines.
	taken []bool // claimed, or withdrawn for an owner of higher rank
	held  []hold

	free     [2]pool // Idle, Speculative
	epoch    uint64  // of ladders: a ladder of an older epoch must be reopened; see putBack
	reserved reservations

	spares []spares // by cluster: unclaimed machines for Needs whose credit waits

	acquisitions [2][]acquisition // Idle, Speculative; in rank order
	satisfied    int              // satisfied rows
	walker       *worker          // the worker that does phases 2 and 3

	victims   []victim
	pools     map[victimPoolKey]*victimPool
	noVictims *victimPool
	met       searchCount       // how much of the search budget is used
	leaving   []leavingMachine  // see findLeaving
	victimOf  bitmap.Dense      // machines preempted in this cycle
	spared    bitmap.Dense      // machines that drain for nobody since this pass; see spareDrains
	flying    bitmap.Dense      // machines that drain for the Need that counts on them
	inFlight  map[int32][]int64 // by Need: what drains for it
	// withheldBy is, by machine, the Need whose acquisition was revoked because its plan went to
	// another domain. tried are the domains in which phase 2 looked, for Explain and for Plan.Compared.
	withheldBy  map[columnar.Row]int32
	freed       []uint64 // classes of revoked machines and of voided reservations, as a set; nil = none
	withheld    []int32  // Needs with revoked acquisitions
	tried       []tried
	triedFrom   int // index in tried of the first entry of the Need at work
	compared    int // plans whose domains stand in tried without Explain
	planWhys    []plannedWhy
	tenancyWhys []tenancyWhy
	// With gangs: the pools of units, the Needs with plans, and what the plans count on.
	unitPools        map[victimPoolKey]*unitPool
	cuts             map[cutKey]*cut // by nested key; built when first needed
	cut              *cut            // of the Need at work; nil = its domains are not divided
	plans            []plan
	planned          []planned
	awaited          []columnar.Row // machines of an ended plan that the Need at work still counts on
	taker            []int32        // by row: 1 + the Need whose plan counts on the machine; nil = no plan
	regiven          bool           // some victim has gone from one plan to another
	reclaims         []columnar.Row
	deletes          []columnar.Row
	probes           int64
	credited         int
	creditCounts     CreditCounts
	clustersCredited int
	counts           AcquireCounts
	rows             int          // rows of the demand
	lookedAt         atomic.Int32 // the cluster of the last look-up; see rowAt

	turns   turns
	tenancy *tenancy // nil = none
	// reclaiming says that the turns between tenants are under way; see tenancy.go.
	reclaiming bool
}

// newPass begins the pass of a cycle.
func (e *Engine) newPass(s *snapshot.Snapshot, in *Input) *pass {
	p, st := &e.at, &e.store
	*p = pass{e: e, s: s, in: in, dims: len(s.Demand.Dims())}
	if st.withheldBy == nil {
		st.withheldBy = map[columnar.Row]int32{}
	}
	clear(st.withheldBy)
	clear(st.tried)
	st.limits.stale = true
	p.reclaims, p.withheldBy = st.reclaims[:0], st.withheldBy
	p.victims, p.withheld, p.tried = st.victims[:0], st.withheld[:0], st.tried[:0]
	p.renumbered = st.supply != s.Supply || s.Fresh || s.ClassesChanged
	if st.classesOf == nil || p.renumbered {
		st.classesOf = classesByMatcher(s)
	}
	p.classesOf = st.classesOf
	p.classMask = alloc.Make[uint64](e.arena, len(s.Classes))
	for c := range p.classMask {
		p.classMask[c] = positive(p.vector(uint32(c)))
	}
	return p
}

// classesByMatcher inverts the lists of matchers by class.
func classesByMatcher(s *snapshot.Snapshot) [][]uint32 {
	out := make([][]uint32, s.Supply.MatcherMax())
	for c := range s.Classes {
		for _, m := range s.Classes[c].Matchers {
			out[m] = append(out[m], uint32(c))
		}
	}
	return out
}

// lay allocates what phases 1 to 3 need, once the order is known.
func (p *pass) lay() {
	p.atlas = p.draw()
	a, rows := p.e.arena, p.s.Supply.RowMax()
	for _, l := range p.e.workers {
		l.enter(p)
	}
	p.free[0] = newPool(a, &p.s.Idle, p.s.Keep, &p.reserved.lower)
	p.free[1] = newPool(a, &p.s.Speculative, p.s.IDRank, &p.reserved.lower)
	p.noVictims = &p.e.store.noVictims
	p.victimOf = bitmap.DenseIn(a, rows)
	p.flying = bitmap.DenseIn(a, rows)
	p.spared = bitmap.DenseIn(a, rows)
	p.tenancy = p.findTenants()
	p.reserved = p.indexReservations()
	for i := range p.free {
		p.free[i].rewind(p.taken)
		if p.e.opts.Acquire == AcquireFit {
			p.free[i].countLeft(a, p.taken)
		}
	}
}

// rowAt returns the line of a row, given the row's number in outputs, which has no gaps. Callers visit
// rows in sequence, so it tries the cluster of the last call before it bisects.
func (p *pass) rowAt(i int) int32 {
	src := &p.sources[p.lookedAt.Load()]
	if at := i - int(src.outer); at < 0 || at >= src.rows {
		c := sort.Search(len(p.sources), func(c int) bool { return int(p.sources[c].outer) > i }) - 1
		p.lookedAt.Store(int32(c))
		src = &p.sources[c]
	}
	return src.base + int32(i) - src.outer
}

// outward returns the number in outputs of a line.
func (p *pass) outward(row int32) int32 {
	return row + p.atlas.outward[p.atlas.clusterOf(row)]
}

// named returns the number in outputs of the row after which a Need is named.
func (p *pass) named(need int32) int32 { return p.outward(p.first(need)) }

// needOf returns the Need as which a row is decided: its fold, or itself.
func (p *pass) needOf(row int32) int32 {
	if n := &p.lines[row]; n.is(isMember) {
		return int32(n.domain)
	}
	return row
}

func (p *pass) kindOf(need int32) *kind { return &p.kinds[p.lines[need].kind] }

// aggregate returns all that a Need wants; read-only. The vector may be shorter than those of supply:
// the demand's dimensions come first.
func (p *pass) aggregate(need int32) []int64 {
	if p.anyFolds && p.lines[need].is(isFold) {
		n := &p.lines[need]
		return p.e.store.clusters[n.cluster].folds.sum(n.group, p.dims)
	}
	return p.s.Demand.Vector(p.aggregates[need])
}

// foldOf returns the fold that a Need is; the Need must be one.
func (p *pass) foldOf(need int32) *fold {
	n := &p.lines[need]
	return &p.e.store.clusters[n.cluster].folds.list[n.group]
}

// first returns the row after which a Need is named in outputs: of a fold, its first row in rank order.
func (p *pass) first(need int32) int32 {
	if p.anyFolds && p.lines[need].is(isFold) {
		return p.foldOf(need).first
	}
	return need
}

// groupOf returns the number of a Need's group name in the supply; 0, the empty name, for a fold.
func (p *pass) groupOf(need int32) uint32 {
	n := &p.lines[need]
	if n.is(isFold) {
		return 0 // the empty name
	}
	return n.group
}

// groupName returns a Need's group name.
func (p *pass) groupName(need int32) string {
	n := &p.lines[need]
	if n.is(isFold) {
		return ""
	}
	src := &p.sources[n.cluster]
	return src.block.Group(int(need - src.base))
}

// readDeficit writes what a Need lacks now to dst, of p.dims values. O(machines claimed).
func (p *pass) readDeficit(dst []int64, need int32) {
	n := &p.lines[need]
	if n.is(isSatisfied) {
		clear(dst)
		return
	}
	clear(dst[copy(dst, p.aggregate(need)):])
	for r := n.head; r != columnar.None; r = p.held[r].next {
		columnar.SubClamp(dst, p.vec(r))
	}
}

// vector returns what machines of a class offer in the dimensions that demand names. No decision reads
// the others.
func (p *pass) vector(class uint32) []int64 { return p.s.Vector(class)[:p.dims] }

// vec returns what a machine offers.
func (p *pass) vec(r columnar.Row) []int64 { return p.vector(p.s.View.Class[r]) }

// accepts reports whether a machine can serve a kind: its class matches and suits, and it lies in a
// domain that the matcher permits.
func (p *pass) accepts(r columnar.Row, k *kind) bool {
	return k.acceptsClass(p.s.View.Class[r]) && p.inAnyDomain(k.matcher, r)
}

func (p *pass) inAnyDomain(matcher uint32, r columnar.Row) bool {
	_, ok := p.s.Supply.Domain(matcher, r)
	return ok
}

// inDomain reports whether a machine lies in the domain that the Need has chosen; true for Needs
// without Same.
func (p *pass) inDomain(r columnar.Row, need int32) bool {
	k := p.kindOf(need)
	if !k.same {
		return true
	}
	v, ok := p.s.Supply.Domain(k.matcher, r)
	return ok && v == p.lines[need].domain
}

// matches reports whether a matcher accepts a class. O(matchers of the class).
func (p *pass) matches(class, matcher uint32) bool {
	for _, m := range p.s.Classes[class].Matchers {
		if m >= matcher {
			return m == matcher
		}
	}
	return false
}

func (p *pass) claimed(r columnar.Row) bool { return p.held[r].need != unheld }

// countsFor returns the cluster for which a machine counts that is bound or being created.
func (p *pass) countsFor(r columnar.Row) int32 {
	if c := p.s.View.Cluster[r]; c != 0 {
		return p.s.ClusterOf[c]
	}
	return p.clusterByName(p.s.Supply.Reservation(r).Owner.Cluster)
}

// isOwn reports whether a machine carries the Need's stamp.
func (p *pass) isOwn(r columnar.Row, need int32) bool {
	return p.s.View.Fingerprint[r] == p.kindOf(need).fingerprint && p.s.View.Group[r] == p.groupOf(need)
}
