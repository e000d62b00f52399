package engine

import (
	"sort"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// pass is the state of one cycle's walk. normalise and rank write the upper
// part; phase 1 fills held, the chains of claims, phase 2 victims; phase 3
// reads both.
type pass struct {
	e    *Engine
	s    *snapshot.Snapshot
	in   *Input
	dims int // of the demand

	sources    []rowSource // by cluster
	atlas      atlas
	lines      []line
	aggregates []uint32 // by line: the number of what the row wants
	kinds      []kind
	order      []int32  // needs in rank order
	rankOf     []int32  // by line: the place in order
	kindAt     []uint32 // by place in order: the need's kind
	// byCluster are the needs of each cluster in rank order; see store.
	byCluster, sorted []int32
	lacking           []bool   // by place in order: something is missing after credit
	gained            []bool   // by place in order: nothing is any more, since it has acquired that
	spent             []uint32 // by kind: 1 = no free machine is left for it; atomically
	skewed            []uint32 // by kind: 1 = hard spread has left free machines alone; atomically
	special           []bool   // by place in order: something is held for the need, or was when the cycle began
	waits             []bool   // by place in order: the need's credit waits for its turn
	asking            []uint8  // by place in order: 1 = a turn in phase 1 may come to something
	anyFolds          bool
	anySwaps          bool    // some need sits on another one's seat
	renumbered        bool    // numbers of classes and matchers may mean other things
	fresh             bool    // nothing of the cycle before is built upon
	freeMoved         bool    // machines are free elsewhere than before
	moves             []moved // by cluster, from moveOff on
	moveOff           []uint32
	foldHeld          []heldForFold // by cluster, from foldHeldOff on; nil = none
	foldHeldOff       []uint32
	reordered         bool       // needs may stand elsewhere in the order
	renamed           bool       // numbers of groups may have changed
	classesOf         [][]uint32 // by matcher: the classes that it accepts, ascending
	classMask         []uint64   // by class: the dimensions that it has
	freeOf            []uint64   // the classes of which some machine is free, as a set

	// By row of the supply. Bytes and words, not bits: workers write those of
	// their own machines.
	taken []bool // claimed, or reserved for somebody ranked higher
	held  []hold

	free     [2]pool // Idle, Speculative
	epoch    uint64  // of ladders; see putBack
	reserved reservations

	spares []spares // by cluster: what is left for needs whose credit waits

	acquisitions [2][]acquisition // Idle, Speculative; in rank order
	satisfied    int              // rows
	walker       *lane            // that phase 2 goes on with

	victims   []victim
	pools     map[victimPoolKey]*victimPool
	noVictims *victimPool
	met       searchCount       // in the search for plans
	leaving   []leavingMachine  // see findLeaving
	victimOf  bitmap.Dense      // preempted in this cycle
	flying    bitmap.Dense      // already drains for the need that counts on it
	inFlight  map[int32][]int64 // by need: what drains for it
	// withheldBy remembers who had acquired a machine before its plan went to
	// another domain; tried is where phase 2 looked, for Explain and, of compared
	// plans, for whoever draws them.
	withheldBy  map[columnar.Row]int32
	freed       []uint64 // the classes of these and of voided ones, a bit each; nil = none
	withheld    []int32  // needs with such a plan
	tried       []tried
	triedFrom   int // where those of the need at work begin
	compared    int // plans of which tried has the domains without Explain
	planWhys    []plannedWhy
	tenancyWhys []tenancyWhy
	// With gangs: the pools of units, who has plans, and what they count on.
	unitPools        map[victimPoolKey]*unitPool
	cuts             map[cutKey]*cut // by a nested key, when first needed
	cut              *cut            // of the need at work, nil = its domains are whole
	plans            []plan
	planned          []planned
	awaited          []columnar.Row // what the need at work counts on of a plan that has ended
	taker            []int32        // by row: 1 + the need whose plan counts on it; nil = no plan
	regiven          bool           // some victim has gone from one plan to another
	reclaims         []columnar.Row
	deletes          []columnar.Row
	probes           int64
	credited         int
	clustersCredited int
	counts           AcquireCounts
	rows             int          // of the demand
	lookedAt         atomic.Int32 // see rowAt

	turns   turns
	tenancy *tenancy // nil = none
	// reclaiming says that needs take from other tenants; see tenancy.go.
	reclaiming bool
}

// newPass lays out what the stages write.
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

// classesByMatcher turns each class's matchers into each matcher's classes.
func classesByMatcher(s *snapshot.Snapshot) [][]uint32 {
	out := make([][]uint32, s.Supply.MatcherMax())
	for c := range s.Classes {
		for _, m := range s.Classes[c].Matchers {
			out[m] = append(out[m], uint32(c))
		}
	}
	return out
}

// lay makes the columns of the walk.
func (p *pass) lay() {
	p.atlas = p.draw()
	a, rows := p.e.arena, p.s.Supply.RowMax()
	for _, l := range p.e.lanes {
		l.enter(p)
	}
	p.free[0] = newPool(a, &p.s.Idle, p.s.Keep, &p.reserved.lower)
	p.free[1] = newPool(a, &p.s.Speculative, p.s.IDRank, &p.reserved.lower)
	p.noVictims = &p.e.store.noVictims
	p.victimOf = bitmap.DenseIn(a, rows)
	p.flying = bitmap.DenseIn(a, rows)
	p.tenancy = p.findTenants()
	p.reserved = p.indexReservations()
	for i := range p.free {
		p.free[i].rewind(p.taken)
	}
}

// rowAt returns the number of the line of a row, given its number in outputs,
// where there are no gaps. Callers go from row to row, so it looks where it
// looked last.
func (p *pass) rowAt(i int) int32 {
	src := &p.sources[p.lookedAt.Load()]
	if at := i - int(src.outer); at < 0 || at >= src.rows {
		c := sort.Search(len(p.sources), func(c int) bool { return int(p.sources[c].outer) > i }) - 1
		p.lookedAt.Store(int32(c))
		src = &p.sources[c]
	}
	return src.base + int32(i) - src.outer
}

// outward returns the number of a row in outputs, given that of its line.
func (p *pass) outward(row int32) int32 {
	return row + p.atlas.outward[p.atlas.clusterOf(row)]
}

// named returns the number in outputs of the row that a need is named after.
func (p *pass) named(need int32) int32 { return p.outward(p.first(need)) }

// needOf returns the need that a row of the demand is walked as.
func (p *pass) needOf(row int32) int32 {
	if n := &p.lines[row]; n.is(isMember) {
		return int32(n.domain)
	}
	return row
}

func (p *pass) kindOf(need int32) *kind { return &p.kinds[p.lines[need].kind] }

// aggregate returns what a need wants in all; do not modify. It may be shorter
// than the vectors of supply: the demand's dimensions come first.
func (p *pass) aggregate(need int32) []int64 {
	if p.anyFolds && p.lines[need].is(isFold) {
		return p.foldOf(need).sum
	}
	return p.s.Demand.Vector(p.aggregates[need])
}

// foldOf returns what a need that is a fold stands for.
func (p *pass) foldOf(need int32) *fold {
	n := int32(p.lines[need].group)
	return p.e.store.folds[n>>foldBits].at(n)
}

// first returns the row that a need is named after in outputs.
func (p *pass) first(need int32) int32 {
	if p.anyFolds && p.lines[need].is(isFold) {
		return p.foldOf(need).first
	}
	return need
}

// groupOf returns the name number of a need's group.
func (p *pass) groupOf(need int32) uint32 {
	n := &p.lines[need]
	if n.is(isFold) {
		return 0 // the empty name
	}
	return n.group
}

// groupName returns a need's group.
func (p *pass) groupName(need int32) string {
	n := &p.lines[need]
	if n.is(isFold) {
		return ""
	}
	src := &p.sources[n.cluster]
	return src.block.Group(int(need - src.base))
}

// readDeficit writes what a need lacks by now to dst, of p.dims values.
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

// vector returns what machines of a class offer, in the dimensions that demand
// names; the others are nobody's concern.
func (p *pass) vector(class uint32) []int64 { return p.s.Vector(class)[:p.dims] }

// vec returns what a machine offers.
func (p *pass) vec(r columnar.Row) []int64 { return p.vector(p.s.View.Class[r]) }

// accepts reports whether a machine can serve a need: it matches, in a
// permitted domain if the need has one, and is of a class that suits.
func (p *pass) accepts(r columnar.Row, k *kind) bool {
	return k.acceptsClass(p.s.View.Class[r]) && p.inAnyDomain(k.matcher, r)
}

func (p *pass) inAnyDomain(matcher uint32, r columnar.Row) bool {
	_, ok := p.s.Supply.Domain(matcher, r)
	return ok
}

// inDomain reports whether a machine lies in the domain that the need has
// chosen; true when it needs none.
func (p *pass) inDomain(r columnar.Row, need int32) bool {
	k := p.kindOf(need)
	if !k.same {
		return true
	}
	v, ok := p.s.Supply.Domain(k.matcher, r)
	return ok && v == p.lines[need].domain
}

// matches reports whether a matcher accepts a class.
func (p *pass) matches(class, matcher uint32) bool {
	for _, m := range p.s.Classes[class].Matchers {
		if m >= matcher {
			return m == matcher
		}
	}
	return false
}

func (p *pass) claimed(r columnar.Row) bool { return p.held[r].need != unheld }

// countsFor returns the cluster that a bound machine, or one being created,
// counts for.
func (p *pass) countsFor(r columnar.Row) int32 {
	if c := p.s.View.Cluster[r]; c != 0 {
		return p.s.ClusterOf[c]
	}
	return p.clusterByName(p.s.Supply.Reservation(r).Owner.Cluster)
}

// isOwn reports whether a machine carries the need's stamp.
func (p *pass) isOwn(r columnar.Row, need int32) bool {
	return p.s.View.Fingerprint[r] == p.kindOf(need).fingerprint && p.s.View.Group[r] == p.groupOf(need)
}
