package engine

import (
	"github.com/tonnage/tonnage/alloc"
	"github.com/tonnage/tonnage/columnar"
	"github.com/tonnage/tonnage/engine/demand"
	"github.com/tonnage/tonnage/engine/internal/free"
	"github.com/tonnage/tonnage/engine/internal/holds"
	"github.com/tonnage/tonnage/engine/internal/order"
	"github.com/tonnage/tonnage/engine/internal/plan"
	"github.com/tonnage/tonnage/engine/internal/records"
	"github.com/tonnage/tonnage/engine/internal/reuse"
	"github.com/tonnage/tonnage/engine/internal/state"
	"github.com/tonnage/tonnage/engine/internal/units"
	"github.com/tonnage/tonnage/engine/model"
	"github.com/tonnage/tonnage/engine/supply"
)

// store is what one cycle leaves to the next: the Needs, their order, and the machines that each was
// credited. Clusters whose demand or machines changed are decided again. Acquisitions and preemptions
// are never taken over: each cycle decides them anew.
type store struct {
	arena    *alloc.Arena
	seen     seenBefore
	clusters []clusterState
	needTable
	machineTable
	kinds        state.Kinds
	classes      classColumns
	rankSlots    []order.Slot
	acquisitions [2][2][]acquisition // two buffers for merging the workers' lists, by stage
	lent         lentUnits
	gangs        gangTable // of this cycle
	limits       limits    // of this cycle
	holds        holds.Store
	undo         undoLists
	divided      []int32 // rows of one stamp whose machines were divided anew: their clusters are credited anew
	// resettle are Needs to be credited again: something was held for them in the last cycle, or their
	// plan went to another domain.
	resettle []int32
	spares   []spares
	memory   passMemory
}

// seenBefore is what the last cycle saw of the tables.
type seenBefore struct {
	supply *supply.Table
	demand *demand.Table
	valid  bool // that cycle completed
	dims   int
	// dimsVersion is the version of the demand's numbering of dimensions. Numbers of profiles and units
	// may change without it: rows with such a number are among the changed rows.
	dimsVersion uint64
	version     uint64 // of the demand
	names       uint64 // sequence number of the supply's names
	epoch       uint64 // of ladders; grows over all cycles
}

// classColumns is what follows from the classes of machines, by matcher and by kind.
type classColumns struct {
	ofMatcher [][]uint32 // the accepted classes; see fleet.classesOf
	// freeIn is, by matcher with Same, the set of classes of which a free machine that nobody holds lies in a permitted
	// domain. heldIn are classes of which there are only held ones, by matcher and class. Folding depends on both.
	freeIn   []uint64
	heldIn   []heldClass
	ways     free.Ways
	layoutOf []*tupleLayout // by kind; see stock.layouts
	layouts  map[free.Key][]spreadLayout
}

// lentUnits is the memory of what phase 2 could preempt; see candidates. It is lent for a cycle.
type lentUnits struct {
	pools            reuse.Stock[victimPool]
	poolOf           []*victimPool
	totalBounds      []domainTotalsBound
	boundsOf         []*domainBounds
	noVictims        victimPool
	unitPools        reuse.Stock[unitPool]
	noUnits          unitPool
	alikes           reuse.Stock[units.Alike]
	candidateDomains reuse.Stock[domainBounds]
}

// undoLists is what the last cycle did after credit, for undo.
type undoLists struct {
	visited  []visit
	undone   []columnar.Row // machines taken that were not acquired
	reclaims []columnar.Row // only its memory is reused
}

// passMemory is the memory of lists that end with a cycle.
type passMemory struct {
	victims    []victim
	withheldBy map[columnar.Row]int32
	withheld   []int32
	tried      []records.Tried
	fates      map[model.Owner]plan.Fate // of plans of earlier cycles
	awaiting   map[awaitingGangs]uint32
	unfolding  map[part]struct{}
}

// clusterState is what a cluster's credit depends on, and what must be done about it in this cycle.
type clusterState struct {
	version  uint64 // of its demand block
	names    uint64 // sequence number of the supply's names when its groups were numbered
	named    bool   // a machine that names it has changed
	dirty    bool   // credit it anew: nothing is claimed, and all Needs are on the worklist
	replay   bool   // some rows or machines changed: credit the Needs that this may concern
	freeless bool   // some domain was chosen because nothing was free anywhere
	// stamps are the fingerprints that its machines carry, and that some carried before, if stampsKnown.
	stamps      stampFilter
	stampsKnown bool
	restamped   bool  // some row has another kind, group or fold than in the last cycle
	patch       bool  // the rows are those of the last cycle, except for changed
	whole       uint8 // how many more changes lead to credit anew; see wholePercent
	satisfied   int32 // rows that credit alone satisfies
	changed     []uint32
	letGo       []int32 // lines whose claims credit lets go first; the Needs may rank otherwise now
	folds       folds
	fold        foldState
	// uncredited are the Needs whose credit waits for their turn. waiting are the classes that they
	// accept, as a set; empty when no Need waits.
	uncredited []int32
	waiting    []uint64
	waitKinds  []uint32 // the kinds of uncredited
	cheapest   []classPriority
}

// foldState is what the folds of a cluster depend on beside its rows.
type foldState struct {
	hasSame bool
	// unsettled: whether some Same-row folds depends on more than which classes there are that hold it.
	unsettled bool
	// held is an order-independent hash of the machines held for the cluster's Same-Needs and folds.
	// heldMoved says that it differs from the last cycle.
	held      uint64
	heldMoved bool
	created   []createdFor // machines being created for members of its folds
	swaps     []swap       // sorted by rank slot
	rankSlots []swap       // the same, sorted by Need
}

// carryOver takes over the state of the last cycle. It finds the clusters that changed; if the state is
// unusable, it starts over.
func (p *pass) carryOver() {
	st, s := &p.e.store, p.s
	dimsVersion := s.Demand.Numbering().Dims
	fresh := !st.seen.valid || p.changed.renumbered || st.seen.demand != s.Demand || dimsVersion != st.seen.dimsVersion ||
		len(st.clusters) != len(s.Clusters) || st.seen.dims != p.dims || st.kinds.Many()
	st.seen.valid = false // until this cycle has completed
	st.seen.supply, st.seen.demand = s.Supply, s.Demand
	st.seen.dimsVersion = dimsVersion
	st.seen.names = s.Supply.NameSequence()
	p.beginHolds()
	p.findFree()
	if !fresh {
		fresh = !p.findDirty()
	}
	p.changed.fresh = fresh
	if fresh {
		p.startOver()
	}
	p.needTable, p.machineTable, p.kinds = st.needTable, st.machineTable, st.kinds.List
}

// findDirty marks the clusters that changed; false when a cluster has more rows than it has room for.
func (p *pass) findDirty() bool {
	st, s := &p.e.store, p.s
	if len(st.claims) < s.Supply.RowMax() {
		return false
	}
	outer := int32(0)
	for c, id := range s.Clusters {
		x, src := &st.clusters[c], &st.sources[c]
		block := s.Demand.Block(id)
		rows, version := 0, uint64(0)
		if block != nil {
			rows, version = block.Len(), block.Version()
		}
		if rows > src.Room {
			return false
		}
		src.Block, src.Outer, src.Had, src.Rows = block, outer, src.Rows, rows
		outer += int32(rows)
		x.dirty = x.freeless && p.folding.freeMoved
		x.replay = s.Dirty[c] || version != x.version
		x.patch = (x.dirty || x.replay) && src.Rows == src.Had
		x.changed, x.letGo, x.named = nil, x.letGo[:0], false
		x.version = version
	}
	for _, need := range st.divided {
		c := st.lines[need].Cluster
		st.clusters[c].dirty, st.clusters[c].patch = true, st.sources[c].Rows == st.sources[c].Had
	}
	p.findChanged()
	for c := range st.clusters {
		x := &st.clusters[c]
		x.dirty = x.dirty || x.replay && !x.patch
		if x.replay && !x.dirty && x.whole > 0 {
			x.whole--
			x.dirty = true
		}
		x.replay = x.replay && !x.dirty
	}
	p.groupMoves()
	return true
}

// moved is a change in a cluster's list: a machine that came, left, or remains but differs.
type moved struct {
	row   columnar.Row
	class uint32
	how   change
}

// change says how a machine of a cluster's list changed.
type change uint8

const (
	left    change = iota
	came           // new in the list, or it was being created, or its class changed: also listed as left
	remains        // bound as before; its stamp and its place may differ
)

// groupMoves groups the changes of machines by cluster: a counting sort.
func (p *pass) groupMoves() {
	st, s := &p.e.store, p.s
	off := alloc.Make[uint32](p.e.arena, len(s.Clusters)+2)
	remain := alloc.MakeDirty[bool](p.e.arena, len(s.Moves))
	for i := range s.Moves {
		m := &s.Moves[i]
		remain[i] = m.From >= 0 && m.From == m.To && m.Was != model.Creating && m.Is != model.Creating && s.View.Class[m.Row] == st.class[m.Row]
		if m.From >= 0 && !remain[i] {
			off[m.From+2]++
		}
		if m.To >= 0 {
			off[m.To+2]++
		}
	}
	for i := range off[1:] {
		off[i+1] += off[i]
	}
	list := alloc.MakeDirty[moved](p.e.arena, int(off[len(off)-1]))
	put := func(c int32, m moved) {
		list[off[c+1]] = m
		off[c+1]++
	}
	for i := range s.Moves {
		m, class, how := &s.Moves[i], s.View.Class[s.Moves[i].Row], came
		if remain[i] {
			how = remains
		} else if m.From >= 0 {
			put(m.From, moved{row: m.Row, class: st.class[m.Row], how: left})
		}
		if m.To >= 0 {
			put(m.To, moved{m.Row, class, how})
		}
		st.class[m.Row] = class
		if c := s.ClusterOf[s.View.Cluster[m.Row]]; c >= 0 {
			st.clusters[c].named = true
		}
	}
	p.changed.moves, p.changed.moveOff = list, off
}

// movesOf returns the changes of a cluster's list.
func (ch *changed) movesOf(c int) []moved {
	if ch.moves == nil {
		return nil
	}
	return ch.moves[ch.moveOff[c]:ch.moveOff[c+1]]
}

// findChanged finds the changed rows of each cluster.
func (p *pass) findChanged() {
	st, s := &p.e.store, p.s
	changes, complete := s.Demand.Changes(st.seen.version)
	st.seen.version = s.Demand.Version()
	if !complete {
		for c := range st.clusters {
			st.clusters[c].patch = false
		}
		return
	}
	c := 0
	for i := range changes {
		for c < len(s.Clusters) && s.Clusters[c] < changes[i].Cluster {
			c++
		}
		if c == len(s.Clusters) {
			return
		}
		if x := &st.clusters[c]; s.Clusters[c] == changes[i].Cluster {
			x.changed = changes[i].Rows
			x.patch = x.patch && !changes[i].Whole
		}
	}
}

// startOver discards the state and allocates columns for the present demand and supply.
func (p *pass) startOver() {
	st, s := &p.e.store, p.s
	st.arena.Reset()
	st.seen.dims = p.dims
	st.seen.version = s.Demand.Version()
	rows := p.layRows()
	room := s.Supply.RowMax() + s.Supply.RowMax()/16
	st.reserve(rows, room)
	st.lines = alloc.MakeDirty[state.Line](st.arena, rows)
	st.aggregates = alloc.MakeDirty[uint32](st.arena, rows)
	st.rankSlots = alloc.MakeDirty[order.Slot](st.arena, rows)
	st.rankOf = alloc.MakeDirty[int32](st.arena, rows)
	st.order = alloc.MakeDirty[int32](st.arena, rows)[:0]
	st.kindAt = alloc.MakeDirty[uint32](st.arena, rows)[:0]
	st.byCluster = alloc.MakeDirty[int32](st.arena, rows)
	st.lacking = alloc.Make[bool](st.arena, rows)
	st.claims = state.NewClaims(st.arena, room)
	st.taken = alloc.Make[bool](st.arena, room)
	st.priority = alloc.MakeDirty[int32](st.arena, room)
	st.class = alloc.MakeDirty[uint32](st.arena, room)
	st.owner = alloc.MakeDirty[int32](st.arena, room)
	copy(st.class, s.View.Class[:s.Supply.RowMax()])
	if p.e.opts.Victims == VictimsGang {
		st.gangs.lay(p, rows, room)
	}
	st.sorted = reuse.Resize(st.sorted, len(s.Clusters))
	st.kinds.Reset()
	st.classes.ways.Reset()
	clear(st.classes.layoutOf)
	st.classes.layoutOf, st.classes.layouts = st.classes.layoutOf[:0], map[free.Key][]spreadLayout{}
	st.undo.visited, st.undo.undone, st.resettle, st.divided = st.undo.visited[:0], st.undo.undone[:0], st.resettle[:0], st.divided[:0]
}

// lineBytes and machineBytes are the sizes of the store's columns per line and per machine.
const (
	lineBytes    = 32 + 4 + 16 + 4*4 + 1 + 1
	machineBytes = 8 + 1 + 4*4
)

// columnsSlack allows each column to begin at a cache line.
const columnsSlack = 1 << 10

// reserve reserves memory for all columns side by side; alone, each would occupy whole pages.
func (st *store) reserve(rows, machines int) {
	if n := rows*lineBytes + machines*machineBytes + columnsSlack; n >= alloc.ChunkBytes {
		st.arena.Reserve(n)
	}
}

// Initial capacity of a cluster's lists of waiting Needs: uncreditedRoom, and one more for each
// uncreditedShare rows.
const (
	uncreditedRoom  = 8
	uncreditedShare = 8
	waitKindsRoom   = 32 // the same for their kinds
)

// layRows numbers the lines of all clusters anew and returns how many there are, gaps included.
func (p *pass) layRows() int {
	st, s := &p.e.store, p.s
	st.clusters, st.sources = reuse.Grown(st.clusters, len(s.Clusters)), reuse.Resize(st.sources, len(s.Clusters))
	base, outer := int32(0), int32(0)
	words := (len(s.Classes) + 63) / 64
	for c, id := range s.Clusters {
		src := state.Source{Base: base, Outer: outer}
		rows := 0
		if src.Block = s.Demand.Block(id); src.Block != nil {
			rows = src.Block.Len()
		}
		x := clusterState{
			dirty:      true,
			names:      st.seen.names,
			cheapest:   alloc.MakeDirty[classPriority](st.arena, state.RoomFor(len(s.GroupsOf(c))))[:0],
			uncredited: alloc.MakeDirty[int32](st.arena, uncreditedRoom+rows/uncreditedShare)[:0],
			waiting:    alloc.MakeDirty[uint64](st.arena, words)[:0],
			waitKinds:  alloc.MakeDirty[uint32](st.arena, waitKindsRoom)[:0],
		}
		if src.Rows = rows; src.Block != nil {
			x.version = src.Block.Version()
		}
		src.Room = state.RoomFor(src.Rows)
		base, outer = base+int32(src.Room), outer+int32(src.Rows)
		st.sources[c], st.clusters[c] = src, x
	}
	return int(base)
}

// undo takes back what the last cycle did after credit. Credited claims stay, also in clusters that
// will be credited in full: those are cleared then.
func (p *pass) undo() {
	st := &p.e.store
	for _, r := range st.undo.undone {
		p.taken[r] = false
	}
	p.e.crew.Each(len(st.undo.visited), visitedPerChunk, p.e.tasks.undo)
	for _, need := range st.divided {
		for r := p.lines[need].Acquired; r != columnar.None; r = p.claims.Next(r) {
			p.claims.Release(r)
			p.taken[r] = false
		}
	}
	st.undo.visited, st.undo.undone, st.divided = st.undo.visited[:0], st.undo.undone[:0], st.divided[:0]
}

// visitedPerChunk is how many Needs a worker takes at a time.
const visitedPerChunk = 1 << 10

// visit is a Need that had a turn after credit, and the last machine that it was credited before.
type visit struct {
	need     int32
	credited columnar.Row
}

// undoTurn takes back what a Need claimed in its turns after credit.
func (p *pass) undoTurn(v visit) {
	n := &p.lines[v.need]
	last, from := v.credited, n.Acquired
	if n.Is(state.IsUncredited) { // it was credited at its turn: everything is taken back
		last, from = columnar.None, n.Head
	}
	for r := from; r != columnar.None; {
		next := p.claims.Next(r)
		p.claims.Release(r)
		p.taken[r] = false
		r = next
	}
	p.claims.Truncate(n, last)
	n.Status &= state.IsParked | state.IsFold | state.IsMember | state.HasSame | state.NeverFolds |
		state.IsUncredited | state.HasForeignStamp | state.LeavesToEqual | state.LeftSuperfluous // what credit has found stays
	if p.kinds[n.Kind].Same {
		n.Status |= state.IsUncoverable
		// Without credited machines, the domain was chosen by what was free.
		if last == columnar.None {
			n.Domain = 0
		}
	}
}

// markLacking recomputes lacking for a new order.
func (p *pass) markLacking() {
	clear(p.lacking)
	if p.changed.fresh {
		return // the credit of each Need sets it
	}
	for _, need := range p.order {
		p.lacking[p.rankOf[need]] = !p.lines[need].Is(state.IsSatisfied)
	}
}

// leaveBehind saves what the next cycle builds on.
func (p *pass) leaveBehind() {
	st := &p.e.store
	for _, l := range p.e.workers {
		st.undo.visited = append(st.undo.visited, l.visited...)
		st.undo.undone = append(st.undo.undone, l.undone...)
	}
	st.resettle = append(st.resettle[:0], p.preempted.withheld...)
	for need := range p.reserved.Needs() {
		st.resettle = append(st.resettle, need)
	}
	st.undo.reclaims = p.released.reclaims
	st.memory.victims, st.memory.withheld, st.memory.tried = p.preempted.victims, p.preempted.withheld, p.told.tried
	st.seen.epoch = p.stock.epoch
	st.lent.pools.TakeBack()
	st.takeBackUnits()
	st.lent.alikes.TakeBack()
	st.lent.candidateDomains.TakeBack()
	if p.e.opts.Victims == VictimsGang {
		st.gangs.plans, st.gangs.planned = p.preempted.plans, p.preempted.planned
	}
	if p.changed.fresh {
		st.kinds.After = len(st.kinds.List)
	}
	st.seen.valid = true
}
