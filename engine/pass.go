package engine

import (
	"math/bits"
	"sort"
	"sync/atomic"

	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/bitmap"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/tenancy"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/snapshot"
)

// pass is the state of one cycle: what all stages read, and what each stage writes. A group that one stage writes
// is a struct of its own; its comment names the stage, and who reads it.
type pass struct {
	e      *Engine
	in     *Input
	walker *worker // the worker that does phases 2 and 3

	fleet
	changed
	needTable
	machineTable
	kinds    []state.Kind
	atlas    state.Atlas
	lookedAt atomic.Int32 // the cluster of the last look-up; see rowAt

	folding  folding
	reserved holds.Index
	shortage
	stock
	candidates candidates
	preempted  preempted
	tenants    tenants
	released   released
	told       told
	counted
}

// fleet is what the snapshot says of machines, by class. It does not change during the cycle.
type fleet struct {
	s         *snapshot.Snapshot
	dims      int        // dimensions that the demand names
	classesOf [][]uint32 // by matcher: the accepted classes, ascending
	classMask []uint64   // by class: the dimensions that it offers, as a set
	freeOf    []uint64   // the classes that had a free machine when the cycle began, as a set
}

// changed is what differs from the last cycle. carryOver, normalise and rank write it.
type changed struct {
	renumbered bool    // numbers of classes and matchers may have changed their meaning
	fresh      bool    // nothing is taken over from the last cycle
	reordered  bool    // places in the order may have changed
	moves      []moved // changed machines: those of cluster c at [moveOff[c]:moveOff[c+1]]
	moveOff    []uint32
}

// needTable is the columns of Needs. normalise and rank write them, credit writes lacking, and every stage reads
// them. The store keeps them from cycle to cycle.
type needTable struct {
	sources    []state.Source // by cluster
	lines      []state.Line
	aggregates []uint32 // by line: the number of the row's aggregate in the demand
	order      []int32  // Needs in rank order
	rankOf     []int32  // by line: the Need's place in order
	kindAt     []uint32 // by place in order: the Need's kind
	byCluster  []int32  // the Needs of each cluster in rank order, at its first line
	sorted     []int32  // by cluster: the length of that list; 0 = it must be sorted again
	lacking    []bool   // by place in order: the Need lacks something after credit
}

// machineTable is the columns of machines, by row of the supply. Elements are bytes and words, not bits: each worker
// writes those of its own machines. The store keeps them from cycle to cycle.
type machineTable struct {
	claims   state.Claims
	taken    []bool   // claimed, or withdrawn for an owner of higher rank
	priority []int32  // what a Configured machine is worth as a victim
	class    []uint32 // the machine's class in the last cycle
	// owner is, of machines that are bound or being created, the last Need in rank order of their
	// cluster that has their stamp; unclaimed when there is none.
	owner []int32
}

// folding is what normalise finds out of gangs that may fold; rank and phase 3 ask whether there are folds.
type folding struct {
	anyFolds    bool
	anySwaps    bool          // some Need sits on another one's rank slot
	freeMoved   bool          // which domains have free machines has changed; see findFree
	foldsMoved  bool          // the same, and rows may fold otherwise for it
	anySame     bool          // some profile of the demand has Same
	sameStamps  stampFilter   // the fingerprints of these
	decides     []bool        // by class: no free machine covers it; see findDeciding
	foldHeld    []heldForFold // held machines: those of cluster c at [foldHeldOff[c]:foldHeldOff[c+1]]
	foldHeldOff []uint32      // nil = foldHeld is empty
}

// shortage says which Needs have a turn after credit, and what could still help them. Phase 1 writes it.
type shortage struct {
	gained  []bool   // by place in order: the Need was satisfied in its turn after credit
	special []bool   // by place in order: something is held for the Need, or was when the cycle began
	waits   []bool   // by place in order: the Need's credit waits for its turn
	asking  []uint8  // by place in order: 1 = a turn in phase 1 may come to something
	hashes  []uint16 // by kind: soughtHash of its fingerprint
	spent   []uint32 // by kind: 1 = no free machine is left for it; atomic access
	skewed  []uint32 // by kind: 1 = hard spread has forbidden free machines; atomic access
	spares  []spares // by cluster: unclaimed machines for Needs whose credit waits
}

// stock is the free machines, and who acquired which. Phases 1 and 2 write it.
type stock struct {
	free         [2]free.Pool      // Idle, Speculative
	epoch        uint64            // of ladders: a ladder of an older epoch must be reopened; see putBack
	ladders      [][2]*free.Ladder // by kind: for Idle and for Speculative machines
	layouts      []*tupleLayout    // by kind, for hard spread; nil: machines are dealt one by one
	acquisitions [2][]acquisition  // Idle, Speculative; in rank order
}

// candidates is what phase 2 could preempt, and the memory of its search. Nothing else reads it, but for figures.
type candidates struct {
	pools     map[victimPoolKey]*victimPool
	noVictims *victimPool
	// By kind: what could be preempted, nil = not computed yet; bounds of what VictimsMachine and VictimsGang
	// find in each domain.
	poolOf      []*victimPool
	totalBounds []domainTotalsBound
	boundsOf    []*domainBounds  // nil = not computed in this cycle
	met         searchCount      // how much of the search budget is used
	leaving     []leavingMachine // see findLeaving
	// With gangs: the pools of units, and how domains are divided.
	unitPools map[victimPoolKey]*unitPool
	cuts      map[cutKey]*cut // by nested key; built when first needed
	cut       *cut            // of the Need at work; nil = its domains are not divided
	turns     turns
}

// preempted is what phase 2 decides; phase 3 and the report read it.
type preempted struct {
	victims  []victim
	victimOf bitmap.Dense // machines preempted in this cycle
	spared   bitmap.Dense // machines that drain for nobody since this pass; see spareDrains
	// sparedRows is spared, in the order in which they were.
	sparedRows []columnar.Row
	flying     bitmap.Dense      // machines that drain for the Need that counts on them
	inFlight   map[int32][]int64 // by Need: what drains for it
	// withheldBy is, by machine, the Need whose acquisition was revoked because its plan went to another domain.
	withheldBy map[columnar.Row]int32
	withheld   []int32  // Needs with revoked acquisitions
	freed      []uint64 // classes of revoked machines and of voided reservations, as a set; nil = none
	// With gangs: the Needs with plans, and what the plans count on.
	plans   []gangPlan
	planned []planned
	awaited []columnar.Row // machines of an ended plan that the Need at work still counts on
	taker   []int32        // by row: 1 + the Need whose plan counts on the machine; nil = no plan
	regiven bool           // some victim has gone from one plan to another
}

// tenants is the policy between tenants, and its turns at the end of phase 2; see tenancy.go.
type tenants struct {
	shares     *tenancy.Shares // nil = no policy
	between    reclaimTurns
	reclaiming bool // these turns are under way
}

// released is what phase 3 gives back; the report reads it.
type released struct {
	reclaims []columnar.Row
	deletes  []columnar.Row
}

// told is what stages note for Explain, and for Plan.Compared.
type told struct {
	tried       []records.Tried // the domains in which phase 2 looked
	triedFrom   int             // index in tried of the first entry of the Need at work
	compared    int             // plans whose domains stand in tried without Explain
	planWhys    []records.Planned
	tenancyWhys []records.Turn
}

// counted is the figures of the cycle.
type counted struct {
	rows             int // rows of the demand
	satisfied        int // satisfied rows
	probes           int64
	credited         int
	creditCounts     CreditCounts
	clustersCredited int
	counts           AcquireCounts
}

// newPass begins the pass of a cycle.
func (e *Engine) newPass(s *snapshot.Snapshot, in *Input) *pass {
	p, st := &e.at, &e.store
	*p = pass{e: e, in: in, fleet: fleet{s: s, dims: len(s.Demand.Dims())}}
	if st.memory.withheldBy == nil {
		st.memory.withheldBy, st.memory.fates = map[columnar.Row]int32{}, map[model.Owner]plan.Fate{}
	}
	clear(st.memory.withheldBy)
	clear(st.memory.tried)
	st.limits.stale = true
	st.classes.ways.Snapshot = s
	p.released.reclaims, p.preempted.withheldBy = st.undo.reclaims[:0], st.memory.withheldBy
	p.preempted.victims, p.preempted.withheld, p.told.tried = st.memory.victims[:0], st.memory.withheld[:0], st.memory.tried[:0]
	p.changed.renumbered = st.seen.supply != s.Supply || s.Fresh || s.ClassesChanged
	if st.classes.ofMatcher == nil || p.changed.renumbered {
		st.classes.ofMatcher = classesByMatcher(s)
	}
	p.classesOf = st.classes.ofMatcher
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
	p.atlas = state.NewAtlas(p.e.arena, p.sources, len(p.lines))
	a, rows := p.e.arena, p.s.Supply.RowMax()
	for _, l := range p.e.workers {
		l.enter(p)
	}
	p.stock.free[0] = free.NewPool(a, &p.s.Idle, p.s.Keep, &p.reserved.Lower.Rows)
	p.stock.free[1] = free.NewPool(a, &p.s.Speculative, p.s.IDRank, &p.reserved.Lower.Rows)
	p.candidates.noVictims = &p.e.store.lent.noVictims
	p.preempted.victimOf = bitmap.DenseIn(a, rows)
	p.preempted.flying = bitmap.DenseIn(a, rows)
	p.preempted.spared = bitmap.DenseIn(a, rows)
	p.findTenants()
	p.indexHolds()
	for i := range p.stock.free {
		p.stock.free[i].Rewind(p.taken)
		if p.e.opts.Acquire == AcquireFit {
			p.stock.free[i].CountLeft(a, p.taken)
		}
	}
}

// rowAt returns the line of a row, given the row's number in outputs, which has no gaps. Callers visit
// rows in sequence, so it tries the cluster of the last call before it bisects.
func (p *pass) rowAt(i int) int32 {
	src := &p.sources[p.lookedAt.Load()]
	if at := i - int(src.Outer); at < 0 || at >= src.Rows {
		c := sort.Search(len(p.sources), func(c int) bool { return int(p.sources[c].Outer) > i }) - 1
		p.lookedAt.Store(int32(c))
		src = &p.sources[c]
	}
	return src.Base + int32(i) - src.Outer
}

// outward returns the number in outputs of a line.
func (p *pass) outward(row int32) int32 { return p.atlas.Number(row) }

// named returns the number in outputs of the row after which a Need is named.
func (p *pass) named(need int32) int32 { return p.outward(p.first(need)) }

// needOf returns the Need as which a row is decided: its fold, or itself.
func (nt *needTable) needOf(row int32) int32 {
	if n := &nt.lines[row]; n.Is(state.IsMember) {
		return int32(n.Domain)
	}
	return row
}

func (p *pass) kindOf(need int32) *state.Kind { return &p.kinds[p.lines[need].Kind] }

// aggregate returns all that a Need wants; read-only. The vector may be shorter than those of supply:
// the demand's dimensions come first.
func (p *pass) aggregate(need int32) []int64 {
	if p.folding.anyFolds && p.lines[need].Is(state.IsFold) {
		n := &p.lines[need]
		return p.e.store.clusters[n.Cluster].folds.sum(n.Group, p.dims)
	}
	return p.s.Demand.Vector(p.aggregates[need])
}

// foldOf returns the fold that a Need is; the Need must be one.
func (p *pass) foldOf(need int32) *fold {
	n := &p.lines[need]
	return &p.e.store.clusters[n.Cluster].folds.list[n.Group]
}

// first returns the row after which a Need is named in outputs: of a fold, its first row in rank order.
func (p *pass) first(need int32) int32 {
	if p.folding.anyFolds && p.lines[need].Is(state.IsFold) {
		return p.foldOf(need).first
	}
	return need
}

// groupOf returns the number of a Need's group name in the supply; 0, the empty name, for a fold.
func (nt *needTable) groupOf(need int32) uint32 {
	n := &nt.lines[need]
	if n.Is(state.IsFold) {
		return 0 // the empty name
	}
	return n.Group
}

// groupName returns a Need's group name.
func (nt *needTable) groupName(need int32) string {
	n := &nt.lines[need]
	if n.Is(state.IsFold) {
		return ""
	}
	src := &nt.sources[n.Cluster]
	return src.Block.Group(int(need - src.Base))
}

// readDeficit writes what a Need lacks now to dst, of p.dims values. O(machines claimed).
func (p *pass) readDeficit(dst []int64, need int32) {
	n := &p.lines[need]
	if n.Is(state.IsSatisfied) {
		clear(dst)
		return
	}
	clear(dst[copy(dst, p.aggregate(need)):])
	for r := n.Head; r != columnar.None; r = p.claims.Next(r) {
		columnar.SubClamp(dst, p.vec(r))
	}
}

// vector returns what machines of a class offer in the dimensions that demand names. No decision reads
// the others.
func (fl *fleet) vector(class uint32) []int64 { return fl.s.Vector(class)[:fl.dims] }

// vec returns what a machine offers.
func (fl *fleet) vec(r columnar.Row) []int64 { return fl.vector(fl.s.View.Class[r]) }

// accepts reports whether a machine can serve a kind: its class matches and suits, and it lies in a
// domain that the matcher permits.
func (fl *fleet) accepts(r columnar.Row, k *state.Kind) bool {
	return k.AcceptsClass(fl.s.View.Class[r]) && fl.inAnyDomain(k.Matcher, r)
}

func (fl *fleet) inAnyDomain(matcher uint32, r columnar.Row) bool {
	_, ok := fl.s.Supply.Domain(matcher, r)
	return ok
}

// inDomain reports whether a machine lies in the domain that the Need has chosen; true for Needs
// without Same.
func (p *pass) inDomain(r columnar.Row, need int32) bool {
	k := p.kindOf(need)
	if !k.Same {
		return true
	}
	v, ok := p.s.Supply.Domain(k.Matcher, r)
	return ok && v == p.lines[need].Domain
}

func (mt *machineTable) claimed(r columnar.Row) bool { return mt.claims.Of(r) != state.Unclaimed }

// countsFor returns the cluster for which a machine counts that is bound or being created.
func (fl *fleet) countsFor(r columnar.Row) int32 {
	if c := fl.s.View.Cluster[r]; c != 0 {
		return fl.s.ClusterOf[c]
	}
	return fl.s.ClusterByName(fl.s.Supply.Reservation(r).Owner.Cluster)
}

// isOwn reports whether a machine carries the Need's stamp.
func (p *pass) isOwn(r columnar.Row, need int32) bool {
	return p.s.View.Fingerprint[r] == p.kindOf(need).Fingerprint && p.s.View.Group[r] == p.groupOf(need)
}

// positive returns the set of dimensions in which a vector is positive. Demand names at most 64
// dimensions, and they precede those that only supply names.
func positive(v []int64) uint64 {
	mask := uint64(0)
	for d, x := range v {
		if x > 0 {
			mask |= 1 << d
		}
	}
	return mask
}

// suits reports whether machines of a class can serve a kind, requirements aside: each covers the
// minimum unit and offers something that is wanted.
func (fl *fleet) suits(class uint32, k *state.Kind) bool {
	return fl.classMask[class]&k.Mask != 0 && columnar.Covers(fl.vector(class), k.Unit)
}

// makeRoomForClasses allocates the bitmaps of kinds that are new. They live as long as the kinds.
func (p *pass) makeRoomForClasses() {
	for i := range p.kinds {
		if k := &p.kinds[i]; !k.Ready {
			k.Accepts = alloc.Make[uint64](p.e.store.arena, (len(p.s.Classes)+63)/64)
		}
	}
}

// prepare fills accepts of a new kind, tells whether something is free for the kind, and resets what is
// memoized per cycle.
func (fl *fleet) prepare(k *state.Kind) {
	if !k.Ready {
		k.Ready = true
		for _, c := range fl.classesOf[k.Matcher] {
			if fl.suits(c, k) {
				k.Suit++
				k.Accepts[c>>6] |= 1 << (c & 63)
				k.Leaves = k.Leaves || !k.Same && fl.classMask[c]&^k.Mask != 0
			}
		}
	}
	k.MayAcquire = meet(fl.freeOf, k.Accepts)
}

// listClasses fills the lists of classes of new kinds. Most kinds suit every class that their matcher
// accepts, and share the matcher's list. Such lists can be long: machines that differ only in what
// their systems reserve are of different classes.
func (p *pass) listClasses() {
	for i := range p.kinds {
		k := &p.kinds[i]
		if len(k.Classes) == int(k.Suit) {
			continue
		}
		if all := p.classesOf[k.Matcher]; len(all) == int(k.Suit) {
			k.Classes = all
			continue
		}
		k.Classes = alloc.MakeDirty[uint32](p.e.store.arena, int(k.Suit))[:0]
		for w, word := range k.Accepts {
			for ; word != 0; word &= word - 1 {
				k.Classes = append(k.Classes, uint32(w<<6+bits.TrailingZeros64(word)))
			}
		}
	}
}

// findFreeClasses computes the set of classes that have a free machine.
func (p *pass) findFreeClasses() {
	p.freeOf = alloc.Make[uint64](p.e.arena, (len(p.s.Classes)+63)/64)
	for c := range p.s.Classes {
		if p.s.Idle.Off[c] < p.s.Idle.Off[c+1] || p.s.Speculative.Off[c] < p.s.Speculative.Off[c+1] {
			p.freeOf[c>>6] |= 1 << (c & 63)
		}
	}
}

// layLadders gives each new kind its ladders, reopens all ladders by a new epoch, and forgets what phase 2
// found for kinds.
func (p *pass) layLadders() {
	p.e.store.seen.epoch++
	p.stock.epoch = p.e.store.seen.epoch // a new epoch: every ladder begins at its lowest step
	st := &p.e.store
	for i := len(st.classes.ways.OfKind); i < len(p.kinds); i++ {
		k := &p.kinds[i]
		st.classes.ways.Add(k, p.classesOf[k.Matcher])
		st.classes.layoutOf = append(st.classes.layoutOf, nil)
		if len(k.Spread) > 0 {
			st.classes.layoutOf[i] = p.layoutFor(k)
		}
	}
	p.stock.ladders, p.stock.layouts = st.classes.ways.OfKind, st.classes.layoutOf
	st.lent.poolOf, st.lent.boundsOf = reuse.Resize(st.lent.poolOf, len(p.kinds)), reuse.Resize(st.lent.boundsOf, len(p.kinds))
	for len(st.lent.totalBounds) < len(p.kinds) {
		st.lent.totalBounds = append(st.lent.totalBounds, domainTotalsBound{})
	}
	for i := range st.lent.totalBounds {
		st.lent.totalBounds[i].epoch = 0
	}
	p.candidates.poolOf, p.candidates.boundsOf, p.candidates.totalBounds = st.lent.poolOf, st.lent.boundsOf, st.lent.totalBounds
}

// isSpent reports whether no free machine is left that could serve a kind. It is read for every Need
// that lacks something, also by the worker that gathers ahead: hence a small table, with atomic access.
func (sh *shortage) isSpent(kind uint32) bool { return atomic.LoadUint32(&sh.spent[kind]) != 0 }

// spend notes that no free machine is left for a kind.
func (sh *shortage) spend(kind uint32) { atomic.StoreUint32(&sh.spent[kind], 1) }

// stageOf returns the stage in which a free machine is acquired.
func (fl *fleet) stageOf(r columnar.Row) int { return free.StageOf(fl.s, r) }

// nextClass returns the class of a kind's next machine of a stage; see ladder.next.
func (p *pass) nextClass(x *free.Ladder, k *state.Kind, stage int, missing uint64) (class uint32, ok bool) {
	return x.Next(&p.stock.free[stage], p.stock.epoch, p.classMask, k, missing)
}

// any reports whether a ladder has a machine left for a kind.
func (p *pass) any(x *free.Ladder, k *state.Kind, stage int) bool {
	_, ok := p.nextClass(x, k, stage, ^uint64(0))
	return ok
}

// costs returns each class's place in the order in which a kind acquires machines of a stage.
func (p *pass) costs(k *state.Kind, stage int) []uint32 {
	return p.e.store.classes.ways.Costs(k, stage)
}
